// What the visitor has chosen. All of it is in the address after '#', so that a link shows the same.

/** @import { Bend, Limits, Slider, State } from "./types.js" */

const PAUSE = 150; // milliseconds between two changes of the address
const MAX_PACKED = 4096;
const TOO_LARGE = "-"; // instead of a packed picture
export const MAX_CAPTION = 200;
/** What a lesson can hide; teach.css says which elements these are. */
export const HIDABLE = ["modes", "pictures", "network", "knobs", "article"];
/** The parts that are presented one after the other. */
export const SLIDES = [
  "column-input",
  "column-primary",
  "column-routing",
  "column-classes",
  "column-reconstruction",
  "panel",
];

/** What is chosen before anything is. @type {(limits: Limits, mode: string) => State} */
const usualState = (limits, mode) => ({
  mode,
  sample: 7, // number of the test image
  image: "", // a picture of one's own instead, see packImage
  which: -1, // the chosen class; -1 is the longest capsule
  range: 0, // how far the sliders of Tweak go; 0: as far as each number varies
  tweak: [], // what was added to each dimension
  step: 0, // routing iteration shown; 0 is the last
  iters: 0, // how often Route routes; 0 is as often as in training
  net: 0, // the network that Route looks into; 0 is that of the other modes
  capsule: -1, // primary capsule looked at
  pair: [4, 16],
  own: "", // drawings instead of its digits, see pair.js
  other: -1, // the class chosen in Overlap, whose network is another; -1 is the longest capsule
  place: [-2, -1, 2, 1], // right and down of the first digit, then of the second
  warp: [...Object.values(limits.bends).map((bend) => bend.usual), limits.pieces[0], 0], // and seed
  sweep: /** @type {Bend} */ (Object.keys(limits.bends)[0]),
  to: 2, // number of the test image that a morph ends at
  along: 0.5,
  present: 0, // the column that is presented, from 1; 0 is the whole page
  caption: "", // of a lesson, shown above the page
  hide: "", // words of HIDABLE: what a lesson leaves out
  names: "", // of dimensions, see dimensions.js
});

/** @typedef {(x: number) => number} Rule */
/**
 * @typedef {object} Rules
 * @property {Record<string, (text: string) => string>} words
 * @property {Record<string, Rule | Rule[]>} numbers
 */

/** @type {(low: number, high: number) => Rule} */
const between = (low, high) => (x) => Math.min(high, Math.max(low, x));
/** @type {(low: number, high: number) => Rule} */
const whole = (low, high) => (x) => Math.round(between(low, high)(x));
/** @type {<T>(values: T[]) => (x: T) => T} */
const oneOf = (values) => (x) => (values.includes(x) ? x : values[0]);
/** @type {(slider: Slider) => Rule} */
const onSlider = (slider) => (x) => bound(slider, x);

/** One line of text without anything that is not seen. @param {string} text */
const line = (text) =>
  text
    .replace(/[\p{C}\p{Z}]+/gu, " ")
    .trim()
    .slice(0, MAX_CAPTION);
/** @param {string} text */
const hidable = (text) => HIDABLE.filter((word) => text.split(" ").includes(word)).join(" ");

/** The nearest value that a slider can have. @type {(slider: Slider, x: number) => number} */
export const bound = ({ low, high, step }, x) =>
  Number((Math.round(between(low, high)(x) / step) * step).toFixed(2));

/**
 * What each may be, whatever a link says; a list has one rule for all or one for each place.
 * @type {(limits: Limits) => Rules}
 */
function rulesFor({ bends, pieces, place, tweaks, max_iters: most, max_number: many }) {
  const widest = tweaks[tweaks.length - 1];
  const words = {
    mode: String,
    image: String,
    own: String,
    sweep: oneOf(Object.keys(bends)),
    caption: line,
    hide: hidable,
    names: (/** @type {string} */ text) => text.slice(0, MAX_PACKED),
  };
  const numbers = {
    sample: whole(0, many),
    which: whole(-1, many),
    range: oneOf([0, ...tweaks.map((slider) => slider.high)]),
    tweak: between(widest.low, widest.high),
    step: whole(0, many),
    iters: whole(0, most),
    net: whole(0, many),
    capsule: whole(-1, many),
    pair: whole(0, many),
    other: whole(-1, many),
    place: onSlider(place),
    warp: [...Object.values(bends).map(onSlider), oneOf(pieces), whole(0, many)],
    to: whole(0, many),
    along: between(0, 1),
    present: whole(0, SLIDES.length),
  };
  return { words, numbers };
}

// Empty until the server has said how far everything goes.
export const state = /** @type {State} */ ({});
let usual = /** @type {State} */ ({});
let rules = /** @type {Rules} */ ({ words: {}, numbers: {} });

/**
 * Take what the address says, now and whenever it changes; to be called before others listen.
 * @param {Limits} limits
 * @param {string} mode
 */
export function startState(limits, mode) {
  usual = usualState(limits, mode);
  rules = rulesFor(limits);
  Object.assign(state, usual, read());
  // What was done last is written before the page can be left.
  for (const name of ["pointerup", "keyup", "pagehide"])
    addEventListener(name, () => changed && write(), { capture: true });
  // Back, Forward, or another address typed in.
  addEventListener("popstate", () => {
    stop();
    Object.assign(state, usual, read());
  });
}

/**
 * What a choice is as long as nobody has made it.
 * @template {keyof State} K
 * @param {K} name
 */
export const usually = (name) => usual[name];

let heard = () => {};
/** Be told of every change of what is chosen; there is one listener. @param {() => void} listener */
export const onChange = (listener) => (heard = listener);

let timer = 0; // until the address may be written again: browsers limit how often
let changed = false; // whether something is not written yet
/**
 * Change what is chosen, and with it the address: at once, or soon after the last change.
 * @param {Partial<State>} patch
 */
export function set(patch) {
  Object.assign(state, patch);
  heard();
  changed = true;
  if (!timer) tick();
}

function tick() {
  timer = 0;
  if (!changed) return;
  write();
  timer = setTimeout(tick, PAUSE);
}

/**
 * Change what is chosen so that the browser's Back button leads to what was chosen before.
 * @param {Partial<State>} patch
 */
export function push(patch) {
  write();
  Object.assign(state, patch);
  history.pushState(null, "", address());
  heard();
}

function stop() {
  clearTimeout(timer);
  timer = 0;
  changed = false;
}

function write() {
  stop();
  history.replaceState(null, "", address());
}

function address(chosen = state) {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(usual)) {
    const text = format(chosen[/** @type {keyof State} */ (name)]);
    if (text !== format(value)) parts.set(name, text);
  }
  return `#${parts}`;
}

/** The address of exactly what is on the screen, but for a patch. @param {Partial<State>} patch */
export function link(patch = {}) {
  write();
  return new URL(address({ ...state, ...patch }), location.href).href;
}

/** @type {(value: string | number | number[]) => string} */
const format = (value) =>
  Array.isArray(value) ? value.map((x) => Number(x.toFixed(3))).join(",") : String(value);

/** @returns {Partial<State>} */
function read() {
  /** @type {Record<string, string | number | number[]>} */
  const found = {};
  for (const [name, text] of new URLSearchParams(location.hash.slice(1))) {
    if (!Object.hasOwn(usual, name)) continue;
    const before = usual[/** @type {keyof State} */ (name)];
    if (typeof before === "string") {
      found[name] = rules.words[name](text);
      continue;
    }
    const rule = rules.numbers[name];
    const hold = (/** @type {number} */ x, n = 0) => (Array.isArray(rule) ? rule[n] : rule)(x);
    const numbers = text.split(",").map(Number);
    if (!numbers.every(Number.isFinite)) continue;
    if (typeof before === "number") found[name] = hold(numbers[0]);
    else if (before.length === 0 || before.length === numbers.length)
      found[name] = numbers.map(hold);
  }
  return found;
}

/** Whether the address holds all that is on the screen: a large picture does not fit. */
export const linkHoldsAll = () => state.image !== TOO_LARGE;

/**
 * A small picture as text for the address, 16 grey levels; a mark if it is too large.
 * @param {Uint8Array} bytes
 */
export function packImage(bytes) {
  if (bytes.length > MAX_PACKED) return TOO_LARGE;
  let text = "";
  for (let n = 0; n < bytes.length; n += 2) {
    text += String.fromCharCode((bytes[n] & 240) | ((bytes[n + 1] ?? 0) >> 4));
  }
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/**
 * The bytes of a packed picture; null if it has not the size the model takes.
 * @param {string} packed
 * @param {number} size
 */
export function unpackImage(packed, size) {
  let text;
  try {
    text = atob(packed.replaceAll("-", "+").replaceAll("_", "/"));
  } catch {
    return null;
  }
  if (text.length !== Math.ceil(size / 2)) return null;
  return Uint8Array.from({ length: size }, (_, n) => {
    const byte = text.charCodeAt(n >> 1);
    return 17 * (n % 2 ? byte & 15 : byte >> 4);
  });
}
