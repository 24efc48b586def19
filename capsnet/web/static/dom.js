// Making elements, short messages, and one tooltip for everything that has data-tip.

export const byId = (id) => document.getElementById(id);

/** Make an element: h("button", { class: "quiet", onclick: run, "data-tip": "…" }, "text"). */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  apply(element, attributes);
  element.append(...children.flat().filter((child) => child !== null));
  return element;
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  apply(element, attributes);
  element.append(...children.flat());
  return element;
}

function apply(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
}

/** A number with a tooltip that says what it is, for the mouse, a finger and the keyboard. */
export const number = (text, tip) =>
  h("span", { class: "number", tabindex: 0, "data-tip": tip, "aria-description": tip }, text);

/** The same where it can be no tab stop: in a button or a label. */
export const innerNumber = (text, tip) => h("span", { class: "number", "data-tip": tip }, text);

/** A number as text with a real minus sign, and no minus before zero. */
export const minus = (x, digits) => {
  const text = digits === undefined ? String(x) : x.toFixed(digits);
  return Number(text) < 0 ? `−${text.slice(1)}` : text.replace("-", "");
};

/** Replace what is in an element; the focus stays in its place among the tab stops. */
export function refill(element, ...children) {
  const stops = () => [...element.querySelectorAll("button, [tabindex]")];
  const place = stops().indexOf(document.activeElement);
  element.replaceChildren(...children);
  if (place >= 0) (stops()[place] ?? stops().at(-1))?.focus({ preventScroll: true });
}

let hideStatus;
/** Show a sentence at the foot of the page for a few seconds. */
export function say(sentence, isError = false) {
  const status = byId("status");
  status.textContent = sentence;
  status.classList.toggle("error", isError);
  clearTimeout(hideStatus);
  hideStatus = setTimeout(() => (status.textContent = ""), isError ? 8000 : 3500);
}

/** Show the text of data-tip beside whatever the mouse, a finger or the keyboard is on. */
export function startTips() {
  const tip = byId("tip");
  let byFocus = false; // whether the focus showed it, so that it goes with the focus
  let told = null; // the element it tells of
  const show = (target, focused) => {
    byFocus = focused;
    told = target;
    tip.hidden = !target;
    if (!target) return;
    tip.textContent = target.dataset.tip;
    const box = target.getBoundingClientRect();
    const left = Math.min(Math.max(8, box.left), innerWidth - tip.offsetWidth - 8);
    const below = box.bottom + 6;
    const fits = below + tip.offsetHeight < innerHeight;
    tip.style.left = `${left}px`;
    tip.style.top = `${fits ? below : Math.max(8, box.top - tip.offsetHeight - 6)}px`;
  };
  addEventListener("pointerover", ({ target }) => show(target.closest?.("[data-tip]"), false));
  addEventListener("focusin", ({ target }) => {
    // A tap moves the focus too, often to something around the number: only the keyboard counts.
    if (!target.matches(":focus-visible")) return;
    const row = target.closest("label, .film-row"); // a slider tells what its number is
    show(target.closest("[data-tip]") ?? row?.querySelector(".number"), true);
  });
  addEventListener("focusout", () => byFocus && (tip.hidden = true));
  addEventListener("scroll", () => (tip.hidden = true), { passive: true });
  addEventListener("keydown", (event) => event.key === "Escape" && (tip.hidden = true));
  // An element that is drawn anew is gone without a word, and its tip would stay.
  new MutationObserver(() => told && !told.isConnected && show(null, false)).observe(
    document.body,
    { childList: true, subtree: true },
  );
}
