// Warp: bend the input and see how sure the CapsNet and a CNN stay.

/** @import { Bend, Curve, Slider, SweepAnswer, Warp } from "./types.js" */

import { latest, post, toText } from "./api.js";
import { drawChart } from "./chart.js";
import { byId, counted, h, minus, number } from "./dom.js";
import { miniature } from "./draw.js";
import { isBlank } from "./ink.js";
import { showInputTools } from "./input.js";
import { scene } from "./scene.js";
import { bound, set, state, usually } from "./state.js";

/** @typedef {SweepAnswer & { image: Uint8Array, warp: number[], over: Bend }} Swept */
/** @typedef {(patch: Partial<Warp>, over?: Bend) => void} Change */

/** What there is to choose, in the order of the address. */
const keys = () => [...Object.keys(scene.info.limits.bends), "pieces", "seed"];

/** @type {(warp: number[]) => Warp} */
const named = (warp) =>
  /** @type {Warp} */ (Object.fromEntries(keys().map((key, n) => [key, warp[n]])));

/** How the picture is bent, by name. */
const chosen = () => named(state.warp);

/**
 * Build the panel; it lives until the signal says that another mode is chosen.
 * @param {HTMLElement} panel
 * @param {AbortSignal} signal
 */
export function enter(panel, signal) {
  showInputTools(false);
  const { bends, pieces: cutInto, max_number: many } = scene.info.limits;
  const verdict = h("div", { class: "verdict" });
  const chart = h("div", { class: "chart" });
  const said = h("p");
  const watch = h("div", { class: "watch" }, miniature("input"), miniature("reconstruction"), said);
  const names = /** @type {Bend[]} */ (Object.keys(bends));
  const rows = names.map((name) => slider(name, bends[name]));
  /** @param {number} pieces */
  const scramble = (pieces) =>
    h(
      "button",
      {
        type: "button",
        "data-pieces": pieces,
        onclick: () => change({ pieces, seed: Math.floor(Math.random() * many) }),
      },
      pieces === 1 ? "Whole" : `${pieces}×${pieces} pieces`,
    );
  const cuts = cutInto.map(scramble);
  panel.replaceChildren(
    h(
      "div",
      { class: "panel-head" },
      h("h2", {}, "Bend it"),
      h("span", { class: "note" }, "Scramble parts: "),
      cuts,
      h("button", { type: "button", onclick: () => change(named(usually("warp"))) }, "Reset"),
    ),
    watch,
    h(
      "div",
      { class: "warp" },
      h(
        "div",
        { class: "sliders" },
        rows.map((row) => row.element),
      ),
      chart,
      verdict,
    ),
  );

  /** @param {Bend} name @param {Slider} range */
  function slider(name, { low, high, step, unit }) {
    const tip = `How far the picture is changed by “${name}”`;
    const output = h("output", { class: "number", "data-tip": tip });
    /** @type {HTMLInputElement} */
    const input = h("input", {
      type: "range",
      min: low,
      max: high,
      step,
      "aria-label": name,
      "aria-description": tip,
      oninput: () => change({ [name]: input.valueAsNumber }, name),
      onfocus: () => sweepOver(name),
      onpointerdown: () => sweepOver(name), // a finger that does not move it gives no focus
    });
    const element = h("label", { class: "slider-row" }, h("span", {}, name), input, output);
    return {
      element,
      show() {
        const value = chosen()[name];
        input.value = String(value);
        output.textContent = `${minus(value)}${unit}`;
        element.classList.toggle("swept", state.sweep === name);
      },
    };
  }

  /** @type {Change} */
  function change(patch, over = state.sweep) {
    set({ warp: Object.values({ ...chosen(), ...patch }), sweep: over });
    show();
    bend();
  }

  /** @param {Bend} name */
  function sweepOver(name) {
    if (state.sweep !== name) change({}, name);
  }

  let swept = /** @type {Swept | null} */ (null); // the curves, and what they are of
  /** The class whose confidence is shown: the chosen one, or what the CapsNet saw before bending. */
  const target = () => (state.which >= 0 ? scene.which : scene.base);

  /** Whether the curves are of what is chosen now; where on them one stands does not matter. */
  const isSwept = () =>
    swept?.image === scene.image &&
    swept.over === state.sweep &&
    swept.warp.every((x, n) => x === state.warp[n] || keys()[n] === state.sweep);

  let answered = usually("warp"); // how the picture on the screen is bent
  const bend = latest(async () => {
    const asked = state.warp;
    const question = { image: toText(scene.image), warp: chosen() };
    const answer = await post("warp", question).catch((error) => {
      if (asked === state.warp && !signal.aborted) {
        set({ warp: answered });
        show();
      }
      throw error;
    });
    answered = asked;
    if (signal.aborted) return;
    scene.cnn = answer.cnn;
    scene.show(answer.analysis);
    judge();
    plot();
    sweep();
  });

  const sweep = latest(async () => {
    if (signal.aborted || isSwept()) return;
    const { image } = scene;
    const { warp, sweep: over } = state;
    const answer = await post("sweep", { image: toText(image), warp: chosen(), over });
    swept = { ...answer, image, warp, over };
    if (!signal.aborted) plot();
  });

  function plot() {
    if (swept?.image !== scene.image) return;
    const j = target();
    const name = scene.card.classes[j];
    const { values, over } = swept; // not state.sweep: its curves may still be on their way
    /** @type {Curve[]} */
    const curves = [
      { label: scene.card.name, style: "capsnet", values: swept.capsnet.map((row) => row[j]) },
    ];
    if (swept.cnn)
      curves.push({ label: cnnName(), style: "cnn", values: swept.cnn.map((row) => row[j]) });
    chart.replaceChildren(
      h("h3", {}, `Confidence in “${name}” while “${over}” changes`),
      drawChart(values, curves, chosen()[over], over, bends[over].unit, (x) => {
        const value = bound(bends[over], x);
        if (value !== chosen()[over]) change({ [over]: value }, over);
      }),
    );
  }

  function judge() {
    const { card, analysis, cnn } = scene;
    /** @param {number[]} values */
    const best = (values) => values.indexOf(Math.max(...values));
    /** @type {(who: string, style: string, values: number[], tip: string) => Node} */
    const line = (who, style, values, tip) =>
      h(
        "p",
        { class: style },
        h("strong", {}, `${who} says `),
        h("b", { class: "answer" }, card.classes[best(values)]),
        " ",
        number(`${Math.round(100 * Math.max(...values))} %`, tip),
      );
    /** @type {(who: string, style: string, values: number[]) => Node} */
    const short = (who, style, values) =>
      h("span", { class: style }, `${who} `, h("b", {}, card.classes[best(values)]));
    said.replaceChildren(
      short("CapsNet", "capsnet", analysis.lengths),
      ...(cnn ? [short("CNN", "cnn", cnn)] : []),
    );
    verdict.replaceChildren(
      line("CapsNet", "capsnet", analysis.lengths, "Length of its longest capsule"),
      cnn
        ? line("CNN", "cnn", cnn, "Its highest softmax probability")
        : h("p", { class: "note" }, scene.info.why_no_cnn),
      h("p", { class: "note" }, remark(analysis.image, cnn)),
      rival(),
    );
  }

  function show() {
    rows.forEach((row) => row.show());
    cuts.forEach((button) =>
      button.setAttribute(
        "aria-pressed",
        String(Number(button.dataset.pieces) === chosen().pieces),
      ),
    );
    drawHandles();
  }

  scene.addEventListener("analysis", () => scene.plain && bend(), { signal });
  scene.addEventListener("choice", () => plot(), { signal });
  startHandles(signal, change);
  lightNetworks(signal);
  show();
  return bend();
}

/** Light what is of the network that is pointed at: its curve, bars, numbers and answer. @param {AbortSignal} signal */
function lightNetworks(signal) {
  const main = /** @type {HTMLElement} */ (byId("panel").parentElement);
  const clear = () => delete main.dataset.network;
  main.addEventListener(
    "pointerover",
    ({ target }) => {
      const part = target instanceof Element ? target.closest(".capsnet, .cnn") : null;
      if (part) main.dataset.network = part.classList.contains("cnn") ? "cnn" : "capsnet";
      else clear();
    },
    { signal },
  );
  main.addEventListener("pointerleave", clear, { signal });
  signal.addEventListener("abort", clear);
}

/** What the CNN is called. */
const cnnName = () => scene.info.cnn?.name ?? "CNN";

/** Which CNN it is, and how good. */
function rival() {
  const { cnn } = scene.info;
  if (!cnn) return "";
  const error = cnn.error_percent;
  return h(
    "p",
    { class: "note" },
    `The CNN is ${cnn.name}, trained on ${cnn.data}: `,
    number(`${counted(cnn.num_parameters)} parameters`, "Numbers learnt in training"),
    ...(error === null
      ? []
      : [
          ", ",
          number(`${error.toFixed(2)} % test error`, "Share of the test images it gets wrong"),
        ]),
    ".",
  );
}

/**
 * What to think of it: a sentence that holds whatever the networks say.
 * @type {(image: Uint8Array, cnn: number[] | null) => string}
 */
function remark(image, cnn) {
  if (isBlank(image)) return "There is nothing on this picture, whatever a network says it sees.";
  if (chosen().pieces > 1)
    return "The parts are all there, but in the wrong places. A network that knows how parts belong together should become unsure.";
  const lengths = "Capsule lengths need not sum to 1, so all of them can be short";
  if (!cnn) return `${lengths}.`;
  return `${lengths}; the CNN's softmax always shares out 100 %. The two may differ in size and training: a lead on one picture says nothing about capsules.`;
}

const SIDE = 0.64; // of the frame, over the side of the input
const EDGE = "14px"; // the middle of the knob stays so far inside the input

/** Lay a frame over the input that is bent like the picture, and its knob where it can be taken. */
function drawHandles() {
  const { rotate, scale, shear, right, down } = chosen();
  const [, H, W] = scene.info.capsnet.image_shape;
  const [frame, knob] = [byId("handles"), byId("knob")];
  frame.hidden = knob.hidden = false;
  const shift = [right / W, down / H].map((part) => `${(100 * part) / SIDE}%`);
  frame.style.transform = `translate(${shift}) rotate(${rotate}deg) skewX(${Math.atan(shear)}rad) scale(${scale})`;
  // Its upper right corner, (1, -1) from the middle.
  const angle = (rotate * Math.PI) / 180;
  const [x, y] = [(SIDE / 2) * scale * (1 - shear), (-SIDE / 2) * scale];
  const corner = [
    right / W + x * Math.cos(angle) - y * Math.sin(angle),
    down / H + x * Math.sin(angle) + y * Math.cos(angle),
  ];
  [knob.style.left, knob.style.top] = corner.map(
    (part) => `clamp(${EDGE}, ${50 + 100 * part}%, 100% - ${EDGE})`,
  );
}

/**
 * Dragging the frame shifts the picture; dragging its knob turns and scales it.
 * @param {AbortSignal} signal
 * @param {Change} change
 */
function startHandles(signal, change) {
  const [frame, knob] = [byId("handles"), byId("knob")];
  const screen = /** @type {HTMLElement} */ (frame.parentElement);
  const options = { signal };
  let held = /** @type {{ turning: boolean, x: number, y: number, warp: Warp } | null} */ (null);
  for (const handle of [frame, knob]) {
    handle.addEventListener(
      "pointerdown",
      (event) => {
        if (event.button) return;
        held = { turning: handle === knob, x: event.clientX, y: event.clientY, warp: chosen() };
        handle.setPointerCapture(event.pointerId);
        event.preventDefault();
      },
      options,
    );
    handle.addEventListener("pointermove", move, options);
    for (const name of ["pointerup", "pointercancel"])
      handle.addEventListener(name, () => (held = null), options);
  }

  /** @param {PointerEvent} event */
  function move(event) {
    if (!held) return;
    const box = screen.getBoundingClientRect();
    const [, H, W] = scene.info.capsnet.image_shape;
    const { warp } = held;
    const { bends } = scene.info.limits;
    if (!held.turning) {
      const right = warp.right + ((event.clientX - held.x) / box.width) * W;
      const down = warp.down + ((event.clientY - held.y) / box.height) * H;
      return change({ right: bound(bends.right, right), down: bound(bends.down, down) });
    }
    const middle = [
      box.left + box.width * (0.5 + warp.right / W),
      box.top + box.height * (0.5 + warp.down / H),
    ];
    /** @type {(x: number, y: number) => [angle: number, distance: number]} */
    const polar = (x, y) => [
      Math.atan2(y - middle[1], x - middle[0]),
      Math.hypot(x - middle[0], y - middle[1]),
    ];
    const [before, far] = polar(held.x, held.y);
    const [now, near] = polar(event.clientX, event.clientY);
    const degrees = warp.rotate + ((now - before) * 180) / Math.PI;
    const rotate = bound(bends.rotate, ((((degrees + 180) % 360) + 360) % 360) - 180);
    change({ rotate, scale: bound(bends.scale, (warp.scale * near) / far) }, "rotate");
  }
}
