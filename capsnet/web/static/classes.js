// The column of class capsules: one bar for each length, and the vector of the chosen one.

import { spoken } from "./dimensions.js";
import { byId, h, innerNumber, svg } from "./dom.js";
import { scene } from "./scene.js";

let built = ""; // the classes there are rows for

/** Make a row for each class, once for each network. */
export function buildClasses() {
  const names = scene.card.classes;
  if (built === names.join()) return;
  built = names.join();
  byId("classes").replaceChildren(
    ...names.map((name, j) =>
      h(
        "label",
        { class: "class-row" },
        h("input", {
          type: "radio",
          name: "which",
          value: j,
          "aria-description": lengthTip(name),
          onchange: () => scene.choose(j),
        }),
        h("span", { class: "class-name" }, name),
        h(
          "span",
          { class: "bars", "data-tip": lengthTip(name) },
          h("span", { class: "bar" }, h("span", { class: "fill" })),
          h("span", { class: "bar cnn", hidden: true }, h("span", { class: "fill" })),
        ),
        h(
          "span",
          { class: "numbers" },
          innerNumber("", lengthTip(name)),
          h("span", {
            class: "number cnn",
            hidden: true,
            "data-tip": `How sure the CNN is of “${name}”: its softmax probability`,
          }),
        ),
      ),
    ),
  );
}

/** @param {string} name */
const lengthTip = (name) =>
  `Length of capsule ${name}: how sure the network is that a “${name}” is there (0 to 1)`;

/** @type {(element: Element, selector: string) => HTMLElement} */
const part = (element, selector) => /** @type {HTMLElement} */ (element.querySelector(selector));

/** Draw the lengths of the iteration looked at. */
export function drawClasses() {
  const lengths = scene.lengths;
  const rows = byId("classes").children;
  for (const [j, row] of [...rows].entries()) {
    const rival = scene.rivals.indexOf(j);
    row.classList.toggle("chosen", j === scene.which && !scene.rivals.length);
    row.classList.toggle("looked-at", j === scene.which && scene.rivals.length > 0);
    row.classList.toggle("first", rival === 0);
    row.classList.toggle("second", rival === 1);
    /** @type {HTMLInputElement} */ (part(row, "input")).checked = j === scene.which;
    part(row, ".fill").style.width = `${100 * lengths[j]}%`;
    part(row, ".number").textContent = lengths[j].toFixed(2);
    const [bar, share] = [part(row, ".bar.cnn"), part(row, ".number.cnn")];
    bar.hidden = share.hidden = !scene.cnn;
    if (!scene.cnn) continue;
    part(bar, ".fill").style.width = `${100 * scene.cnn[j]}%`;
    share.textContent = scene.cnn[j].toFixed(2);
  }
  drawVector();
}

/** The colour that a class has in every column. @param {number} j */
function colour(j) {
  if (!scene.rivals.length) return "chosen";
  return ["first", "second"][scene.rivals.indexOf(j)] ?? "other";
}

/** Draw the chosen capsule as bars up and down, one for each dimension. */
function drawVector() {
  const v = scene.pose;
  const name = scene.card.classes[scene.which];
  const high = Math.max(0.3, ...v.map(Math.abs));
  const bars = v.map((x, e) =>
    svg("rect", {
      x: e + 0.15,
      width: 0.7,
      y: x > 0 ? 1 - x / high : 1,
      height: Math.max(0.02, Math.abs(x) / high),
      class: x > 0 ? "up" : "down",
      "data-dim": e,
      "data-tip": `Capsule ${name}, ${spoken(scene.which, e)}: ${x.toFixed(3)}`,
    }),
  );
  const label = `The ${v.length} numbers of capsule ${name} ${scene.when}`.trim();
  byId("vector").replaceChildren(
    h("p", { class: "note" }, label),
    svg(
      "svg",
      {
        viewBox: `0 0 ${v.length} 2`,
        class: colour(scene.which),
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": label,
      },
      bars,
    ),
  );
}
