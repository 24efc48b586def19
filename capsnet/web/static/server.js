// Answers of the server: JSON out, JSON or bytes back.

/**
 * Ask the server: without a body for what it has, with one for what it makes of that.
 * @param {string} path
 * @param {unknown} [body] a picture file, or what is sent as JSON
 * @returns {Promise<unknown>} what the JSON says, or an ArrayBuffer
 */
export async function askServer(path, body) {
  const response = await fetch(`/api/${path}`, options(body)).catch(() => {
    throw new Error("The server does not answer."); // each browser has words of its own for it
  });
  const isJson = response.headers.get("Content-Type")?.startsWith("application/json");
  if (response.ok) return isJson ? response.json() : response.arrayBuffer();
  const problem = await response.json().catch(() => ({}));
  throw new Error(problem.detail ?? `The server answered ${response.status}.`);
}

/** @type {(body: unknown) => RequestInit | undefined} */
function options(body) {
  if (body === undefined) return undefined;
  const isFile = body instanceof Blob;
  return {
    method: "POST",
    headers: { "Content-Type": isFile ? body.type : "application/json" },
    body: isFile ? body : JSON.stringify(body),
  };
}
