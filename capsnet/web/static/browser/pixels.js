// Pixels in 0 … 1, and as bytes.

import { toBytes } from "../pack.js";

/** Pixels of packed bytes. @param {string} text */
export const unpacked = (text) => Float32Array.from(toBytes(text), (x) => x / 255);

/** Pixels as bytes. @param {Float32Array} pixels */
export function levels(pixels) {
  const bytes = new Uint8Array(pixels.length);
  for (let n = 0; n < pixels.length; n++) bytes[n] = roundEven(pixels[n] * 255);
  return bytes;
}

/** The nearest whole number, of two the even one, as Python and torch round. @param {number} x */
export function roundEven(x) {
  const near = Math.round(x);
  return near - x === 0.5 && near % 2 ? near - 1 : near;
}
