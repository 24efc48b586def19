// The page: tabs, theme, link and the mode that is chosen.

/** @import { Mode } from "./types.js" */

import { get } from "./api.js";
import { startColumns } from "./columns.js";
import { byId, counted, h, number, say, sayError, startTips } from "./dom.js";
import { isTaken, putBack, startInput, takeLinked } from "./input.js";
import { recall, remember } from "./memory.js";
import { showLesson, startLesson } from "./lesson.js";
import { loadOthers, MODES, modesFor } from "./modes.js";
import { showSlide, startPresent } from "./present.js";
import { startPreview } from "./preview.js";
import { scene } from "./scene.js";
import { link, linkHoldsAll, push, set, startState, state, usually } from "./state.js";
import { startUndo } from "./undo.js";

let shown = /** @type {Mode | null} */ (null);
let leave = /** @type {AbortController | null} */ (null); // ends the mode that is shown

/** Choose a mode; the Back button leads to the one before. @param {string} mode */
function choose(mode) {
  if (!scene.info) return; // the server has not answered yet
  // The capsule that is marked was looked at in the other mode.
  if (mode !== state.mode) push({ mode, capsule: -1 });
  return show();
}

/** Show the mode: its panel below the columns, listening until the next one is chosen. */
async function show() {
  if (!Object.hasOwn(MODES, state.mode)) set({ mode: usually("mode") });
  const { mode } = state;
  leave?.abort();
  leave = new AbortController();
  scene.signal = leave.signal;
  document.body.dataset.mode = mode;
  scene.cnn = null;
  scene.rivals = [];
  scene.drawsItself = false;
  byId("reconstruction-extra").replaceChildren();
  byId("handles").hidden = byId("knob").hidden = true;
  for (const tab of byId("tabs").querySelectorAll("button")) {
    const selected = tab.id === `tab-${mode}`;
    tab.setAttribute("aria-selected", String(selected));
    tab.tabIndex = selected ? 0 : -1;
  }
  byId("panel").setAttribute("aria-labelledby", `tab-${mode}`);
  byId("lead").textContent = MODES[mode].lead(scene.info.capsnet);
  document.title = `${MODES[mode].title} – Capsule explorer`;
  showLesson();
  showSlide();
  const { signal } = leave;
  const loading = MODES[mode].load().catch(sayError);
  if (!isTaken()) await takeLinked();
  else if (!scene.plain || scene.next || scene.card !== scene.main) await scene.again();
  const loaded = await loading;
  if (signal.aborted) return;
  shown = loaded ?? null;
  if (shown && scene.plain && isTaken()) await start(shown, signal);
  else offerAgain();
  document.body.dataset.shown = "yes"; // before, it would only jump about
}

/** Instead of a panel: without an answer the mode would work on what the last one left behind. */
function offerAgain() {
  byId("panel").replaceChildren(
    h(
      "div",
      { class: "panel-head" },
      h("p", {}, "The network did not answer, so there is nothing to show here yet."),
      h("button", { type: "button", onclick: show }, "Try again"),
    ),
  );
}

/** @param {Mode} mode @param {AbortSignal} signal */
function start(mode, signal) {
  const drawn = mode.enter(byId("panel"), signal);
  scene.emit("choice");
  return drawn;
}

function buildTabs() {
  const names = modesFor(scene.info?.capsnet);
  byId("tabs").replaceChildren(
    ...names.map((name) =>
      h(
        "button",
        {
          type: "button",
          role: "tab",
          id: `tab-${name}`,
          "aria-controls": "panel",
          onclick: () => choose(name),
        },
        MODES[name].title,
      ),
    ),
  );
}

/** @param {KeyboardEvent} event */
function turnTabs(event) {
  const names = modesFor(scene.info?.capsnet);
  const here = names.indexOf(state.mode);
  const next = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: -1 }[event.key];
  if (next === undefined || event.altKey || event.ctrlKey || event.metaKey) return; // Alt ← is Back
  event.preventDefault();
  const name = names[(next + names.length) % names.length];
  choose(name);
  byId(`tab-${name}`).focus();
}

function startTheme() {
  const root = document.documentElement;
  const kept = recall("capsnet:theme");
  if (kept) root.dataset.theme = kept;
  byId("theme-button").addEventListener("click", () => {
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    remember("capsnet:theme", root.dataset.theme);
  });
}

async function copyLink() {
  const address = link();
  const lost = linkHoldsAll()
    ? ""
    : " Your picture is too large for it: it opens with a test image.";
  try {
    await navigator.clipboard.writeText(address);
    say(lost ? `The link is copied.${lost}` : "The link to exactly this screen is copied.");
  } catch {
    say(`The link is in the address bar: copy it from there.${lost}`);
  }
}

function describeModel() {
  const { card } = scene;
  const error = `${card.error_percent?.toFixed(2)} % test error`;
  const size = `${counted(card.num_parameters)} parameters`;
  const said =
    card.error_percent === null
      ? [card.name, " trained"]
      : [card.name, ": ", number(error, "Share of the test images that it gets wrong")];
  byId("model").replaceChildren(
    ...said,
    ` on ${card.data}`,
    h("span", { class: "size" }, ", ", number(size, "Numbers learnt in training")),
  );
}

async function main() {
  startTheme();
  startTips();
  buildTabs();
  byId("tabs").addEventListener("keydown", turnTabs);
  addEventListener("unhandledrejection", (event) => sayError(event.reason));
  try {
    scene.info = await get("info");
  } catch (error) {
    return sayError(error);
  }
  scene.card = scene.info.capsnet;
  byId("column-reconstruction").classList.toggle("empty", !scene.card.has_decoder);
  if (!scene.card.has_decoder) buildTabs();
  startState(scene.info.limits, modesFor(scene.info?.capsnet)[0]);
  byId("link-button").addEventListener("click", copyLink);
  scene.addEventListener("analysis", describeModel);
  startColumns();
  startInput();
  startPreview();
  startLesson();
  startPresent();
  startUndo(async (pad) => {
    await putBack(pad);
    if (shown?.follows) scene.emit("choice");
    else await show();
  });
  addEventListener("popstate", show);
  await show();
  const [article, tour] = await Promise.all([import("./article.js"), import("./tour.js")]);
  article.startArticle(choose);
  tour.startTour((patch) => {
    set(patch); // no way back is needed: the tour goes back itself
    return show();
  });
  loadOthers();
  document.body.dataset.ready = "yes";
}

main();
