// Pages of test images, each asked for once.

/** @import { Sample } from "./types.js" */

import { get } from "./api.js";

/** @type {Map<string, Promise<Sample[]>>} */
const pages = new Map();

/**
 * One test image of each class: "samples" of the network's own data, "digits" for Overlap.
 * @type {(kind: "samples" | "digits", page: number) => Promise<Sample[]>}
 */
export function samplesOf(kind, page) {
  const path = /** @type {const} */ (`${kind}?page=${page}`);
  const known = pages.get(path);
  if (known) return known;
  const asked = get(path);
  pages.set(path, asked);
  asked.catch(() => pages.delete(path)); // it can be asked for again
  return asked;
}
