// A host of files as they are on the net: HTTP/2, compressed. node host.mjs FOLDER KEY CERTIFICATE

import { readFileSync } from "node:fs";
import { createSecureServer } from "node:http2";
import { extname, join, normalize } from "node:path";
import { gzipSync } from "node:zlib";

const [folder, key, cert] = process.argv.slice(2);
const KINDS = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".json": "application/json",
};
const ready = new Map(); // a host keeps what it has compressed

const server = createSecureServer({ key: readFileSync(key), cert: readFileSync(cert) });
server.on("request", (request, response) => {
  const path = normalize(request.url.split("?")[0]).replace(/\/$/, "/index.html");
  try {
    if (!ready.has(path)) ready.set(path, gzipSync(readFileSync(join(folder, path))));
  } catch {
    response.writeHead(404);
    return response.end();
  }
  const kind = KINDS[extname(path)] ?? "application/octet-stream";
  response.writeHead(200, { "content-type": kind, "content-encoding": "gzip" });
  response.end(ready.get(path));
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
