// Ink on paper as MNIST has it, by the rules of capsnet/pictures/ink.py: bright strokes on black,
// whatever the paper, the light and the pen.

/** @import { Plane } from "./resize.js" */

import { roundEven } from "./pixels.js";
import { BICUBIC, BOX, resize } from "./resize.js";

/** @typedef {Plane<Float32Array>} Field */
/** @typedef {(a: number, b: number) => number} Pick */
/** @typedef {[first: number, end: number]} Span */

const WORK_SIDES = [192, 256]; // of the picture in which ink is looked for
const SMALL_INK = 96; // ink smaller than this in it is looked at again from nearer
const WINDOW = 1 / 4; // of the longer side: strokes are narrower, shadows are wider
const LEAST_CONTRAST = 0.06; // of white, between paper and ink
const LEAST_SIGNAL = 6; // times the noise of the paper
const STROKES = [0.09, 0.16]; // width of a stroke over the height of the ink: nearly all of MNIST's

/** Whether a picture is bright ink on black already: its rim is black. @param {Plane} grey */
export function isClean({ data, width, height }) {
  let [rim, dark, black] = [0, 0, 0];
  data.forEach((x, p) => {
    const [row, column] = [Math.floor(p / width), p % width];
    const ends = [row === 0, row === height - 1, column === 0, column === width - 1];
    const sides = ends.filter(Boolean).length; // corners are on two
    rim += sides;
    if (x === 0) [dark, black] = [dark + sides, black + 1];
  });
  return dark / rim > 0.9 && black / data.length > 0.4 && data.some((x) => x > 0);
}

/** The ink of a grey picture, bright on black, cropped to its box; null if there is none. @param {Plane} grey @returns {Plane | null} */
export function findInk(grey) {
  const { width, height } = grey;
  const whole = { width, height, data: Float32Array.from(grey.data, (x) => x / 255) };
  let [top, left, bottom, right] = [0, 0, height, width];
  for (let look = 1; ; look++) {
    // Small ink on a large page is looked at from nearer.
    const { seen, scale } = sized(part(whole, [top, bottom], [left, right]));
    const ink = strokes(seen);
    if (!ink) return null;
    const [rows, columns] = box(ink);
    const side = Math.max(rows[1] - rows[0], columns[1] - columns[0]);
    if (side < SMALL_INK && scale > 1 && look < 3) {
      [top, bottom] = around(rows, side, scale, [top, bottom]);
      [left, right] = around(columns, side, scale, [left, right]);
      continue;
    }
    const even = evenStrokes(padded(part(ink, rows, columns), 1, false));
    return { ...even, data: Uint8Array.from(even.data, (x) => roundEven(x * 255)) };
  }
}

/** A picture whose longer side lies in WORK_SIDES, and how many pixels one of it was. @param {Field} grey */
function sized(grey) {
  const longer = Math.max(grey.width, grey.height);
  const wanted = Math.min(Math.max(longer, WORK_SIDES[0]), WORK_SIDES[1]);
  if (wanted === longer) return { seen: grey, scale: 1 };
  const scale = longer / wanted;
  const [width, height] = [grey.width, grey.height].map((x) => Math.max(1, roundEven(x / scale)));
  return { seen: resize(grey, width, height, scale > 1 ? BOX : BICUBIC), scale };
}

/** The span of ink in the whole picture, with as much paper on each side. @type {(span: Span, side: number, scale: number, whole: Span) => Span} */
const around = ([first, end], side, scale, whole) => [
  Math.max(whole[0], whole[0] + Math.trunc((first - side) * scale)),
  Math.min(whole[1], whole[0] + Math.ceil((end + side) * scale)),
];

/** @type {(field: Field, rows: Span, columns: Span) => Field} */
function part({ data, width }, rows, columns) {
  const out = new Float32Array((rows[1] - rows[0]) * (columns[1] - columns[0]));
  for (let y = rows[0]; y < rows[1]; y++) {
    const line = data.subarray(y * width + columns[0], y * width + columns[1]);
    out.set(line, (y - rows[0]) * line.length);
  }
  return { data: out, width: columns[1] - columns[0], height: rows[1] - rows[0] };
}

/** With a frame that goes on as the edge is, or is zero. @type {(field: Field, by: number, isEdge: boolean) => Field} */
function padded({ data, width, height }, by, isEdge) {
  const [W, H] = [width + 2 * by, height + 2 * by];
  const out = new Float32Array(W * H);
  for (let y = 0; y < H; y++) {
    const row = Math.min(height - 1, Math.max(0, y - by));
    if (!isEdge && row !== y - by) continue;
    for (let x = 0; x < W; x++) {
      const column = Math.min(width - 1, Math.max(0, x - by));
      if (isEdge || column === x - by) out[y * W + x] = data[row * width + column];
    }
  }
  return { data: out, width: W, height: H };
}

/** How much ink each pixel has, 0 to 1; null if there is none. @param {Field} seen @returns {Field | null} */
function strokes(seen) {
  const { width, height } = seen;
  const smooth = blurred(seen);
  if (isDarkOnLight(smooth)) smooth.data.forEach((x, p, all) => (all[p] = -x));
  const radius = Math.max(2, roundEven((WINDOW * Math.max(width, height)) / 2));
  const ground = opened(smooth, radius).data;
  const signal = smooth.data.map((x, p) => x - ground[p]);
  const some = signal.filter((_, p) => Math.floor(p / width) % 2 === 0 && (p % width) % 2 === 0);
  const middle = median(some);
  const noise = 1.4826 * median(some.map((x) => Math.abs(x - middle)));
  signal.forEach((x, p, all) => (all[p] = x - middle));
  const peak = signal.reduce((most, x) => Math.max(most, x), -Infinity);
  if (peak < Math.max(LEAST_CONTRAST, LEAST_SIGNAL * noise)) return null;
  const strong = signal.filter((x) => x > peak / 2);
  const contrast = strong.reduce((sum, x) => sum + x, 0) / strong.length;
  const line = Math.max(0.4 * contrast, 4 * noise);
  const keep = figure({ width, height, data: signal }, line);
  if (!keep) return null;
  const low = Math.max(0.2 * contrast, 3 * noise);
  const span = Math.max(0.8 * contrast - low, 1e-6);
  const near = slid(keep, 2, Math.max).data;
  const data = signal.map((x, p) => (near[p] ? Math.min(1, Math.max(0, (x - low) / span)) : 0));
  return { data, width, height };
}

/** @param {Float32Array} values */
function median(values) {
  const sorted = values.slice().sort();
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/** Smoothed by (1, 2, 1) / 4 in both directions. @param {Field} field @returns {Field} */
function blurred(field) {
  const { width, height } = field;
  const { data, width: W } = padded(field, 1, true);
  const down = new Float32Array(W * height);
  down.forEach((_, p) => (down[p] = (data[p] + 2 * data[p + W] + data[p + 2 * W]) / 4));
  const out = new Float32Array(width * height);
  out.forEach((_, p) => {
    const q = Math.floor(p / width) * W + (p % width);
    out[p] = (down[q] + 2 * down[q + 1] + down[q + 2]) / 4;
  });
  return { data: out, width, height };
}

/** Whether the strongest differences to a bent plane are dark ones. @param {Field} field */
function isDarkOnLight({ data, width, height }) {
  const step = Math.max(1, Math.floor(Math.max(height, width) / 64));
  const [rows, columns] = [Math.ceil(height / step), Math.ceil(width / step)];
  /** @type {(n: number, count: number) => number} */
  const along = (n, count) => (count > 1 ? -1 + (2 * n) / (count - 1) : -1);
  const points = Array.from({ length: rows * columns }, (_, n) => {
    const [y, x] = [Math.floor(n / columns), n % columns];
    const [v, u] = [along(y, rows), along(x, columns)];
    return { terms: [1, u, v, u * u, u * v, v * v], value: data[y * step * width + x * step] };
  });
  const plane = leastSquares(points);
  const rest = Float64Array.from(points, ({ terms, value }) =>
    terms.reduce((sum, term, k) => sum - term * plane[k], value),
  ).sort();
  return -quantile(rest, 0.002) > quantile(rest, 0.998);
}

/** @type {(sorted: Float64Array, share: number) => number} */
function quantile(sorted, share) {
  const place = share * (sorted.length - 1);
  const below = Math.floor(place);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - below);
}

/** The factors of the terms that come nearest to the values. @param {{ terms: number[], value: number }[]} points */
function leastSquares(points) {
  const size = points[0].terms.length;
  const rows = Array.from({ length: size }, () => new Float64Array(size + 1));
  for (const { terms, value } of points) {
    terms.forEach((a, k) => {
      terms.forEach((b, n) => (rows[k][n] += a * b));
      rows[k][size] += a * value;
    });
  }
  const most = Math.max(...rows.map((row, k) => row[k]));
  for (let k = 0; k < size; k++) {
    const pivot = rows
      .slice(k)
      .reduce((best, row) => (Math.abs(row[k]) > Math.abs(best[k]) ? row : best));
    const at = rows.indexOf(pivot);
    [rows[k], rows[at]] = [rows[at], rows[k]];
    if (Math.abs(rows[k][k]) < 1e-12 * most) continue; // a term that says nothing: a thin picture
    rows.forEach((row, n) => {
      if (n === k) return;
      const factor = row[k] / rows[k][k];
      row.forEach((x, m) => (row[m] = x - factor * rows[k][m]));
    });
  }
  return rows.map((row, k) => (Math.abs(row[k]) < 1e-12 * most ? 0 : row[size] / row[k]));
}

/** Without what is brighter than all around it within the radius. @type {(field: Field, radius: number) => Field} */
function opened(field, radius) {
  const wide = padded(field, 2 * radius, true);
  return windowed(windowed(wide, radius, Math.min), radius, Math.max);
}

/** The least or largest of the square of neighbours around each pixel. @type {(field: Field, radius: number, pick: Pick) => Field} */
const slid = (field, radius, pick) => windowed(padded(field, radius, true), radius, pick);

/** The least or largest of a square, where all of it is there. @type {(field: Field, radius: number, pick: Pick) => Field} */
function windowed(field, radius, pick) {
  for (const isDown of [true, false]) {
    const width = 2 * radius + 1;
    for (let span = 1; span < width;) {
      const step = Math.min(span, width - span);
      field = paired(field, step, isDown, pick);
      span += step;
    }
  }
  return field;
}

/** Each with the one some steps further. @type {(field: Field, step: number, isDown: boolean, pick: Pick) => Field} */
function paired({ data, width, height }, step, isDown, pick) {
  const [W, H] = isDown ? [width, height - step] : [width - step, height];
  const out = new Float32Array(W * H);
  const further = isDown ? step * width : step;
  for (let y = 0; y < H; y++) {
    for (let x = 0; x < W; x++) {
      const p = y * width + x;
      out[y * W + x] = pick(data[p], data[p + further]);
    }
  }
  return { data: out, width: W, height: H };
}

/** The part above a line that is the drawing, as ones: its largest piece and those near it. @type {(signal: Field, line: number) => Field | null} */
function figure({ data, width, height }, line) {
  const found = pieces(data, width, height, line);
  if (!found.length) return null;
  const worth = found.map(({ mass, top, left, bottom, right }) => {
    const [tall, broad] = [bottom - top + 1, right - left + 1];
    const isRuling =
      (broad > 0.9 * width && tall < 0.15 * height) ||
      (tall > 0.9 * height && broad < 0.15 * width);
    const touches = !top || !left || bottom === height - 1 || right === width - 1;
    return mass * (isRuling ? 0.02 : touches ? 0.2 : 1);
  });
  const first = worth.indexOf(Math.max(...worth));
  const main = found[first];
  const side = Math.max(main.bottom - main.top + 1, main.right - main.left + 1);
  const out = new Float32Array(data.length);
  found.forEach((piece, n) => {
    const gap = Math.max(
      main.top - piece.bottom,
      piece.top - main.bottom,
      main.left - piece.right,
      piece.left - main.right,
    );
    if (n !== first && !(gap < 0.35 * side && worth[n] > 0.02 * worth[first])) return;
    for (const p of piece.pixels) out[p] = 1;
  });
  return { data: out, width, height };
}

/** The connected pieces above a line (eight neighbours), their mass and box. @type {(data: Float32Array, width: number, height: number, line: number) => { pixels: number[], mass: number, top: number, left: number, bottom: number, right: number }[]} */
function pieces(data, width, height, line) {
  const taken = new Uint8Array(data.length);
  const found = [];
  for (let start = 0; start < data.length; start++) {
    if (taken[start] || !(data[start] > line)) continue;
    const piece = { pixels: [start], mass: 0, top: height, left: width, bottom: 0, right: 0 };
    taken[start] = 1;
    for (let n = 0; n < piece.pixels.length; n++) {
      const p = piece.pixels[n];
      const [row, column] = [Math.floor(p / width), p % width];
      piece.mass += data[p];
      piece.top = Math.min(piece.top, row);
      piece.left = Math.min(piece.left, column);
      piece.bottom = Math.max(piece.bottom, row);
      piece.right = Math.max(piece.right, column);
      for (let y = Math.max(0, row - 1); y <= Math.min(height - 1, row + 1); y++) {
        for (let x = Math.max(0, column - 1); x <= Math.min(width - 1, column + 1); x++) {
          const q = y * width + x;
          if (taken[q] || !(data[q] > line)) continue;
          taken[q] = 1;
          piece.pixels.push(q);
        }
      }
    }
    found.push(piece);
  }
  return found;
}

/** The rows and the columns that hold ink. @param {Field} ink @returns {[Span, Span]} */
function box({ data, width, height }) {
  /** @type {[Span, Span]} */
  const [rows, columns] = [
    [height, 0],
    [width, 0],
  ];
  data.forEach((x, p) => {
    if (x <= 0.1) return;
    const [row, column] = [Math.floor(p / width), p % width];
    [rows[0], rows[1]] = [Math.min(rows[0], row), Math.max(rows[1], row + 1)];
    [columns[0], columns[1]] = [Math.min(columns[0], column), Math.max(columns[1], column + 1)];
  });
  return [rows, columns];
}

/** The mean width of the strokes of ink, in pixels: 2 area / rim. @param {Field} ink */
function strokeWidth(ink) {
  const { data, width } = padded(ink, 1, false);
  let [area, rim] = [0, 0];
  data.forEach((x, p) => {
    area += x;
    if ((p + 1) % width) rim += Math.abs(data[p + 1] - x);
    if (p + width < data.length) rim += Math.abs(data[p + width] - x);
  });
  return (2 * area) / Math.max((rim * Math.PI) / 4, 1e-6);
}

/** Ink whose strokes are as wide as MNIST's: grown or shrunk where they are not. @param {Field} ink @returns {Field} */
function evenStrokes(ink) {
  const side = Math.max(ink.width, ink.height);
  const width = strokeWidth(ink);
  const wanted = Math.min(Math.max(width, STROKES[0] * side), STROKES[1] * side);
  const radius = roundEven(Math.abs(wanted - width) / 2);
  if (radius === 0) return ink;
  if (wanted > width) return slid(padded(ink, radius, false), radius, Math.max);
  const thin = slid(ink, radius, Math.min);
  return thin.data.some((x) => x > 0.5) ? thin : ink;
}
