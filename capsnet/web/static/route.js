// Route: step through Procedure 1 and watch the couplings sharpen.

/** @import { Routed, Votes } from "./types.js" */

import { agreementFigure } from "./agreement.js";
import { decode, fileOf, latest, post, toText } from "./api.js";
import { pointAt } from "./columns.js";
import { h } from "./dom.js";
import { drawFormulas, drawTable, isPapers } from "./formulas.js";
import { showInputTools } from "./input.js";
import { drawLegend, drawSteps, strongest } from "./maps.js";
import { reroute } from "./routing.js";
import { scene } from "./scene.js";
import { set, state } from "./state.js";

const CALM = 80; // milliseconds after which the votes of a picture are asked for
const PAUSE = 1200; // milliseconds between iterations while playing

/**
 * Build the panel; it lives until the signal says that another mode is chosen.
 * @param {HTMLElement} panel
 * @param {AbortSignal} signal
 */
export function enter(panel, signal) {
  showInputTools(true);
  let timer = 0;
  let calm = 0;
  // The analysis that came, and its votes: routing them again gives what is shown.
  let told = /** @type {{ analysis: Routed, votes: Votes } | null} */ (null);
  // What v draws after each iteration.
  let drawings = /** @type {{ analysis: Routed, which: number, bytes: Uint8Array } | null} */ (
    null
  );
  let markSteps = () => {};
  const steps = h("div", { class: "steps", role: "group", "aria-label": "Iterations" });
  const legend = h("div", { class: "legend" });
  const play = h(
    "button",
    { type: "button", class: "primary", onclick: () => (timer ? pause() : start()) },
    "▶ Play",
  );
  const formulas = h("div", { class: "formulas" });
  const table = h("div", { class: "capsule-table" });
  const figure = agreementFigure(signal, pointAt);
  /** @type {HTMLSelectElement} */
  const iterations = h(
    "select",
    { "aria-label": "Iterations of the routing", onchange: () => change(Number(iterations.value)) },
    Array.from({ length: scene.info.limits.max_iters }, (_, n) => choice(n + 1)),
  );
  /** @type {HTMLSelectElement} */
  const networks = h(
    "select",
    { "aria-label": "Network", onchange: () => open(Number(networks.value)) },
    [scene.info.capsnet, ...scene.info.others].map(({ name }, n) =>
      h("option", { value: n, selected: n === state.net }, name),
    ),
  );
  scene.info.others.forEach(async (_, n) => {
    const file = await fileOf("others", n);
    if (file) networks.options[n + 1].text += ` (${Math.round(file.bytes / 1e6)} MB)`;
  });
  panel.replaceChildren(
    h(
      "div",
      { class: "panel-head" },
      h(
        "h2",
        {},
        isPapers()
          ? "Procedure 1, one iteration at a time"
          : `${capital(scene.card.routing)}, one iteration at a time`,
      ),
      h(
        "button",
        { type: "button", "aria-label": "Iteration before", onclick: () => turn(-1) },
        "◀",
      ),
      play,
      h("button", { type: "button", "aria-label": "Next iteration", onclick: () => turn(1) }, "▶"),
      scene.info.others.length
        ? h("label", { "data-tip": "Which network is looked into" }, "network ", networks)
        : null,
      isPapers()
        ? h(
            "label",
            { "data-tip": "After one iteration every vote counts the same: that is no routing." },
            "iterations ",
            iterations,
          )
        : null,
    ),
    h("div", { class: "route" }, figure.element, h("div", {}, steps, legend), formulas, table),
  );

  /** Look into another network, with what is chosen but for its own capsules. @param {number} net */
  function open(net) {
    pause();
    set({ net, iters: 0, step: 0, capsule: -1 });
    return scene.again();
  }

  /** How often the votes are routed. */
  const wanted = () => state.iters || scene.card.num_iters;

  /** @param {number} iters */
  function change(iters) {
    pause();
    set({ iters: iters === scene.card.num_iters ? 0 : iters, step: 0 });
    routeAgain();
  }

  /** Route the votes as often as it is chosen. */
  function routeAgain() {
    if (!told) return;
    scene.analysis = reroute(told.analysis, told.votes, scene.card, wanted());
    scene.emit("choice");
  }

  const ask = latest(async () => {
    const { analysis } = scene;
    if (signal.aborted || analysis.trace || !isPapers()) return;
    const votes = await post("votes", { image: toText(analysis.image), ...scene.by });
    if (signal.aborted || scene.analysis !== analysis) return;
    told = { analysis, votes };
    routeAgain();
  });

  /** Draw v of every iteration: the picture sharpens. */
  const drawEach = latest(async () => {
    const { analysis, which, card } = scene;
    const { trace } = analysis;
    if (!trace || !card.has_decoder || signal.aborted) return;
    if (drawings?.analysis === analysis && drawings.which === which) return;
    const E = card.class_dim;
    const bytes = await decode(
      trace.v.map((v) => [{ which, v: [...v.subarray(which * E, (which + 1) * E)] }]),
      scene.by,
    );
    if (signal.aborted || scene.analysis !== analysis || scene.which !== which) return;
    drawings = { analysis, which, bytes };
    markSteps = drawSteps(steps, go, bytes, figure.agreed());
  });

  /** @param {number} step */
  function go(step) {
    set({ step });
    scene.emit("choice");
  }

  /** @param {number} by */
  function turn(by) {
    const count = scene.numIters;
    go(((scene.step + by + count) % count) + 1);
  }

  function start() {
    go(1);
    timer = setInterval(() => (scene.step + 1 < scene.numIters ? turn(1) : pause()), PAUSE);
    play.textContent = "❚❚ Pause";
  }

  function pause() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "▶ Play";
  }

  function draw() {
    if (!(state.capsule in scene.analysis.u)) scene.look(strongest());
    const isDrawn = drawings?.analysis === scene.analysis && drawings.which === scene.which;
    figure.draw();
    markSteps = drawSteps(steps, go, isDrawn ? (drawings?.bytes ?? null) : null, figure.agreed());
    drawEach();
    iterations.value = String(wanted());
    drawLegend(legend);
    drawFormulas(formulas);
    drawTable(table);
  }

  const options = { signal };
  // Votes are many numbers: while a picture is being drawn they wait for a pause.
  const askSoon = () => {
    clearTimeout(calm);
    calm = setTimeout(ask, CALM);
  };
  scene.addEventListener(
    "analysis",
    () => {
      told = null;
      draw();
      askSoon();
    },
    options,
  );
  scene.addEventListener("choice", draw, options);
  scene.addEventListener(
    "hover",
    () => (drawFormulas(formulas), drawTable(table), figure.mark(), markSteps()),
    options,
  );
  signal.addEventListener("abort", () => {
    pause();
    clearTimeout(calm);
    if (told && scene.analysis.trace) scene.analysis = told.analysis; // the other modes' own
  });
  addEventListener(
    "keydown",
    (event) => {
      if (
        (event.target instanceof Element && event.target.closest("input, select, [role=tab]")) ||
        event.altKey ||
        event.ctrlKey ||
        event.metaKey
      )
        return;
      if (event.key === "ArrowRight") turn(1);
      if (event.key === "ArrowLeft") turn(-1);
    },
    options,
  );
  draw();
  return ask();
}

/** @param {number} iters */
function choice(iters) {
  const trained = iters === scene.card.num_iters ? ", as trained" : "";
  return h("option", { value: iters }, `${iters}${iters === 1 ? ", no routing" : trained}`);
}

/** @param {string} words */
const capital = (words) => words[0].toUpperCase() + words.slice(1);
