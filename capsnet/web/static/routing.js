// Routing-by-agreement (the paper's Procedure 1) on votes that are known, for any number of iterations.

/** @import { Answers, NetCard, Routed } from "./types.js" */

import { toFloats } from "./pack.js";

/** @typedef {Float32Array | Float64Array} Floats */

/** c_ij: the softmax over j of b [I, J]; a leaky one has one more parent, with logit 0. */
/** @type {(b: Floats, J: number, leaky: boolean) => Float32Array} */
export function softmax(b, J, leaky) {
  const c = new Float32Array(b.length);
  for (let start = 0; start < b.length; start += J) {
    let high = leaky ? 0 : -Infinity;
    for (let j = 0; j < J; j++) high = Math.max(high, b[start + j]);
    let total = leaky ? Math.exp(-high) : 0;
    for (let j = 0; j < J; j++) total += c[start + j] = Math.exp(b[start + j] - high);
    for (let j = 0; j < J; j++) c[start + j] /= total;
  }
  return c;
}

/** Eq. 1 for every E numbers. @type {(s: Floats, E: number) => Float64Array} */
export function squash(s, E) {
  const v = new Float64Array(s.length);
  lengths(s, E).forEach((length, j) => {
    for (let n = j * E; n < (j + 1) * E; n++) v[n] = (s[n] * length) / (1 + length * length);
  });
  return v;
}

/** The lengths of every E numbers. @type {(x: Floats, E: number) => number[]} */
export const lengths = (x, E) =>
  Array.from({ length: x.length / E }, (_, j) => {
    let square = 0;
    for (let n = j * E; n < (j + 1) * E; n++) square += x[n] * x[n];
    return Math.sqrt(square);
  });

/**
 * Route votes [I, J, E]: b [R + 1, I, J] before each iteration and after the last; c, s, v of each.
 * @param {Float32Array} votes
 * @param {{ J: number, E: number, iters: number, leaky: boolean }} how
 * @param {Float32Array | null} bias [J, E], added to each s
 */
export function routed(votes, { J, E, iters, leaky }, bias) {
  const IJ = votes.length / E;
  const b = new Float64Array((iters + 1) * IJ);
  const c = /** @type {Float32Array[]} */ ([]);
  const [s, v] = [/** @type {Float64Array[]} */ ([]), /** @type {Float64Array[]} */ ([])];
  for (let t = 0; t < iters; t++) {
    const before = b.subarray(t * IJ, (t + 1) * IJ);
    c.push(softmax(before, J, leaky));
    const sum = Float64Array.from({ length: J * E }, (_, n) => bias?.[n] ?? 0);
    for (let n = 0; n < votes.length; n++) sum[n % (J * E)] += c[t][Math.floor(n / E)] * votes[n];
    s.push(sum);
    v.push(squash(sum, E));
    for (let ij = 0; ij < IJ; ij++) {
      let agreement = 0;
      for (let e = 0; e < E; e++) agreement += votes[ij * E + e] * v[t][(ij % J) * E + e];
      b[(t + 1) * IJ + ij] = before[ij] + agreement;
    }
  }
  return { b, c, s, v };
}

/**
 * What an analysis would be with so many iterations; with as many as in training it is itself, and
 * tells of every iteration what the class capsules were.
 * @param {Routed} analysis
 * @param {Answers["votes"]} told
 * @param {NetCard} card
 * @param {number} iters
 * @returns {Routed}
 */
export function reroute(analysis, told, card, iters) {
  const { I, J } = analysis;
  const E = card.class_dim;
  const [votes, bias] = [toFloats(told.votes), toFloats(told.bias)];
  const { b, c, s, v } = routed(votes, { J, E, iters, leaky: card.leaky }, bias);
  const last = lengths(v[iters - 1], E);
  const isOwn = iters === card.num_iters;
  return {
    ...analysis,
    ...(isOwn ? {} : { doubts: [], pictures: new Uint8Array(0) }),
    lengths: last,
    drawn: isOwn ? analysis.drawn : [last.indexOf(Math.max(...last))],
    v: Array.from({ length: J }, (_, j) => [...v[iters - 1].subarray(j * E, (j + 1) * E)]),
    s_steps: s.map((sum) => lengths(sum, E)),
    v_steps: v.map((one) => lengths(one, E)),
    ...tablesOf(b, c, I, J),
    trace: { votes, v },
  };
}

/**
 * What is asked of b [R + 1, I, J] and of the couplings c [I, J] of each iteration.
 * @type {(b: Floats, couplings: Float32Array[], I: number, J: number) => Pick<Routed, "logit" | "agreement" | "couplings">}
 */
export const tablesOf = (b, couplings, I, J) => ({
  /** b_ij before iteration t, of dynamic routing. */
  logit: (t, i, j) => b[(t * I + i) * J + j],
  /** u_hat_ij · v_j of iteration t: by how much b_ij of dynamic routing grew. */
  agreement: (t, i, j) => b[((t + 1) * I + i) * J + j] - b[(t * I + i) * J + j],
  couplings,
});
