// A tour for first-time visitors: the page is dimmed but for what a bubble beside it speaks of. It
// goes through every mode, plays the routing, and leaves the page as it found it.

/** @import { State } from "./types.js" */

import { byId, h } from "./dom.js";
import { recall, remember } from "./memory.js";
import { scene } from "./scene.js";
import { state } from "./state.js";

/**
 * @typedef {object} Stop
 * @property {string} at what is spoken of
 * @property {string} mode
 * @property {string} heading
 * @property {string} text
 * @property {boolean} [draws] whether it needs a decoder
 * @property {boolean} [plays] whether the mode's Play is pressed
 */

/** @returns {Stop[]} */
function stops() {
  const { has_decoder: draws, class_dim: numbers, routing } = scene.info.capsnet;
  const votes = routing === "dynamic"; // only these are routed, and shown, in the page
  const mode = draws ? "tweak" : "route";
  /** @type {Stop[]} */
  const all = [
    {
      at: "#column-input",
      mode,
      heading: "Start here",
      text: "Pick a picture, draw your own on the black square, or drop a picture file.",
    },
    {
      at: "#column-primary",
      mode,
      heading: "Small parts",
      text: "Primary capsules look for small parts everywhere in the picture. Each is a vector: its length is meant to say “the part is here”, its direction how it lies. Point at one to see which part of the picture it looks at.",
    },
    {
      at: "#column-routing",
      mode,
      heading: "Agreement",
      text: "Every primary capsule predicts every class, and is sent where its vote agrees with the outcome. This is routing by agreement; in some networks a few strong capsules carry most of it.",
    },
    {
      at: "#column-classes",
      mode,
      heading: "Whole things",
      text: "One capsule for each class. The longest wins. Choose any of them.",
    },
    {
      at: "#column-reconstruction",
      mode,
      draws: true,
      heading: `Drawn from ${numbers} numbers`,
      text: "The chosen capsule alone is enough to draw the picture again.",
    },
    {
      at: ".film-row",
      mode: "tweak",
      draws: true,
      heading: "Touch it",
      text: "Drag a frame along its film: one number of the capsule changes, and the drawing follows. Give the number a name.",
    },
    {
      at: votes ? ".agreement svg" : ".steps",
      mode: "route",
      plays: true,
      heading: "Route: watch the votes agree",
      text: `This is playing now. ${votes ? "A dot is the vote of one part; the arrow is the class capsule. " : ""}At first each part sends the same share to all classes; with every iteration it sends more to where its vote agrees, and the capsule grows longer.`,
    },
    {
      at: "#column-reconstruction",
      mode: "overlap",
      heading: "Overlap: two digits at once",
      text: "Two digits in one place. Each of the two longest capsules draws its own; drag the digits to make it harder.",
    },
    {
      at: ".chart",
      mode: "warp",
      heading: "Warp: bend it",
      text: "How sure is the network while the picture is turned, shifted or cut to pieces? Where there is a CNN, it is asked the same.",
    },
    {
      at: ".morph .film",
      mode: "morph",
      draws: true,
      plays: true,
      heading: "Morph: walk between pictures",
      text: "Every point between two capsules is a picture too. This walks from one to the other.",
    },
    {
      at: "#tabs",
      mode,
      heading: "Go on",
      text: "All modes are here, and the address always holds what you see: a link shows others the same.",
    },
  ];
  return all.filter((stop) => draws || !stop.draws);
}
const SEEN = "capsnet:toured";
const GAP = 14; // pixels between the bubble and what it speaks of
const EDGE = 8; // and between it and the edge of the window
const isStill = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/**
 * Offer the tour to new visitors, and start it from its button.
 * @param {(patch: Partial<State>) => Promise<void>} go
 */
export function startTour(go) {
  const welcome = byId("welcome");
  const button = byId("tour-button");
  const dismiss = () => {
    remember(SEEN, "yes");
    welcome.hidden = true;
  };
  welcome.hidden = recall(SEEN) !== null;
  // Who has begun needs the place it takes; the tour keeps its button.
  for (const begun of ["click", "change"])
    document.querySelector("main")?.addEventListener(begun, () => (welcome.hidden = true));
  byId("welcome-close").addEventListener("click", () => {
    dismiss();
    button.focus(); // the line took the focus away with it
  });
  for (const one of [byId("welcome-tour"), button])
    one.addEventListener("click", () => {
      dismiss();
      tour(go, () => button.focus());
    });
}

/**
 * @param {(patch: Partial<State>) => Promise<void>} go
 * @param {() => void} onEnd
 */
function tour(go, onEnd) {
  const before = { state: { ...state }, top: scrollY };
  const all = stops();
  const listening = new AbortController();
  const { signal } = listening;
  const light = h("div", { id: "tour-light" });
  const bubble = h("dialog", { id: "tour", onclose: end }); // modal: it holds the focus
  const watch = new ResizeObserver(settle);
  let place = /** @type {Element | null} */ (null); // what the bubble speaks of
  let turns = 0;

  document.body.append(light, bubble);
  bubble.showModal();
  addEventListener("resize", settle, { signal });
  addEventListener("scroll", () => put(bubble, light, place), { signal, passive: true });
  addEventListener("popstate", stop, { signal }); // the visitor goes on alone
  visit(0);

  /** @param {number} n */
  async function visit(n) {
    const { at, mode, heading, text, plays } = all[n];
    const turn = ++turns;
    fill(n, heading, text);
    if (state.mode !== mode) await go({ mode, capsule: -1 });
    if (turn !== turns || signal.aborted) return;
    place = document.querySelector(at);
    watch.disconnect();
    watch.observe(byId("panel"));
    settle();
    // Iterations are still pictures; the walk of Morph is not.
    if (plays && (mode === "route" || !isStill())) play()?.click();
  }

  /** @param {number} n @param {string} heading @param {string} text */
  function fill(n, heading, text) {
    const last = n === all.length - 1;
    const next = h(
      "button",
      { type: "button", class: "primary", onclick: () => (last ? end() : visit(n + 1)) },
      last ? "Done" : "Next",
    );
    bubble.setAttribute("aria-label", `Tour: ${heading}`);
    bubble.replaceChildren(
      h("h3", {}, heading),
      h("p", {}, text),
      h(
        "div",
        { class: "buttons" },
        h("span", { class: "note" }, `${n + 1} of ${all.length}`),
        n ? h("button", { type: "button", onclick: () => visit(n - 1) }, "Back") : null,
        h("button", { type: "button", class: "quiet", onclick: end }, "Close"),
        next,
      ),
    );
    next.focus({ preventScroll: true });
  }

  function settle() {
    if (!place?.isConnected) return;
    reveal(place, bubble);
    put(bubble, light, place);
  }

  /** End the tour and go back to where it was started. */
  async function end() {
    if (signal.aborted) return;
    stop();
    if (JSON.stringify(before.state) !== JSON.stringify(state)) await go(before.state);
    scrollTo({ top: before.top, behavior: "instant" });
    onEnd();
  }

  function stop() {
    listening.abort();
    watch.disconnect();
    light.remove();
    bubble.remove();
  }
}

/** The button that plays the mode. */
const play = () =>
  /** @type {HTMLElement | null} */ (document.querySelector("#panel .panel-head .primary"));

/** The height of what stays at the top of the window. */
function headHeight() {
  const header = /** @type {HTMLElement} */ (document.querySelector("header"));
  return getComputedStyle(header).position === "sticky" ? header.offsetHeight : 0;
}

/** Whether the bubble fits beside a place. @param {DOMRect} box @param {number} width */
const fitsBeside = ({ left, right }, width) =>
  Math.max(innerWidth - right, left) >= width + GAP + EDGE;

/**
 * Scroll so that a place is seen, with room for the bubble.
 * @param {Element} place
 * @param {HTMLElement} bubble
 */
function reveal(place, bubble) {
  if (headHeight() && place.closest("header")) return; // it stays in sight
  const box = place.getBoundingClientRect();
  const below = fitsBeside(box, bubble.offsetWidth) ? EDGE : bubble.offsetHeight + GAP + EDGE;
  const head = headHeight() + GAP;
  if (box.top < head || box.bottom > innerHeight - below)
    scrollBy({ top: box.top - head, behavior: isStill() ? "instant" : "smooth" });
}

/**
 * Light a place, and put the bubble where it covers nothing of what is lit.
 * @param {HTMLElement} bubble
 * @param {HTMLElement} light
 * @param {Element | null} place
 */
function put(bubble, light, place) {
  if (!place) return;
  const box = place.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = bubble;
  const beside = fitsBeside(box, width);
  const above = box.top - GAP - height;
  let left = Math.min(Math.max(EDGE, box.left), innerWidth - width - EDGE);
  let top = Math.min(box.bottom + GAP, innerHeight - height - EDGE);
  if (beside) {
    left = innerWidth - box.right >= width + GAP + EDGE ? box.right + GAP : box.left - GAP - width;
    top = Math.max(EDGE, Math.min(box.top, innerHeight - height - EDGE));
  } else if (top < box.bottom + GAP && above >= EDGE) top = above;
  // What is too high for the window is lit down to the bubble.
  const begin = Math.max(0, box.top);
  const end = beside || top < box.top ? box.bottom : Math.min(box.bottom, top - GAP);
  const at = { left: box.left, top: begin, width: box.width, height: end - begin };
  for (const [name, value] of Object.entries(at))
    light.style.setProperty(name, `${Math.max(0, value)}px`);
  Object.assign(bubble.style, { left: `${left}px`, top: `${top}px` });
}
