// Overlap: two digits over each other; each is found, and drawn alone, by its own capsule.

/** @import { DataFile, NetCard, Sample } from "./types.js" */
/** @import { Digit } from "./pair.js" */

import { fileOf, latest, post, toBytes, toText } from "./api.js";
import { byId, h, minus, number } from "./dom.js";
import { FIRST, miniature, paintColours, refreshMiniatures, SECOND } from "./draw.js";
import { savePng } from "./export.js";
import { endDrawing, press, sampleButton } from "./input.js";
import { drawingPad } from "./sketch.js";
import { dragDigits, drawnDigit, orderOf, packDrawn, placed } from "./pair.js";
import { samplesOf } from "./samples.js";
import { scene } from "./scene.js";
import { bound, set, state } from "./state.js";

const COLOURS = [FIRST, SECOND];

/**
 * Build the panel; it lives until the signal says that another mode is chosen.
 * @param {HTMLElement} panel
 * @param {AbortSignal} signal
 */
export async function enter(panel, signal) {
  const file = await fileOf("overlap");
  if (signal.aborted) return;
  return file ? offer(panel, file, () => build(panel, signal)) : build(panel, signal);
}

/** @param {HTMLElement} panel @param {AbortSignal} signal */
async function build(panel, signal) {
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
  const pads = ["First", "Second"].map((name, k) =>
    drawingPad(`${name} digit: draw your own here`, kind.image_shape, (bytes) => draw(k, bytes)),
  );
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
      h("h2", {}, "Choose or draw two digits and lay them over each other"),
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
      h(
        "div",
        { class: "own" },
        h(
          "div",
          {},
          pads[k].canvas,
          h("button", { type: "button", class: "quiet", onclick: () => wipe(k) }, "Clear"),
        ),
        h(
          "div",
          {},
          h("p", { class: "note" }, "Or draw one here."),
          ["right", "down"].map((way, axis) => slider(k, axis, way)),
        ),
      ),
    );
  }

  /** Take what is drawn. @param {number} k @param {Uint8Array} bytes */
  function draw(k, bytes) {
    set({ own: packDrawn(k, bytes), other: -1 });
    hold(k, drawnDigit(k) ?? { bytes, label: -1, number: -1 });
    compose();
  }

  /** @param {number} k */
  function wipe(k) {
    pads[k].clear();
    draw(k, new Uint8Array(height * width));
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
    const chosen = samples.find((sample) => sample.number === state.pair[k]) ?? samples[k];
    hold(k, drawnDigit(k) ?? digitOf(chosen));
  }

  /** @param {number} k @param {Digit} digit */
  function hold(k, digit) {
    digits[k] = digit;
    press(shelves[k], digit.number);
    pads[k].show(digit.bytes, digit.number < 0);
  }

  /** @param {number} k @param {Sample} sample */
  function take(k, sample) {
    set({ pair: state.pair.with(k, sample.number), own: packDrawn(k, null), other: -1 });
    hold(k, digitOf(sample));
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
      own: "",
      other: -1,
    });
    await Promise.all([load(0), load(1)]);
    compose();
  }

  function goBack() {
    set({ pair: answered.pair, place: answered.place, own: answered.own });
    answered.digits.forEach((digit, k) => hold(k, digit));
    if (answered.digits.length) arrange();
  }

  const compose = () => look(arrange());

  /** Show where the digits are; returns the picture of both. */
  function arrange() {
    const layers = digits.map(placed);
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
  const choices = () => ({
    pair: state.pair,
    place: state.place,
    own: state.own,
    digits: [...digits],
  });
  let answered = choices();
  const look = latest(async (/** @type {Uint8Array} */ image) => {
    const asked = choices();
    const answer = await post("overlap", { image: toText(image) }).catch((error) => {
      if (asked.place === state.place && asked.pair === state.pair && asked.own === state.own)
        goBack();
      throw error;
    });
    answered = asked;
    if (signal.aborted) return;
    const size = image.length;
    const drawn = toBytes(answer.pictures);
    const pictures = [0, 1].map((n) => drawn.subarray(n * size, (n + 1) * size));
    const order = orderOf(asked.digits, answer.drawn, pictures, asked.digits.map(placed));
    scene.rivals = order.map((n) => answer.drawn[n]);
    scene.show(answer, card);
    drawPair(order.map((n) => pictures[n]));
    judge(asked.digits.map((digit) => digit.label));
  });

  /** @param {Uint8Array[]} pictures */
  function drawPair(pictures) {
    paintColours(
      byId("reconstruction"),
      pictures.map((picture, k) => [picture, COLOURS[k]]),
      card.image_shape,
    );
    byId("reconstruction").setAttribute("aria-label", "Both digits as their capsules draw them");
    byId("sub-reconstruction").textContent = "each drawn alone";
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
    const isKnown = !labels.includes(-1); // nobody knows what a drawing is meant to be
    const right = [...labels].sort().join() === [...scene.rivals].sort().join();
    const alike = isKnown && labels[0] === labels[1];
    const wanted = alike ? `in truth both are ${labels[0]}` : `in truth ${labels.join(" and ")}`;
    verdict.replaceChildren(
      `It says ${scene.rivals.map((j) => card.classes[j]).join(" and ")}`,
      ...(isKnown ? [": ", h("strong", {}, right ? "both right" : wanted)] : []),
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

/**
 * Ask before a large network is loaded.
 * @type {(panel: HTMLElement, file: DataFile, onTake: () => unknown) => void}
 */
function offer(panel, { name, bytes }, onTake) {
  panel.replaceChildren(
    h(
      "div",
      { class: "panel-head" },
      h("h2", {}, "Two digits at once need a larger network"),
      h(
        "button",
        { type: "button", class: "primary", onclick: onTake },
        `Load ${name} (${Math.round(bytes / 1e6)} MB)`,
      ),
    ),
    h(
      "p",
      { class: "note" },
      `It was trained on digits over each other. Until it is here the columns show ${scene.card.name}.`,
    ),
  );
}

/** A test image as one of the two digits. @param {Sample} sample @returns {Digit} */
const digitOf = ({ image, label, number: n }) => ({ bytes: toBytes(image), label, number: n });

/** Whether the network of this mode is that of the others. @param {NetCard} card */
const isOwn = (card) =>
  card.name === scene.info.capsnet.name && card.data === scene.info.capsnet.data;
