// Pictures and maps of numbers on canvases.

/** @import { Colour, Scale, Shape } from "./types.js" */

import { byId, h } from "./dom.js";

const BLUES = ["#0d1422", "#17406b", "#56b4e9", "#f2faff"];
const ORANGES = ["#1c130a", "#7a4a06", "#e69f00", "#fff4d9"];
const SHARES = ["#d4eefd", "#56b4e9", "#1d4468", "#1a1c22", "#714506", "#e69f00", "#fff4d9"];
/** @type {Colour} */
export const FIRST = [230, 159, 0];
/** @type {Colour} */
export const SECOND = [86, 180, 233];

/** What draws on a canvas. @param {HTMLCanvasElement} canvas */
export const penOf = (canvas) => /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));

/**
 * Paint picture n of bytes [N, C, H, W] on a canvas, one pixel for each of its pixels.
 * @param {HTMLCanvasElement} canvas
 * @param {Uint8Array} bytes
 * @param {Shape} shape
 */
export function paint(canvas, bytes, [C, H, W], n = 0) {
  canvas.width = W;
  canvas.height = H;
  penOf(canvas).putImageData(picture(bytes, [C, H, W], n), 0, 0);
}

/**
 * A small copy of the input or the reconstruction, for a panel that is far from its column.
 * @param {"input" | "reconstruction"} id
 */
export const miniature = (id) =>
  h("canvas", { class: "mini", "data-of": id, "aria-hidden": "true" });

/** Bring all small copies up to date. */
export function refreshMiniatures() {
  /** @type {NodeListOf<HTMLCanvasElement>} */
  const copies = document.querySelectorAll("canvas.mini");
  for (const copy of copies) {
    const canvas = byId(/** @type {"input" | "reconstruction"} */ (copy.dataset.of));
    Object.assign(copy, { width: canvas.width, height: canvas.height });
    if (canvas.width && canvas.height) penOf(copy).drawImage(canvas, 0, 0);
  }
}

/**
 * Paint pictures of bytes [N, C, H, W] side by side.
 * @param {HTMLCanvasElement} canvas
 * @param {Uint8Array} bytes
 * @param {Shape} shape
 * @param {number} count
 */
export function paintStrip(canvas, bytes, [C, H, W], count, start = 0) {
  canvas.width = W * count;
  canvas.height = H;
  const pen = penOf(canvas);
  for (let n = 0; n < count; n++) {
    pen.putImageData(picture(bytes, [C, H, W], start + n), n * W, 0);
  }
}

/** @type {(bytes: Uint8Array, shape: Shape, n: number) => ImageData} */
function picture(bytes, [C, H, W], n) {
  const image = new ImageData(W, H);
  const plane = H * W;
  for (let p = 0; p < plane; p++) {
    for (let k = 0; k < 3; k++) {
      image.data[4 * p + k] = bytes[n * C * plane + (C === 3 ? k : 0) * plane + p];
    }
    image.data[4 * p + 3] = 255;
  }
  return image;
}

/**
 * Paint grey pictures over each other, each in its own colour.
 * @param {HTMLCanvasElement} canvas
 * @param {[bytes: Uint8Array, rgb: Colour][]} layers
 * @param {Shape} shape
 */
export function paintColours(canvas, layers, [, H, W]) {
  canvas.width = W;
  canvas.height = H;
  const image = new ImageData(W, H);
  for (let p = 0; p < H * W; p++) {
    for (let k = 0; k < 3; k++) {
      const light = layers.reduce((sum, [bytes, rgb]) => sum + (bytes[p] / 255) * rgb[k], 0);
      image.data[4 * p + k] = Math.min(255, light);
    }
    image.data[4 * p + 3] = 255;
  }
  penOf(canvas).putImageData(image, 0, 0);
}

const CELL = 6;
const GAP = 4;
const SHADE = "#07090eb0"; // over what is not pointed at

/** The map of all primary capsules: one tile for each type, one square for each position. */
export class CapsuleMap {
  grid = /** @type {Shape | null} */ (null); // rows, columns and types, once it is painted
  across = 1; // tiles side by side

  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
  }

  /**
   * Paint values [I] in the colours of a scale, see below; beside a lit type all others are dark.
   * @param {Float32Array} values
   * @param {Shape} grid
   * @param {Scale} scale
   */
  paint(values, grid, scale, marked = -1, litType = -1) {
    const [rows, columns, types] = grid;
    this.grid = grid;
    this.across = Math.ceil(Math.sqrt(types));
    const down = Math.ceil(types / this.across);
    this.canvas.width = this.across * (columns * CELL + GAP) - GAP;
    this.canvas.height = down * (rows * CELL + GAP) - GAP;
    const pen = penOf(this.canvas);
    for (let i = 0; i < values.length; i++) {
      pen.fillStyle = scale(values[i]);
      pen.fillRect(...this.corner(grid, i), CELL, CELL);
    }
    pen.fillStyle = SHADE;
    for (let type = 0; type < types && litType >= 0; type++) {
      if (type !== litType) pen.fillRect(...this.corner(grid, type), columns * CELL, rows * CELL);
    }
    if (marked < 0 || marked >= values.length) return;
    const [x, y] = this.corner(grid, marked);
    for (const [lineWidth, strokeStyle] of [
      [6, "#000000"], // so that the mark is seen beside bright squares too
      [2, "#ffffff"],
    ]) {
      Object.assign(pen, { lineWidth, strokeStyle });
      pen.strokeRect(x - 2, y - 2, CELL + 4, CELL + 4);
    }
  }

  /** @type {(grid: Shape, i: number) => [x: number, y: number]} */
  corner([rows, columns, types], i) {
    const type = i % types;
    const column = Math.floor(i / types) % columns;
    const row = Math.floor(i / types / columns);
    return [
      (type % this.across) * (columns * CELL + GAP) + column * CELL,
      Math.floor(type / this.across) * (rows * CELL + GAP) + row * CELL,
    ];
  }

  /** The capsule under a mouse event; -1 if there is none. @param {MouseEvent} event */
  at(event) {
    if (!this.grid) return -1;
    const box = this.canvas.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * this.canvas.width;
    const y = ((event.clientY - box.top) / box.height) * this.canvas.height;
    const [rows, columns, types] = this.grid;
    const type =
      Math.floor(y / (rows * CELL + GAP)) * this.across + Math.floor(x / (columns * CELL + GAP));
    const row = Math.floor((y % (rows * CELL + GAP)) / CELL);
    const column = Math.floor((x % (columns * CELL + GAP)) / CELL);
    const inside = row >= 0 && row < rows && column >= 0 && column < columns;
    return inside && type >= 0 && type < types ? (row * columns + column) * types + type : -1;
  }
}

/** Blue for lengths from 0 to 1. */
export const lengthScale = blend(BLUES);

/**
 * Orange for amounts; everything from `high` on has the brightest colour.
 * @type {(high: number) => Scale}
 */
export function amountScale(high) {
  const colour = blend(ORANGES);
  return (value) => colour(value / (high || 1));
}

/**
 * Orange for more than an even share, blue for less; `factor` times more or less is brightest.
 * @type {(even: number, factor: number) => Scale}
 */
export function shareScale(even, factor) {
  const colour = blend(SHARES);
  return (value) => colour((Math.log(Math.max(value, 1e-12) / even) / Math.log(factor) + 1) / 2);
}

/** The colours of shareScale and of lengthScale for a legend. */
export const shareColours = `linear-gradient(to right, ${SHARES.join()})`;
export const lengthColours = `linear-gradient(to right, ${BLUES.join()})`;

/** The value that all but a hundredth of the values stay below. @param {Float32Array} values */
export function almostAll(values) {
  const sorted = Float32Array.from(values).sort();
  return sorted[Math.floor(0.99 * (sorted.length - 1))];
}

/** From 0..1 to colours, even between the given ones. @type {(colours: string[]) => Scale} */
function blend(colours) {
  const stops = colours.map((hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16)));
  return (value) => {
    const place = Math.min(0.9999, Math.max(0, value)) * (stops.length - 1);
    const [low, high] = [stops[Math.floor(place)], stops[Math.floor(place) + 1]];
    const mixed = low.map((x, k) => Math.round(x + (high[k] - x) * (place % 1)));
    return `rgb(${mixed})`;
  };
}
