// Pictures as an endless GIF: grey levels as they are, colours in 252 steps.

/** @import { Shape } from "../types.js" */

import { levels } from "./pixels.js";
import { BICUBIC, resize } from "./resize.js";

const SIDE = 224; // pixels of the film across
const STEPS = [6, 7, 6]; // of red, green and blue
const CODES = 4096; // of the compression, before it begins anew

/**
 * @param {Float32Array[]} pictures [C, H, W] in 0 … 1
 * @param {Shape} shape
 * @param {number} milliseconds of each
 */
export function gif(pictures, [C, H, W], milliseconds) {
  const height = Math.floor((SIDE * H) / W);
  const isColour = C === 3;
  /** @type {number[]} */
  const bytes = [];
  /** @param {number[]} values */
  const words = (...values) => values.forEach((x) => bytes.push(x & 255, x >> 8));
  bytes.push(...new TextEncoder().encode("GIF89a"));
  words(SIDE, height);
  bytes.push(0xf7, 0, 0, ...palette(isColour)); // 256 colours follow
  bytes.push(0x21, 0xff, 11, ...new TextEncoder().encode("NETSCAPE2.0"), 3, 1, 0, 0, 0);
  const frames = pictures.map((picture) => {
    const all = levels(picture);
    const planes = Array.from({ length: isColour ? 3 : 1 }, (_, c) => {
      const data = all.subarray(c * H * W, (c + 1) * H * W);
      return resize({ data, width: W, height: H }, SIDE, height, BICUBIC).data;
    });
    return isColour ? indexed(planes) : planes[0];
  });
  const parts = [Uint8Array.from(bytes)];
  for (const frame of frames) {
    bytes.length = 0;
    bytes.push(0x21, 0xf9, 4, 0);
    words(Math.round(milliseconds / 10));
    bytes.push(0, 0, 0x2c);
    words(0, 0, SIDE, height);
    bytes.push(0, 8);
    parts.push(Uint8Array.from(bytes), compressed(frame));
  }
  return new Blob([...parts, Uint8Array.of(0x3b)]).arrayBuffer();
}

/** @param {boolean} isColour */
function palette(isColour) {
  if (!isColour) return Array.from({ length: 768 }, (_, n) => Math.floor(n / 3));
  const [red, green, blue] = STEPS;
  return Array.from({ length: 768 }, (_, n) => {
    const colour = Math.min(Math.floor(n / 3), red * green * blue - 1);
    const [r, g] = [Math.floor(colour / (green * blue)), Math.floor(colour / blue) % green];
    return Math.round((255 * [r, g, colour % blue][n % 3]) / (STEPS[n % 3] - 1));
  });
}

/** The place of each pixel's colour in the palette. @param {ArrayLike<number>[]} planes */
const indexed = (planes) =>
  Uint8Array.from(planes[0], (_, p) =>
    planes.reduce(
      (at, plane, c) => at * STEPS[c] + Math.round((plane[p] / 255) * (STEPS[c] - 1)),
      0,
    ),
  );

/** LZW in blocks of up to 255 bytes, as GIF wants it. @param {ArrayLike<number>} pixels */
function compressed(pixels) {
  const [clear, end] = [256, 257];
  /** @type {number[]} */
  const stream = [];
  let [held, bits, size, next] = [0, 0, 9, 258];
  const known = /** @type {Map<number, number>} */ (new Map());
  /** @param {number} code */
  const put = (code) => {
    held |= code << bits;
    for (bits += size; bits >= 8; bits -= 8) {
      stream.push(held & 255);
      held >>>= 8;
    }
  };
  put(clear);
  let code = pixels[0];
  for (let p = 1; p < pixels.length; p++) {
    const key = (code << 8) | pixels[p];
    const longer = known.get(key);
    if (longer !== undefined) {
      code = longer;
      continue;
    }
    put(code);
    if (next < CODES) {
      if (next === 1 << size) size += 1;
      known.set(key, next++);
    } else {
      put(clear);
      known.clear();
      [size, next] = [9, 258];
    }
    code = pixels[p];
  }
  put(code);
  put(end);
  if (bits) stream.push(held & 255);
  /** @type {number[]} */
  const blocks = [];
  for (let n = 0; n < stream.length; n += 255) {
    const block = stream.slice(n, n + 255);
    blocks.push(block.length, ...block);
  }
  return Uint8Array.from([...blocks, 0]);
}
