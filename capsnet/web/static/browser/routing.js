// From capsules to the votes that are routed.

/** @import { RouteStep, Tables } from "../types.js" */

import { routed } from "../routing.js";

/**
 * Route the lower capsules u [I, D], with everything that happens on the way.
 * @param {Float32Array} u
 * @param {RouteStep} step
 * @param {Tables} tables
 */
export function route(u, step, tables) {
  const [, J, E] = step.sizes;
  const votes = voted(u, step, tables);
  return { votes, ...routed(votes, { J, E, ...step }, biasOf(step, tables)) };
}

/** What is added to each s, [J, E]. @type {(step: RouteStep, tables: Tables) => Float32Array | null} */
export const biasOf = (step, tables) => (step.shift ? tables[step.shift] : null);

/** u_hat_ij = W_ij u_i, [I, J, E]. @type {(u: Float32Array, step: RouteStep, tables: Tables) => Float32Array} */
export function voted(u, { sizes: [I, J, E, D], weight }, tables) {
  const W = tables[weight];
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
