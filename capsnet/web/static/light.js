// What belongs together lights up: a type of primary capsule, its ribbons, the class they go to.

import { byId } from "./dom.js";
import { scene } from "./scene.js";

/** What is pointed at: a type of primary capsule and a class, from 0; -1 is none. */
export const lit = { type: -1, which: -1 };

/** Point at a type, a class, or a ribbon from one to the other. */
export function light(type = -1, which = -1) {
  if (lit.type === type && lit.which === which) return;
  Object.assign(lit, { type, which });
  scene.emit("light");
}

/** Whether a ribbon or its end is pointed at. @type {(type: number, which: number) => boolean} */
const isLit = (type, which) =>
  (lit.type < 0 || type < 0 || type === lit.type) &&
  (lit.which < 0 || which < 0 || which === lit.which);

/** Show it on the ribbons and the rows of classes that are on the screen. */
export function showLight() {
  const flow = byId("flow");
  flow.classList.toggle("lighting", lit.type >= 0 || lit.which >= 0);
  for (const part of /** @type {Iterable<SVGElement>} */ (flow.children)) {
    const { type = -1, which = -1 } = part.dataset;
    part.classList.toggle("lit", isLit(Number(type), Number(which)));
  }
  for (const [j, row] of [...byId("classes").children].entries())
    row.classList.toggle("lit", j === lit.which);
}

/** Listen to the ribbons and to the rows of classes, for the mouse and the keyboard. */
export function startLight() {
  const [flow, classes] = [byId("flow"), byId("classes")];
  /** @param {Event} event */
  const ofRibbon = ({ target }) => {
    const { type = -1, which = -1 } = /** @type {SVGElement} */ (target).dataset;
    light(Number(type), Number(which));
  };
  /** @param {Event} event */
  const ofRow = ({ target }) => {
    const row = target instanceof Element ? target.closest(".class-row") : null;
    if (row && (target === row || row.matches(":hover, :has(:focus-visible)")))
      light(-1, [...classes.children].indexOf(row));
  };
  flow.addEventListener("pointerover", ofRibbon);
  for (const name of ["pointerover", "focusin"]) classes.addEventListener(name, ofRow);
  for (const part of [flow, classes]) part.addEventListener("pointerleave", () => light());
  classes.addEventListener("focusout", () => light());
  scene.addEventListener("light", showLight);
}
