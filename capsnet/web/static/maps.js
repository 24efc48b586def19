// The maps of Route: the couplings to the chosen class in every iteration, and what their colours mean.

/** @import { Scale } from "./types.js" */

import { placeOf, pointAt } from "./columns.js";
import { h, innerNumber, minus, number, refill } from "./dom.js";
import { almostAll, CapsuleMap, paint, shareColours, shareScale } from "./draw.js";
import { scene } from "./scene.js";
import { state } from "./state.js";

const LEAST = 1e-6; // a coupling that is told from none
const SPREAD = "capsnet explore --weights capsnet_small";

/** The primary capsule that votes most for the chosen class, where the eye should start. */
export function strongest() {
  const { votes, I, J } = scene.analysis;
  const c = scene.analysis.couplings[scene.numIters - 1];
  let best = 0;
  /** @param {number} i */
  const sent = (i) => c[i * J + scene.which] * votes[i * J + scene.which];
  for (let i = 1; i < I; i++) if (sent(i) > sent(best)) best = i;
  return best;
}

/** The couplings c [I] to the chosen class, of each iteration. */
export function couplings() {
  const { I, J } = scene.analysis;
  return scene.analysis.couplings.map((c) =>
    Float32Array.from({ length: I }, (_, i) => c[i * J + scene.which]),
  );
}

/** The even share that every class gets at first, and how far the couplings go from it. */
export function range() {
  const even = 1 / (scene.analysis.J + (scene.card.leaky ? 1 : 0));
  const far = couplings().map((values) =>
    almostAll(values.map((c) => Math.abs(Math.log(Math.max(c, LEAST) / even)))),
  );
  return { even, factor: Math.exp(Math.max(0.05, ...far)) };
}

/**
 * One map of the couplings for each iteration, all on the same scale, and what v draws after it;
 * returns what marks the capsule looked at on all of them.
 * @param {HTMLElement} steps
 * @param {(step: number) => void} go
 * @param {Uint8Array | null} drawings
 * @param {number[] | null} agreed
 */
export function drawSteps(steps, go, drawings, agreed) {
  const { I, J, v_steps: lengths } = scene.analysis;
  const { which, card } = scene;
  const name = card.classes[which];
  const to = couplings();
  const { even, factor } = range();
  const focused = steps.contains(document.activeElement);
  const maps = to.map((values, t) => couplingMap(values, t, shareScale(even, factor)));
  steps.replaceChildren(
    ...to.map((values, t) => {
      const { canvas } = maps[t];
      const drawing = h("canvas", { class: "drawing", "aria-hidden": "true" });
      if (drawings) paint(drawing, drawings, card.image_shape, t);
      const spread = [...values].sort((a, b) => b - a);
      const share =
        spread.slice(0, Math.ceil(I / 10)).reduce((sum, x) => sum + x, 0) / Math.ceil(I / 10);
      return h(
        "button",
        {
          type: "button",
          class: "step",
          "data-tip": `After iteration ${t + 1}: the map shows the couplings c to “${name}”, with their mean over the tenth of the capsules that send most; |v| is the length of capsule “${name}”`,
          "aria-pressed": String(t === scene.step),
          onclick: () => go(t + 1),
        },
        h("strong", {}, innerNumber(`k = ${t + 1}`, `Iteration ${t + 1} of the routing`)),
        canvas,
        card.has_decoder && scene.analysis.trace ? drawing : null,
        h(
          "span",
          {},
          "top tenth ",
          innerNumber(
            `c = ${share.toFixed(2)}`,
            `Mean coupling to “${name}” of the tenth of all capsules that send most; it starts at 1/${J}`,
          ),
        ),
        agreed &&
          h(
            "span",
            {},
            "votes agree ",
            innerNumber(
              agreed[t].toFixed(2),
              `How far all that is sent to “${name}” points one way`,
            ),
          ),
        h(
          "span",
          {},
          innerNumber(
            `|v| = ${lengths[t][which].toFixed(2)}`,
            `Length of capsule “${name}” after iteration ${t + 1}`,
          ),
        ),
      );
    }),
  );
  if (focused) /** @type {HTMLElement} */ (steps.children[scene.step]).focus();
  const mark = () => maps.forEach((map) => map.mark());
  mark();
  return mark;
}

/**
 * The map of one iteration: a square that is pointed at says its coupling and is looked at.
 * @param {Float32Array} values
 * @param {number} t
 * @param {Scale} scale
 */
function couplingMap(values, t, scale) {
  const { card, which } = scene;
  const said = `Couplings to “${card.classes[which]}” in iteration ${t + 1}`;
  const canvas = h("canvas", { "aria-hidden": "true", "data-tip": said });
  const map = new CapsuleMap(canvas);
  canvas.addEventListener("pointermove", (event) => {
    const capsule = map.at(event);
    if (capsule < 0) return;
    const [type, row, column] = placeOf(capsule);
    canvas.dataset.tip = `${said}: type ${type} at row ${row}, column ${column} sends ${values[capsule].toFixed(3)}`;
    pointAt(capsule, false);
  });
  return { canvas, mark: () => map.paint(values, card.grid, scale, state.capsule) };
}

/**
 * What the colours of the maps mean, and whether one capsule outweighs all others.
 * @param {HTMLElement} legend
 */
export function drawLegend(legend) {
  const { even, factor } = range();
  const name = scene.card.classes[scene.which];
  const bar = h("span", { class: "ramp" });
  bar.style.background = shareColours;
  const i = strongest();
  const last = scene.numIters - 1;
  /** @param {number} step */
  const gives = (step) =>
    number(
      percent(shareOf(i, step)),
      "How much of the length of s comes from the vote of this capsule, weighted by its coupling",
    );
  refill(
    legend,
    h(
      "p",
      { class: "ends" },
      number(
        `c ≤ ${(even / factor).toPrecision(2)}`,
        `Blue: capsules that send less than an even share to “${name}”`,
      ),
      number(even.toPrecision(2), "The even share, which all of them send at first"),
      number(
        `c ≥ ${Math.min(1, even * factor).toPrecision(2)}`,
        `Orange: capsules that send more than an even share to “${name}”`,
      ),
    ),
    bar,
    last && scene.card.routing === "dynamic" && shareOf(i, last) > 0.5
      ? h(
          "p",
          { class: "note" },
          "One strong capsule gives ",
          gives(0),
          " of the sum s in the first iteration and ",
          gives(last),
          " in the last.",
          ...(scene.card.name === "capsnet_small"
            ? []
            : [
                " Votes are more spread out in ",
                h("code", {}, scene.info.others.length ? "capsnet_small" : SPREAD),
                ".",
              ]),
        )
      : "",
  );
}

/** @param {number} share */
export const percent = (share) => `${minus(Math.round(100 * share))} %`;

/**
 * How much of |s_j| comes from a capsule: c_ij û_ij · s_j / |s_j|², and v_j points along s_j.
 * @param {number} i
 */
export function shareOf(i, step = scene.step) {
  const { analysis, which } = scene;
  const c = analysis.couplings[step][i * analysis.J + which];
  const along = analysis.agreement(step, i, which) / analysis.v_steps[step][which];
  return (c * along) / analysis.s_steps[step][which] || 0;
}
