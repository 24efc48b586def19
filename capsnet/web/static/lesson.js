// Lessons: links with a caption that leave out what is not needed, and the dialog that makes them.
// A caption may be a stranger's: it is text, short, and never over the button that leaves.

import { byId, h } from "./dom.js";
import { HIDABLE, link, linkHoldsAll, MAX_CAPTION, push, state } from "./state.js";

/** @type {Record<string, string>} */
const LABELS = {
  modes: "the modes",
  pictures: "the choice of pictures",
  network: "the menu of networks in Route",
  knobs: "buttons and menus of a mode",
  article: "the article below",
};

export function startLesson() {
  byId("lesson-button").addEventListener("click", openDialog);
  byId("lesson-leave").addEventListener("click", () => {
    push({ caption: "", hide: "" }); // the Back button leads into the lesson again
    showLesson();
    byId("lesson-button").focus();
  });
}

/** Show the caption of the address and hide what it names. */
export function showLesson() {
  const { caption, hide } = state;
  document.body.dataset.hide = hide;
  byId("lesson").hidden = !caption && !hide;
  byId("caption").textContent = caption || "Some controls are hidden for a lesson.";
}

function openDialog() {
  const caption = h("textarea", { rows: 2, maxlength: MAX_CAPTION, oninput: write });
  caption.value = state.caption;
  const boxes = HIDABLE.map((word) =>
    h("input", {
      type: "checkbox",
      value: word,
      checked: state.hide.split(" ").includes(word),
      onchange: write,
    }),
  );
  const presenting = h("input", { type: "checkbox", onchange: write });
  /** @type {HTMLInputElement} */
  const address = h("input", { type: "text", readonly: true, onfocus: () => address.select() });
  const told = h("p", { class: "note", role: "status" });
  /** @type {HTMLDialogElement} */
  const dialog = h(
    "dialog",
    { id: "lesson-dialog", "aria-labelledby": "title-lesson", onclose: () => dialog.remove() },
    h("h2", { id: "title-lesson" }, "Make a lesson link"),
    h(
      "p",
      { class: "note" },
      "It opens the page as it is now: mode, picture, changes, names.",
      linkHoldsAll() ? "" : " Your picture is too large for a link: it opens with a test image.",
    ),
    h("label", {}, "Caption", caption),
    h(
      "fieldset",
      {},
      h("legend", {}, "Hide"),
      boxes.map((box) => h("label", { class: "check" }, box, LABELS[box.value])),
    ),
    h("label", { class: "check" }, presenting, "Present one column at a time"),
    h("label", {}, "Link", address),
    h(
      "div",
      { class: "buttons" },
      h("button", { type: "button", onclick: () => dialog.close() }, "Close"),
      h("button", { type: "button", class: "primary", onclick: copy }, "Copy"),
    ),
    told,
  );

  function write() {
    const hide = boxes.filter((box) => box.checked).map((box) => box.value);
    address.value = link({
      caption: caption.value,
      hide: hide.join(" "),
      present: presenting.checked ? 1 : 0,
    });
    told.textContent = "";
  }

  async function copy() {
    try {
      await navigator.clipboard.writeText(address.value);
      told.textContent = "The link is copied.";
    } catch {
      address.select();
      told.textContent = "The link is selected: copy it with the keyboard.";
    }
  }

  document.body.append(dialog);
  write();
  dialog.showModal();
}
