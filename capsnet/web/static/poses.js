// Poses that exist: drawn as those of real images vary together, not each number on its own.

/** @import { Poses } from "./types.js" */

import { get, toFloats } from "./api.js";
import { randomNumbers } from "./browser/random.js";

let known = /** @type {Poses | null} */ (null);

/**
 * A pose of a class, the same for the same seed: mean + z · ways, z normal; null if none is known.
 * @type {(which: number, size: number, seed: number) => Promise<number[] | null>}
 */
export async function randomPose(which, size, seed) {
  known ??= await get("poses");
  const mean = toFloats(known.mean).subarray(which * size, (which + 1) * size);
  const ways = toFloats(known.ways).subarray(which * size * size, (which + 1) * size * size);
  if (!ways.some((x) => x)) return null;
  const z = normal(seed, size);
  return [...mean].map((x, e) => z.reduce((sum, far, k) => sum + far * ways[k * size + e], x));
}

/** Numbers of a normal distribution, by Box and Muller. @type {(seed: number, count: number) => number[]} */
function normal(seed, count) {
  const even = randomNumbers(seed, 2 * count);
  return Array.from(
    { length: count },
    (_, n) => Math.sqrt(-2 * Math.log(1 - even[n])) * Math.cos(2 * Math.PI * even[count + n]),
  );
}
