// Keeps the page for when there is no connection. A build writes the next line with its own files:
// other files, another version, and the browser takes them all anew.

const BUILD = { version: "", files: /** @type {string[]} */ ([]) };

/** @type {any} */
const here = self; // a service worker, which the type checker does not know
const folder = here.registration.scope;
const prefix = `capsnet ${folder} `;
const cache = `${prefix}${BUILD.version}`;

here.addEventListener("install", (/** @type {any} */ event) =>
  event.waitUntil(
    caches.open(cache).then((kept) => kept.addAll(BUILD.files.map((file) => folder + file))),
  ),
);

here.addEventListener("activate", (/** @type {any} */ event) =>
  event.waitUntil(
    caches
      .keys()
      .then((names) =>
        Promise.all(
          names
            .filter((name) => name.startsWith(prefix) && name !== cache)
            .map((name) => caches.delete(name)),
        ),
      )
      .then(() => here.clients.claim()),
  ),
);

here.addEventListener("fetch", (/** @type {any} */ event) => {
  if (event.request.method === "GET" && event.request.url.startsWith(folder))
    event.respondWith(answer(event.request));
});

/**
 * What is kept, or what the connection gives; a large network is kept once it was asked for.
 * @param {Request} request
 */
async function answer(request) {
  const kept = await caches.open(cache);
  // The page may be asked for by several names, and is kept under one.
  const found = await kept.match(request.mode === "navigate" ? folder : request);
  if (found) return found;
  const response = await fetch(request);
  if (response.ok && request.url.startsWith(`${folder}answers/`))
    await kept.put(request, response.clone());
  return response;
}
