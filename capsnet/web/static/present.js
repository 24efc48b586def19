// Present: one column at a time in large type. The address says which, so a link opens presenting.

import { byId, h } from "./dom.js";
import { scene } from "./scene.js";
import { push, set, SLIDES, state } from "./state.js";

const place = h("p", { role: "status" });
const back = h("button", { type: "button", onclick: () => turn(state.present - 1) }, "◀ Back");
const next = h("button", { type: "button", onclick: () => turn(state.present + 1) }, "Next ▶");
const bar = h(
  "div",
  { id: "present-bar", role: "group", "aria-label": "Presentation", hidden: true },
  back,
  place,
  next,
  h("button", { type: "button", class: "quiet", onclick: leave }, "Leave"),
);

/** Present at the press of the button, and turn by the keys of a keyboard or a presenter. */
export function startPresent() {
  document.body.append(bar);
  byId("present-button").addEventListener("click", () => {
    push({ present: 1 }); // the Back button leaves
    redraw();
    next.focus();
  });
  addEventListener("keydown", press, { capture: true }); // before Route's own arrow keys
}

/** @param {KeyboardEvent} event */
function press(event) {
  const { key, target, altKey, ctrlKey, metaKey } = event;
  if (!state.present || altKey || ctrlKey || metaKey || document.querySelector("dialog[open]"))
    return;
  if (key === "Escape") return leave();
  const own = "input, select, textarea, [role=tab], #primary"; // these use the keys themselves
  if (target instanceof Element && target.closest(own)) return;
  const here = state.present;
  const to = {
    ArrowRight: here + 1,
    PageDown: here + 1,
    ArrowLeft: here - 1,
    PageUp: here - 1,
    Home: 1,
    End: SLIDES.length,
  }[key];
  if (to === undefined) return;
  event.preventDefault();
  event.stopPropagation();
  turn(to);
}

/** @param {number} to */
function turn(to) {
  set({ present: Math.min(SLIDES.length, Math.max(1, to)) });
  redraw();
  scrollTo({ top: 0 });
}

function leave() {
  set({ present: 0 });
  redraw();
  byId("present-button").focus();
}

function redraw() {
  showSlide();
  if (scene.analysis) scene.emit("choice"); // letters in drawings have another size
}

/** Show what the address says: one column alone, or the page. */
export function showSlide() {
  const here = state.present;
  document.documentElement.classList.toggle("presenting", here > 0);
  SLIDES.forEach((id, n) => byId(id).classList.toggle("slide", n === here - 1));
  bar.hidden = !here;
  if (here) {
    const mode = document.querySelector("[role=tab][aria-selected=true]")?.textContent;
    const title = byId(SLIDES[here - 1]).querySelector(":scope > h2")?.textContent ?? mode;
    place.textContent = `${here} of ${SLIDES.length}: ${title}`;
    // A button that has the focus keeps it, though there is nowhere to go.
    back.setAttribute("aria-disabled", String(here === 1));
    next.setAttribute("aria-disabled", String(here === SLIDES.length));
    if (!document.activeElement?.checkVisibility()) next.focus();
  }
}
