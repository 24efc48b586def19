// The routing column: how the votes of each type of primary capsule are shared out to the classes.

import { byId, svg } from "./dom.js";
import { scene } from "./scene.js";
import { state } from "./state.js";

const DURATION = 350; // milliseconds from one iteration to the next
let shown = /** @type {Float32Array | null} */ (null); // the flows on the screen, [types × J]
let animation = 0;

/** Move the ribbons to the flows of the iteration looked at; in Route the eye can follow them. */
export function drawFlow() {
  const target = flows();
  const from = shown?.length === target.length ? shown : target;
  const start = performance.now();
  const still = state.mode !== "route" || matchMedia("(prefers-reduced-motion: reduce)").matches;
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
function flows() {
  const { couplings, votes, I, J } = scene.analysis;
  const types = scene.card.grid[2];
  const c = couplings[scene.step];
  const sums = new Float32Array(types * J);
  for (let i = 0; i < I; i++) {
    for (let j = 0; j < J; j++) sums[(i % types) * J + j] += c[i * J + j] * votes[i * J + j];
  }
  return sums;
}

/** @typedef {{ j: number, width: number, d: string, tip: string }} Ribbon */

const LETTER = 0.62; // how wide a letter is, over its height
const MOST_LETTERS = 12;

/** How high letters are in the units of the drawing: as high as all text of the page. */
function letterHeight() {
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  return (100 * rem) / (byId("flow").getBoundingClientRect().width || 100 * rem);
}

/** Whether there is room for the names of all classes. */
const hasNames = () => scene.card.classes.length * letterHeight() <= 100;

/** The name of a class as it is written beside its ribbons. @param {string} name */
const short = (name) => (name.length > MOST_LETTERS ? `${name.slice(0, MOST_LETTERS - 1)}…` : name);

/** Where the ribbons end: the names of the classes are right of it. */
function rightEnd() {
  const { classes } = scene.card;
  if (!hasNames()) return 97;
  const letters = Math.max(2, ...classes.map((name) => short(name).length));
  return 93 - LETTER * letterHeight() * letters;
}

/** @param {Float32Array} sums */
function ribbons(sums) {
  const { J } = scene.analysis;
  const end = rightEnd();
  const types = sums.length / J;
  const total = sums.reduce((sum, x) => sum + x, 0) || 1;
  const [leftGap, rightGap] = [20 / types, 30 / J];
  const unit = (100 - 20) / total;
  const rightUnit = (100 - 30) / total;
  const inflow = Array.from({ length: J }, (_, j) => {
    let sum = 0;
    for (let k = 0; k < types; k++) sum += sums[k * J + j];
    return sum;
  });
  const right = [];
  let y = rightGap / 2;
  for (const sum of inflow) {
    right.push(y);
    y += sum * rightUnit + rightGap;
  }
  const names = scene.card.classes;
  /** @param {number} sum */
  const share = (sum) => `${((100 * sum) / total).toFixed(1)} % of all that is sent`;
  const middles = right.map((top, j) => top + (inflow[j] * rightUnit) / 2);
  const blocks = [];
  /** @type {Ribbon[]} */
  const votes = [];
  y = leftGap / 2;
  for (let k = 0; k < types; k++) {
    const top = y;
    for (let j = 0; j < J; j++) {
      const flow = sums[k * J + j];
      const [a, b] = [y + (flow * unit) / 2, right[j] + (flow * rightUnit) / 2];
      votes.push({
        j,
        width: flow * unit,
        tip: `From type ${k + 1} to “${names[j]}”: ${share(flow)}`,
        d: `M4 ${a.toFixed(2)}C${end / 2} ${a.toFixed(2)} ${end / 2} ${b.toFixed(2)} ${end} ${b.toFixed(2)}`,
      });
      y += flow * unit;
      right[j] += flow * rightUnit;
    }
    const tip = `All capsules of type ${k + 1}: ${share((y - top) / unit)}`;
    blocks.push(
      svg("rect", { x: 0, y: top, width: 3, height: y - top, class: "type", "data-tip": tip }),
    );
    y += leftGap;
  }
  const heights = inflow.map((sum) => sum * rightUnit);
  const tips = inflow.map((sum, j) => `To “${names[j]}”: ${share(sum)}`);
  byId("flow").replaceChildren(...lines(votes), ...blocks, ...ends(heights, middles, tips, end));
  byId("flow").setAttribute(
    "aria-label",
    `Votes of all primary capsules, shared out to ${J} classes`,
  );
  drawNames(middles, end + 5);
}

/** The ribbons of the chosen class lie over all others. @param {Ribbon[]} votes */
const lines = (votes) =>
  votes
    .sort((a, b) => Number(a.j === scene.which) - Number(b.j === scene.which))
    .map(({ j, width, d, tip }) =>
      svg("path", {
        d,
        "stroke-width": Math.max(0.1, width).toFixed(2),
        class: colour(j),
        "data-tip": tip,
      }),
    );

/** @type {(heights: number[], middles: number[], tips: string[], x: number) => SVGRectElement[]} */
const ends = (heights, middles, tips, x) =>
  middles.map((middle, j) =>
    svg("rect", {
      x,
      width: 3,
      y: middle - heights[j] / 2,
      height: Math.max(0.4, heights[j]),
      class: colour(j),
      "data-tip": tips[j],
    }),
  );

/** @param {number[]} middles @param {number} x */
function drawNames(middles, x) {
  const { card } = scene;
  if (!hasNames()) return;
  byId("flow").append(
    ...middles.map((middle, j) =>
      svg(
        "text",
        {
          x,
          y: middle,
          class: colour(j),
          "font-size": letterHeight(),
          "data-tip": card.classes[j],
        },
        short(card.classes[j]),
      ),
    ),
  );
}

/** @param {number} j */
const colour = (j) => {
  const rival = scene.rivals.indexOf(j);
  if (rival >= 0) return rival ? "second" : "first";
  return j === scene.which && !scene.rivals.length ? "chosen" : "other";
};
