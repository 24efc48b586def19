// What the visitor has chosen. All of it is in the address after '#', so that a link shows the same.

import { bound, NAMES, PIECES } from "./bends.js";

const DEFAULTS = {
  mode: "tweak",
  sample: 7, // number of the test image
  image: "", // a picture of one's own instead, see packImage
  which: -1, // the chosen class; -1 is the longest capsule
  range: 0.25,
  tweak: [], // what was added to each dimension
  step: 0, // routing iteration shown; 0 is the last
  capsule: -1, // primary capsule looked at
  pair: [4, 16],
  other: -1, // the class chosen in Overlap, whose network is another; -1 is the longest capsule
  place: [-2, -1, 2, 1], // right and down of the first digit, then of the second
  warp: [0, 1, 0, 0, 0, 0, 1, 0], // rotate, scale, shear, right, down, thicken, pieces, seed
  sweep: "rotate",
  to: 2, // number of the test image that a morph ends at
  along: 0.5,
};
const MAX_PACKED = 4096;
const TOO_LARGE = "-"; // instead of a packed picture

const between = (low, high) => (x) => Math.min(high, Math.max(low, x));
const whole = (low, high) => (x) => Math.round(between(low, high)(x));
const oneOf = (values) => (x) => (values.includes(x) ? x : values[0]);
const MANY = 1_000_000;
export const RANGES = [0.25, 0.5, 1];
export const REACH = 8; // how far a digit can be moved in Overlap
export const TRAINED = 4; // how far it was moved in training

// What each may be, whatever a link says; a list has one rule for all or one for each place.
const RULES = {
  mode: String,
  sample: whole(0, MANY),
  image: String,
  which: whole(-1, MANY),
  range: oneOf(RANGES),
  tweak: between(-RANGES.at(-1), RANGES.at(-1)),
  step: whole(0, MANY),
  capsule: whole(-1, MANY),
  pair: whole(0, MANY),
  other: whole(-1, MANY),
  place: whole(-REACH, REACH),
  warp: [...NAMES.map((name) => (x) => bound(name, x)), oneOf(PIECES), whole(0, MANY)],
  sweep: oneOf(NAMES),
  to: whole(0, MANY),
  along: between(0, 1),
};

export const state = { ...DEFAULTS, ...read() };

let timer;
/** Change what is chosen, and soon after the address (browsers limit how often it may change). */
export function set(patch) {
  Object.assign(state, patch);
  timer ??= setTimeout(write, 150);
}

/** Change what is chosen so that the browser's Back button leads to what was chosen before. */
export function push(patch) {
  write();
  Object.assign(state, patch);
  history.pushState(null, "", address());
}

// Back, Forward, or another address typed in; this listener comes first, as this module does.
addEventListener("popstate", () => {
  stop();
  Object.assign(state, DEFAULTS, read());
});

function stop() {
  clearTimeout(timer);
  timer = undefined;
}

function write() {
  stop();
  history.replaceState(null, "", address());
}

function address() {
  const parts = new URLSearchParams();
  for (const [name, usual] of Object.entries(DEFAULTS)) {
    const text = format(state[name]);
    if (text !== format(usual)) parts.set(name, text);
  }
  return `#${parts}`;
}

/** The address of exactly what is on the screen. */
export function link() {
  write();
  return location.href;
}

const format = (value) =>
  Array.isArray(value) ? value.map((x) => Number(x.toFixed(3))).join(",") : String(value);

function read() {
  const found = {};
  for (const [name, text] of new URLSearchParams(location.hash.slice(1))) {
    if (!Object.hasOwn(DEFAULTS, name)) continue;
    const usual = DEFAULTS[name];
    const rule = RULES[name];
    const numbers = text.split(",").map(Number);
    if (typeof usual === "string") found[name] = rule(text);
    else if (!numbers.every(Number.isFinite)) continue;
    else if (!Array.isArray(usual)) found[name] = rule(numbers[0]);
    else if (usual.length === 0 || usual.length === numbers.length)
      found[name] = numbers.map((x, n) => (Array.isArray(rule) ? rule[n] : rule)(x));
  }
  return found;
}

/** Whether the address holds all that is on the screen: a large picture does not fit. */
export const linkHoldsAll = () => state.image !== TOO_LARGE;

/** A small picture as text for the address, 16 grey levels; a mark if it is too large. */
export function packImage(bytes) {
  if (bytes.length > MAX_PACKED) return TOO_LARGE;
  let text = "";
  for (let n = 0; n < bytes.length; n += 2) {
    text += String.fromCharCode((bytes[n] & 240) | ((bytes[n + 1] ?? 0) >> 4));
  }
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The bytes of a packed picture; null if it has not the size the model takes. */
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
