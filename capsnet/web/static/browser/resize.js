// Scaling as Pillow does it: each new pixel is a weighted mean of the old ones it covers.
//
// Bytes are rounded after each direction, by whole numbers of 22 bits, so that both agree; from
// version 13 on Pillow scales tall pictures downwards first, which may change a level by one.

/**
 * A grey picture; bytes unless said otherwise.
 * @template {Uint8Array | Float32Array} [T=Uint8Array]
 * @typedef {{ data: T, width: number, height: number }} Plane
 */
/** @typedef {{ support: number, weigh: (x: number) => number }} Filter */

const BITS = 2 ** 22;
const CUBIC = -0.5;

/** @type {Filter} */
export const BILINEAR = { support: 1, weigh: (x) => Math.max(0, 1 - Math.abs(x)) };
/** @type {Filter} */
export const BOX = { support: 0.5, weigh: (x) => (x > -0.5 && x <= 0.5 ? 1 : 0) };
/** @type {Filter} */
export const BICUBIC = {
  support: 2,
  weigh(x) {
    const far = Math.abs(x);
    if (far < 1) return ((CUBIC + 2) * far - (CUBIC + 3)) * far * far + 1;
    return far < 2 ? (((far - 5) * far + 8) * far - 4) * CUBIC : 0;
  },
};

/**
 * Scale a plane, or the part of it from one place to another.
 * @template {Uint8Array | Float32Array} T
 * @param {Plane<T>} plane
 * @param {number} width
 * @param {number} height
 * @param {Filter} filter
 * @param {[left: number, top: number, right: number, bottom: number]} box
 * @returns {Plane<T>}
 */
export function resize(plane, width, height, filter, box = [0, 0, plane.width, plane.height]) {
  const [left, top, right, bottom] = box;
  if (width !== plane.width || left || right !== plane.width)
    plane = pass(plane, false, means(plane.width, width, left, right, filter), width);
  if (height !== plane.height || top || bottom !== plane.height)
    plane = pass(plane, true, means(plane.height, height, top, bottom, filter), height);
  return plane;
}

/**
 * For each new pixel the first old one, and the weights from there on.
 * @type {(size: number, wanted: number, start: number, end: number, filter: Filter) => { first: number, weights: number[] }[]}
 */
function means(size, wanted, start, end, { support, weigh }) {
  const scale = (end - start) / wanted;
  const wide = Math.max(1, scale);
  return Array.from({ length: wanted }, (_, n) => {
    const centre = start + (n + 0.5) * scale;
    const first = Math.max(0, Math.trunc(centre - support * wide + 0.5));
    const last = Math.min(size, Math.trunc(centre + support * wide + 0.5));
    const weights = Array.from({ length: last - first }, (__, k) =>
      weigh((k + first - centre + 0.5) / wide),
    );
    const total = weights.reduce((sum, x) => sum + x, 0);
    return { first, weights: weights.map((x) => (total ? x / total : x)) };
  });
}

/** @type {<T extends Uint8Array | Float32Array>(plane: Plane<T>, isDown: boolean, parts: ReturnType<typeof means>, size: number) => Plane<T>} */
function pass({ data, width, height }, isDown, parts, size) {
  const isBytes = data instanceof Uint8Array;
  const [newWidth, newHeight] = isDown ? [width, size] : [size, height];
  const out = isBytes
    ? new Uint8Array(newWidth * newHeight)
    : new Float32Array(newWidth * newHeight);
  const step = isDown ? width : 1;
  parts.forEach(({ first, weights }, n) => {
    const whole = isBytes
      ? weights.map((x) => Math.trunc(x * BITS + (x < 0 ? -0.5 : 0.5)))
      : weights;
    for (let other = 0; other < (isDown ? width : height); other++) {
      const from = isDown ? first * width + other : other * width + first;
      let sum = isBytes ? BITS / 2 : 0;
      for (let k = 0; k < whole.length; k++) sum += data[from + k * step] * whole[k];
      const at = isDown ? n * width + other : other * size + n;
      out[at] = isBytes ? Math.min(255, Math.max(0, Math.floor(sum / BITS))) : sum;
    }
  });
  return { data: /** @type {typeof data} */ (out), width: newWidth, height: newHeight };
}
