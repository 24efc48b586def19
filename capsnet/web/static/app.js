// The page: tabs, theme, link and the mode that is chosen.

/** @import { Mode } from "./types.js" */

import { get } from "./api.js";
import { startColumns } from "./columns.js";
import { byId, h, number, say, sayError, startTips } from "./dom.js";
import { isTaken, startInput, takeLinked } from "./input.js";
import { recall, remember } from "./memory.js";
import * as morph from "./morph.js";
import * as overlap from "./overlap.js";
import * as route from "./route.js";
import { scene } from "./scene.js";
import { link, linkHoldsAll, push, set, startState, state } from "./state.js";
import { startTour } from "./tour.js";
import * as tweak from "./tweak.js";
import * as warp from "./warp.js";

/** @type {Record<string, Mode>} */
const MODES = { tweak, route, overlap, warp, morph };
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
  if (!Object.hasOwn(MODES, state.mode)) set({ mode: "tweak" });
  const { mode } = state;
  leave?.abort();
  leave = new AbortController();
  scene.signal = leave.signal;
  document.body.dataset.mode = mode;
  scene.cnn = null;
  scene.rivals = [];
  scene.drawsItself = false;
  byId("reconstruction-extra").replaceChildren();
  byId("handles").hidden = true;
  for (const tab of byId("tabs").querySelectorAll("button")) {
    const selected = tab.id === `tab-${mode}`;
    tab.setAttribute("aria-selected", String(selected));
    tab.tabIndex = selected ? 0 : -1;
  }
  byId("panel").setAttribute("aria-labelledby", `tab-${mode}`);
  byId("lead").textContent = MODES[mode].lead;
  document.title = `${MODES[mode].title} – Capsule explorer`;
  const { signal } = leave;
  if (!isTaken()) await takeLinked();
  else if (!scene.plain || scene.next) await scene.again();
  if (signal.aborted) return;
  if (scene.plain && isTaken()) start(mode, signal);
  else offerAgain();
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

/** @param {string} mode @param {AbortSignal} signal */
function start(mode, signal) {
  MODES[mode].enter(byId("panel"), signal);
  scene.emit("choice");
}

function buildTabs() {
  const names = Object.keys(MODES);
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
  byId("tabs").addEventListener("keydown", (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!move || event.altKey || event.ctrlKey || event.metaKey) return; // Alt and ← is Back
    const next = names[(names.indexOf(state.mode) + move + names.length) % names.length];
    choose(next);
    byId(`tab-${next}`).focus();
  });
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
  const parts = [
    `${card.name} trained on ${card.data}: `,
    number(`${card.num_parameters.toLocaleString("en")} parameters`, "Numbers learnt in training"),
  ];
  if (card.error_percent !== null) {
    const error = `${card.error_percent.toFixed(2)} % test error`;
    parts.push(", ", number(error, "Share of the test images that it gets wrong"));
  }
  byId("model").replaceChildren(...parts);
}

async function main() {
  startTheme();
  startTips();
  buildTabs();
  addEventListener("unhandledrejection", (event) => sayError(event.reason));
  try {
    scene.info = await get("info");
  } catch (error) {
    return sayError(error);
  }
  scene.card = scene.info.capsnet;
  startState(scene.info.limits);
  byId("link-button").addEventListener("click", copyLink);
  scene.addEventListener("analysis", describeModel);
  startColumns();
  startInput();
  addEventListener("popstate", show);
  await show();
  startTour((mode) => {
    set({ mode, capsule: -1 }); // no way back is needed: the tour goes back itself
    show();
  });
  document.body.dataset.ready = "yes";
}

main();
