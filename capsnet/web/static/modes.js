// The modes, in the order of their tabs: what each is called, its first line, and where it is.
// Only the first one is loaded with the page; the others come while it is looked at.

/** @import { ModeEntry, NetCard } from "./types.js" */

import * as tweak from "./tweak.js";

const NEED_DECODER = ["tweak", "morph"];

/** @type {Record<string, ModeEntry>} */
export const MODES = {
  tweak: {
    title: "Tweak",
    lead: (card) =>
      card.has_decoder
        ? `This network redraws your ${card.reads_digits ? "digit" : "picture"} from ${card.class_dim} numbers. Drag one.`
        : "A class capsule is a vector. What its numbers stand for can be seen where there is a decoder.",
    load: () => Promise.resolve(tweak),
  },
  route: {
    title: "Route",
    lead: () =>
      "Every capsule votes for every class. Step by step, it is sent where its vote agrees with the outcome.",
    load: () => import("./route.js"),
  },
  overlap: {
    title: "Overlap",
    lead: () =>
      "Two digits in one place: their capsules share out the evidence, and each draws its own digit.",
    load: () => import("./overlap.js"),
  },
  warp: {
    title: "Warp",
    lead: () =>
      "Bend the picture and watch who stays sure of it. Then cut it to pieces: should anyone still be sure?",
    load: () => import("./warp.js"),
  },
  morph: {
    title: "Morph",
    lead: () =>
      "Every point between two capsules is a picture too. Walk from one picture to another.",
    load: () => import("./morph.js"),
  },
};

/** The names of the modes; those that a network can do nothing for are last. @param {NetCard} [card] */
export function modesFor(card) {
  const names = Object.keys(MODES);
  if (card?.has_decoder ?? true) return names;
  return [...names.filter((name) => !NEED_DECODER.includes(name)), ...NEED_DECODER];
}

/** Load the modes that are not there yet, so that none has to be waited for. */
export function loadOthers() {
  for (const { load } of Object.values(MODES)) load().catch(() => {}); // said when it is chosen
}
