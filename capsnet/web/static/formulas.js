// What Route says of the marked capsule: the lines of Procedure 1 with its numbers, and what it sends to each class.

/** @import { Child } from "./types.js" */

import { placeOf } from "./columns.js";
import { h, minus, number, refill } from "./dom.js";
import { percent, shareOf } from "./maps.js";
import { scene } from "./scene.js";
import { state } from "./state.js";

/** Whether the network routes as the paper does, whose lines are explained. */
export const isPapers = () => scene.card.routing === "dynamic";

/**
 * The numbers of the marked capsule and the chosen class, of a routing that is not the paper's.
 * @param {HTMLElement} formulas
 */
function drawNumbers(formulas) {
  const { analysis, card, which, step } = scene;
  const i = state.capsule;
  const j = card.classes[which];
  const c = analysis.couplings[step][i * analysis.J + which];
  const votes = analysis.votes[i * analysis.J + which];
  const v = analysis.v_steps[step][which];
  const cosine = analysis.agreement(step, i, which) / (votes * v) || 0;
  /** @type {(words: string, value: string, tip: string) => HTMLElement} */
  const line = (words, value, tip) => h("div", { class: "formula" }, words, number(value, tip));
  refill(
    formulas,
    h(
      "h3",
      {},
      "Iteration ",
      number(`${step + 1} of ${scene.numIters}`, "How often couplings and classes were computed"),
    ),
    line("coupling c = ", c.toFixed(3), `The share of this capsule that goes to “${j}”`),
    line("length of the vote |û| = ", votes.toFixed(2), `What this capsule says of “${j}”`),
    line(
      "direction of the vote, cos = ",
      minus(cosine, 2),
      `1: the vote points where “${j}” points, −1: the other way`,
    ),
    line("length |v| = ", v.toFixed(3), `How sure the network is of “${j}”: its activation`),
    h(
      "p",
      { class: "note" },
      `This network's capsules are sent by ${card.routing}, not by the paper's dynamic routing; `,
      "docs/routings has its equations.",
    ),
  );
}

/**
 * The four lines of Procedure 1 with the numbers of the marked capsule and the chosen class.
 * @param {HTMLElement} formulas
 */
export function drawFormulas(formulas) {
  if (!isPapers()) {
    drawNumbers(formulas);
    return;
  }
  const { analysis, card, which, step } = scene;
  const i = state.capsule;
  const j = card.classes[which];
  const b = analysis.logit(step, i, which);
  const c = analysis.couplings[step][i * analysis.J + which];
  const agreement = analysis.agreement(step, i, which);
  const s = analysis.s_steps[step][which];
  const v = analysis.v_steps[step][which];
  const isLast = step === scene.numIters - 1;
  /** @param {(Child | Child[])[]} parts */
  const line = (...parts) => h("div", { class: "formula" }, ...parts);
  /** @param {string} letter @param {string} index */
  const sub = (letter, index) => h("span", { class: "math" }, letter, h("sub", {}, index));
  let rest = card.leaky ? 1 : 0;
  for (let k = 0; k < analysis.J; k++) rest += Math.exp(analysis.logit(step, i, k));
  refill(
    formulas,
    h(
      "h3",
      {},
      "Iteration ",
      number(`${step + 1} of ${scene.numIters}`, "How often the four lines below were repeated"),
    ),
    line(
      sub("c", "ij"),
      " = exp ",
      sub("b", "ij"),
      " / Σ",
      h("sub", {}, "k"),
      " exp ",
      sub("b", "ik"),
      " = ",
      number(
        Math.exp(b).toFixed(2),
        `exp of the logit b = ${b.toFixed(2)} of this capsule for “${j}”`,
      ),
      " / ",
      number(rest.toFixed(2), "Sum of the same over all classes"),
      " = ",
      number(c.toFixed(3), `Coupling: the share of this capsule's output that goes to “${j}”`),
    ),
    line(
      sub("s", "j"),
      " = Σ",
      h("sub", {}, "i"),
      " ",
      sub("c", "ij"),
      " ",
      sub("û", "j|i"),
      card.has_bias ? [" + ", sub("β", "j")] : null,
      ",  |",
      sub("s", "j"),
      "| = ",
      number(
        s.toFixed(2),
        `Length of the sum of all votes for “${j}”, each weighted by its coupling` +
          (card.has_bias ? "; this network adds a learnt bias β" : ""),
      ),
      h(
        "span",
        { class: "aside" },
        number(percent(shareOf(i)), "How much of this length comes from the marked capsule"),
        " from this capsule",
      ),
    ),
    line(
      sub("v", "j"),
      " = squash(",
      sub("s", "j"),
      "),  |",
      sub("v", "j"),
      "| = ",
      number(
        v.toFixed(3),
        `|s|² / (1 + |s|²): the length is pressed below 1 so that it can be a probability`,
      ),
    ),
    line(
      sub("b", "ij"),
      " ← ",
      sub("b", "ij"),
      " + ",
      sub("û", "j|i"),
      " · ",
      sub("v", "j"),
      " = ",
      number(minus(b, 2), "The logit before"),
      agreement < 0 ? " − " : " + ",
      number(
        Math.abs(agreement).toFixed(2),
        `Agreement: does the vote of this capsule point where “${j}” points?`,
      ),
      " = ",
      number(
        minus(b + agreement, 2),
        isLast
          ? "The logit that one more iteration would start from"
          : "The logit that the next iteration starts from",
      ),
    ),
    h("p", { class: "note" }, ...consequence(agreement, i, j)),
  );
}

/**
 * What follows from the agreement; the coupling is a softmax, so it alone does not decide it.
 * @type {(agreement: number, i: number, name: string) => Child[]}
 */
function consequence(agreement, i, name) {
  const { analysis, which, step } = scene;
  const sign = Number(agreement.toFixed(2)); // as it is shown
  const vote = sign > 0 ? "agrees" : sign < 0 ? "disagrees" : "neither agrees nor disagrees";
  if (step === scene.numIters - 1)
    return [
      `The vote ${vote} with the outcome; this was the last iteration, so nothing follows from it.`,
    ];
  const logit = sign > 0 ? "grows by that much" : sign < 0 ? "falls by that much" : "stays";
  const next = analysis.couplings[step + 1][i * analysis.J + which];
  return [
    `The vote ${vote} with the outcome, so the logit ${logit}. `,
    "The coupling depends on the other logits too: this capsule will send ",
    number(next.toFixed(3), `The share of this capsule's output that goes to “${name}” next`),
    " of its output there.",
  ];
}

/** What the marked capsule sends to every class. @param {HTMLElement} table */
export function drawTable(table) {
  const { analysis, card, step, which } = scene;
  const i = state.capsule;
  const rows = card.classes.slice(0, 20).map((name, j) => {
    const c = analysis.couplings[step][i * analysis.J + j];
    const agreement = analysis.agreement(step, i, j);
    const bar = h("span", { class: "fill" });
    bar.style.width = `${100 * c}%`;
    return h(
      "tr",
      { class: j === which ? "chosen" : "" },
      h("th", { scope: "row" }, name),
      h("td", {}, h("span", { class: "bar" }, bar)),
      h("td", { class: "number", "data-tip": `Coupling to “${name}”` }, c.toFixed(2)),
      h(
        "td",
        { class: "number", "data-tip": `Agreement û·v with “${name}” in this iteration` },
        minus(agreement, 2),
      ),
    );
  });
  const [type, row, column] = placeOf(i);
  refill(
    table,
    h(
      "h3",
      {},
      "Capsule of type ",
      number(`${type}`, "Capsules of one type look for the same part, each in its own place"),
      " at row ",
      number(`${row}`, "Row of the grid of positions, from the top"),
      ", column ",
      number(`${column}`, "Column of the grid of positions, from the left"),
    ),
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, "class"),
          h("th", { scope: "col" }, "sends"),
          h("th", { scope: "col" }, number("c", "Coupling: the share that goes to the class")),
          h("th", { scope: "col" }, number("û·v", "Agreement of its vote with the class")),
        ),
      ),
      h("tbody", {}, rows),
    ),
    h(
      "p",
      { class: "note" },
      "Point at a primary capsule to see its numbers; click or tap it to hold it.",
    ),
  );
}
