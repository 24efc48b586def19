// The picture of agreement in Route: where every part's vote for a class points, and how strongly.
//
// A plane through the votes for class j: one axis is the direction of the outcome v_j, the other the
// direction across it in which the votes that are sent differ most. Every vote is a dot at its own
// direction, so all are in the unit disc, as v_j is; x is the cosine between the vote and v_j.

/** @import { Routed } from "./types.js" */

import { placeOf } from "./columns.js";
import { h, minus, number, refill, svg } from "./dom.js";
import { scene } from "./scene.js";
import { state } from "./state.js";

const DURATION = 500; // milliseconds from one iteration to the next
const LARGEST = 0.13; // radius of the dot that sends most
const SMALLEST = 0.006;
const MOST_LINES = 120;
const WIDEST = 0.045; // a line whose coupling is 1
const EDGE = 1.17; // of the picture; the disc ends at 1
const NEAR = 0.08; // how far from a dot the mouse still points at it
const ROUNDS = 60; // of the power iteration

/**
 * @typedef {object} Plane What is drawn for a class: sizes change from iteration to iteration.
 * @property {Routed} analysis
 * @property {number} which
 * @property {Float64Array} along cosine of each vote with the outcome [I]
 * @property {Float64Array} across the same with the second axis [I]
 * @property {Float32Array} long lengths of the votes [I]
 * @property {[number, number][]} tips v_j of each iteration, in the plane
 * @property {number} most that a vote sends in any iteration
 * @property {number[]} agreed how far the votes that are sent point in one direction, 0 to 1
 */

/** @type {(x: Float64Array, y: Float64Array) => number} */
const dot = (x, y) => x.reduce((sum, value, e) => sum + value * y[e], 0);

/** @param {Float64Array} x */
const unit = (x) => {
  const length = Math.sqrt(dot(x, x));
  return length ? x.map((value) => value / length) : x;
};

/** The plane of the class that is looked at. @returns {Plane | null} */
export function planeOf() {
  const { analysis, which, card } = scene;
  const { trace, I, J, couplings } = analysis;
  if (!trace) return null;
  const E = card.class_dim;
  const last = couplings.length - 1;
  const v = trace.v.map((all) => all.slice(which * E, (which + 1) * E));
  const outcome = unit(v[last]);
  const votes = Array.from({ length: I }, (_, i) =>
    Float64Array.from(trace.votes.subarray((i * J + which) * E, (i * J + which + 1) * E)),
  );
  const long = Float32Array.from(votes, (vote) => Math.sqrt(dot(vote, vote)));
  const ways = votes.map(unit);
  const along = Float64Array.from(ways, (way) => dot(way, outcome));
  const rests = ways.map((way, i) => way.map((x, e) => x - along[i] * outcome[e]));
  const second = mainDirection(rests, (i) => couplings[last][i * J + which] * long[i]);
  return {
    analysis,
    which,
    along,
    across: Float64Array.from(ways, (way) => dot(way, second)),
    long,
    tips: v.map((one) => [dot(one, outcome), dot(one, second)]),
    most: couplings.reduce(
      (most, c) => long.reduce((high, x, i) => Math.max(high, c[i * J + which] * x), most),
      1e-9,
    ),
    agreed: couplings.map((c) => {
      const sum = new Float64Array(E);
      votes.forEach((vote, i) => vote.forEach((x, e) => (sum[e] += c[i * J + which] * x)));
      const sent = long.reduce((total, length, i) => total + c[i * J + which] * length, 0);
      return Math.sqrt(dot(sum, sum)) / (sent || 1);
    }),
  };
}

/**
 * The direction in which weighted vectors differ most from zero: power iteration on Σ w x xᵀ.
 * @type {(vectors: Float64Array[], weight: (i: number) => number) => Float64Array}
 */
function mainDirection(vectors, weight) {
  const E = vectors[0].length;
  const moment = Array.from({ length: E }, () => new Float64Array(E));
  vectors.forEach((x, i) => {
    for (let e = 0; e < E; e++) for (let f = 0; f < E; f++) moment[e][f] += weight(i) * x[e] * x[f];
  });
  const widest = moment.reduce((best, row, e) => (row[e] > moment[best][best] ? e : best), 0);
  let axis = unit(moment[widest]);
  for (let n = 0; n < ROUNDS; n++) axis = unit(Float64Array.from(moment, (row) => dot(row, axis)));
  return axis;
}

/**
 * The figure; `draw` shows what is looked at, moving from the iteration before.
 * @param {AbortSignal} signal
 * @param {(capsule: number, pressed: boolean) => void} onPoint
 */
export function agreementFigure(signal, onPoint) {
  const lines = svg("g", { class: "lines" });
  const dots = svg("g", { class: "dots" });
  const ring = svg("circle", { class: "ring" });
  const arrow = svg("line", { class: "outcome", x1: 0, y1: 0 });
  const head = svg("circle", { class: "outcome", r: 0.035 });
  const picture = svg(
    "svg",
    { viewBox: `${-EDGE} ${-EDGE} ${2 * EDGE} ${2 * EDGE}`, role: "img" },
    svg("circle", { class: "rim", r: 1 }),
    svg("line", { class: "axis", x1: -1, x2: 1, y1: 0, y2: 0 }),
    svg("line", { class: "axis", x1: 0, x2: 0, y1: -1, y2: 1 }),
    lines,
    dots,
    arrow,
    head,
    ring,
  );
  const heading = h("h3");
  const caption = h("div", { class: "note" });
  const element = h(
    "figure",
    { class: "agreement" },
    heading,
    picture,
    h(
      "p",
      { class: "ends", "aria-hidden": "true" },
      h("span", {}, "← points away"),
      h("span", {}, "across"),
      h("span", {}, "agrees →"),
    ),
    caption,
  );
  let plane = /** @type {Plane | null} */ (null);
  let shown = 0; // the iteration on the screen; between two while it moves
  let animation = 0;

  for (const name of /** @type {const} */ (["pointermove", "pointerdown"]))
    picture.addEventListener(name, (event) => {
      const capsule = event.button > 0 ? -1 : nearest(event);
      if (capsule >= 0) onPoint(capsule, name === "pointerdown");
    });
  signal.addEventListener("abort", () => cancelAnimationFrame(animation));

  /** The vote whose dot is nearest to the mouse; -1 where none is near. @param {MouseEvent} event */
  function nearest(event) {
    if (!plane) return -1;
    const box = picture.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width - 0.5) * 2 * EDGE;
    const y = (0.5 - (event.clientY - box.top) / box.height) * 2 * EDGE;
    let [best, least] = [-1, NEAR];
    for (const [i, along] of plane.along.entries()) {
      const far = Math.hypot(along - x, plane.across[i] - y);
      if (far < least) [best, least] = [i, far];
    }
    return best;
  }

  /** @type {(i: number, t: number) => number} */
  const coupling = (i, t) => {
    const { analysis, which } = /** @type {Plane} */ (plane);
    const [low, part] = [Math.floor(t), t % 1];
    /** @param {number} step */
    const c = (step) =>
      analysis.couplings[Math.min(step, analysis.couplings.length - 1)][i * analysis.J + which];
    return part ? c(low) * (1 - part) + c(low + 1) * part : c(low);
  };

  /** Make a dot for each vote, and a line for those that send most at the end. */
  function build() {
    const { analysis, along, across, long } = /** @type {Plane} */ (plane);
    const last = analysis.couplings.length - 1;
    const order = [...long.keys()].sort(
      (a, b) => coupling(b, last) * long[b] - coupling(a, last) * long[a],
    );
    dots.replaceChildren(
      ...order.map((i) => svg("circle", { cx: along[i], cy: -across[i], "data-capsule": i })),
    );
    lines.replaceChildren(
      ...order
        .slice(0, MOST_LINES)
        .map((i) => svg("line", { x1: along[i], y1: -across[i], "data-capsule": i })),
    );
  }

  /** @param {number} t */
  function paint(t) {
    if (!plane) return;
    shown = t;
    const { tips, long, most } = plane;
    for (const one of /** @type {Iterable<SVGElement>} */ (dots.children)) {
      const i = Number(one.dataset.capsule);
      const radius = LARGEST * Math.sqrt((coupling(i, t) * long[i]) / most);
      one.setAttribute("r", Math.max(SMALLEST, radius).toFixed(4));
    }
    const [low, high] = [tips[Math.floor(t)], tips[Math.ceil(t)]];
    const [x, y] = low.map((value, n) => value + (high[n] - value) * (t % 1));
    for (const line of /** @type {Iterable<SVGElement>} */ (lines.children)) {
      const c = coupling(Number(line.dataset.capsule), t);
      line.setAttribute("x2", x.toFixed(4));
      line.setAttribute("y2", (-y).toFixed(4));
      line.setAttribute("stroke-width", (WIDEST * c).toFixed(5));
    }
    arrow.setAttribute("x2", x.toFixed(4));
    arrow.setAttribute("y2", (-y).toFixed(4));
    head.setAttribute("cx", x.toFixed(4));
    head.setAttribute("cy", (-y).toFixed(4));
    mark();
  }

  /** Ring the dot of the marked capsule, and tell of each dot what it is. */
  function mark() {
    const i = state.capsule;
    const one = dots.querySelector(`[data-capsule="${i}"]`);
    ring.toggleAttribute("hidden", !one);
    if (!one) return;
    for (const name of ["cx", "cy"]) ring.setAttribute(name, one.getAttribute(name) ?? "0");
    ring.setAttribute("r", String(Number(one.getAttribute("r")) + 0.025));
  }

  function tell() {
    if (!plane) return;
    const { step, card, which } = scene;
    const { along, agreed, tips, analysis } = plane;
    const name = card.classes[which];
    for (const one of /** @type {Iterable<SVGElement>} */ (dots.children)) {
      const i = Number(one.dataset.capsule);
      const [type, row, column] = placeOf(i);
      one.dataset.tip = `Vote of type ${type} at row ${row}, column ${column}: cosine ${minus(along[i], 2)} with “${name}”, coupling ${coupling(i, step).toFixed(2)}`;
    }
    const length = Math.hypot(...tips[step]).toFixed(2);
    heading.textContent = `Where the votes for “${name}” point`;
    picture.setAttribute(
      "aria-label",
      `${analysis.I} votes for ${name} by their direction, iteration ${step + 1}: agreement ${agreed[step].toFixed(2)}, length of v ${length}`,
    );
    refill(
      caption,
      "A dot is a part's vote, as large as what it sends; a line is as thick as its coupling. The orange arrow is ",
      h("i", { class: "math" }, "v"),
      ". The votes that are sent agree by ",
      number(
        agreed[step].toFixed(2),
        "|Σ c û| / Σ c |û|: 1 if all that is sent points in one direction, 0 if it cancels out",
      ),
      step || analysis.couplings.length === 1
        ? ""
        : ", each weighted the same. Press Play: those that agree are sent more",
      ".",
    );
  }

  return {
    element,
    mark,
    agreed: () => plane?.agreed ?? null,
    draw() {
      const before = plane;
      if (scene.analysis !== plane?.analysis || scene.which !== plane.which) plane = planeOf();
      element.hidden = !plane;
      cancelAnimationFrame(animation);
      if (!plane) return;
      if (plane !== before) build();
      tell();
      const still = plane !== before || matchMedia("(prefers-reduced-motion: reduce)").matches;
      const [from, to, start] = [shown, scene.step, performance.now()];
      if (still || from === to) return paint(to);
      /** @param {number} now */
      const frame = (now) => {
        const part = Math.min(1, Math.max(0, (now - start) / DURATION));
        paint(part < 1 ? from + (to - from) * part * (2 - part) : to);
        if (part < 1) animation = requestAnimationFrame(frame);
      };
      animation = requestAnimationFrame(frame);
    },
  };
}
