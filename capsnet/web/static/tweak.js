// Tweak: a film strip for each dimension of the chosen capsule; its frame is a slider.

/** @import { NetCard } from "./types.js" */

import { decode, latest } from "./api.js";
import { drawReconstruction } from "./columns.js";
import { drawClasses } from "./classes.js";
import { h, minus, number } from "./dom.js";
import { miniature, paintStrip } from "./draw.js";
import { savePng } from "./export.js";
import { showInputTools } from "./input.js";
import { recall, remember } from "./memory.js";
import { scene } from "./scene.js";
import { set, state } from "./state.js";

const STEPS = 11;
const SPREADS = 2.5; // standard deviations of a dimension, over images of the class
export const title = "Tweak";
/** @param {NetCard} card */
export const lead = (card) =>
  card.has_decoder
    ? `This network redraws your ${card.reads_digits ? "digit" : "picture"} from ${card.class_dim} numbers. Drag one.`
    : "A class capsule is a vector. What its numbers stand for can be seen where there is a decoder.";

/**
 * Build the panel; it lives until the signal says that another mode is chosen.
 * @param {HTMLElement} panel
 * @param {AbortSignal} signal
 */
export function enter(panel, signal) {
  showInputTools(true);
  if (!scene.card.has_decoder) {
    return panel.replaceChildren(
      h("p", {}, "This model was trained without a decoder, so there is nothing to draw with."),
    );
  }
  set({ tweak: within() });
  let rows = /** @type {ReturnType<typeof filmRow>[]} */ ([]);
  let pause = 0;
  const films = h("div", { class: "films" });
  const heading = h("h2");
  /** @type {HTMLSelectElement} */
  const width = h(
    "select",
    { "aria-label": "Range of the sliders", onchange: () => changeRange(Number(width.value)) },
    [
      ...scene.info.limits.tweaks.map(({ high }) =>
        h("option", { value: high, selected: high === state.range }, `±${high}`),
      ),
      ...(scene.card.spreads
        ? [h("option", { value: 0, selected: state.range === 0 }, `±${SPREADS} spreads`)]
        : []),
    ],
  );
  panel.replaceChildren(
    h(
      "div",
      { class: "panel-head sticky" },
      miniature("reconstruction"),
      heading,
      h(
        "label",
        {
          "data-tip":
            "How far a slider goes; the paper uses ±0.25. A spread is a standard deviation.",
        },
        "range ",
        width,
      ),
      h("button", { type: "button", onclick: () => change([]) }, "Reset"),
      h("button", { type: "button", onclick: randomise }, "Randomise"),
      h(
        "button",
        {
          type: "button",
          onclick: () =>
            savePng(
              rows.map((row) => [row.canvas]),
              "dimensions",
            ),
        },
        "Save PNG",
      ),
    ),
    films,
  );

  function rebuild() {
    const { card, which } = scene;
    heading.replaceChildren(
      "The ",
      number(`${card.class_dim}`, "Numbers in each class capsule"),
      ` dimensions of capsule “${card.classes[which]}”`,
    );
    if (rows.length !== card.class_dim) {
      rows = Array.from({ length: card.class_dim }, (_, e) => filmRow(e, tweakOne, refreshFilms));
      films.replaceChildren(...rows.map((row) => row.element));
    }
    rows.forEach((row) => row.show());
    // The films are many pictures: while a digit is being drawn they wait for a pause.
    clearTimeout(pause);
    pause = setTimeout(refreshFilms, 80);
  }

  /** @param {number} e @param {number} value */
  function tweakOne(e, value) {
    const tweak = Array.from({ length: scene.card.class_dim }, (_, k) => state.tweak[k] ?? 0);
    tweak[e] = value;
    set({ tweak, which: scene.which });
    drawReconstruction();
    drawClasses();
  }

  /** @param {number[]} tweak */
  function change(tweak) {
    set({ tweak, which: scene.which });
    rows.forEach((row) => row.show());
    drawReconstruction();
    drawClasses();
    refreshFilms();
  }

  function randomise() {
    /** @type {(_: unknown, e: number) => number} */
    const random = (_, e) => Number(((Math.random() * 2 - 1) * reach(e)).toFixed(2));
    change(Array.from({ length: scene.card.class_dim }, random));
  }

  /** @param {number} range */
  function changeRange(range) {
    set({ range });
    change(within());
  }

  const refreshFilms = latest(async () => {
    if (signal.aborted) return;
    const { pose, which, card } = scene;
    const pictures = pose.flatMap((x, e) =>
      steps(e).map((s) => [{ which, v: pose.with(e, x - (state.tweak[e] ?? 0) + s) }]),
    );
    const perRequest = STEPS * Math.floor(scene.info.limits.max_pictures / STEPS);
    for (let start = 0; start < pictures.length; start += perRequest) {
      const bytes = await decode(pictures.slice(start, start + perRequest));
      for (let n = 0; n < Math.min(perRequest, pictures.length - start); n += STEPS) {
        const row = rows[(start + n) / STEPS];
        if (row && !signal.aborted) paintStrip(row.canvas, bytes, card.image_shape, STEPS, n);
      }
    }
  });

  scene.addEventListener("analysis", rebuild, { signal });
  scene.addEventListener("choice", rebuild, { signal });
  rebuild();
}

/** The slider of a dimension, in the range that is chosen. @param {number} e */
function chosen(e) {
  const { tweaks } = scene.info.limits;
  const spread = scene.card.spreads?.[scene.which]?.[e];
  if (state.range === 0 && spread) {
    const high = Math.min(tweaks[tweaks.length - 1].high, Math.ceil(SPREADS * spread * 100) / 100);
    return { low: -high, high, step: 0.01 };
  }
  return tweaks.find((slider) => slider.high === state.range) ?? tweaks[0];
}

/** @param {number} e */
const reach = (e) => chosen(e).high;

const within = () => state.tweak.map((x, e) => Math.min(reach(e), Math.max(-reach(e), x)));

/** @param {number} e */
const steps = (e) =>
  Array.from({ length: STEPS }, (_, n) => ((2 * n) / (STEPS - 1) - 1) * reach(e));

/**
 * A dimension: its name, a film of pictures under a slider that frames one of them, its value.
 * @param {number} e
 * @param {(e: number, value: number) => void} onMove
 * @param {() => void} onDone
 */
function filmRow(e, onMove, onDone) {
  const canvas = h("canvas", { "aria-hidden": "true" });
  const [, H, W] = scene.card.image_shape;
  canvas.style.aspectRatio = `${STEPS * W} / ${H}`; // before it is drawn, too
  const added = `What is added to dimension ${e + 1}`;
  const output = h("output", { class: "number", "data-tip": added });
  /** @type {HTMLInputElement} */
  const name = h("input", {
    type: "text",
    class: "dim-name",
    maxlength: 24,
    placeholder: `dimension ${e + 1}`,
    "aria-label": `Your name for dimension ${e + 1}`,
    "data-tip": "Name what it does, e.g. “stroke thickness”; kept in this browser",
    onchange: () => remember(nameKey(e), name.value),
  });
  const slider = h("input", {
    type: "range",
    "aria-label": `Dimension ${e + 1}`,
    "aria-description": added,
  });
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
    slider.value = steps(e)[Math.min(STEPS - 1, Math.max(0, n))].toFixed(2);
    move();
    onDone();
  });
  return {
    canvas,
    element: h(
      "div",
      { class: "film-row" },
      name,
      h("div", { class: "film" }, canvas, slider),
      output,
    ),
    show() {
      const { low, high, step } = chosen(e);
      Object.assign(slider, { min: low, max: high, step });
      slider.value = String(state.tweak[e] ?? 0);
      output.textContent = signed(slider.valueAsNumber);
      name.value = recall(nameKey(e)) ?? "";
    },
  };
}

/** @param {number} x */
const signed = (x) => (x > 0 ? `+${x.toFixed(2)}` : x < 0 ? minus(x, 2) : "0");
/** @param {number} e */
const nameKey = (e) => `capsnet:${scene.card.name}:${scene.card.data}:${scene.which}:${e}`;
