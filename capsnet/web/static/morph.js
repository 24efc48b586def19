// Morph: walk from one picture's capsule to another's.

/** @import { Capsule, Sample } from "./types.js" */

import { decode, latest, post, postForBlob } from "./api.js";
import { byId, h, number, say } from "./dom.js";
import { miniature, paint, paintStrip, refreshMiniatures } from "./draw.js";
import { save, savePng } from "./export.js";
import { emptyShelf, press, sampleButton, showInputTools } from "./input.js";
import { samplesOf } from "./samples.js";
import { scene } from "./scene.js";
import { set, state } from "./state.js";

const STRIP = 11;
const FRAMES = 61; // of the animation, one way
const WALK = 2000; // milliseconds of it

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
  scene.drawsItself = true;
  let target = /** @type {Capsule | null} */ (null); // at the other end
  let film = /** @type {Uint8Array | null} */ (null); // bytes of all frames
  let clock = 0; // the animation that is playing, 0 if none
  const strip = h("canvas", { "aria-hidden": "true" });
  /** @type {HTMLInputElement} */
  const slider = h("input", {
    type: "range",
    min: 0,
    max: 1,
    step: 1 / (FRAMES - 1),
    "aria-label": "Way from the first to the second picture",
    oninput: () => show(slider.valueAsNumber),
  });
  const shelf = emptyShelf("Test images to end at");
  const play = h(
    "button",
    { type: "button", class: "primary", onclick: () => (clock ? pause() : start()) },
    "▶ Play",
  );
  const caption = h("p", { class: "note" });
  const way = h("p");
  let page = 0;
  panel.replaceChildren(
    h(
      "div",
      { class: "panel-head" },
      h("h2", {}, "From the input to another picture"),
      play,
      saver("PNG", () => savePng(sheet(), "morph")),
      saver("GIF", saveGif),
    ),
    h("div", { class: "watch" }, miniature("input"), miniature("reconstruction"), way),
    h(
      "div",
      { class: "morph" },
      h("div", {}, h("div", { class: "film" }, strip, slider), caption),
      h(
        "div",
        {},
        h("h3", {}, "Ends at"),
        shelf,
        h(
          "div",
          { class: "buttons" },
          h("button", { type: "button", onclick: () => fill(page + 1) }, "Others"),
        ),
      ),
    ),
  );

  /** The strip as a file shows it. */
  function sheet() {
    const end = scene.card.classes[target?.which ?? 0];
    return {
      title: `From capsule “${scene.card.classes[scene.which]}” to capsule “${end}”`,
      axis: ["0 %", "of the way between the two vectors", "100 %"],
      rows: [{ pictures: [strip] }],
    };
  }

  /** @type {(kind: string, work: () => void) => HTMLButtonElement} */
  function saver(kind, work) {
    const onclick = () =>
      film ? work() : say("There is no second picture to walk to, so nothing to save.", true);
    return h("button", { type: "button", onclick }, `Save ${kind}`);
  }

  /** @param {number} next */
  async function fill(next) {
    const samples = await samplesOf("samples", next);
    page = next;
    shelf.replaceChildren(
      ...samples.map((sample) => sampleButton(sample, scene.info.capsnet, take)),
    );
    press(shelf, state.to);
    return samples;
  }

  /** @param {Sample} sample */
  async function take(sample) {
    const answer = await post("analyse", { image: sample.image });
    set({ to: sample.number });
    const which = answer.drawn[0];
    target = { which, v: answer.v[which] };
    press(shelf, sample.number);
    render();
  }

  /** Whether the walk ends where it begins. @param {Capsule} end */
  const isSame = (end) =>
    scene.which === end.which &&
    scene.source?.image === "" &&
    scene.source.sample === state.to &&
    scene.tweak.every((x) => !x);

  /**
   * The capsules a part of the way along; two classes share the decoder on the way.
   * @type {(end: Capsule, part: number) => Capsule[]}
   */
  function between(end, part) {
    const { which, pose } = scene;
    /** @type {(v: number[], share: number) => number[]} */
    const mix = (v, share) => v.map((x) => x * share);
    if (which === end.which) return [{ which, v: pose.map((x, e) => x + (end.v[e] - x) * part) }];
    return [
      { which, v: mix(pose, 1 - part) },
      { which: end.which, v: mix(end.v, part) },
    ];
  }

  /** @type {(end: Capsule, count: number) => Capsule[][]} */
  const steps = (end, count) =>
    Array.from({ length: count }, (_, n) => between(end, n / (count - 1)));

  const render = latest(async () => {
    if (!target) return;
    film = await decode(steps(target, FRAMES));
    if (signal.aborted) return;
    const shape = scene.card.image_shape;
    const size = shape.reduce((product, side) => product * side);
    const each = (FRAMES - 1) / (STRIP - 1);
    const chosen = new Uint8Array(STRIP * size);
    for (let n = 0; n < STRIP; n++)
      chosen.set(film.subarray(n * each * size, (n * each + 1) * size), n * size);
    paintStrip(strip, chosen, shape, STRIP);
    show(state.along);
  });

  /** @param {number} part */
  function show(part) {
    set({ along: part });
    slider.value = String(part);
    if (!film || !target) return;
    const frame = Math.round(part * (FRAMES - 1));
    paint(byId("reconstruction"), film, scene.card.image_shape, frame);
    const [a, b] = [scene.card.classes[scene.which], scene.card.classes[target.which]];
    byId("reconstruction").setAttribute("aria-label", `Between ${a} and ${b}`);
    byId("sub-reconstruction").textContent = `on the way from ${a} to ${b}`;
    byId("note-reconstruction").replaceChildren(
      number(
        `${Math.round(part * 100)} %`,
        "How far along the straight line between the two capsules",
      ),
      " of the way",
    );
    way.textContent = `${a} → ${b}: ${Math.round(part * 100)} %`;
    refreshMiniatures();
    caption.textContent = isSame(target)
      ? "Both ends are the same picture, so nothing changes: choose another one to end at."
      : a === b
        ? `Both are “${a}”: the same capsule, two poses. It draws every picture in between.`
        : `Capsule “${a}” fades out while capsule “${b}” fades in; the decoder draws what lies between.`;
  }

  function start() {
    const began = performance.now() - state.along * WALK;
    /** @param {number} now */
    const tick = (now) => {
      const phase = ((now - began) / WALK) % 2;
      show(Math.min(1, Math.max(0, phase < 1 ? phase : 2 - phase)));
      clock = requestAnimationFrame(tick);
    };
    clock = requestAnimationFrame(tick);
    play.textContent = "❚❚ Pause";
  }

  function pause() {
    cancelAnimationFrame(clock);
    clock = 0;
    play.textContent = "▶ Play";
  }

  async function saveGif() {
    if (!target) return;
    const there = steps(target, 31);
    save(
      await postForBlob("animation", { pictures: [...there, ...there.slice(1, -1).reverse()] }),
      "morph.gif",
    );
  }

  scene.addEventListener("analysis", render, { signal });
  scene.addEventListener("choice", render, { signal });
  signal.addEventListener("abort", pause);
  const J = scene.card.classes.length;
  fill(Math.floor(state.to / J)).then((samples) => {
    const wanted = samples.find((sample) => sample.number === state.to) ?? samples.at(-1);
    if (wanted && !signal.aborted) take(wanted);
  });
}
