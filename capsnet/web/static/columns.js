// The columns from the primary capsules to the reconstruction, drawn anew for every answer.

/** @import { Routed } from "./types.js" */

import { decode, latest } from "./api.js";
import { buildClasses, drawClasses } from "./classes.js";
import { byId, number, refill } from "./dom.js";
import {
  almostAll,
  amountScale,
  CapsuleMap,
  lengthScale,
  paint,
  refreshMiniatures,
} from "./draw.js";
import { drawFlow, startFlow } from "./flow.js";
import { isDot } from "./ink.js";
import { light, lit, startLight } from "./light.js";
import { scene } from "./scene.js";
import { set, state } from "./state.js";

const primary = new CapsuleMap(byId("primary"));
let held = -1; // the capsule that was clicked, so that the mouse leaves it alone
// What the reconstruction is of; null while a mode draws it itself.
let painted = /** @type {Painted | null} */ (null);
/** @typedef {{ analysis: Routed, which: number, tweak: number[], v: number[] }} Painted */

/** Draw the columns whenever something changes. */
export function startColumns() {
  const pointed = byId("primary");
  held = linked();
  pointed.dataset.tip = "A square for each primary capsule"; // until one is pointed at
  pointed.addEventListener("pointermove", (event) => {
    const capsule = primary.at(event);
    if (capsule >= 0) pointAt(capsule, false);
    tellOf(capsule);
  });
  pointed.addEventListener("pointerdown", (event) => {
    const capsule = primary.at(event);
    if (!event.button && capsule >= 0) pointAt(capsule, true);
  });
  pointed.addEventListener("keydown", moveCursor);
  for (const name of ["pointerleave", "blur"]) pointed.addEventListener(name, lookAway);
  startFlow();
  startLight();
  scene.addEventListener("light", () => drawPrimary());
  addEventListener("popstate", () => (held = linked()));
  scene.addEventListener("analysis", () => {
    paint(byId("input"), scene.analysis.image, scene.card.image_shape);
    buildClasses();
    drawAll();
    refreshMiniatures();
  });
  scene.addEventListener("choice", drawAll);
  scene.addEventListener("hover", () => {
    drawPrimary();
    drawField();
  });
}

/** The capsule that a link holds; a link to Route holds none. */
function linked() {
  return state.mode === "route" ? -1 : state.capsule;
}

const isHeld = () => held >= 0 && held === state.capsule;

/**
 * Look at the capsule that is pointed at, unless another is held; a press holds it or lets it go.
 * @param {number} capsule
 * @param {boolean} pressed
 */
export function pointAt(capsule, pressed) {
  if (pressed) held = isHeld() && capsule === held ? -1 : capsule;
  if (pressed || (!isHeld() && capsule !== state.capsule)) scene.look(capsule);
}

/** Say what a square of the map is, and light its type. @param {number} capsule */
function tellOf(capsule) {
  if (!(capsule in (scene.analysis?.u ?? []))) return light();
  const { analysis, card, which } = scene;
  const [type, row, column] = placeOf(capsule);
  const says =
    state.mode === "route"
      ? `sends ${sent()[capsule].toPrecision(2)} to “${card.classes[which]}”`
      : `length ${analysis.u[capsule].toFixed(2)}`;
  byId("primary").dataset.tip = `Capsule of type ${type} at row ${row}, column ${column}: ${says}`;
  light(type - 1);
}

/** Take the mark away again, unless it is held or the panel of Route speaks of that capsule. */
function lookAway() {
  light();
  if (state.mode !== "route" && state.capsule >= 0 && !isHeld()) scene.look(-1);
}

function drawAll() {
  describe();
  drawPrimary();
  drawField();
  drawClasses();
  drawFlow(); // its ribbons end at the rows of the classes
  drawReconstruction();
}

function describe() {
  const { card } = scene;
  const [rows, columns, types] = card.grid;
  refill(
    byId("sub-primary"),
    number(
      `${rows}×${columns}×${types}`,
      `${types} types of capsule on a grid of ${rows}×${columns} positions`,
    ),
    " vectors of ",
    number(`${card.primary_dim}`, "Numbers in each primary capsule"),
  );
  refill(
    byId("sub-routing"),
    "iteration ",
    number(
      `${scene.step + 1} of ${scene.numIters}`,
      "Procedure 1 of the paper is repeated this often",
    ),
  );
  refill(
    byId("sub-classes"),
    number(`${card.classes.length}`, "one capsule for each class"),
    ...(scene.cnn
      ? [" capsules; thin blue bar: the CNN"]
      : [
          " vectors of ",
          number(`${card.class_dim}`, "Numbers in each class capsule"),
          card.tells_numbers ? `; it says ${scene.analysis.said}` : "; length = how sure",
        ]),
  );
  const doubts = allDoubts();
  byId("doubt").hidden = !doubts.length;
  byId("doubt").textContent = `Not to be trusted: ${doubts.join("; ")}.`;
  const name = card.classes[scene.which];
  if (!scene.drawsItself) {
    byId("sub-reconstruction").textContent = card.has_decoder
      ? scene.when || `by capsule ${name} alone` // one line, so that nothing moves
      : "none";
  }
  refill(byId("note-primary"), ...(state.mode === "route" ? describeSent(name) : [LENGTHS]));
  byId("note-routing").textContent = scene.rivals.length
    ? "Left: types of primary capsule. Right: where their votes go; the two longest in colour."
    : `Left: types of primary capsule. Right: where their votes go; “${name}” in orange.`;
}

/** Why the answer is not to be trusted: what the network's side says, and what the picture shows. */
function allDoubts() {
  const { analysis, card } = scene;
  const dot = card.reads_digits && isDot(analysis.image, card.image_shape);
  return dot ? ["there is only a dot on the picture", ...analysis.doubts] : analysis.doubts;
}

const LENGTHS = "One tile for each type, one square for each position; brightness = length.";

/** @param {string} name */
function describeSent(name) {
  return [
    `Brightness: how strong a vote for “${name}” each capsule sends, from 0 to `,
    number(
      sentRange().toPrecision(2),
      "All but a hundredth of the capsules send less; the strongest would leave all others dark",
    ),
    " or more. The strongest sends ",
    number(
      Math.max(...sent()).toPrecision(2),
      "The largest c·|û| of this iteration: the coupling times the length of the vote",
    ),
    ". Arrow keys move the mark.",
  ];
}

/** How strongly each primary capsule votes for the chosen class: c_ij · |u_hat_ij|. */
function sent(step = scene.step) {
  const { couplings, votes, I, J } = scene.analysis;
  const c = couplings[step];
  return Float32Array.from(
    { length: I },
    (_, i) => c[i * J + scene.which] * votes[i * J + scene.which],
  );
}

function drawPrimary() {
  const routed = state.mode === "route";
  const values = routed ? sent() : scene.analysis.u;
  const scale = routed ? amountScale(sentRange()) : lengthScale;
  primary.paint(values, scene.card.grid, scale, state.capsule, lit.type);
  const [type, row, column] = placeOf(state.capsule);
  byId("primary").setAttribute(
    "aria-label",
    `Map of ${scene.analysis.I} primary capsules. ` +
      (state.capsule in scene.analysis.u
        ? `Capsule of type ${type} at row ${row}, column ${column}`
        : "Arrow keys look at one of them."),
  );
}

/** The end of the scale of votes, so that brightness means the same in all iterations. */
const sentRange = () =>
  Math.max(...scene.analysis.couplings.map((_, step) => almostAll(sent(step))));

/** Where a primary capsule sits: its type, row and column, from 1. @param {number} i */
export function placeOf(i) {
  const [, columns, types] = scene.card.grid;
  const row = Math.floor(i / types / columns);
  const column = Math.floor(i / types) % columns;
  return [(i % types) + 1, row + 1, column + 1];
}

/**
 * The ends of a field that begins at a pixel, without what lies over the edge of the image.
 * @param {number} begin @param {number} side @param {number} size @returns {[number, number]}
 */
function within(begin, side, size) {
  return [Math.max(begin, 0), Math.min(begin + side, size)];
}

/** Frame the part of the input that the marked capsule sees. */
function drawField() {
  const field = byId("field");
  const i = state.capsule;
  field.hidden = i < 0 || i >= scene.analysis.I;
  if (field.hidden) return;
  const [, columns, types] = scene.card.grid;
  const [side, step, start] = scene.card.field;
  const [, H, W] = scene.card.image_shape;
  const [left, right] = within((Math.floor(i / types) % columns) * step + start, side, W);
  const [top, bottom] = within(Math.floor(i / types / columns) * step + start, side, H);
  field.style.left = `${(left * 100) / W}%`;
  field.style.top = `${(top * 100) / H}%`;
  field.style.width = `${((right - left) * 100) / W}%`;
  field.style.height = `${((bottom - top) * 100) / H}%`;
}

/** @param {KeyboardEvent} event */
function moveCursor(event) {
  const [rows, columns, types] = scene.card.grid;
  /** @type {Record<string, number>} */
  const moves = {
    ArrowRight: types,
    ArrowLeft: -types,
    ArrowDown: types * columns,
    ArrowUp: -types * columns,
    PageDown: 1,
    PageUp: -1,
  };
  const move = moves[event.key];
  if (!move) return;
  event.preventDefault();
  event.stopPropagation();
  const count = rows * columns * types;
  const next = (Math.max(0, state.capsule) + move + count) % count;
  if (isHeld()) held = next;
  scene.look(next);
  tellOf(next);
}

/** Draw the chosen capsule, tweaked; one request at a time, the newest wins. */
export function drawReconstruction() {
  const { card, analysis, which } = scene;
  if (!card.has_decoder) {
    byId("note-reconstruction").textContent =
      "This model was trained without a decoder, so its capsules cannot draw. Train one with a decoder to see pictures.";
    return;
  }
  if (!analysis || scene.drawsItself) {
    painted = null;
    return;
  }
  const shown = analysis.drawn.indexOf(which);
  const wanted = { analysis, which, tweak: [...scene.tweak], v: scene.pose };
  const size = analysis.image.length;
  const came = analysis.pictures.subarray(shown * size, (shown + 1) * size); // with the analysis
  const isPlain = !scene.tweak.some((x) => x) && (!analysis.trace || !scene.when);
  if (shown >= 0 && came.length && isPlain) {
    showPicture(came);
    painted = wanted;
  } else if (!isWanted(painted)) drawPose(wanted);
}

/** Whether a picture is of what is chosen now. @param {Painted | null} picture */
const isWanted = (picture) =>
  picture?.analysis === scene.analysis &&
  picture.which === scene.which &&
  picture.v.join() === scene.pose.join();

/** @type {(picture: Painted) => Promise<void>} */
const drawPose = latest(async (picture) => {
  try {
    const bytes = await decode([[{ which: picture.which, v: picture.v }]], scene.by);
    if (!isWanted(picture)) return;
    showPicture(bytes);
    painted = picture;
  } catch (error) {
    if (isWanted(picture)) goBack();
    throw error;
  }
});

/** Choose again what is on the screen: nothing else could be drawn. */
function goBack() {
  const same = painted?.analysis === scene.analysis ? painted : null;
  set({ which: same?.which ?? -1, tweak: same?.tweak ?? [] });
  scene.emit("choice");
}

/** @param {Uint8Array} bytes */
function showPicture(bytes) {
  const { card, analysis } = scene;
  if (scene.drawsItself || bytes.length !== analysis.image.length) return;
  const canvas = byId("reconstruction");
  paint(canvas, bytes, card.image_shape);
  refreshMiniatures();
  canvas.setAttribute("aria-label", `What capsule ${card.classes[scene.which]} draws`);
  let error = 0;
  for (let p = 0; p < bytes.length; p++) error += ((bytes[p] - analysis.image[p]) / 255) ** 2;
  refill(
    byId("note-reconstruction"),
    "Squared difference to the input: ",
    number(
      error.toFixed(1),
      "Sum over all pixels of (input − reconstruction)²; training makes it small",
    ),
  );
}
