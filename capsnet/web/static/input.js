// The input column: pick a test image, draw one with mouse or finger, or drop a picture file.

/** @import { Kind, Pad, Sample, Source } from "./types.js" */

import { latest, readPicture, toBytes } from "./api.js";
import { byId, h, say } from "./dom.js";
import { paint, penOf } from "./draw.js";
import { mistakesList } from "./mistakes.js";
import { beginStroke, canvas as pad, emptyPad, padOf, putPad, showPad, stroke } from "./pad.js";
import { samplesOf } from "./samples.js";
import { scene } from "./scene.js";
import { linkHoldsAll, packImage, state, unpackImage } from "./state.js";
import { beginStep } from "./undo.js";

const MAX_FILE = 30; // MB
const MOST_SHOWN = 20; // test images at once

let drawing = false;
let ink = "#ffffff"; // what strokes are drawn in; another one for networks that see colours
// The last picture that is too large for the address.
let large = /** @type {Uint8Array | null} */ (null);
let page = 0;
let asItIs = false; // whether a file is only scaled, and no ink is looked for on it
let opened = /** @type {File | null} */ (null); // the file that is shown
let choices = 0; // how often another picture was chosen: strokes and files from before are dropped

/** Let the visitor draw and drop pictures. */
export function startInput() {
  const canvas = byId("input");
  canvas.addEventListener("pointerdown", startStroke);
  canvas.addEventListener("pointermove", goOn);
  for (const name of ["pointerup", "pointercancel"])
    canvas.addEventListener(name, () => (drawing = false));
  addEventListener("dragover", keepPage);
  addEventListener("drop", (event) => {
    keepPage(event);
    const file = event.dataTransfer?.files[0];
    if (file && takesPictures()) open(file);
    else if (file) say("Overlap lays digits over each other: drop your picture in another mode.");
  });
  addEventListener("popstate", () => {
    scene.next = null;
    if (isTaken()) return;
    choices += 1;
    endDrawing();
  });
}

/** Whether the picture of the address is the one shown; it is not after the Back button. */
export const isTaken = () =>
  scene.source !== null &&
  scene.source.image === state.image &&
  (state.image !== "" || scene.source.sample === state.sample);

/** Take the picture of the address. */
export const takeLinked = latest(async () => {
  const { classes, image_shape: shape } = scene.info.capsnet;
  const size = shape.reduce((product, side) => product * side);
  const choice = choices;
  page = Math.floor(state.sample / classes.length);
  const samples = await samplesOf("samples", page);
  if (choice !== choices || isTaken()) return scene.again(); // something else was chosen since
  const own = state.image && (linkHoldsAll() ? unpackImage(state.image, size) : large);
  const chosen = samples.find((sample) => sample.number === state.sample) ?? samples[0];
  if (!linkHoldsAll() && !own)
    say("The picture of this link is too large for a link: open its file here once more.");
  else if (state.image && !own)
    say("The picture of this link has not the size that this model takes; it is not shown.", true);
  if (own) await scene.take(own, {}, true);
  else if (chosen) {
    const kept = !state.image && chosen.number === state.sample;
    await scene.take(toBytes(chosen.image), { sample: chosen.number, image: "" }, kept);
  } else await scene.take(new Uint8Array(size), { image: "" }, true);
});

/** Whether the mode looks at a picture of the visitor's choice; Overlap makes its own. */
const takesPictures = () => state.mode !== "overlap";

/** Do not let the browser show a dropped file instead of this page. @param {DragEvent} event */
function keepPage(event) {
  if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
}

/**
 * Show the tools; drawing is possible while they are shown and `canDraw`.
 * @param {boolean} canDraw
 */
export async function showInputTools(canDraw) {
  byId("input").classList.toggle("drawable", canDraw);
  if (!canDraw || !pad.width) endDrawing();
  const shelf = emptyShelf("Test images");
  /** @type {HTMLInputElement} */
  const file = h("input", {
    type: "file",
    accept: "image/*",
    class: "hidden",
    onchange: () => {
      if (file.files?.[0]) open(file.files[0]);
      file.value = ""; // so that the same file can be opened again
    },
  });
  const { has_samples: hasSamples } = scene.info;
  const parts = [
    hasSamples
      ? shelf
      : h(
          "p",
          { class: "note" },
          "The test images of this model are not on this machine: draw or open a picture.",
        ),
    h(
      "div",
      { class: "buttons" },
      hasSamples
        ? h("button", { type: "button", onclick: () => fill(shelf, page + 1) }, "Others")
        : null,
      h("button", { type: "button", onclick: () => file.click() }, "Open file"),
      canDraw ? h("button", { type: "button", onclick: clear }, "Clear") : null,
      canDraw && scene.info.capsnet.image_shape[0] === 3 ? inkChoice() : null,
    ),
    file,
    scene.info.capsnet.reads_digits ? paperChoice() : null,
    scene.info.num_mistakes ? mistakesList(takeSample) : null,
  ];
  byId("input-tools").replaceChildren(...parts.filter((part) => part !== null));
  if (hasSamples) await fill(shelf, page);
}

/** The colour of the pen. */
function inkChoice() {
  /** @type {HTMLInputElement} */
  const colour = h("input", {
    type: "color",
    value: ink,
    "aria-label": "Colour of the pen",
    oninput: () => (ink = colour.value),
  });
  return h("label", { class: "ink", "data-tip": "The colour that you draw in" }, "Pen", colour);
}

/** A choice for networks of digits: the ink of a photo is found, or a file is taken as it is. */
function paperChoice() {
  /** @type {HTMLInputElement} */
  const box = h("input", {
    type: "checkbox",
    checked: asItIs,
    onchange: () => {
      asItIs = box.checked;
      if (opened) open(opened);
    },
  });
  const tip =
    "Files are only scaled. Otherwise the ink is found on the paper, whatever its colour and light, and placed as in training.";
  return h("label", { class: "as-is", "data-tip": tip }, box, "Take files as they are");
}

/** Show one page of test images in a shelf. @param {HTMLElement} shelf @param {number} number */
async function fill(shelf, number) {
  const samples = await samplesOf("samples", number);
  page = number;
  shelf.replaceChildren(
    ...samples.map((sample) => sampleButton(sample, scene.info.capsnet, takeSample)),
  );
  press(shelf, state.image ? -1 : state.sample);
}

/** A shelf as high as it will be once its test images are there. @param {string} label */
export function emptyShelf(label) {
  const shelf = h("div", { class: "shelf", role: "group", "aria-label": label });
  const count = Math.min(MOST_SHOWN, scene.info.capsnet.classes.length);
  shelf.style.setProperty("--rows", String(Math.ceil(count / 5)));
  return shelf;
}

/** Mark the test image of a shelf that is taken. @param {Element} shelf @param {number} number */
export function press(shelf, number) {
  for (const button of shelf.querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(Number(button.dataset.number) === number));
  }
}

/**
 * A button with a small picture of a test image.
 * @param {Sample} sample
 * @param {Kind} kind
 * @param {(sample: Sample) => unknown} onTake
 */
export function sampleButton(sample, kind, onTake) {
  const canvas = h("canvas", { "aria-hidden": "true" });
  paint(canvas, toBytes(sample.image), kind.image_shape);
  const name = sample.said;
  return h(
    "button",
    {
      type: "button",
      class: "sample",
      "data-number": sample.number,
      "aria-label": `Test image of ${name}`,
      "data-tip": `Test image ${sample.number + 1}, a “${name}”`,
      onclick: () => onTake(sample),
    },
    canvas,
  );
}

/** Forget the strokes; the canvas shows what the network is given. */
export function endDrawing() {
  emptyPad();
  byId("seen").hidden = true;
  const canDraw = byId("input").classList.contains("drawable");
  byId("sub-input").textContent = `pick one below, ${canDraw ? "or draw here" : "then bend it"}`;
}

/** @param {Sample} sample */
function takeSample(sample) {
  choices += 1;
  opened = null;
  endDrawing();
  take(toBytes(sample.image), { sample: sample.number, image: "" });
}

/**
 * Look at a picture, with its test image marked at once; without an answer the old mark is back.
 * @param {Uint8Array} image
 * @param {Partial<Source>} patch
 */
async function take(image, patch, kept = false) {
  const shelf = document.querySelector("#input-tools .shelf");
  /** @param {Partial<Source>} choice */
  const number = (choice) => (choice.image ? -1 : (choice.sample ?? -1));
  if (shelf) press(shelf, number(patch));
  await scene.take(image, patch, kept);
  if (scene.image === image || scene.next) return;
  if (!pad.width) paint(byId("input"), scene.analysis.image, scene.card.image_shape);
  if (shelf) press(shelf, number(state));
}

function clear() {
  choices += 1;
  opened = null;
  endDrawing();
  takeOwn(new Uint8Array(scene.image.length), false);
}

/**
 * Take a picture of the visitor's own as a link gives it back: in 16 grey levels if it fits.
 * @param {Uint8Array} image
 * @param {boolean} kept
 */
async function takeOwn(image, kept) {
  const packed = packImage(image);
  const unpacked = unpackImage(packed, image.length);
  if (!unpacked) large = image;
  await take(unpacked ?? image, { image: packed }, kept);
}

/** @param {PointerEvent} event */
function startStroke(event) {
  const canvas = byId("input");
  if (event.button || !canvas.classList.contains("drawable")) return;
  beginStep();
  opened = null;
  canvas.setPointerCapture(event.pointerId);
  event.preventDefault();
  drawing = true;
  beginStroke(event, ownPicture(), ink);
  goOn(event);
}

/** The visitor's own picture: what was chosen counts though the network has not answered yet. */
function ownPicture() {
  const { image, patch } = scene.next ?? { image: scene.image, patch: state };
  const { image_shape: shape } = scene.info.capsnet;
  return (patch.image ?? state.image) ? { bytes: image, shape } : null;
}

/** @param {PointerEvent} event */
function goOn(event) {
  if (!drawing) return;
  stroke(event);
  sendPad(false);
}

/** Look at what is on the pad; `kept` says that the choices belong to it. @param {boolean} kept */
function sendPad(kept) {
  showPad();
  return send(pad, scene.info.capsnet.reads_digits ? "centre" : "", choices, kept);
}

/**
 * Bring picture, strokes and marks to what is chosen, after undo or redo.
 * @param {Pad | null} before what was on the pad
 */
export async function putBack(before) {
  choices += 1;
  opened = null;
  scene.next = null;
  if (before && (before !== padOf() || !isTaken())) {
    putPad(before);
    await sendPad(true);
  } else if (!before) endDrawing();
  if (!isTaken()) await takeLinked();
  else if (!before) paint(byId("input"), scene.analysis.image, scene.card.image_shape);
  const shelf = document.querySelector("#input-tools .shelf");
  if (shelf) press(shelf, state.image ? -1 : state.sample);
}

/**
 * Bring a canvas to the model's size and look at it.
 * @type {(canvas: HTMLCanvasElement, how: "" | "as_is" | "centre", choice: number, kept: boolean) => Promise<void>}
 */
const send = latest(async (canvas, how, choice, kept) => {
  if (choice !== choices || !canvas.width) return; // the pad is emptied when a drawing ends
  /** @type {Blob | null} */
  const png = await new Promise((done) => canvas.toBlob(done, "image/png"));
  if (!png) throw new Error("The browser could not make a picture of this.");
  const image = await readPicture(png, how);
  if (choice !== choices || !takesPictures()) return;
  await takeOwn(image, kept);
  if (!pad.width || !scene.plain) return;
  showPad();
  paint(byId("seen"), scene.image, scene.info.capsnet.image_shape);
  byId("seen").hidden = false;
  byId("sub-input").textContent = "small: the network's view";
});

/** @param {File} file */
async function open(file) {
  if (file.size > MAX_FILE * 1e6)
    return say(`This file is larger than ${MAX_FILE} MB; choose a smaller picture.`, true);
  const choice = ++choices;
  opened = file;
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    return say("This file is not a picture, or too large for this browser; choose another.", true);
  }
  if (choice !== choices || !takesPictures()) return;
  endDrawing();
  // Larger pictures are made smaller before they are sent.
  const side = Math.floor(Math.sqrt(scene.info.limits.max_picture_pixels));
  const scale = Math.min(1, side / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  penOf(canvas).drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  send(canvas, asItIs ? "as_is" : "", choice, false);
}
