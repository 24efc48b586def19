// Talking to the server: JSON out, JSON or bytes back.

/** @import { Answers, Capsule } from "./types.js" */

import { sayError } from "./dom.js";

/** @type {(path: string, options?: RequestInit) => Promise<Response>} */
async function ask(path, options) {
  const response = await fetch(`/api/${path}`, options).catch(() => {
    throw new Error("The server does not answer."); // each browser has words of its own for it
  });
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  throw new Error(problem.detail ?? `The server answered ${response.status}.`);
}

/** @type {(body: unknown) => RequestInit} */
const json = (body) => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(body),
});

/**
 * What the server has: get("info"), get("samples?page=2").
 * @template {keyof Answers} K
 * @param {K | `${K}?${string}`} path
 * @returns {Promise<Answers[K]>}
 */
export const get = async (path) => (await ask(path)).json();

/**
 * What the server makes of something: post("analyse", { image }).
 * @template {keyof Answers} K
 * @param {K} path
 * @param {unknown} body
 * @returns {Promise<Answers[K]>}
 */
export const post = async (path, body) => (await ask(path, json(body))).json();

/** @type {(path: string, body: unknown) => Promise<Blob>} */
export const postForBlob = async (path, body) => (await ask(path, json(body))).blob();

/**
 * Draw capsules: [[{ which, v }, …], …] -> bytes [N, C, H, W].
 * @param {Capsule[][]} pictures
 * @param {{ net?: number }} by the main network where nothing is said
 */
export async function decode(pictures, by = {}) {
  return new Uint8Array(await (await ask("decode", json({ pictures, ...by }))).arrayBuffer());
}

/**
 * Bring a picture file to the model's size; returns its bytes.
 * @param {Blob} png
 * @param {"" | "as_is" | "centre"} how by default a network of digits is given the ink alone
 */
export async function readPicture(png, how) {
  const options = { method: "POST", headers: { "Content-Type": "image/png" }, body: png };
  const answer = await ask(how ? `picture?${how}=true` : "picture?", options);
  return toBytes((await answer.json()).image);
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

/** @param {string} text */
export function toBytes(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let n = 0; n < raw.length; n++) bytes[n] = raw.charCodeAt(n);
  return bytes;
}

/** @param {string} text */
export const toFloats = (text) => new Float32Array(toBytes(text).buffer);

/** @param {Uint8Array} bytes */
export function toText(bytes) {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}
