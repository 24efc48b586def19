// Making elements, short messages, and one tooltip for everything that has data-tip.

/** @import { Attributes, Child, Elements } from "./types.js" */

/**
 * An element of index.html, or one that is there by then.
 * @template {string} K
 * @param {K} id
 * @returns {K extends keyof Elements ? Elements[K] : HTMLElement}
 */
export const byId = (id) => /** @type {any} */ (document.getElementById(id));

/**
 * Make an element: h("button", { class: "quiet", onclick: run, "data-tip": "…" }, "text").
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} attributes
 * @param {(Child | Child[])[]} children
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  apply(element, attributes);
  element.append(...children.flat().filter((child) => child !== null));
  return element;
}

/**
 * The same for SVG.
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} attributes
 * @param {(Node | string | Node[])[]} children
 */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  apply(element, attributes);
  element.append(...children.flat());
  return element;
}

/** @param {Element} element @param {Attributes} attributes */
function apply(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice("on".length), value);
    else if (name === "value") Object.assign(element, { value });
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, String(value));
  }
}

/**
 * A number with a tooltip that says what it is, for the mouse, a finger and the keyboard.
 * @type {(text: string, tip: string) => HTMLSpanElement}
 */
export const number = (text, tip) =>
  h("span", { class: "number", tabindex: 0, "data-tip": tip, "aria-description": tip }, text);

/**
 * The same where it can be no tab stop: in a button or a label.
 * @type {(text: string, tip: string) => HTMLSpanElement}
 */
export const innerNumber = (text, tip) => h("span", { class: "number", "data-tip": tip }, text);

/** A count with commas. The browser's own way loads its languages first. @param {number} count */
export const counted = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, ",");

/**
 * A number as text with a real minus sign, and no minus before zero.
 * @type {(x: number, digits?: number) => string}
 */
export const minus = (x, digits) => {
  const text = digits === undefined ? String(x) : x.toFixed(digits);
  return Number(text) < 0 ? `−${text.slice(1)}` : text.replace("-", "");
};

/**
 * Replace what is in an element; the focus stays in its place among the tab stops.
 * @param {HTMLElement} element
 * @param {(Node | string)[]} children
 */
export function refill(element, ...children) {
  const stops = () => [
    .../** @type {NodeListOf<HTMLElement>} */ (element.querySelectorAll("button, [tabindex]")),
  ];
  const place = stops().findIndex((stop) => stop === document.activeElement);
  element.replaceChildren(...children);
  if (place >= 0) (stops()[place] ?? stops().at(-1))?.focus({ preventScroll: true });
}

let hideStatus = 0;
/** Show a sentence at the foot of the page for a few seconds. @param {string} sentence */
export function say(sentence, isError = false) {
  const status = byId("status");
  status.textContent = sentence;
  status.classList.toggle("error", isError);
  clearTimeout(hideStatus);
  hideStatus = setTimeout(() => (status.textContent = ""), isError ? 8000 : 3500);
}

/** Show what went wrong. @param {unknown} error */
export const sayError = (error) =>
  say(error instanceof Error ? error.message : String(error), true);

/** Show the text of data-tip beside whatever the mouse, a finger or the keyboard is on. */
export function startTips() {
  const tip = byId("tip");
  let byFocus = false; // whether the focus showed it, so that it goes with the focus
  let told = /** @type {Element | null} */ (null); // the element it tells of
  /** @param {Element | null | undefined} target @param {boolean} focused */
  const show = (target, focused) => {
    byFocus = focused;
    told = target ?? null;
    tip.hidden = !target;
    if (!target) return;
    tip.textContent = target.getAttribute("data-tip");
    const box = target.getBoundingClientRect();
    const left = Math.min(Math.max(8, box.left), innerWidth - tip.offsetWidth - 8);
    const below = box.bottom + 6;
    const fits = below + tip.offsetHeight < innerHeight;
    tip.style.left = `${left}px`;
    tip.style.top = `${fits ? below : Math.max(8, box.top - tip.offsetHeight - 6)}px`;
  };
  addEventListener("pointerover", ({ target }) =>
    show(target instanceof Element ? target.closest("[data-tip]") : null, false),
  );
  addEventListener("focusin", ({ target }) => {
    // A tap moves the focus too, often to something around the number: only the keyboard counts.
    if (!(target instanceof Element && target.matches(":focus-visible"))) return;
    const row = target.closest("label, .film-row"); // a slider tells what its number is
    show(target.closest("[data-tip]") ?? row?.querySelector(".number"), true);
  });
  addEventListener("focusout", () => byFocus && (tip.hidden = true));
  // What got the focus by the keyboard is scrolled into view after it: its tip goes along.
  const follow = () => {
    const box = told?.getBoundingClientRect();
    const seen = box && box.bottom > 0 && box.top < innerHeight;
    if (byFocus && !tip.hidden && seen) show(told, true);
    else tip.hidden = true;
  };
  addEventListener("scroll", follow, { passive: true });
  // Who drags a slider looks at what it changes, which the tip may cover.
  addEventListener(
    "pointerdown",
    ({ target }) =>
      target instanceof Element && target.matches("input[type=range]") && (tip.hidden = true),
  );
  addEventListener("keydown", (event) => event.key === "Escape" && (tip.hidden = true));
  // An element that is drawn anew is gone without a word, and its tip would stay; one that tells
  // of many things, as a map does, changes its words.
  new MutationObserver(() => {
    const words = told?.getAttribute("data-tip");
    if (told && !told.isConnected) show(null, false);
    else if (words && words !== tip.textContent) tip.textContent = words;
  }).observe(document.body, {
    childList: true,
    subtree: true,
    attributes: true,
    attributeFilter: ["data-tip"],
  });
}
