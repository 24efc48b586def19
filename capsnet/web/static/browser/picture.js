// A picture file as the network takes it: scaled and padded, or its ink placed as MNIST's is.

/** @import { Reading } from "../types.js" */
/** @import { Plane } from "./resize.js" */

import { findInk, isClean } from "./ink.js";
import { roundEven } from "./pixels.js";
import { BILINEAR, resize } from "./resize.js";

const INK_FRACTION = 20 / 28; // of the square, where a network does not say another
const INK_LEVEL = 0.1;
const BLANK = "This picture is blank: there is nothing to centre; give another picture.";

/**
 * Bring a PNG or JPEG to the size of a network: bytes [C, size, size].
 * @param {Blob} file
 * @param {Reading} reading
 * @param {"" | "as_is" | "centre"} how as it is, its bright ink placed, or as the network is used to
 */
export async function readPicture(file, reading, how) {
  const isInk = reading.ink && !how;
  const planes = await decoded(file, isInk ? 1 : reading.channels, isInk);
  const squares = isInk
    ? Array(reading.channels).fill(placedInk(planes[0], reading))
    : how === "centre"
      ? centred(planes, reading.size)
      : squared(planes, reading);
  const bytes = new Uint8Array(squares.length * reading.size ** 2);
  squares.forEach((plane, c) => bytes.set(plane.data, c * plane.data.length));
  return bytes;
}

/** Ink found on whatever paper and placed as MNIST's is; what is so already stays as it is. @type {(grey: Plane, reading: Reading) => Plane} */
function placedInk(grey, { size, share }) {
  if (grey.width === size && grey.height === size) {
    const turned = { ...grey, data: grey.data.map((x) => 255 - x) };
    for (const own of [grey, turned]) if (isClean(own)) return own;
  }
  const ink = findInk(grey);
  if (!ink) return { data: new Uint8Array(size * size), width: size, height: size };
  return centred([ink], size, share)[0];
}

/** The planes of a picture: grey, or red, green and blue; on black, or on what its ink is not. @type {(file: Blob, channels: number, isInk: boolean) => Promise<Plane[]>} */
async function decoded(file, channels, isInk) {
  const bitmap = await createImageBitmap(file, { colorSpaceConversion: "none" });
  const { width, height } = bitmap;
  const pen = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  if (!pen) throw new Error("The browser could not read this picture.");
  pen.drawImage(bitmap, 0, 0);
  bitmap.close();
  const { data } = pen.getImageData(0, 0, width, height);
  /** @type {(ground: number) => Uint8Array[]} */
  const on = (ground) =>
    [0, 1, 2].map((c) => {
      const plane = new Uint8Array(width * height);
      for (let p = 0; p < plane.length; p++) {
        const alpha = data[4 * p + 3];
        plane[p] = Math.round((data[4 * p + c] * alpha + ground * (255 - alpha)) / 255);
      }
      return plane;
    });
  const colours = on(isInk ? groundOf(data) : 0);
  const shown = channels === 1 ? [grey(colours)] : colours;
  return shown.map((plane) => ({ data: plane, width, height }));
}

/** What to lay under the transparent parts of a picture: what its ink is not. @param {Uint8ClampedArray} data */
function groundOf(data) {
  let [light, total] = [0, 0];
  for (let p = 0; p < data.length; p += 4) {
    light += (0.299 * data[p] + 0.587 * data[p + 1] + 0.114 * data[p + 2]) * data[p + 3];
    total += data[p + 3];
  }
  return light / Math.max(total, 1) < 127.5 ? 255 : 0;
}

/** Brightness as Pillow has it. @param {ArrayLike<number>[]} colours @returns {Uint8Array} */
const grey = ([red, green, blue]) =>
  Uint8Array.from(red, (x, p) => (x * 19595 + green[p] * 38470 + blue[p] * 7471 + 0x8000) >> 16);

/** Each plane as a square, by the rules of training. @type {(planes: Plane[], reading: Reading) => Plane[]} */
function squared(planes, { size, fit }) {
  const [{ width, height }] = planes;
  if (width === size && height === size) return planes;
  if (fit === "pad") return planes.map((plane) => pasted(scaled(plane, size), size));
  const side = Math.min(width, height);
  const [left, top] = [(width - side) / 2, (height - side) / 2];
  return planes.map((plane) =>
    fit === "crop"
      ? resize(plane, size, size, BILINEAR, [left, top, left + side, top + side])
      : resize(plane, size, size, BILINEAR),
  );
}

/** Scale a plane so that its longer side is `side`. @param {Plane} plane @param {number} side */
function scaled(plane, side) {
  const factor = side / Math.max(plane.width, plane.height);
  const [width, height] = [plane.width, plane.height].map((x) =>
    Math.max(1, roundEven(x * factor)),
  );
  return resize(plane, width, height, BILINEAR);
}

/** Put a plane on a black square, in the middle unless a place is given. @type {(plane: Plane, size: number, left?: number, top?: number) => Plane} */
function pasted({ data, width, height }, size, left, top) {
  const out = new Uint8Array(size * size);
  const x = left ?? Math.floor((size - width) / 2);
  const y = top ?? Math.floor((size - height) / 2);
  for (let row = 0; row < height; row++)
    out.set(data.subarray(row * width, (row + 1) * width), (y + row) * size + x);
  return { data: out, width: size, height: size };
}

/** @param {Plane[]} planes @returns {Plane} */
const brightness = (planes) =>
  planes.length === 1 ? planes[0] : { ...planes[0], data: grey(planes.map((x) => x.data)) };

/** The ink's box fits a share of the square, its centre of mass is in the middle. @type {(planes: Plane[], size: number, share?: number) => Plane[]} */
function centred(planes, size, share = INK_FRACTION) {
  const { data, width, height } = brightness(planes);
  const low = data.reduce((least, x) => Math.min(least, x), 255);
  const high = data.reduce((most, x) => Math.max(most, x), 0) - low;
  if (high === 0) throw new Error(BLANK);
  let [left, top, right, bottom] = [width, height, 0, 0];
  data.forEach((x, p) => {
    if (x - low <= INK_LEVEL * high) return;
    const [row, column] = [Math.floor(p / width), p % width];
    [left, right] = [Math.min(left, column), Math.max(right, column + 1)];
    [top, bottom] = [Math.min(top, row), Math.max(bottom, row + 1)];
  });
  const side = Math.max(1, roundEven(share * size));
  const boxes = planes.map((plane) => scaled(cropped(plane, left, top, right, bottom), side));
  const mass = brightness(boxes);
  const total = mass.data.reduce((sum, x) => sum + x, 0);
  if (total === 0) throw new Error(BLANK); // specks too faint to outlive the scaling
  /** @type {(length: number, at: (p: number) => number) => number} */
  const corner = (length, at) => {
    const middle = mass.data.reduce((sum, x, p) => sum + x * at(p), 0) / total;
    // MNIST's digits have their centre of mass at pixel 14 of 28.
    return Math.min(Math.max(Math.floor(size / 2 - middle + 0.5), 0), size - length);
  };
  const x = corner(mass.width, (p) => p % mass.width);
  const y = corner(mass.height, (p) => Math.floor(p / mass.width));
  return boxes.map((box) => pasted(box, size, x, y));
}

/** @type {(plane: Plane, left: number, top: number, right: number, bottom: number) => Plane} */
function cropped({ data, width }, left, top, right, bottom) {
  const out = new Uint8Array((right - left) * (bottom - top));
  for (let y = top; y < bottom; y++)
    out.set(data.subarray(y * width + left, y * width + right), (y - top) * (right - left));
  return { data: out, width: right - left, height: bottom - top };
}
