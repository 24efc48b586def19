// Undo and redo of what the visitor changes in a mode: from mode to mode leads the Back button.
//
// All that is chosen is in `state`, and strokes are on the pad: a step keeps both as they were
// before. What changes between one press of mouse or key and the next is one step.

/** @import { Pad, State } from "./types.js" */

import { byId } from "./dom.js";
import { padOf } from "./pad.js";
import { onChange, set, state } from "./state.js";

/** @typedef {{ chosen: string, pad: Pad | null }} Moment */

const MOST = 100; // steps
/** @type {(keyof State)[]} */
const LEFT_OUT = ["mode", "capsule"]; // where one looks

let past = /** @type {Moment[]} */ ([]);
let future = /** @type {Moment[]} */ ([]);
let now = /** @type {Moment} */ ({ chosen: "", pad: null });
let mode = "";
let presses = 0; // of mouse or keys
let stepped = 0; // the press that the last step belongs to

/**
 * Offer undo and redo by buttons and keys.
 * @param {(pad: Pad | null) => unknown} show brings the screen to the state, and to that pad
 */
export function startUndo(show) {
  const press = () => (presses += 1);
  addEventListener("pointerdown", press, { capture: true });
  addEventListener("keydown", (event) => event.repeat || press(), { capture: true });
  const steps = {
    undo: () => go(past, future, show),
    redo: () => go(future, past, show),
  };
  for (const [name, run] of Object.entries(steps)) byId(`${name}-button`).onclick = run;
  addEventListener("keydown", (event) => {
    const name = asked(event);
    if (!name) return;
    event.preventDefault();
    steps[name]();
  });
  addEventListener("popstate", forget);
  onChange(follow);
  forget();
}

/** What a key asks for; in a field of text it is for the text. @param {KeyboardEvent} event */
function asked({ key, ctrlKey, metaKey, shiftKey, altKey, target }) {
  const isText = target instanceof HTMLInputElement && target.type === "text";
  if (!(ctrlKey || metaKey) || altKey || isText || target instanceof HTMLTextAreaElement) return;
  if (key.toLowerCase() === "z") return shiftKey ? "redo" : "undo";
  if (key.toLowerCase() === "y") return "redo";
}

/** A step begins though the state does not tell yet: the network answers to strokes later. */
export function beginStep() {
  step({ ...now, pad: padOf() });
}

function moment() {
  const chosen = Object.entries(state).filter(
    ([name]) => !LEFT_OUT.includes(/** @type {keyof State} */ (name)),
  );
  return { chosen: JSON.stringify(chosen), pad: padOf() };
}

/** Take note of a change. */
function follow() {
  if (state.mode !== mode) return forget();
  const before = now;
  now = moment();
  if (now.chosen !== before.chosen && presses > stepped) step(before);
}

/** @param {Moment} before */
function step(before) {
  past = [...past.slice(1 - MOST), before];
  future = [];
  stepped = presses;
  mark();
}

/** Begin anew: another mode is shown, or what Back led to. */
function forget() {
  [past, future, mode, stepped, now] = [[], [], state.mode, presses, moment()];
  mark();
}

/** @type {(from: Moment[], to: Moment[], show: (pad: Pad | null) => unknown) => void} */
function go(from, to, show) {
  const wanted = from.pop();
  if (!wanted) return;
  to.push(moment());
  stepped = presses; // what comes of it is no step
  now = wanted;
  set(Object.fromEntries(JSON.parse(wanted.chosen)));
  mark();
  show(wanted.pad);
}

function mark() {
  for (const [name, steps] of Object.entries({ undo: past, redo: future }))
    byId(`${name}-button`).setAttribute("aria-disabled", String(!steps.length));
}
