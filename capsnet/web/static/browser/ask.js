// Answers of this browser, in a page that was built without a server.
//
// What a visitor sees first is in answers/first.json, so that no network has to be loaded for it;
// all else is asked of a worker, which loads what it needs.

/** @import { DataFile, Site } from "../types.js" */

import { say } from "../dom.js";

const FIRST = "answers/first.json";
const OFFLINE = "service.js";
const LARGE = 4e6; // bytes of a network that a visitor is asked about
const LOST = "A part of this page could not be loaded; check the connection and try again.";

let site = /** @type {Promise<Site> | null} */ (null);
let worker = /** @type {Worker | null} */ (null);
let asked = 0;
const answered = new Set(); // what was answered before, so that its network is here
/** @type {Map<number, { done: (answer: unknown) => void, fail: (error: Error) => void }>} */
const open = new Map();

/**
 * Ask what askServer asks, in the same words.
 * @param {string} path
 * @param {unknown} [body]
 * @returns {Promise<unknown>}
 */
export async function askBrowser(path, body) {
  site ??= load();
  const built = await site.catch((error) => {
    site = null; // so that it is tried again
    throw error;
  });
  const known = built.first.find(
    (one) => one.path === path && JSON.stringify(one.body) === JSON.stringify(body),
  );
  if (known) return known.answer;
  worker ??= start(built);
  return new Promise((done, fail) => {
    open.set(++asked, {
      done: (answer) => {
        answered.add(path);
        done(answer);
      },
      fail,
    });
    worker?.postMessage({ id: asked, path, body });
  });
}

/**
 * The large network that answers a question and is not here yet; null where nothing has to be awaited.
 * @param {"overlap" | "others"} path
 * @param {number} [which] of several
 * @returns {Promise<DataFile | null>}
 */
export async function largeFile(path, which = 0) {
  const file = [(await (site ??= load())).nets[path]].flat()[which];
  if (file.bytes < LARGE || answered.has(path)) return null;
  const isKept =
    "caches" in globalThis && (await caches.match(new URL(file.path, document.baseURI)));
  return isKept ? null : file;
}

/** @returns {Promise<Site>} */
async function load() {
  const response = await fetch(FIRST).catch(() => null);
  if (!response?.ok) throw new Error(LOST);
  return response.json();
}

/** @param {Site} built */
function start(built) {
  const made = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  made.addEventListener("message", ({ data }) => {
    if (data.name) return say(`Loading ${data.name}: ${Math.round(100 * data.part)} %`);
    const question = open.get(data.id);
    open.delete(data.id);
    if (data.problem !== undefined) return question?.fail(new Error(data.problem));
    question?.done(data.answer);
    keep();
  });
  made.addEventListener("error", () => {
    for (const { fail } of open.values()) fail(new Error(LOST));
    open.clear();
    made.terminate();
    worker = null;
  });
  made.postMessage({ site: built, address: document.baseURI });
  return made;
}

/** Keep the page for when there is no connection, once what it needs is here. */
function keep() {
  if (kept || !("serviceWorker" in navigator)) return;
  kept = true;
  navigator.serviceWorker.register(OFFLINE).catch(() => {}); // without it the page works as well
}
let kept = false;
