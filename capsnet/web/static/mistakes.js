// The list of test pictures that the network got wrong, the surest mistakes first.

/** @import { Mistake, Sample } from "./types.js" */

import { get, latest, toBytes } from "./api.js";
import { counted, h } from "./dom.js";
import { paint } from "./draw.js";
import { scene } from "./scene.js";

/**
 * A list to open and browse; what is taken is looked at as any test image is.
 * @param {(sample: Sample) => unknown} onTake
 */
export function mistakesList(onTake) {
  const total = scene.info.num_mistakes;
  const list = h("ul", { class: "mistakes" });
  const more = h("button", { type: "button", class: "quiet", onclick: () => fill() }, "More");
  let page = 0;
  const fill = latest(async () => {
    const answer = await get(`mistakes?page=${page}`);
    page += 1;
    list.append(...answer.mistakes.map((mistake) => h("li", {}, row(mistake, onTake))));
    more.hidden = list.children.length >= answer.total || !answer.mistakes.length;
  });
  /** @type {HTMLDetailsElement} */
  const details = h(
    "details",
    { class: "errors", ontoggle: () => details.open && page === 0 && fill() },
    h("summary", {}, `Errors: ${counted(total)} test image${total === 1 ? "" : "s"}`),
    list,
    more,
  );
  return details;
}

/** @type {(mistake: Mistake, onTake: (sample: Sample) => unknown) => Node} */
function row({ sample, file, said, confidence }, onTake) {
  const canvas = h("canvas", { "aria-hidden": "true" });
  paint(canvas, toBytes(sample.image), scene.info.capsnet.image_shape);
  return h(
    "button",
    {
      type: "button",
      class: "mistake",
      "data-tip": `${file}: it is “${sample.said}”, the network said “${said}”`,
      onclick: () => onTake(sample),
    },
    canvas,
    h(
      "span",
      {},
      h("span", { class: "file" }, file),
      h("span", {}, `${sample.said}, said `, h("b", {}, said), ` (${confidence.toFixed(2)})`),
    ),
  );
}
