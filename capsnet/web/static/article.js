// The article below the explorer: its text is in index.html, its figures follow the picture above.
//
// A figure is drawn when it comes near the screen, so that nobody waits for what is not read.

/** @import { Routed, Slider } from "./types.js" */

import { decode, latest } from "./api.js";
import { loadDimensions, measuredName, ownName, ranked } from "./dimensions.js";
import { byId, counted, h, minus, svg } from "./dom.js";
import { CapsuleMap, lengthColours, paint, shareColours, shareScale } from "./draw.js";
import { couplings, range } from "./maps.js";
import { scene } from "./scene.js";

const NEAR = "300px"; // how far below the screen a figure is drawn
const MOST_BARS = 10;
const MOST_VOTES = 150;
const WIDEST = 0.06; // a vote whose coupling is 1, in a half disc of radius 1

const moved = { e: -1, by: 0 }; // the number that is moved by hand (-1: the first), and how far

/**
 * @typedef {object} Figure
 * @property {HTMLElement} live where it is drawn
 * @property {HTMLElement} caption
 */

/** @type {Record<string, (figure: Figure) => unknown>} */
const FIGURES = {
  lengths: drawLengths,
  pooling: drawPooling,
  votes: drawVotes,
  routing: drawRouting,
  numbers: drawNumbers,
};

/** Make the article live. @param {(mode: string) => unknown} choose */
export function startArticle(choose) {
  const article = byId("article");
  /** @type {(selector: string) => NodeListOf<HTMLElement>} */
  const all = (selector) => article.querySelectorAll(selector);
  const near = /** @type {Set<Element>} */ (new Set());
  const stale = new Set(all("figure"));
  for (const figure of all("figure")) figure.append(h("div", { class: "live" }), h("figcaption"));

  function draw() {
    if (!scene.analysis) return;
    for (const element of [...stale].filter((figure) => near.has(figure))) {
      stale.delete(element);
      const [live, caption] = /** @type {HTMLCollectionOf<HTMLElement>} */ (element.children);
      FIGURES[element.dataset.figure ?? ""]({ live, caption });
    }
  }

  function follow() {
    tellFacts(all("[data-fact]"));
    for (const figure of all("figure")) stale.add(figure);
    draw();
  }

  const watch = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries)
        if (isIntersecting) near.add(target);
        else near.delete(target);
      draw();
    },
    { rootMargin: NEAR },
  );
  for (const figure of all("figure")) watch.observe(figure);
  for (const name of ["analysis", "choice"]) scene.addEventListener(name, follow);
  for (const button of all("[data-open]"))
    button.addEventListener("click", () => {
      choose(button.dataset.open ?? "");
      byId(`tab-${button.dataset.open}`).focus();
      scrollTo({ top: 0 });
    });
  byId("read-on").addEventListener("click", () => {
    article.scrollIntoView();
    byId("title-article").focus({ preventScroll: true });
  });
  for (const ramp of all("[data-ramp]"))
    ramp.style.background = ramp.dataset.ramp === "shares" ? shareColours : lengthColours;
  if (scene.analysis) follow();
}

/** Say the network's own sizes in the text. @param {NodeListOf<HTMLElement>} places */
function tellFacts(places) {
  const { classes, class_dim, grid, num_iters } = scene.card;
  /** @type {Record<string, number>} */
  const facts = {
    classes: classes.length,
    numbers: class_dim,
    parts: grid.reduce((product, size) => product * size),
    iterations: num_iters,
  };
  for (const place of places) place.textContent = counted(facts[place.dataset.fact ?? ""]);
}

/** The classes, the longest capsule first. @param {number[]} lengths */
const byLength = (lengths) => [...lengths.keys()].sort((a, b) => lengths[b] - lengths[a]);

/** A bar for each class; of many classes the longest. @param {number[]} lengths */
function bars(lengths, mark = scene.which) {
  const { classes } = scene.card;
  const shown = new Set(byLength(scene.analysis.lengths).slice(0, MOST_BARS));
  return h(
    "ul",
    { class: "lengths" },
    classes.map((name, j) => {
      if (!shown.has(j)) return null;
      const fill = h("span", { class: "fill" });
      fill.style.width = `${100 * lengths[j]}%`;
      return h(
        "li",
        { class: j === mark ? "chosen" : null },
        h("span", { class: "name" }, name),
        h("span", { class: "bar" }, fill),
        h("span", { class: "length" }, lengths[j].toFixed(2)),
      );
    }),
  );
}

/** A canvas with a picture of the network's size. @type {(bytes: Uint8Array, label: string) => HTMLCanvasElement} */
function framed(bytes, label) {
  const canvas = h("canvas", { role: "img", "aria-label": label });
  paint(canvas, bytes, scene.card.image_shape);
  return canvas;
}

/** @param {Figure} figure */
function drawLengths({ live, caption }) {
  const { image, lengths } = scene.analysis;
  live.replaceChildren(framed(image, "The picture above"), bars(lengths));
  caption.textContent =
    "The lengths for the picture above. They need not add up to 1: two things can be there at once, or none. Choose another picture, or draw one, and they follow.";
}

/** @param {Figure} figure */
function drawPooling({ live, caption }) {
  const { image } = scene.analysis;
  live.replaceChildren(
    framed(image, "The picture above"),
    framed(quartered(image), "Its four quarters, each in another place"),
  );
  caption.textContent =
    "The picture above, and its four quarters in other places. A detector that looks inside a quarter and keeps only its strongest answer says the same of both.";
}

/** The quarters of a picture, moved by half of its sides. @param {Uint8Array} image */
function quartered(image) {
  const [C, H, W] = scene.card.image_shape;
  const other = new Uint8Array(image.length);
  const [down, right] = [Math.floor(H / 2), Math.floor(W / 2)];
  for (let p = 0; p < C * H * W; p++) {
    const [k, y, x] = [Math.floor(p / (H * W)), Math.floor(p / W) % H, p % W];
    other[(k * H + ((y + down) % H)) * W + ((x + right) % W)] = image[p];
  }
  return other;
}

/** The votes for the two longest capsules, each by its angle with the outcome. @param {Figure} figure */
function drawVotes({ live, caption }) {
  const { analysis, card } = scene;
  if (card.routing !== "dynamic") {
    caption.textContent = `This network has ${card.routing}, which compares votes in another way.`;
    return live.replaceChildren();
  }
  const two = byLength(analysis.lengths).slice(0, 2);
  const fans = two.map((j) => fan(analysis, j));
  live.replaceChildren(...fans.map(({ element }) => element));
  const told = two.map((j, n) => `${fans[n].agreed.toFixed(2)} for “${card.classes[j]}”`);
  caption.textContent = `The votes that send most to the two longest capsules: each at its angle with the outcome v (orange, up), on either side; longer for a stronger vote, wider for a larger coupling. What is sent agrees by ${told.join(", by ")} (1: all points one way).`;
}

/** @type {(analysis: Routed, j: number) => { element: HTMLElement, agreed: number }} */
function fan(analysis, j) {
  const { I, J, couplings: c, votes, v_steps } = analysis;
  const last = c.length - 1;
  const long = v_steps[last][j];
  const parts = Array.from({ length: I }, (_, i) => {
    const [length, share] = [votes[i * J + j], c[last][i * J + j]];
    const cosine = analysis.agreement(last, i, j) / (length * long || 1);
    return { length, share, cosine: Math.min(1, Math.max(-1, cosine)) };
  }).sort((a, b) => b.share * b.length - a.share * a.length);
  const sent = parts.reduce((sum, { share, length }) => sum + share * length, 0);
  const along = parts.reduce((sum, x) => sum + x.share * x.length * x.cosine, 0);
  const agreed = along / (sent || 1);
  const shown = parts.slice(0, MOST_VOTES);
  const most = Math.max(1e-9, ...shown.map(({ length }) => length));
  // Left and right of v mean nothing: an angle has no side, so every second one is on the other.
  const lines = shown.map(({ length, share, cosine }, n) => {
    const far = Math.sqrt(length / most); // so that one strong vote does not hide all others
    return svg("line", {
      class: "vote",
      x2: ((n % 2 ? -1 : 1) * Math.sqrt(1 - cosine ** 2) * far).toFixed(4),
      y2: (-cosine * far).toFixed(4),
      "stroke-width": Math.max(0.004, WIDEST * share).toFixed(4),
    });
  });
  const name = scene.card.classes[j];
  const picture = svg(
    "svg",
    {
      viewBox: "-1.03 -1.03 2.06 2.06",
      role: "img",
      "aria-label": `Votes for ${name} by their angle with the outcome: agreement ${agreed.toFixed(2)}`,
    },
    svg("circle", { class: "rim", r: 1 }),
    lines,
    svg("line", { class: "outcome", y2: -Math.max(0.02, long) }),
  );
  return { element: h("div", { class: "fan" }, h("p", {}, `“${name}”`), picture), agreed };
}

/** The couplings to the chosen class and all lengths, after each iteration. @param {Figure} figure */
function drawRouting({ live, caption }) {
  const { card, analysis } = scene;
  const name = card.classes[scene.which];
  const { even, factor } = range();
  live.replaceChildren(
    ...couplings().map((values, t) => {
      const canvas = h("canvas", {
        role: "img",
        "aria-label": `Couplings of all parts to ${name} in iteration ${t + 1}`,
      });
      new CapsuleMap(canvas).paint(values, card.grid, shareScale(even, factor));
      return h(
        "div",
        { class: "iteration" },
        h("p", {}, `Iteration ${t + 1}`),
        h("div", { class: "map" }, canvas),
        bars(analysis.v_steps[t]),
      );
    }),
  );
  caption.textContent = `Above: what every part sends to “${name}”, one square for each; orange is more than an even share, blue less. Below: the lengths of the class capsules.${card.routing === "dynamic" ? "" : ` This network has ${card.routing}; the text tells of the paper's.`}`;
}

/** One number of the chosen capsule, moved by hand. @param {Figure} figure */
async function drawNumbers({ live, caption }) {
  const { analysis, card, which, by } = scene;
  const name = card.classes[which];
  const pose = analysis.v[which];
  const why = !card.has_decoder
    ? "This network was trained without a decoder: nothing can be drawn."
    : card !== scene.main && "In Overlap another network draws. Move a number in any other mode.";
  if (why) {
    caption.textContent = why;
    return live.replaceChildren();
  }
  const isKnown = card === scene.info.capsnet; // of other networks nothing was measured
  if (isKnown) await loadDimensions();
  if (scene.analysis !== analysis || scene.which !== which) return; // it is drawn anew
  const order = isKnown ? ranked(which) : [...pose.keys()];
  if (!(moved.e in pose)) moved.e = order[0];
  /** @param {number} e */
  const called = (e) => (isKnown && (ownName(which, e) || measuredName(which, e))) || "";
  const { low, high, step } = /** @type {Slider} */ (scene.info.limits.tweaks.at(-1));
  const canvas = h("canvas", { role: "img", "aria-label": `What capsule ${name} draws` });
  const [, H, W] = card.image_shape;
  Object.assign(canvas, { width: W, height: H }); // its size before it is drawn
  /** @type {HTMLSelectElement} */
  const choice = h(
    "select",
    { "aria-label": "Which number is moved", onchange: () => move() },
    order.map((e) =>
      h(
        "option",
        { value: e, selected: e === moved.e },
        `number ${e + 1}${called(e) && `: ${called(e)}`}`,
      ),
    ),
  );
  const slider = h("input", { type: "range", min: low, max: high, step, oninput: () => move() });
  slider.value = String(moved.by);
  const output = h("output");
  const redraw = latest(async () => {
    const { e, by: far } = moved;
    const bytes = await decode([[{ which, v: pose.with(e, pose[e] + far) }]], by);
    if (live.contains(canvas)) paint(canvas, bytes, card.image_shape);
  });
  function move() {
    Object.assign(moved, { e: Number(choice.value), by: slider.valueAsNumber });
    slider.setAttribute("aria-label", `Number ${moved.e + 1} of capsule ${name}`);
    output.textContent = minus(pose[moved.e] + moved.by, 2);
    return redraw();
  }
  live.replaceChildren(canvas, h("div", { class: "mover" }, choice, slider, output));
  caption.textContent = `What capsule “${name}” draws when one of its ${pose.length} numbers is another. Tweak, above, has all of them.`;
  return move();
}
