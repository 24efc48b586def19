// Asking for answers: of the server, or, where the page was built without one, of this browser.

/** @import { Answers, Capsule, DataFile } from "./types.js" */

import { askBrowser, largeFile } from "./browser/ask.js";
import { sayError } from "./dom.js";
import { toBytes } from "./pack.js";
import { askServer } from "./server.js";

export { toBytes, toFloats, toText } from "./pack.js";

/** Whether the page was built without a server: the build writes this mark into it. */
const isBuilt = document.querySelector('meta[name="answers"][content="browser"]') !== null;

/**
 * Who answers; what is asked and answered is the same.
 * @type {(path: string, body?: unknown) => Promise<any>}
 */
const ask = isBuilt ? askBrowser : askServer;

/**
 * The large file that has to come before a question can be answered; null if there is none.
 * @type {(path: "overlap" | "others", which?: number) => Promise<DataFile | null>}
 */
export const fileOf = async (path, which) => (isBuilt ? largeFile(path, which) : null);

/**
 * What there is: get("info"), get("samples?page=2").
 * @template {keyof Answers} K
 * @param {K | `${K}?${string}`} path
 * @returns {Promise<Answers[K]>}
 */
export const get = (path) => ask(path);

/**
 * What the networks make of something: post("analyse", { image }).
 * @template {keyof Answers} K
 * @param {K} path
 * @param {unknown} body
 * @returns {Promise<Answers[K]>}
 */
export const post = (path, body) => ask(path, body);

/** A file to save: postForBlob("animation", { pictures }) is a GIF. @type {(path: string, body: unknown) => Promise<Blob>} */
export const postForBlob = async (path, body) =>
  new Blob([await ask(path, body)], { type: "image/gif" });

/**
 * Draw capsules: [[{ which, v }, …], …] -> bytes [N, C, H, W].
 * @param {Capsule[][]} pictures
 * @param {{ net?: number }} by the main network where nothing is said
 */
export const decode = async (pictures, by = {}) =>
  new Uint8Array(await ask("decode", { pictures, ...by }));

/**
 * Bring a picture file to the model's size; returns its bytes.
 * @param {Blob} png
 * @param {"" | "as_is" | "centre"} how by default a network of digits is given the ink alone
 */
export async function readPicture(png, how) {
  return toBytes((await ask(how ? `picture?${how}=true` : "picture?", png)).image);
}

/**
 * Run the newest call only: one at a time, and of those that come meanwhile the last.
 * @template {unknown[]} A
 * @param {(...args: A) => Promise<unknown>} work
 * @returns {(...args: A) => Promise<void>}
 */
export function latest(work) {
  let waiting = /** @type {A | null} */ (null);
  let running = /** @type {Promise<void> | null} */ (null);
  async function drain() {
    while (waiting) {
      const args = waiting;
      waiting = null;
      try {
        await work(...args);
      } catch (error) {
        sayError(error);
      }
    }
    running = null;
  }
  return (...args) => {
    waiting = args;
    running ??= drain();
    return running;
  };
}
