// Bending pictures as capsnet/web/warp.py does: rotate, scale, shear, shift, thicken, shuffle pieces.

/** @import { Bend, Shape, Slider, Warp } from "../types.js" */

import { randomNumbers } from "./random.js";

const SHARP = 1.2; // the contrast that gives the edges of warped digits their strength back
const CUBIC = -0.75; // torch's bicubic
const SWEEP_STEPS = 25;

/** The picture [C, H, W] bent as told. @type {(pixels: Float32Array, shape: Shape, how: Warp) => Float32Array} */
export const bend = (pixels, shape, how) =>
  scramble(move(thicken(pixels, shape, how.thicken), shape, how), shape, how);

/**
 * The values of a sweep, and the picture bent by each.
 * @type {(pixels: Float32Array, shape: Shape, how: Warp, over: Bend, range: Slider) => { values: number[], bent: Float32Array[] }}
 */
export function sweep(pixels, shape, how, over, { low, high }) {
  const last = SWEEP_STEPS - 1;
  const values = Array.from({ length: SWEEP_STEPS }, (_, n) => low + ((high - low) * n) / last);
  return { values, bent: values.map((value) => bend(pixels, shape, { ...how, [over]: value })) };
}

/** Strokes wider or thinner by about `amount` pixels a side. @type {(pixels: Float32Array, shape: Shape, amount: number) => Float32Array} */
function thicken(pixels, [, H, W], amount) {
  const pick = amount < 0 ? Math.min : Math.max;
  for (let left = Math.abs(amount); left > 0; left -= 1) {
    const part = Math.min(left, 1);
    const before = pixels;
    pixels = before.map((x, n) => {
      const [row, column] = [Math.floor(n / W) % H, n % W];
      let other = x;
      for (let y = Math.max(0, row - 1); y <= Math.min(H - 1, row + 1); y++) {
        for (let k = Math.max(0, column - 1); k <= Math.min(W - 1, column + 1); k++) {
          other = pick(other, before[n + (y - row) * W + k - column]);
        }
      }
      return x + part * (other - x);
    });
  }
  return pixels;
}

/** Turned, scaled, sheared and shifted. @type {(pixels: Float32Array, shape: Shape, how: Warp) => Float32Array} */
function move(pixels, shape, how) {
  const { rotate, scale, shear, right, down } = how;
  if (scale === 1 && !(shear || rotate % 90 || right % 1 || down % 1))
    return placed(pixels, shape, -Math.trunc(rotate / 90), right, down);
  const angle = (rotate * Math.PI) / 180;
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
  // A = rotation · shear · scaling; a pixel shows what is at A⁻¹ (p - shift), from the centre.
  const [a, b, c, d] = [cos, cos * shear - sin, sin, sin * shear + cos].map((x) => x * scale);
  const area = a * d - b * c;
  const [C, H, W] = shape;
  const out = new Float32Array(pixels.length);
  for (let y = 0; y < H; y++) {
    for (let x = 0; x < W; x++) {
      const [u, v] = [x + 0.5 - W / 2 - right, y + 0.5 - H / 2 - down];
      const from = [(d * u - b * v) / area + W / 2 - 0.5, (a * v - c * u) / area + H / 2 - 0.5];
      for (let k = 0; k < C; k++) {
        const seen = bicubic(pixels, k * H * W, H, W, from[0], from[1]);
        out[(k * H + y) * W + x] = Math.min(1, Math.max(0, 0.5 + SHARP * (seen - 0.5)));
      }
    }
  }
  return out;
}

/** Turned by quarters and moved by whole pixels: every pixel goes to a pixel. @type {(pixels: Float32Array, shape: Shape, quarters: number, right: number, down: number) => Float32Array} */
function placed(pixels, [C, H, W], quarters, right, down) {
  const turns = ((quarters % 4) + 4) % 4;
  const [h, w] = turns % 2 ? [W, H] : [H, W];
  const [top, left] = [Math.floor((H - h) / 2) + down, Math.floor((W - w) / 2) + right];
  const out = new Float32Array(pixels.length);
  for (let y = Math.max(0, top); y < Math.min(H, top + h); y++) {
    for (let x = Math.max(0, left); x < Math.min(W, left + w); x++) {
      const [row, column] = [y - top, x - left];
      const [from, at] = [
        [row, column],
        [column, W - 1 - row],
        [H - 1 - row, W - 1 - column],
        [H - 1 - column, row],
      ][turns];
      for (let c = 0; c < C; c++) out[(c * H + y) * W + x] = pixels[(c * H + from) * W + at];
    }
  }
  return out;
}

/** The weights of the four neighbours of a place between the second and the third. @param {number} t */
function weights(t) {
  /** @param {number} x */
  const near = (x) => ((CUBIC + 2) * x - (CUBIC + 3)) * x * x + 1;
  /** @param {number} x */
  const far = (x) => ((CUBIC * x - 5 * CUBIC) * x + 8 * CUBIC) * x - 4 * CUBIC;
  return [far(t + 1), near(t), near(1 - t), far(2 - t)];
}

/** What is between the pixels of a plane; outside it is black. @type {(pixels: Float32Array, start: number, H: number, W: number, x: number, y: number) => number} */
function bicubic(pixels, start, H, W, x, y) {
  const [left, top] = [Math.floor(x), Math.floor(y)];
  const [across, along] = [weights(x - left), weights(y - top)];
  let sum = 0;
  for (let n = 0; n < 4; n++) {
    const row = top - 1 + n;
    if (row < 0 || row >= H) continue;
    for (let k = 0; k < 4; k++) {
      const column = left - 1 + k;
      if (column < 0 || column >= W) continue;
      sum += along[n] * across[k] * pixels[start + row * W + column];
    }
  }
  return sum;
}

/** Cut into pieces that go round one random cycle, so that none stays. @type {(pixels: Float32Array, shape: Shape, how: Warp) => Float32Array} */
function scramble(pixels, [C, H, W], { pieces, seed }) {
  if (pieces === 1) return pixels;
  const numbers = randomNumbers(seed, pieces * pieces);
  const cycle = Array.from(numbers, (_, n) => n).sort((a, b) => numbers[a] - numbers[b]);
  const [h, w] = [Math.floor(H / pieces), Math.floor(W / pieces)];
  const out = pixels.slice();
  cycle.forEach((to, n) => {
    const from = cycle.at(n - 1) ?? 0;
    for (let c = 0; c < C; c++) {
      for (let y = 0; y < h; y++) {
        /** @param {number} piece */
        const at = (piece) =>
          (c * H + Math.floor(piece / pieces) * h + y) * W + (piece % pieces) * w;
        out.set(pixels.subarray(at(from), at(from) + w), at(to));
      }
    }
  });
  return out;
}
