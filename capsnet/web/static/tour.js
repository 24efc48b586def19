// A short tour for first-time visitors: one bubble that goes from column to column.

import { byId, h } from "./dom.js";
import { recall, remember } from "./memory.js";
import { scene } from "./scene.js";
import { state } from "./state.js";

const stops = () => [
  [
    "#column-input",
    "tweak",
    "Start here",
    "Pick a picture, draw your own on the black square, or drop a picture file.",
  ],
  [
    "#column-primary",
    "tweak",
    "Small parts",
    "Primary capsules look for small parts everywhere in the picture. Each is a vector: its length is meant to say “the part is here”, its direction how it lies. Point at one to see which part of the picture it looks at.",
  ],
  [
    "#column-routing",
    "tweak",
    "Agreement",
    "Every primary capsule predicts every class, and is sent where its vote agrees with the outcome. This is routing by agreement; in some networks a few strong capsules carry most of it.",
  ],
  [
    "#column-classes",
    "tweak",
    "Whole things",
    "One capsule for each class. The longest wins. Choose any of them.",
  ],
  [
    "#column-reconstruction",
    "tweak",
    `Drawn from ${scene.info.capsnet.class_dim} numbers`,
    "The chosen capsule alone is enough to draw the picture again.",
  ],
  [
    "#panel",
    "tweak",
    "Touch it",
    "Drag a frame along its film: one number of the capsule changes, and the drawing follows. Give the number a name.",
  ],
  [
    "#tabs",
    "tweak",
    "Go on",
    "Route: watch the votes agree. Overlap: two digits at once. Warp: bend it, against a CNN. Morph: walk between pictures. The address always holds what you see.",
  ],
];
const SEEN = "capsnet:toured";

/**
 * Offer the tour to new visitors, and start it from its button.
 * @param {(mode: string) => void} choose
 */
export function startTour(choose) {
  const welcome = byId("welcome");
  const button = byId("tour-button");
  // While it runs: what it listens with, and the mode it was started from.
  let tour = /** @type {{ listening: AbortController, from: string } | null} */ (null);
  let bubble = /** @type {HTMLElement | null} */ (null);
  let place = /** @type {Element | null} */ (null); // what the bubble speaks of
  const dismiss = () => {
    remember(SEEN, "yes");
    welcome.hidden = true;
  };
  welcome.hidden = recall(SEEN) !== null;
  byId("welcome-close").addEventListener("click", () => {
    dismiss();
    button.focus(); // the line took the focus away with it
  });
  byId("welcome-tour").addEventListener("click", begin);
  button.addEventListener("click", begin);

  function begin() {
    dismiss();
    tour ??= { listening: listen(), from: state.mode };
    visit(0);
  }

  function listen() {
    const listening = new AbortController();
    const { signal } = listening;
    /** @param {KeyboardEvent} event */
    const moved = ({ key }) => ["ArrowLeft", "ArrowRight"].includes(key) && stop();
    addEventListener("resize", settle, { signal });
    addEventListener("popstate", stop, { signal });
    addEventListener("keydown", (event) => event.key === "Escape" && end(), { signal });
    byId("tabs").addEventListener("click", stop, { signal }); // the visitor goes on alone
    byId("tabs").addEventListener("keydown", moved, { signal });
    return listening;
  }

  /** @param {number} n */
  function visit(n) {
    remove();
    const all = stops();
    const [selector, mode, heading, text] = all[n];
    if (state.mode !== mode) choose(mode);
    place = document.querySelector(selector);
    place?.classList.add("toured");
    const last = n === all.length - 1;
    const next = h(
      "button",
      { type: "button", class: "primary", onclick: () => (last ? end() : visit(n + 1)) },
      last ? "Done" : "Next",
    );
    bubble = h(
      "div",
      { id: "tour", role: "dialog", "aria-label": `Tour: ${heading}` },
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
    document.body.append(bubble);
    settle();
    next.focus({ preventScroll: true });
  }

  function settle() {
    if (!place || !bubble) return;
    place.scrollIntoView({ block: "center" });
    put(bubble, place.getBoundingClientRect());
  }

  /** End the tour and go back to where it was started. */
  function end() {
    const from = tour?.from;
    stop();
    if (from && state.mode !== from) choose(from);
    button.focus();
  }

  function stop() {
    tour?.listening.abort();
    tour = null;
    remove();
  }

  function remove() {
    bubble?.remove();
    document.querySelector(".toured")?.classList.remove("toured");
  }
}

/**
 * Put the bubble beside what it speaks of, where there is room.
 * @param {HTMLElement} bubble
 * @param {DOMRect} box
 */
function put(bubble, box) {
  const { offsetWidth: width, offsetHeight: height } = bubble;
  const gap = 14;
  const beside = box.right + gap + width < innerWidth ? box.right + gap : box.left - gap - width;
  const fits = beside > 0;
  const left = fits ? beside : Math.min(Math.max(8, box.left), innerWidth - width - 8);
  const top = fits ? box.top + 40 : box.bottom + gap;
  bubble.style.left = `${left}px`;
  bubble.style.top = `${Math.max(8, Math.min(top, innerHeight - height - 8))}px`;
}
