// The dimensions of the class capsules: which changes the drawing most, how far each varies, and
// their names: the visitor's own, else those measured from pictures, else numbers.
//
// Own names are kept in this browser and in the address, so that a link carries them:
// "7.3.stroke width~7.5.slant" are two names of the class in place 7, of its dimensions 3 and 5.

/** @import { Dimensions } from "./types.js" */

import { get } from "./api.js";
import { sayError } from "./dom.js";
import { recall, remember } from "./memory.js";
import { scene } from "./scene.js";
import { set, state } from "./state.js";

let known = /** @type {Dimensions | null} */ (null);

/** Ask for what was measured, once, and take the names that are kept here. */
export async function loadDimensions() {
  try {
    known ??= await get("dimensions");
  } catch (error) {
    sayError(error); // all works without, in the order of the numbers
  }
  const kept = recall(key());
  if (kept) set({ names: write({ ...read(kept), ...read(state.names) }) });
}

/** The dimensions of a class, that which changes the drawing most first. @param {number} j */
export const ranked = (j) =>
  known?.order[j] ?? Array.from({ length: scene.info.capsnet.class_dim }, (_, e) => e);

/** Whether it is known how far the numbers vary. */
export const hasSpreads = () => Boolean(known?.spreads);

/** Standard deviation of a number over images of its class; 0: unknown. @type {(j: number, e: number) => number} */
export const spreadOf = (j, e) => known?.spreads?.[j]?.[e] ?? 0;

/** What was measured, in a word; empty if nothing is clear. @type {(j: number, e: number) => string} */
export const measuredName = (j, e) => known?.names[j]?.[e] ?? "";

/** The visitor's own name, or that of the link; empty if there is none. @type {(j: number, e: number) => string} */
export const ownName = (j, e) => read(state.names)[`${j}.${e + 1}`] ?? "";

/** A dimension as it is spoken of: “dimension 7”, or with its name. @type {(j: number, e: number) => string} */
export function spoken(j, e) {
  const isKnown = scene.card === scene.info.capsnet; // of other networks nothing was measured
  const name = isKnown && (ownName(j, e) || measuredName(j, e));
  return name ? `dimension ${e + 1}, “${name}”` : `dimension ${e + 1}`;
}

/** Name a dimension; nothing takes the name away. @type {(j: number, e: number, name: string) => void} */
export function rename(j, e, name) {
  const renamed = (/** @type {string} */ text) =>
    write({ ...read(text), [`${j}.${e + 1}`]: name.replaceAll("~", "-").trim() });
  remember(key(), renamed(recall(key()) ?? ""));
  set({ names: renamed(state.names) });
}

const key = () => `capsnet:names:${scene.info.capsnet.name}:${scene.info.capsnet.data}`;

/** @type {(text: string) => Record<string, string>} */
function read(text) {
  const parts = text.split("~").map((part) => /^(\d+\.\d+)\.(.+)$/.exec(part));
  return Object.fromEntries(parts.flatMap((part) => (part ? [[part[1], part[2]]] : [])));
}

/** @type {(names: Record<string, string>) => string} */
const write = (names) =>
  Object.entries(names)
    .filter(([, name]) => name)
    .map(([place, name]) => `${place}.${name}`)
    .join("~");
