// Pictures and tables as text: base64 of bytes, and of little-endian float32.

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
  const parts = [];
  const most = 8192; // arguments of one call
  for (let n = 0; n < bytes.length; n += most) {
    parts.push(String.fromCharCode(...bytes.subarray(n, n + most)));
  }
  return btoa(parts.join(""));
}
