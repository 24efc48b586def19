// What is on the screen: the network looked into, its input, and everything it answered.
//
// Events: "analysis" (a new input was routed), "choice" (another class, step or tweak),
// "hover" (another primary capsule is looked at), "light" (what is pointed at, see light.js).

/** @import { Analysis, Info, NetCard, Routed, Source, State } from "./types.js" */

import { latest, post, toBytes, toFloats, toText } from "./api.js";
import { softmax, tablesOf } from "./routing.js";
import { set, state } from "./state.js";

/** @typedef {{ image: Uint8Array, patch: Partial<State> }} Chosen */

/** @type {any} */
const later = null; // there before a mode is entered: app.js waits for it

class Scene extends EventTarget {
  info = /** @type {Info} */ (later); // what the server can show
  card = /** @type {NetCard} */ (later); // the network looked into
  image = /** @type {Uint8Array} */ (later); // bytes [C, H, W] that the visitor chose
  source = /** @type {Source | null} */ (null); // where they are from, as in the address
  next = /** @type {Chosen | null} */ (null); // a picture that is chosen but not answered yet
  analysis = /** @type {Routed} */ (later); // what the network did with it
  plain = false; // whether it was given the image itself, neither bent nor laid over another
  signal = /** @type {AbortSignal} */ (later); // says when the mode that is shown is left
  base = 0; // the longest capsule of the unbent image
  cnn = /** @type {number[] | null} */ (null); // class probabilities of the CNN, in Warp
  rivals = /** @type {number[]} */ ([]); // the two classes found, in Overlap, as they are coloured
  drawsItself = false; // whether the mode draws the reconstruction

  /** The network that a picture is given to: in Route another one can be chosen. */
  get main() {
    const { capsnet, others } = this.info;
    return (state.mode === "route" && others[state.net - 1]) || capsnet;
  }

  /** How a question names that network; nothing is said of the usual one. */
  get by() {
    return this.main === this.info.capsnet ? {} : { net: state.net };
  }

  /** @param {"analysis" | "choice" | "hover" | "light"} name */
  emit(name) {
    this.dispatchEvent(new Event(name));
  }

  /**
   * Show what a network did with its input; `plain` if that is the image as it was chosen.
   * @param {Analysis} answer
   */
  show(answer, card = this.main, plain = false) {
    this.card = card;
    this.plain = plain;
    this.analysis = unpack(answer, card);
    this.emit("analysis");
  }

  /** The class looked at: the chosen one, or the longest capsule. */
  get which() {
    const chosen = this.card === this.info.overlap ? state.other : state.which;
    return chosen >= 0 && chosen < this.card.classes.length ? chosen : this.analysis.drawn[0];
  }

  /** How often the votes were routed; in Route that can be chosen. */
  get numIters() {
    return this.analysis.couplings.length;
  }

  /** The routing iteration looked at, from 0. */
  get step() {
    const last = this.numIters - 1;
    return state.mode === "route" && state.step
      ? Math.min(Math.max(state.step, 1) - 1, last)
      : last;
  }

  /** Which iteration a capsule's vector and drawing are of, where it is not the last one looked at. */
  get when() {
    if (this.step === this.numIters - 1) return "";
    return `after ${this.analysis.trace ? `iteration ${this.step + 1}` : "the last iteration"}`;
  }

  /** What is added to the chosen class capsule; the other modes show what the network said. */
  get tweak() {
    return ["tweak", "morph"].includes(state.mode) ? state.tweak : [];
  }

  /** The vector of a class capsule in the iteration looked at. @param {number} j */
  vectorOf(j) {
    const { trace, v } = this.analysis;
    const E = this.card.class_dim;
    return trace ? [...trace.v[this.step].subarray(j * E, (j + 1) * E)] : v[j];
  }

  /** The vector of the chosen class capsule, tweaked. */
  get pose() {
    const most = this.info.limits.max_pose;
    /** @param {number} x */
    const clamp = (x) => Math.min(most, Math.max(-most, x));
    return this.vectorOf(this.which).map((x, e) => clamp(x + (this.tweak[e] ?? 0)));
  }

  /** The lengths of the class capsules in the iteration looked at; the chosen one as it is tweaked. */
  get lengths() {
    const lengths = this.analysis.v_steps[this.step];
    return this.tweak.some((x) => x) ? lengths.with(this.which, Math.hypot(...this.pose)) : lengths;
  }

  /** Choose a class; tweaks belong to the class they were made for. @param {number} which */
  choose(which) {
    if (this.card === this.info.overlap) set({ other: which });
    else set({ which, tweak: [] });
    this.emit("choice");
  }

  /**
   * Take another picture once it is answered; `kept` says that the choices belong to it.
   * @param {Uint8Array} image
   * @param {Partial<State>} patch
   */
  take(image, patch, kept = false) {
    this.next = { image, patch: kept ? patch : { ...patch, which: -1, tweak: [] } };
    return lookAt();
  }

  /** Look again at the picture that is chosen, itself. */
  again() {
    this.plain = false;
    return lookAt();
  }

  /** @param {number} capsule */
  look(capsule) {
    if (!this.analysis) return;
    set({ capsule });
    this.emit("hover");
  }
}

export const scene = new Scene();

/** Route the picture; the newest one wins, and the mode that comes next asks again. */
const lookAt = latest(async () => {
  const { signal, next, main } = scene;
  let answer, dropped;
  try {
    answer = await post("analyse", { image: toText((next ?? scene).image), ...scene.by });
  } finally {
    dropped = scene.next !== next;
    if (!dropped) scene.next = null; // without an answer the old picture stays
  }
  if (next && dropped) return;
  if (next) {
    scene.image = next.image;
    scene.plain = false;
    set(next.patch);
    scene.source = { sample: state.sample, image: state.image };
  }
  if (signal.aborted || main !== scene.main) return;
  scene.base = answer.drawn[0];
  scene.show(answer, main, true);
});

/** @type {(answer: Analysis, card: NetCard) => Routed} */
function unpack(answer, card) {
  const J = card.classes.length;
  const [rows, columns, types] = card.grid;
  const b = toFloats(answer.b);
  const told = toFloats(answer.c);
  const I = rows * columns * types;
  // For dynamic routing the couplings are the softmax over j of b.
  const couplings = Array.from({ length: card.num_iters }, (_, t) =>
    told.length
      ? told.subarray(t * I * J, (t + 1) * I * J)
      : softmax(b.subarray(t * I * J, (t + 1) * I * J), J, card.leaky),
  );
  return {
    ...answer,
    image: toBytes(answer.image),
    u: toFloats(answer.u),
    votes: toFloats(answer.votes),
    pictures: toBytes(answer.pictures),
    I,
    J,
    ...tablesOf(b, couplings, I, J),
    trace: null,
  };
}
