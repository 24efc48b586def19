// Saving what is on the screen, with words that explain it in a slide.

import { say } from "./dom.js";
import { penOf } from "./draw.js";
import { scene } from "./scene.js";

const SCALE = 4; // pixels of the file for each of a picture
const GAP = 12;
const LINE = 32; // height of a line of text
const FONT = "22px system-ui, sans-serif";
const TITLE = "bold 30px system-ui, sans-serif";

/**
 * Pictures side by side, what they are, and a word under each.
 * @typedef {{ label?: string, pictures: HTMLCanvasElement[], under?: string[] }} Row
 */
/**
 * `axis`: words above the pictures, from the left end to the right.
 * @typedef {{ title: string, axis?: string[], rows: Row[] }} Sheet
 */

/** Save a sheet as a PNG that says what it shows, and of which network. @param {Sheet} sheet @param {string} name */
export function savePng({ title, axis = [], rows }, name) {
  const { card } = scene;
  const foot = `${card.name}, trained on ${card.data} · Capsule explorer`;
  const canvas = document.createElement("canvas");
  const pen = penOf(canvas);
  /** @type {(text: string, font: string) => number} */
  const widthOf = (text, font) => {
    pen.font = font;
    return Math.ceil(pen.measureText(text).width);
  };
  const labels = Math.max(...rows.map(({ label }) => (label ? widthOf(label, FONT) + GAP : 0)));
  const lines = rows.map(({ pictures }) =>
    pictures.reduce((sum, { width }) => sum + width * SCALE + GAP, -GAP),
  );
  const words = Math.max(widthOf(title, TITLE), widthOf(foot, FONT));
  canvas.width = 2 * GAP + Math.max(labels + Math.max(...lines), words);
  const heights = rows.map(({ pictures, under }) => tallest(pictures) + (under ? LINE : 0) + GAP);
  canvas.height =
    3 * GAP + 2 * LINE + (axis.length ? LINE : 0) + heights.reduce((sum, x) => sum + x);
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.fillStyle = "#1c1e23";
  pen.imageSmoothingEnabled = false;
  pen.textBaseline = "middle";
  /** @type {(text: string, x: number, y: number, align?: CanvasTextAlign) => void} */
  const write = (text, x, y, align = "left") => {
    pen.textAlign = align;
    pen.fillText(text, x, y);
  };
  pen.font = TITLE;
  write(title, GAP, GAP + LINE / 2);
  pen.font = FONT;
  let y = 2 * GAP + LINE;
  const left = GAP + labels;
  axis.forEach((text, n) => {
    const part = n / Math.max(1, axis.length - 1);
    const align = part === 0 ? "left" : part === 1 ? "right" : "center";
    write(text, left + part * lines[0], y + LINE / 2, align);
  });
  if (axis.length) y += LINE;
  rows.forEach(({ label = "", pictures, under = [] }, k) => {
    const tall = tallest(pictures);
    write(label, GAP, y + tall / 2);
    let x = left;
    pictures.forEach((picture, n) => {
      const [width, height] = [picture.width * SCALE, picture.height * SCALE];
      pen.drawImage(picture, x, y, width, height);
      write(under[n] ?? "", x + width / 2, y + tall + LINE / 2, "center");
      x += width + GAP;
    });
    y += heights[k];
  });
  pen.fillStyle = "#585d67";
  write(foot, GAP, y + LINE / 2);
  canvas.toBlob((blob) => blob && save(blob, `${name}.png`), "image/png");
}

/** @param {HTMLCanvasElement[]} pictures */
const tallest = (pictures) => Math.max(...pictures.map(({ height }) => height * SCALE));

/** Let the browser keep a file. @param {Blob} blob @param {string} name */
export function save(blob, name) {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(blob);
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 1000);
  say(`Saved ${name}.`);
}
