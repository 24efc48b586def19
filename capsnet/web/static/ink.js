// What is on a picture before any network has seen it: nothing, a dot, or strokes.

/** @import { Shape } from "./types.js" */

const LEAST = 26; // of 255: what is darker is no ink
const DOT = 0.42; // width of its strokes over its size; of 6000 digits none has more than 0.36

/** Whether all of a picture has one colour. @param {Uint8Array} bytes */
export const isBlank = (bytes) => bytes.every((x) => x === bytes[0]);

/**
 * Whether a picture of ink is one dot, enlarged or not: as wide as it is long, and filled.
 * @param {Uint8Array} bytes
 * @param {Shape} shape
 */
export function isDot(bytes, [, H, W]) {
  /** @type {(x: number, y: number) => number} */
  const at = (x, y) => (x < 0 || y < 0 || x >= W || y >= H ? 0 : bytes[y * W + x] / 255);
  const [columns, rows] = [new Set(), new Set()];
  let [area, rim] = [0, 0];
  for (let y = 0; y <= H; y++) {
    for (let x = 0; x <= W; x++) {
      area += at(x, y);
      rim += Math.abs(at(x, y) - at(x - 1, y)) + Math.abs(at(x, y) - at(x, y - 1));
      if (255 * at(x, y) < LEAST) continue;
      columns.add(x);
      rows.add(y);
    }
  }
  const side = Math.max(span(columns), span(rows));
  const width = (2 * area) / ((rim * Math.PI) / 4); // of a stroke: twice its area over its rim
  return side > 0 && width / side > DOT;
}

/** @param {Set<number>} places */
const span = (places) => (places.size ? Math.max(...places) - Math.min(...places) + 1 : 0);
