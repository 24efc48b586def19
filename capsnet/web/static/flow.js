// The routing column: how the votes of each type of primary capsule are shared out to the classes.
// Where the rows of the classes are beside it, the ribbons end there; else their names are written.

import { byId, svg } from "./dom.js";
import { showLight } from "./light.js";
import { scene } from "./scene.js";
import { state } from "./state.js";

const DURATION = 350; // milliseconds from one iteration to the next
const LEFT = 4; // where the ribbons begin; the blocks of the types are left of it
const CAP = 3; // width of the ends of the ribbons
const OF_ROW = 0.8; // of the height of a row that the most that is sent to a class fills
const LETTER = 0.62; // how wide a letter is, over its height
const MOST_LETTERS = 12;

/**
 * Where the ribbons end: x, the middle of each class, how high what is sent is there for each unit
 * sent, and whether names are to be written.
 * @typedef {{ x: number, middles: number[] | null, unit: number, named: boolean }} Ends
 */

let shown = /** @type {Float32Array | null} */ (null); // the flows on the screen, [types × J]
let ends = /** @type {Ends} */ ({ x: 97, middles: null, unit: 1, named: false });
let animation = 0;

/** Draw the ribbons anew when the rows that they end at are elsewhere. */
export function startFlow() {
  const seen = new ResizeObserver(() => scene.analysis && drawFlow(false));
  for (const id of ["columns", "classes"]) seen.observe(byId(id));
}

/** Draw the flows of the iteration looked at; in Route the eye can follow how they get there. */
export function drawFlow(moves = state.mode === "route") {
  const target = flows();
  const from = shown?.length === target.length ? shown : target;
  const start = performance.now();
  const still = !moves || matchMedia("(prefers-reduced-motion: reduce)").matches;
  ends = besideRows() ?? besideNames();
  cancelAnimationFrame(animation);
  /** @param {number} now */
  const frame = (now) => {
    const part = still ? 1 : Math.min(1, Math.max(0, (now - start) / DURATION));
    const eased = part * (2 - part);
    shown = target.map((x, n) => from[n] + (x - from[n]) * eased);
    ribbons(shown);
    if (part < 1) animation = requestAnimationFrame(frame);
  };
  frame(from === target ? start + DURATION : start);
}

/** Sum over positions of c_ij · |u_hat_ij| for each type and class. */
function flows(step = scene.step) {
  const { couplings, votes, I, J } = scene.analysis;
  const types = scene.card.grid[2];
  const c = couplings[step];
  const sums = new Float32Array(types * J);
  for (let i = 0; i < I; i++) {
    for (let j = 0; j < J; j++) sums[(i % types) * J + j] += c[i * J + j] * votes[i * J + j];
  }
  return sums;
}

/** What comes to each class. @param {Float32Array} sums */
function inflows(sums) {
  const { J } = scene.analysis;
  const total = new Float32Array(J);
  sums.forEach((sum, n) => (total[n % J] += sum));
  return total;
}

/** The ends at the rows of the classes, where all of them are right of the ribbons. @returns {Ends | null} */
function besideRows() {
  const [flow, list] = [byId("flow"), byId("classes")];
  const rows = [...list.children].map((row) => row.getBoundingClientRect());
  const box = flow.getBoundingClientRect();
  const area = list.getBoundingClientRect();
  const joined =
    rows.length === scene.analysis.J &&
    list.scrollHeight <= list.clientHeight + 1 &&
    area.left >= box.right &&
    area.top < box.top + area.height &&
    area.bottom > box.top + area.height / 2;
  byId("columns").classList.toggle("joined", joined);
  flow.style.height = joined ? `${area.bottom - box.top}px` : "";
  if (!joined) return null;
  const high = area.bottom - box.top;
  const most = Math.max(
    ...scene.analysis.couplings.flatMap((_, step) => [...inflows(flows(step))]),
    1e-9,
  );
  return {
    x: (100 * (area.left - box.left)) / box.width - CAP,
    middles: rows.map((row) => (100 * ((row.top + row.bottom) / 2 - box.top)) / high),
    unit: (OF_ROW * 100 * rows[0].height) / high / most,
    named: false,
  };
}

/** The ends within the column: the names of the classes are right of them. @returns {Ends} */
function besideNames() {
  const { classes } = scene.card;
  const named = classes.length * letterHeight() <= 100; // there is room for all
  const letters = Math.max(2, ...classes.map((name) => short(name).length));
  const x = named ? 93 - LETTER * letterHeight() * letters : 97;
  return { x, middles: null, unit: 0, named };
}

/** How high letters are in the units of the drawing: as high as all text of the page. */
function letterHeight() {
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  return (100 * rem) / (byId("flow").getBoundingClientRect().width || 100 * rem);
}

/** The name of a class as it is written beside its ribbons. @param {string} name */
const short = (name) => (name.length > MOST_LETTERS ? `${name.slice(0, MOST_LETTERS - 1)}…` : name);

/** @typedef {{ j: number, path: SVGPathElement }} Ribbon */

/** @param {Float32Array} sums */
function ribbons(sums) {
  const { J } = scene.analysis;
  const types = sums.length / J;
  const inflow = [...inflows(sums)];
  const total = inflow.reduce((sum, x) => sum + x, 0) || 1;
  const leftGap = 20 / types;
  const leftUnit = (100 - 20) / total;
  const rightUnit = ends.unit || (100 - 30) / total;
  const heights = inflow.map((sum) => sum * rightUnit);
  const middles = ends.middles ?? stacked(heights);
  const right = middles.map((middle, j) => middle - heights[j] / 2);
  const names = scene.card.classes;
  /** @param {number} sum */
  const share = (sum) => `${((100 * sum) / total).toFixed(1)} % of all that is sent`;
  const blocks = [];
  /** @type {Ribbon[]} */
  const votes = [];
  let y = leftGap / 2;
  for (let k = 0; k < types; k++) {
    const top = y;
    for (let j = 0; j < J; j++) {
      const flow = sums[k * J + j];
      const path = svg("path", {
        d: ribbon(y, flow * leftUnit, right[j], flow * rightUnit),
        class: colour(j),
        "data-type": k,
        "data-which": j,
        "data-tip": `From type ${k + 1} to “${names[j]}”: ${share(flow)}`,
      });
      votes.push({ j, path });
      y += flow * leftUnit;
      right[j] += flow * rightUnit;
    }
    blocks.push(
      svg("rect", {
        x: 0,
        y: top,
        width: CAP,
        height: y - top,
        class: "type",
        "data-type": k,
        "data-tip": `All capsules of type ${k + 1}: ${share((y - top) / leftUnit)}`,
      }),
    );
    y += leftGap;
  }
  const caps = middles.map((middle, j) =>
    svg("rect", {
      x: ends.x,
      width: CAP,
      y: middle - heights[j] / 2,
      height: Math.max(0.4, heights[j]),
      class: colour(j),
      "data-which": j,
      "data-tip": `To “${names[j]}”: ${share(inflow[j])}`,
    }),
  );
  // The ribbons of the chosen class lie over all others.
  votes.sort((a, b) => Number(a.j === scene.which) - Number(b.j === scene.which));
  byId("flow").replaceChildren(
    ...votes.map(({ path }) => path),
    ...blocks,
    ...caps,
    ...(ends.named ? labels(middles) : []),
  );
  byId("flow").setAttribute(
    "aria-label",
    `Votes of all primary capsules, shared out to ${J} classes`,
  );
  showLight();
}

/** The middles of ends that are one below the other, with gaps. @param {number[]} heights */
function stacked(heights) {
  const gap = 30 / heights.length;
  let y = gap / 2;
  return heights.map((height) => {
    const middle = y + height / 2;
    y += height + gap;
    return middle;
  });
}

/**
 * The outline of a ribbon: where it begins and how high it is there, where it ends and how high.
 * @type {(a: number, from: number, b: number, to: number) => string}
 */
function ribbon(a, from, b, to) {
  const middle = ((LEFT + ends.x) / 2).toFixed(2);
  /** @param {number} y */
  const at = (y) => y.toFixed(2);
  const [c, d] = [a + Math.max(0.1, from), b + Math.max(0.1, to)];
  return (
    `M${LEFT} ${at(a)}C${middle} ${at(a)} ${middle} ${at(b)} ${at(ends.x)} ${at(b)}` +
    `V${at(d)}C${middle} ${at(d)} ${middle} ${at(c)} ${LEFT} ${at(c)}Z`
  );
}

/** @param {number[]} middles */
const labels = (middles) =>
  scene.card.classes.map((name, j) =>
    svg(
      "text",
      {
        x: ends.x + 5,
        y: middles[j],
        class: colour(j),
        "font-size": letterHeight(),
        "data-which": j,
        "data-tip": name,
      },
      short(name),
    ),
  );

/** @param {number} j */
const colour = (j) => {
  const rival = scene.rivals.indexOf(j);
  if (rival >= 0) return rival ? "second" : "first";
  return j === scene.which && !scene.rivals.length ? "chosen" : "other";
};
