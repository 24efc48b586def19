// Talking to the server: JSON out, JSON or bytes back.

import { say } from "./dom.js";

async function ask(path, options) {
  const response = await fetch(`/api/${path}`, options).catch(() => {
    throw new Error("The server does not answer."); // each browser has words of its own for it
  });
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  throw new Error(problem.detail ?? `The server answered ${response.status}.`);
}

const json = (body) => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(body),
});

export const get = async (path) => (await ask(path)).json();
export const post = async (path, body) => (await ask(path, json(body))).json();
export const postForBlob = async (path, body) => (await ask(path, json(body))).blob();

/** Draw capsules: [[{ which, v }, …], …] -> bytes [N, C, H, W]. */
export async function decode(pictures) {
  return new Uint8Array(await (await ask("decode", json({ pictures }))).arrayBuffer());
}

/** Bring a picture file to the model's size; returns its bytes. */
export async function readPicture(png, { invert, centre }) {
  const options = { method: "POST", headers: { "Content-Type": "image/png" }, body: png };
  const answer = await ask(`picture?invert=${invert}&centre=${centre}`, options);
  return toBytes((await answer.json()).image);
}

/** Run the newest call only: one at a time, and of those that come meanwhile the last. */
export function latest(work) {
  let waiting = null;
  let running = null;
  async function drain() {
    while (waiting) {
      const args = waiting;
      waiting = null;
      try {
        await work(...args);
      } catch (error) {
        say(error.message, true);
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

export function toBytes(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let n = 0; n < raw.length; n++) bytes[n] = raw.charCodeAt(n);
  return bytes;
}

export const toFloats = (text) => new Float32Array(toBytes(text).buffer);

export function toText(bytes) {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}
