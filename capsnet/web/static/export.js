// Saving what is on the screen.

import { say } from "./dom.js";
import { penOf } from "./draw.js";

const SCALE = 4;
const GAP = 4;

/**
 * Save canvases, given in rows, as one PNG, each pixel enlarged.
 * @param {HTMLCanvasElement[][]} rows
 * @param {string} name
 */
export function savePng(rows, name) {
  /** @param {HTMLCanvasElement[]} row */
  const line = (row) => row.reduce((sum, canvas) => sum + canvas.width * SCALE + GAP, GAP);
  const sheet = document.createElement("canvas");
  sheet.width = Math.max(...rows.map(line));
  sheet.height = rows.reduce((sum, row) => sum + tallest(row) * SCALE + GAP, GAP);
  const pen = penOf(sheet);
  pen.fillStyle = "#888";
  pen.fillRect(0, 0, sheet.width, sheet.height);
  pen.imageSmoothingEnabled = false;
  let y = GAP;
  for (const row of rows) {
    let x = GAP;
    for (const canvas of row) {
      pen.drawImage(canvas, x, y, canvas.width * SCALE, canvas.height * SCALE);
      x += canvas.width * SCALE + GAP;
    }
    y += tallest(row) * SCALE + GAP;
  }
  sheet.toBlob((blob) => blob && save(blob, `${name}.png`), "image/png");
}

/** @param {HTMLCanvasElement[]} row */
const tallest = (row) => Math.max(...row.map((canvas) => canvas.height));

/** Let the browser keep a file. @param {Blob} blob @param {string} name */
export function save(blob, name) {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(blob);
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 1000);
  say(`Saved ${name}.`);
}
