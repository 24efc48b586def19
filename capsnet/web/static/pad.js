// The pad: strokes of the visitor's pen, over a picture or on black, as a list that can be undone.

/** @import { Pad, Shape } from "./types.js" */

import { byId } from "./dom.js";
import { paint, penOf } from "./draw.js";

const SIDE = 280; // of the canvas that is drawn on, in its own pixels
const PEN = 22;

export const canvas = document.createElement("canvas"); // no width while nothing is drawn
canvas.width = 0;
let pad = /** @type {Pad | null} */ (null);

/** What is on the pad; another object after every stroke that is begun. */
export const padOf = () => pad;

/** Forget the strokes. */
export function emptyPad() {
  pad = null;
  canvas.width = 0;
}

/** Put on the pad what was there before. @param {Pad} before */
export function putPad(before) {
  pad = before;
  clear(before);
  for (const { colour, points } of before.strokes) {
    begin(points[0], colour);
    points.forEach(draw);
  }
}

/**
 * Begin a stroke; the first one on the visitor's own picture where there is one, else on black.
 * @param {PointerEvent} event
 * @param {{ bytes: Uint8Array, shape: Shape } | null} under
 * @param {string} colour
 */
export function beginStroke(event, under, colour) {
  if (!pad) clear((pad = { under, strokes: [] }));
  pad = { under: pad.under, strokes: [...pad.strokes, { colour, points: [] }] };
  begin(pointOf(event), colour);
}

/** @param {PointerEvent} event */
export function stroke(event) {
  const point = pointOf(event);
  pad?.strokes.at(-1)?.points.push(point);
  draw(point);
}

/** Show the strokes as they were made; the network gets them at its own size. */
export function showPad() {
  const shown = byId("input");
  shown.width = shown.height = SIDE;
  penOf(shown).drawImage(canvas, 0, 0);
}

/** @param {Pad} before */
function clear({ under }) {
  canvas.width = canvas.height = SIDE;
  const pen = penOf(canvas);
  if (under) {
    const picture = document.createElement("canvas");
    paint(picture, under.bytes, under.shape);
    pen.drawImage(picture, 0, 0, SIDE, SIDE);
  } else pen.fillRect(0, 0, SIDE, SIDE);
  Object.assign(pen, { lineWidth: PEN, lineCap: "round", lineJoin: "round" });
}

/** @param {[number, number]} point @param {string} colour */
function begin([x, y], colour) {
  const pen = penOf(canvas);
  pen.strokeStyle = colour;
  pen.beginPath();
  pen.moveTo(x, y);
}

/** @param {[number, number]} point */
function draw([x, y]) {
  const pen = penOf(canvas);
  pen.lineTo(x + 0.1, y); // a touch without a move leaves a dot
  pen.stroke();
}

/** @type {(event: PointerEvent) => [x: number, y: number]} */
function pointOf(event) {
  const box = byId("input").getBoundingClientRect();
  return [
    ((event.clientX - box.left) / box.width) * SIDE,
    ((event.clientY - box.top) / box.height) * SIDE,
  ];
}
