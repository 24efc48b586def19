// A small chart of confidence, 0 to 1, over one changing number.

/** @import { Curve } from "./types.js" */

import { h, minus, number, svg } from "./dom.js";

const [WIDTH, HEIGHT] = [100, 42];

/**
 * Curves over xs, with a mark at the present x; `name` is what x is. To point at a place tells its
 * values, to point at a curve whose it is; a press takes the x of its place, and so on while it moves.
 * @param {number[]} xs
 * @param {Curve[]} curves
 * @param {number} present
 * @param {string} name
 * @param {string} unit
 * @param {(x: number) => void} onPick
 */
export function drawChart(xs, curves, present, name, unit, onPick) {
  const [low, high] = [xs[0], xs[xs.length - 1]];
  /** @param {number} x */
  const left = (x) => ((x - low) / (high - low)) * WIDTH;
  /** @param {number} y */
  const top = (y) => HEIGHT * (1 - y);
  const place = Math.min(WIDTH, Math.max(0, left(present)));
  const lines = curves.map(({ label: who, style, values }) => {
    const points = xs.map((x, n) => `${left(x).toFixed(2)},${top(values[n]).toFixed(2)}`).join(" ");
    return svg(
      "g",
      { class: style },
      svg("polyline", { class: style, points }),
      svg("polyline", { class: "touch", points, "data-tip": `${who}: ${span(values)}` }),
    );
  });
  const grid = [0, 0.5, 1].map((y) =>
    svg("line", { class: "grid", x1: 0, x2: WIDTH, y1: top(y), y2: top(y) }),
  );
  const mark = svg("line", { class: "mark", x1: place, x2: place, y1: 0, y2: HEIGHT });
  const step = WIDTH / (xs.length - 1);
  /** @param {number} x */
  const written = (x) => `${minus(Number(x.toFixed(2)))}${unit}`;
  const places = xs.map((x, n) =>
    svg("rect", {
      class: "place",
      x: left(x) - step / 2,
      width: step,
      y: 0,
      height: HEIGHT,
      "data-tip": `${name} ${written(x)}: ${curves.map((curve) => `${curve.label} ${curve.values[n].toFixed(2)}`).join(", ")}`,
    }),
  );
  const label = curves.map(({ label: who, values }) => `${who} ${span(values)}`).join("; ");
  const legend = curves.map(({ label: who, style }) => h("span", { class: style }, who));
  const across = [low, (low + high) / 2, high].map((x) =>
    number(written(x), `Value of “${name}” here`),
  );
  const up = [1, 0.5, 0].map((y) =>
    number(`${y}`, "Confidence: from 0, surely not there, to 1, surely there"),
  );
  const picture = svg(
    "svg",
    {
      viewBox: `0 -1 ${WIDTH} ${HEIGHT + 2}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": label,
    },
    grid,
    mark,
    places,
    lines,
  );
  for (const kind of /** @type {const} */ (["pointerdown", "pointermove"]))
    picture.addEventListener(kind, (event) => {
      if (event.buttons !== 1) return;
      const box = picture.getBoundingClientRect();
      const part = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      onPick(xs[Math.round(part * (xs.length - 1))]);
    });
  return h(
    "figure",
    {},
    h("div", { class: "plot" }, h("div", { class: "axis-y" }, up), picture),
    h("div", { class: "axis-x" }, across),
    h("figcaption", {}, legend),
  );
}

/** How far the values of a curve go. @param {number[]} values */
const span = (values) =>
  `lies between ${Math.min(...values).toFixed(2)} and ${Math.max(...values).toFixed(2)}`;
