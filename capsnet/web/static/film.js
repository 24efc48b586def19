// A film of Tweak: pictures of one dimension under a slider that frames one of them.

import { measuredName, ownName, rename, spoken, spreadOf } from "./dimensions.js";
import { h, minus } from "./dom.js";
import { scene } from "./scene.js";
import { state } from "./state.js";

export const STEPS = 11;
export const SPREADS = 2.5; // standard deviations of a dimension, over images of the class

/** The slider of a dimension, in the range that is chosen. @param {number} e */
export function sliderOf(e) {
  const { tweaks } = scene.info.limits;
  const spread = spreadOf(scene.which, e);
  if (state.range || !spread) return tweaks.find(({ high }) => high === state.range) ?? tweaks[0];
  // A pose that was drawn at random may lie further from this one.
  const far = Math.max(SPREADS * spread, Math.abs(state.tweak[e] ?? 0));
  const high = Math.min(tweaks[tweaks.length - 1].high, Math.ceil(far * 100 - 1e-6) / 100);
  return { low: -high, high, step: 0.01 };
}

/**
 * A dimension: its name, a film of pictures under a slider that frames one of them, its value.
 * @param {number} e
 * @param {(e: number, value: number) => void} onMove
 * @param {() => void} onDone
 */
export function filmRow(e, onMove, onDone) {
  const canvas = h("canvas", { "aria-hidden": "true" });
  const [, H, W] = scene.card.image_shape;
  canvas.style.aspectRatio = `${STEPS * W} / ${H}`; // before it is drawn, too
  const output = h("output", { class: "number" });
  let reach = 0; // while it is dragged it goes as far as when it was shown
  const steps = () => Array.from({ length: STEPS }, (_, n) => ((2 * n) / (STEPS - 1) - 1) * reach);
  /** @type {HTMLInputElement} */
  const name = h("input", {
    type: "text",
    class: "dim-name",
    maxlength: 24,
    "aria-label": `Your name for dimension ${e + 1}`,
    onchange: () => {
      rename(scene.which, e, name.value);
      show();
    },
  });
  const slider = h("input", { type: "range", "aria-label": `Dimension ${e + 1}` });
  const film = h("div", { class: "film" }, canvas, slider);
  const move = () => {
    output.textContent = signed(slider.valueAsNumber);
    onMove(e, slider.valueAsNumber);
  };
  let pressedAt = /** @type {number | null} */ (null);
  slider.addEventListener("input", move);
  slider.addEventListener("change", onDone);
  slider.addEventListener("pointerdown", (event) => (pressedAt = event.clientX));
  slider.addEventListener("click", (event) => {
    // A click without a drag takes the value of the picture under it.
    if (pressedAt === null || Math.abs(event.clientX - pressedAt) > 3) return;
    const box = slider.getBoundingClientRect();
    const n = Math.floor(((event.clientX - box.left) / box.width) * STEPS);
    slider.value = steps()[Math.min(STEPS - 1, Math.max(0, n))].toFixed(2);
    move();
    onDone();
  });

  function show() {
    const { which } = scene;
    const { low, high, step } = sliderOf(e);
    reach = high;
    Object.assign(slider, { min: low, max: high, step });
    slider.value = String(state.tweak[e] ?? 0);
    output.textContent = signed(slider.valueAsNumber);
    const word = measuredName(which, e);
    name.value = ownName(which, e);
    name.placeholder = word || `dimension ${e + 1}`;
    name.dataset.tip = `Dimension ${e + 1}. ${
      word
        ? `To the right the drawing becomes ${word}, measured over test images.`
        : "Nothing clear follows it."
    } Write a name of your own: this browser keeps it, and a link carries it.`;
    const added = `What is added to ${spoken(which, e)}`;
    output.dataset.tip = film.dataset.tip = added;
    slider.setAttribute("aria-description", added);
  }

  const element = h("div", { class: "film-row", "data-dim": e }, name, film, output);
  return { e, canvas, element, steps, show };
}

/** @param {number} x */
const signed = (x) => (x > 0 ? `+${x.toFixed(2)}` : x < 0 ? minus(x, 2) : "0");
