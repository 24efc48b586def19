// A pad for one small grey picture: it shows one, and what is drawn on it with mouse or finger.

/** @import { Shape } from "./types.js" */

import { h } from "./dom.js";
import { paint, penOf } from "./draw.js";

const BLOCK = 10; // pixels of the pad for each pixel of the picture, to a side
const PEN = 2.4; // pixels of the picture that a stroke is wide

/**
 * A pad; `onDraw` is told the picture after each stroke, as bytes [H, W].
 * @param {string} label
 * @param {Shape} shape
 * @param {(bytes: Uint8Array) => void} onDraw
 */
export function drawingPad(label, [, H, W], onDraw) {
  const canvas = h("canvas", { class: "pad", role: "img", "aria-label": label, "data-tip": label });
  const pen = penOf(canvas);
  let own = false; // whether strokes add to what is shown, or begin anew
  let drawing = false;
  let box = canvas.getBoundingClientRect(); // where the pad was when the stroke began

  /** @type {(event: PointerEvent) => [x: number, y: number]} */
  const at = (event) => {
    return [
      ((event.clientX - box.left) / box.width) * canvas.width,
      ((event.clientY - box.top) / box.height) * canvas.height,
    ];
  };
  /** @param {PointerEvent} event */
  const stroke = (event) => {
    if (!drawing) return;
    const [x, y] = at(event);
    pen.lineTo(x + 0.1, y); // a touch without a move leaves a dot
    pen.stroke();
    onDraw(centred(shrunk(pen.getImageData(0, 0, canvas.width, canvas.height).data, H, W), H, W));
  };
  const clear = () => {
    canvas.width = W * BLOCK;
    canvas.height = H * BLOCK;
    pen.fillRect(0, 0, canvas.width, canvas.height);
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    event.preventDefault();
    canvas.setPointerCapture(event.pointerId);
    box = canvas.getBoundingClientRect();
    if (!own) clear();
    own = drawing = true;
    Object.assign(pen, { lineCap: "round", lineJoin: "round", strokeStyle: "#fff" });
    pen.lineWidth = PEN * BLOCK;
    pen.beginPath();
    pen.moveTo(...at(event));
    stroke(event);
  });
  canvas.addEventListener("pointermove", stroke);
  for (const name of ["pointerup", "pointercancel"])
    canvas.addEventListener(name, () => (drawing = false));

  return {
    canvas,
    /** Show a picture; strokes are added to it if it is the visitor's own. @type {(bytes: Uint8Array, isOwn: boolean) => void} */
    show(bytes, isOwn) {
      if (isOwn && own) return; // its strokes are on the pad already
      own = isOwn;
      const small = h("canvas");
      paint(small, bytes, [1, H, W]);
      clear();
      pen.drawImage(small, 0, 0, canvas.width, canvas.height);
    },
    /** Begin anew. */
    clear() {
      own = true;
      clear();
    },
  };
}

/**
 * The mean of each block of the pad.
 * @type {(data: Uint8ClampedArray, H: number, W: number) => Uint8Array}
 */
function shrunk(data, H, W) {
  const sums = new Float64Array(H * W);
  for (let y = 0; y < H * BLOCK; y++) {
    for (let x = 0; x < W * BLOCK; x++) {
      sums[Math.floor(y / BLOCK) * W + Math.floor(x / BLOCK)] += data[4 * (y * W * BLOCK + x)];
    }
  }
  return Uint8Array.from(sums, (sum) => sum / BLOCK ** 2);
}

/**
 * The picture with its centre of mass in the middle, as the digits of MNIST have it.
 * @type {(bytes: Uint8Array, H: number, W: number) => Uint8Array}
 */
export function centred(bytes, H, W) {
  let [mass, across, down] = [0, 0, 0];
  bytes.forEach((light, p) => {
    mass += light;
    across += light * (p % W);
    down += light * Math.floor(p / W);
  });
  if (!mass) return bytes;
  const [right, below] = [Math.round(W / 2 - across / mass), Math.round(H / 2 - down / mass)];
  return bytes.map((_, p) => {
    const [x, y] = [(p % W) - right, Math.floor(p / W) - below];
    return x >= 0 && x < W && y >= 0 && y < H ? bytes[y * W + x] : 0;
  });
}
