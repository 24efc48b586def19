// Tweak: a film strip for each dimension of the chosen capsule; its frame is a slider.

import { decode, latest } from "./api.js";
import { drawReconstruction } from "./columns.js";
import { drawClasses } from "./classes.js";
import { hasSpreads, loadDimensions, ranked } from "./dimensions.js";
import { h, number, say } from "./dom.js";
import { miniature, paintStrip, refreshMiniatures } from "./draw.js";
import { savePng } from "./export.js";
import { filmRow, sliderOf, SPREADS, STEPS } from "./film.js";
import { showInputTools } from "./input.js";
import { randomPose } from "./poses.js";
import { scene } from "./scene.js";
import { set, state } from "./state.js";

export const follows = true; // what it shows is up to date after every "choice"
let chances = 0; // how often a pose was drawn at random: the seed of the next

/**
 * Build the panel; it lives until the signal says that another mode is chosen.
 * @param {HTMLElement} panel
 * @param {AbortSignal} signal
 */
export async function enter(panel, signal) {
  showInputTools(true);
  if (!scene.card.has_decoder) {
    return panel.replaceChildren(
      h("p", {}, "This model was trained without a decoder, so there is nothing to draw with."),
    );
  }
  await loadDimensions();
  if (signal.aborted) return;
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
      ...(hasSpreads()
        ? [h("option", { value: 0, selected: state.range === 0 }, `±${SPREADS} spreads`)]
        : []),
      ...scene.info.limits.tweaks.map(({ high }) =>
        h("option", { value: high, selected: high === state.range }, `±${high}`),
      ),
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
            "How far a slider goes; the paper uses ±0.25. A spread is a number's own standard deviation over images of the class.",
        },
        "range ",
        width,
      ),
      h("button", { type: "button", onclick: () => change([]) }, "Reset"),
      h(
        "button",
        {
          type: "button",
          "data-tip": "Another pose of this class, as those of real images vary together",
          onclick: randomise,
        },
        "Randomise",
      ),
      h(
        "button",
        {
          type: "button",
          onclick: () => savePng(sheet(), "dimensions"),
        },
        "Save PNG",
      ),
    ),
    films,
  );
  refreshMiniatures(); // the drawing may have been there first

  /** The films as a file shows them: each with its name, and how far they go. */
  function sheet() {
    const far = width.selectedOptions[0].text.replace("±", "");
    return {
      title: heading.textContent ?? "",
      axis: [`−${far}`, "0", `+${far}`],
      rows: inOrder().map(({ element, canvas }) => {
        const name = /** @type {HTMLInputElement} */ (element.querySelector(".dim-name"));
        return { label: name.value || name.placeholder, pictures: [canvas] };
      }),
    };
  }

  function rebuild() {
    const { card, which } = scene;
    heading.replaceChildren(
      "The ",
      number(`${card.class_dim}`, "Numbers in each class capsule"),
      ` dimensions of capsule “${card.classes[which]}”`,
    );
    if (rows.length !== card.class_dim) {
      rows = Array.from({ length: card.class_dim }, (_, e) => filmRow(e, tweakOne, refreshFilms));
    }
    const wanted = inOrder().map((row) => row.element);
    if (wanted.some((row, n) => films.children[n] !== row)) films.replaceChildren(...wanted);
    width.value = String(state.range);
    rows.forEach((row) => row.show());
    // The films are many pictures: while a digit is being drawn they wait for a pause.
    clearTimeout(pause);
    pause = setTimeout(refreshFilms, 80);
  }

  /** The films, that which changes most first. */
  const inOrder = () => ranked(scene.which).map((e) => rows[e]);

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

  async function randomise() {
    const { which, card } = scene;
    const pose = await randomPose(which, card.class_dim, ++chances);
    if (signal.aborted || which !== scene.which) return;
    if (!pose) return say("No test image of this class is here, so it is not known how it varies.");
    const v = scene.analysis.v[which];
    if (hasSpreads()) set({ range: 0 });
    change(pose.map((x, e) => Number((x - v[e]).toFixed(3))));
    width.value = String(state.range);
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
      rows[e].steps().map((s) => [{ which, v: pose.with(e, x - (state.tweak[e] ?? 0) + s) }]),
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

/** The tweaks as far as the sliders go. */
const within = () =>
  state.tweak.map((x, e) => {
    const { low, high } = sliderOf(e);
    return Math.min(high, Math.max(low, x));
  });
