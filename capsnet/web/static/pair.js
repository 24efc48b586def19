// The two digits of Overlap: from the test images or drawn, each in its place; and moved by hand.

/** @import { NetCard } from "./types.js" */

import { byId } from "./dom.js";
import { scene } from "./scene.js";
import { packImage, state, unpackImage } from "./state.js";

/** A digit: its pixels [height, width], its class (-1: drawn, nobody knows), its test image or -1. */
/** @typedef {{ bytes: Uint8Array, label: number, number: number }} Digit */

const FINGER = 5; // pixels from the ink at which a press still takes a digit
const BETWEEN = "."; // the drawings of the two digits in the address

/** The drawing of a digit that the address holds; null if it is a test image. @param {number} k */
export function drawnDigit(k) {
  const [, height, width] = scene.info.digits.image_shape;
  const packed = state.own.split(BETWEEN)[k];
  const bytes = packed ? unpackImage(packed, height * width) : null;
  return bytes && { bytes, label: -1, number: -1 };
}

/** The address's word for both drawings once digit k is another. @type {(k: number, bytes: Uint8Array | null) => string} */
export function packDrawn(k, bytes) {
  const parts = [0, 1].map((n) => state.own.split(BETWEEN)[n] ?? "");
  parts[k] = bytes ? packImage(bytes) : "";
  return parts.some((part) => part) ? parts.join(BETWEEN) : "";
}

/** Where the upper left corner of a digit is on the canvas: its x and y. @param {number} k */
function corner(k) {
  const [, H, W] = scene.info.overlap.image_shape;
  const [, height, width] = scene.info.digits.image_shape;
  return [
    Math.floor((W - width) / 2) + state.place[2 * k],
    Math.floor((H - height) / 2) + state.place[2 * k + 1],
  ];
}

/** Digit k moved to its place on the canvas. @type {(digit: Digit, k: number) => Uint8Array} */
export function placed(digit, k) {
  const [, H, W] = scene.info.overlap.image_shape;
  const [, height, width] = scene.info.digits.image_shape;
  const out = new Uint8Array(H * W);
  const [left, top] = corner(k);
  for (let y = Math.max(0, -top); y < height && y + top < H; y++) {
    for (let x = Math.max(0, -left); x < width && x + left < W; x++) {
      out[(y + top) * W + x + left] = digit.bytes[y * width + x];
    }
  }
  return out;
}

/**
 * Which of the two found digits is the first one: by their classes, or where nobody knows these, by
 * what is drawn where.
 * @type {(digits: Digit[], drawn: number[], pictures: Uint8Array[], layers: Uint8Array[]) => number[]}
 */
export function orderOf(digits, drawn, pictures, layers) {
  const labels = digits.map((digit) => digit.label);
  if (!labels.includes(-1))
    return drawn[0] === labels[1] || drawn[1] === labels[0] ? [1, 0] : [0, 1];
  /** @type {(n: number, k: number) => number} */
  const common = (n, k) => layers[k].reduce((sum, light, p) => sum + light * pictures[n][p], 0);
  return common(0, 1) + common(1, 0) > common(0, 0) + common(1, 1) ? [1, 0] : [0, 1];
}

/**
 * Let the mouse or a finger move the digit whose ink is nearest; far from both there is none.
 * @param {AbortSignal} signal
 * @param {Digit[]} digits
 * @param {NetCard} card
 * @param {(k: number, axis: number, pixels: number) => void} move
 */
export function dragDigits(signal, digits, card, move) {
  const canvas = byId("input");
  const [, H, W] = card.image_shape;
  const [, , width] = scene.info.digits.image_shape;
  let held = /** @type {{ k: number, right: number, down: number } | null} */ (null);
  /** @type {(event: PointerEvent) => [x: number, y: number]} */
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [
      ((event.clientX - box.left) / box.width) * W,
      ((event.clientY - box.top) / box.height) * H,
    ];
  };
  /**
   * How far a place is from the ink of a digit, in pixels; faint ink counts as further away.
   * @type {(k: number, place: [x: number, y: number]) => number}
   */
  const distance = (k, [x, y]) => {
    const [left, top] = corner(k);
    return digits[k].bytes.reduce((least, light, p) => {
      if (!light) return least;
      const right = x - left - (p % width) - 0.5;
      const down = y - top - Math.floor(p / width) - 0.5;
      return Math.min(least, Math.hypot(right, down) + 1 - light / 255);
    }, Infinity);
  };
  const options = { signal };
  canvas.classList.add("draggable");
  signal.addEventListener("abort", () => canvas.classList.remove("draggable"));
  canvas.addEventListener(
    "pointerdown",
    (event) => {
      if (event.button) return;
      const [x, y] = at(event);
      const far = [0, 1].map((n) => distance(n, [x, y]));
      const k = far[1] < far[0] ? 1 : 0;
      if (far[k] > FINGER) return;
      held = { k, right: x - state.place[2 * k], down: y - state.place[2 * k + 1] };
      canvas.setPointerCapture(event.pointerId);
      event.preventDefault();
    },
    options,
  );
  canvas.addEventListener(
    "pointermove",
    (event) => {
      if (!held) return;
      const [x, y] = at(event);
      move(held.k, 0, x - held.right);
      move(held.k, 1, y - held.down);
    },
    options,
  );
  for (const name of ["pointerup", "pointercancel"])
    canvas.addEventListener(name, () => (held = null), options);
}
