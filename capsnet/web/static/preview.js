// What a class would draw, shown over the reconstruction while the mouse or the focus is on it; and
// what belongs together is lit: all elements with the same data-dim.

/** @import { Routed } from "./types.js" */

import { decode, latest } from "./api.js";
import { byId } from "./dom.js";
import { paint } from "./draw.js";
import { scene } from "./scene.js";

let pointed = -1; // the class under the mouse
// The drawings of all classes, asked for at once.
let drawn = { analysis: /** @type {Routed | null} */ (null), step: -1, bytes: new Uint8Array() };

/** Follow mouse and focus. */
export function startPreview() {
  const classes = byId("classes");
  /** @param {Event} event */
  const point = ({ target }) => {
    const row = target instanceof Element ? target.closest(".class-row") : null;
    pointed = row ? [...classes.children].indexOf(row) : -1;
    show();
  };
  const leave = () => {
    pointed = -1;
    show();
  };
  classes.addEventListener("pointerover", (event) => event.pointerType === "mouse" && point(event));
  classes.addEventListener("pointerleave", leave);
  classes.addEventListener("focusin", point);
  classes.addEventListener("focusout", leave);
  for (const name of ["analysis", "choice"]) scene.addEventListener(name, show);
  for (const name of ["pointerover", "focusin"]) addEventListener(name, light);
}

/** Whether the drawings are of what is on the screen. */
const isDrawn = () => drawn.analysis === scene.analysis && drawn.step === scene.step;

/** Show the class that is pointed at, unless it is the one that is drawn anyway. */
function show() {
  const { card, which } = scene;
  // Overlap has a network of its own, and draws two classes.
  const wanted = pointed >= 0 && pointed !== which && card.has_decoder && !scene.rivals.length;
  const ready = wanted && isDrawn();
  byId("preview").hidden = !ready;
  if (ready) {
    paint(byId("preview-canvas"), drawn.bytes, card.image_shape, pointed);
    byId("preview-name").textContent = `capsule ${card.classes[pointed]}`;
  } else if (wanted) drawAll();
}

const drawAll = latest(async () => {
  if (isDrawn()) return;
  const { analysis, step, info } = scene;
  const capsules = scene.card.classes
    .slice(0, info.limits.max_pictures)
    .map((_, which) => [{ which, v: scene.vectorOf(which) }]);
  const bytes = await decode(capsules, scene.by);
  drawn = { analysis, step, bytes };
  show();
});

/** Light the bar and the film of the dimension that is pointed at. @param {Event} event */
function light({ target }) {
  const on = target instanceof Element ? target.closest("[data-dim]") : null;
  const dim = on?.getAttribute("data-dim");
  for (const other of document.querySelectorAll("[data-dim]"))
    other.classList.toggle("lit", other.getAttribute("data-dim") === dim);
}
