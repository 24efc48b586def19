// The files of a static build: networks as safetensors, test images as bytes.

/** @import { DataFile, Net, Tables } from "../types.js" */

const LARGE = 4e6; // bytes from which on it is said how far the loading is
const TOLD = 20; // times

/** Told how far a large file is: its name, and the part that is here. @type {(name: string, part: number) => void} */
let onProgress = () => {};
let base = "";
const kept = /** @type {Map<string, Promise<any>>} */ (new Map());

/** @param {string} address of the page @param {typeof onProgress} progress */
export function startFiles(address, progress) {
  base = address;
  onProgress = progress;
}

/**
 * Keep what is made once; what failed is tried again when it is asked for again.
 * @template T
 * @param {string} name
 * @param {() => Promise<T>} make
 * @returns {Promise<T>}
 */
function once(name, make) {
  const found = kept.get(name);
  if (found) return found;
  const made = make();
  kept.set(name, made);
  made.catch(() => kept.delete(name));
  return made;
}

/** The bytes of a file. @param {DataFile} file @returns {Promise<Uint8Array>} */
export const bytesOf = (file) => once(file.path, () => load(file));

/** The network of a file. @param {DataFile} file @returns {Promise<Net>} */
export const netOf = (file) => once(`net ${file.path}`, async () => parse(await load(file)));

/** @param {DataFile} file */
async function load({ path, name, bytes }) {
  const out = new Uint8Array(bytes);
  let at = 0;
  try {
    const response = await fetch(new URL(path, base));
    if (!response.ok || !response.body) throw new Error(String(response.status));
    const reader = response.body.getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      out.set(part.value, at);
      const before = Math.floor((TOLD * at) / bytes);
      at += part.value.length;
      const after = Math.floor((TOLD * at) / bytes);
      if (bytes > LARGE && before < after && after < TOLD) onProgress(name, at / bytes);
    }
  } catch {
    at = -1;
  }
  if (at !== bytes)
    throw new Error(`The file ${path} of this page could not be loaded; try again.`);
  return out;
}

/** A safetensors file: the length of its header, the header, the numbers. @param {Uint8Array} bytes */
function parse(bytes) {
  const view = new DataView(bytes.buffer);
  const length = view.getUint32(0, true); // no header needs the upper four bytes
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
  const { __metadata__: metadata, ...entries } = header;
  const tables = /** @type {Tables} */ ({});
  for (const [name, { dtype, data_offsets: ends }] of Object.entries(entries)) {
    const raw = bytes.slice(8 + length + ends[0], 8 + length + ends[1]).buffer;
    tables[name] = dtype === "F16" ? widened(new Uint16Array(raw)) : new Float32Array(raw);
  }
  return { ...JSON.parse(metadata.capsnet), tables };
}

let halves = /** @type {Float32Array | null} */ (null); // the value of each of the 65,536

/** Numbers of half precision in single precision. @param {Uint16Array} raw */
function widened(raw) {
  halves ??= Float32Array.from({ length: 65536 }, (_, bits) => {
    const [sign, exponent, rest] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
    if (exponent === 31) return rest ? NaN : sign * Infinity;
    return sign * (exponent ? 2 ** (exponent - 25) * (1024 + rest) : 2 ** -24 * rest);
  });
  const out = new Float32Array(raw.length);
  for (let n = 0; n < raw.length; n++) out[n] = halves[raw[n]];
  return out;
}
