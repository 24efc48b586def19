// Routing-by-agreement (the paper's Procedure 1), with everything that happens on the way.

/** @import { RouteStep, Tables, Trace } from "../types.js" */

/**
 * Eq. 1 for every D numbers: shorter than one, in the same direction.
 * @param {Float32Array} s
 * @param {number} D
 */
export function squashed(s, D) {
  const v = new Float32Array(s.length);
  for (let n = 0; n < s.length; n += D) {
    let square = 0;
    for (let d = 0; d < D; d++) square += s[n + d] ** 2;
    const factor = Math.sqrt(square) / (1 + square);
    for (let d = 0; d < D; d++) v[n + d] = s[n + d] * factor;
  }
  return v;
}

/** The lengths of every D numbers. @param {Float32Array} x @param {number} D */
export function lengths(x, D) {
  const out = new Float32Array(x.length / D);
  for (let n = 0; n < out.length; n++) {
    let square = 0;
    for (let d = 0; d < D; d++) square += x[n * D + d] ** 2;
    out[n] = Math.sqrt(square);
  }
  return out;
}

/**
 * Route the lower capsules u [I, D]; b are the logits before each iteration and after the last.
 * @param {Float32Array} u
 * @param {RouteStep} step
 * @param {Tables} tables
 * @returns {Trace}
 */
export function route(u, step, tables) {
  const [I, J, E] = step.sizes;
  const votes = voted(u, step, tables[step.weight]);
  const bias = step.shift ? tables[step.shift] : null;
  const b = new Float32Array((step.iters + 1) * I * J);
  const [s, v] = [/** @type {Float32Array[]} */ ([]), /** @type {Float32Array[]} */ ([])];
  for (let t = 0; t < step.iters; t++) {
    const before = b.subarray(t * I * J, (t + 1) * I * J);
    const sum = summed(votes, before, step, bias);
    s.push(sum);
    v.push(squashed(sum, E));
    const after = b.subarray((t + 1) * I * J, (t + 2) * I * J);
    for (let ij = 0; ij < I * J; ij++) {
      let agreement = 0;
      for (let e = 0; e < E; e++) agreement += votes[ij * E + e] * v[t][(ij % J) * E + e];
      after[ij] = before[ij] + agreement;
    }
  }
  return { votes, b, s, v };
}

/** u_hat_ij = W_ij u_i, [I, J, E]. @type {(u: Float32Array, step: RouteStep, W: Float32Array) => Float32Array} */
function voted(u, { sizes: [I, J, E, D] }, W) {
  const votes = new Float32Array(I * J * E);
  for (let i = 0; i < I; i++) {
    for (let n = i * J * E; n < (i + 1) * J * E; n++) {
      let sum = 0;
      for (let d = 0; d < D; d++) sum += W[n * D + d] * u[i * D + d];
      votes[n] = sum;
    }
  }
  return votes;
}

/**
 * s_j = Σ_i c_ij u_hat_ij, c = softmax over j of b; a leaky one has one more parent with logit 0.
 * @type {(votes: Float32Array, b: Float32Array, step: RouteStep, bias: Float32Array | null) => Float32Array}
 */
function summed(votes, b, { sizes: [I, J, E], leaky }, bias) {
  const sums = new Float64Array(J * E);
  if (bias) sums.set(bias);
  const c = new Float64Array(J);
  for (let i = 0; i < I; i++) {
    let high = leaky ? 0 : -Infinity;
    for (let j = 0; j < J; j++) high = Math.max(high, b[i * J + j]);
    let total = leaky ? Math.exp(-high) : 0;
    for (let j = 0; j < J; j++) total += c[j] = Math.exp(b[i * J + j] - high);
    for (let n = 0; n < J * E; n++)
      sums[n] += (c[Math.floor(n / E)] / total) * votes[i * J * E + n];
  }
  return Float32Array.from(sums);
}
