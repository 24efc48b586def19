// Overlap: two digits over each other; each is found, and drawn alone, by its own capsule.

/** @import { NetCard, Sample } from "./types.js" */

import { latest, post, toBytes, toText } from "./api.js";
import { byId, h, minus, number } from "./dom.js";
import { FIRST, miniature, paintColours, refreshMiniatures, SECOND } from "./draw.js";
import { savePng } from "./export.js";
import { endDrawing, press, sampleButton } from "./input.js";
import { samplesOf } from "./samples.js";
import { scene } from "./scene.js";
import { bound, set, state } from "./state.js";

/** @typedef {Sample & { bytes: Uint8Array }} Digit */

const FINGER = 5; // pixels from the ink at which a press still takes a digit
const COLOURS = [FIRST, SECOND];
export const title = "Overlap";
export const lead = () =>
  "Two digits in one place: their capsules share out the evidence, and each draws its own digit.";

/**
 * Build the panel; it lives until the signal says that another mode is chosen.
 * @param {HTMLElement} panel
 * @param {AbortSignal} signal
 */
export async function enter(panel, signal) {
  const { overlap: card, digits: kind } = scene.info;
  const { place, trained_shift: trained } = scene.info.limits;
  const count = kind.classes.length;
  const [, height, width] = kind.image_shape;
  const digits = /** @type {Digit[]} */ ([]); // the first and the second, once they are loaded
  /** @type {HTMLInputElement[][]} */
  const sliders = [[], []];
  /** @type {HTMLOutputElement[][]} */
  const values = [[], []];
  const shelves = /** @type {HTMLElement[]} */ ([]);
  const verdict = h("p", { class: "verdict" });
  const extra = [0, 1].map(() => h("canvas", { role: "img" }));
  const names = [0, 1].map(() => h("span"));
  const truth = h("canvas", {
    role: "img",
    "aria-label": "The two digits, each in its own colour",
  });
  endDrawing();
  byId("input").classList.remove("drawable");
  byId("sub-input").textContent = "drag a digit";
  byId("input-tools").replaceChildren(
    h(
      "div",
      { class: "truth" },
      truth,
      h("p", { class: "note" }, "The two digits. The network sees only their grey sum."),
    ),
  );
  byId("reconstruction-extra").replaceChildren(
    h(
      "div",
      { class: "pair" },
      extra.map((canvas, k) => h("figure", {}, canvas, h("figcaption", {}, names[k]))),
    ),
  );
  scene.drawsItself = true;
  panel.replaceChildren(
    h(
      "div",
      { class: "panel-head" },
      h("h2", {}, "Choose two digits and lay them over each other"),
      h("button", { type: "button", onclick: shufflePair }, "Another pair"),
      h(
        "button",
        {
          type: "button",
          onclick: () => savePng(sheet(), "overlap"),
        },
        "Save PNG",
      ),
    ),
    h("div", { class: "watch" }, miniature("input"), miniature("reconstruction")),
    isOwn(card)
      ? ""
      : h(
          "p",
          { class: "note" },
          `Here ${card.name} answers, trained on ${card.data}, `,
          `not the ${scene.info.capsnet.name} of the other modes.`,
        ),
    h("div", { class: "overlap" }, chooser(0), chooser(1), verdict),
  );

  /** The pictures as a file shows them, each with a word under it. */
  function sheet() {
    const found = scene.rivals.map((j) => card.classes[j]);
    return {
      title: `Two digits over each other: the capsules say ${found.join(" and ")}`,
      rows: [
        {
          pictures: [byId("input"), byId("reconstruction"), ...extra],
          under: ["input", "both drawn", ...found.map((name) => `capsule “${name}”`)],
        },
      ],
    };
  }

  /** @param {number} k */
  function chooser(k) {
    const shelf = (shelves[k] = h("div", { class: "shelf" }));
    return h(
      "div",
      {
        class: k ? "second" : "first",
        role: "group",
        "aria-label": k ? "Second digit" : "First digit",
      },
      h("h3", {}, k ? "Second digit" : "First digit"),
      shelf,
      ["right", "down"].map((way, axis) => slider(k, axis, way)),
    );
  }

  /** @param {number} k @param {number} axis @param {string} way */
  function slider(k, axis, way) {
    const tip = `How far the ${k ? "second" : "first"} digit is moved ${way}, in pixels`;
    const output = h("output", { class: "number", "data-tip": tip });
    /** @type {HTMLInputElement} */
    const input = h("input", {
      type: "range",
      min: place.low,
      max: place.high,
      step: place.step,
      "aria-label": `${k ? "Second" : "First"} digit, pixels ${way}`,
      "aria-description": tip,
      oninput: () => move(k, axis, input.valueAsNumber),
    });
    sliders[k].push(input);
    values[k].push(output);
    return h("label", { class: "slider-row" }, h("span", {}, way), input, output);
  }

  /** @param {number} k */
  async function load(k) {
    const page = Math.floor(state.pair[k] / count);
    const samples = await samplesOf("digits", page);
    shelves[k].replaceChildren(
      ...samples.map((sample) => sampleButton(sample, kind, () => take(k, sample))),
    );
    hold(k, samples.find((sample) => sample.number === state.pair[k]) ?? samples[k]);
  }

  /** @param {number} k @param {Sample} sample */
  function hold(k, sample) {
    digits[k] = { ...sample, bytes: toBytes(sample.image) };
    press(shelves[k], sample.number);
  }

  /** @param {number} k @param {Sample} sample */
  function take(k, sample) {
    hold(k, sample);
    set({ pair: state.pair.with(k, sample.number), other: -1 });
    compose();
  }

  /** @param {number} k @param {number} axis @param {number} pixels */
  function move(k, axis, pixels) {
    set({ place: state.place.with(2 * k + axis, bound(place, pixels)) });
    compose();
  }

  async function shufflePair() {
    /** @param {number} end */
    const below = (end) => Math.floor(Math.random() * end);
    const first = below(count);
    const second = (first + 1 + below(count - 1)) % count;
    const shift = () => below(2 * trained + 1) - trained;
    set({
      pair: [first, second].map((label) => below(kind.num_pages) * count + label),
      place: [shift(), shift(), shift(), shift()],
      other: -1,
    });
    await Promise.all([load(0), load(1)]);
    compose();
  }

  /** The digit moved to its place on the canvas. @param {number} k */
  function placed(k) {
    const [, H, W] = card.image_shape;
    const out = new Uint8Array(H * W);
    const [left, top] = corner(k);
    for (let y = Math.max(0, -top); y < height && y + top < H; y++) {
      for (let x = Math.max(0, -left); x < width && x + left < W; x++) {
        out[(y + top) * W + x + left] = digits[k].bytes[y * width + x];
      }
    }
    return out;
  }

  function goBack() {
    set({ pair: answered.pair, place: answered.place });
    answered.digits.forEach((digit, k) => hold(k, digit));
    if (answered.digits.length) arrange();
  }

  const compose = () => look(arrange());

  /** Show where the digits are; returns the picture of both. */
  function arrange() {
    const layers = [placed(0), placed(1)];
    const [C, H, W] = card.image_shape;
    const sum = layers[0].map((x, p) => Math.min(255, x + layers[1][p]));
    const image = new Uint8Array(C * H * W);
    for (let c = 0; c < C; c++) image.set(sum, c * H * W);
    paintColours(
      truth,
      layers.map((layer, k) => [layer, COLOURS[k]]),
      card.image_shape,
    );
    state.place.forEach((pixels, n) => {
      sliders[n >> 1][n % 2].value = String(pixels);
      values[n >> 1][n % 2].textContent = minus(pixels);
    });
    return image;
  }

  // What the pictures show: without an answer the sliders go back there.
  let answered = { pair: state.pair, place: state.place, digits: [...digits] };
  const look = latest(async (/** @type {Uint8Array} */ image) => {
    const asked = { pair: state.pair, place: state.place, digits: [...digits] };
    const answer = await post("overlap", { image: toText(image) }).catch((error) => {
      if (asked.place === state.place && asked.pair === state.pair) goBack();
      throw error;
    });
    answered = asked;
    if (signal.aborted) return;
    const labels = digits.map((digit) => digit.label);
    const swapped = answer.drawn[0] === labels[1] || answer.drawn[1] === labels[0];
    const order = swapped ? [1, 0] : [0, 1];
    scene.rivals = order.map((n) => answer.drawn[n]);
    scene.show(answer, card);
    const size = scene.analysis.image.length;
    drawPair(order.map((n) => scene.analysis.pictures.subarray(n * size, (n + 1) * size)));
    judge(labels);
  });

  /** @param {Uint8Array[]} pictures */
  function drawPair(pictures) {
    paintColours(
      byId("reconstruction"),
      pictures.map((picture, k) => [picture, COLOURS[k]]),
      card.image_shape,
    );
    byId("reconstruction").setAttribute("aria-label", "Both digits as their capsules draw them");
    byId("sub-reconstruction").textContent = "both digits, each drawn alone";
    pictures.forEach((picture, k) => {
      const name = card.classes[scene.rivals[k]];
      paintColours(extra[k], [[picture, COLOURS[k]]], card.image_shape);
      extra[k].setAttribute("aria-label", `What capsule ${name} draws`);
      names[k].replaceChildren(
        "capsule ",
        number(
          name,
          `One of the two longest capsules; length ${scene.analysis.lengths[scene.rivals[k]].toFixed(2)}`,
        ),
      );
    });
    byId("note-reconstruction").textContent = "";
    refreshMiniatures();
  }

  /** @param {number[]} labels */
  function judge(labels) {
    const [across, down] = [0, 1].map((n) => Math.abs(state.place[n] - state.place[2 + n]));
    const share = (1 - across / width) * (1 - down / height);
    const right = [...labels].sort().join() === [...scene.rivals].sort().join();
    const alike = labels[0] === labels[1];
    const wanted = alike ? `in truth both are ${labels[0]}` : `in truth ${labels.join(" and ")}`;
    verdict.replaceChildren(
      `It says ${scene.rivals.map((j) => card.classes[j]).join(" and ")}: `,
      h("strong", {}, right ? "both right" : wanted),
      alike ? ". It names two different digits, so one of them must be another" : "",
      ". The frames overlap by ",
      number(
        `${Math.round(100 * share)} %`,
        `Share of a ${height}×${width} frame that both digits cover; 80 % on average in the paper's test set`,
      ),
      ".",
      state.place.some((pixels) => Math.abs(pixels) > trained)
        ? ` A digit is moved by more than ${trained} pixels: such places were not in training.`
        : "",
    );
  }

  await Promise.all([load(0), load(1)]);
  if (signal.aborted) return;
  dragDigits(signal, digits, card, move);
  await compose();
}

/** Whether the network of this mode is that of the others. @param {NetCard} card */
const isOwn = (card) =>
  card.name === scene.info.capsnet.name && card.data === scene.info.capsnet.data;

/** Where the upper left corner of a digit is on the canvas: its x and y. @param {number} k */
function corner(k) {
  const [, H, W] = scene.info.overlap.image_shape;
  const [, height, width] = scene.info.digits.image_shape;
  return [
    Math.floor((W - width) / 2) + state.place[2 * k],
    Math.floor((H - height) / 2) + state.place[2 * k + 1],
  ];
}

/**
 * Let the mouse or a finger move the digit whose ink is nearest; far from both there is none.
 * @param {AbortSignal} signal
 * @param {Digit[]} digits
 * @param {NetCard} card
 * @param {(k: number, axis: number, pixels: number) => void} move
 */
function dragDigits(signal, digits, card, move) {
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
