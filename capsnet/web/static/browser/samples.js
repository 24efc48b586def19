// Test images in pages: each page has the next image of each class.

/** @import { Sample, Shelf } from "../types.js" */

import { toText } from "../pack.js";
import { bytesOf } from "./files.js";

const MAX_PER_PAGE = 20;

/** @type {(shelf: Shelf | null, page: number) => Promise<Sample[]>} */
export async function samplesPage(shelf, page) {
  if (!shelf) return [];
  const bytes = await bytesOf(shelf.file);
  const size = shelf.image_shape.reduce((product, side) => product * side);
  const J = shelf.counts.length;
  /** @type {Sample[]} */
  const found = [];
  let start = 0; // the images of a class follow those of the class before
  shelf.counts.slice(0, MAX_PER_PAGE).forEach((count, label) => {
    const n = page % count;
    const at = (start + n) * size;
    const said = shelf.said[label];
    if (count)
      found.push({
        number: page * J + label,
        label,
        said: said[n % said.length],
        image: toText(bytes.subarray(at, at + size)),
      });
    start += count;
  });
  return found;
}
