// The layers of a network, one step after the other: run(program.steps, tables, image).
//
// After a ReLU most numbers are zero (98 of 100 in capsnet_multimnist), so that plain JavaScript is
// quick enough if it leaves them out: weights are [inputs, outputs], and a zero skips its row.

/** @import { Block, Step, Tables } from "../types.js" */

import { squash as squashed } from "../routing.js";

/**
 * Run steps, up to the one that routes.
 * @param {Step[]} steps
 * @param {Tables} tables
 * @param {Block} x
 */
export function run(steps, tables, x) {
  for (const step of steps) {
    if (step.do === "route") break;
    x = LAYERS[step.do](x, step, tables);
  }
  return x;
}

/** @type {Record<string, (x: Block, step: any, tables: Tables) => Block>} */
const LAYERS = { conv, norm, dense, pool, mean, spread, fold, sigmoid, softmax, squash };

/**
 * out[o] += Σ_k values[k] · weight[rows[k], o], four rows at a time.
 * @param {Float64Array} out
 * @param {Float32Array} values
 * @param {Int32Array} rows
 * @param {number} count
 * @param {Float32Array} weight
 */
function mix(out, values, rows, count, weight) {
  const O = out.length;
  let k = 0;
  for (; k + 3 < count; k += 4) {
    const [x0, x1, x2, x3] = [values[k], values[k + 1], values[k + 2], values[k + 3]];
    const r0 = rows[k] * O;
    const r1 = rows[k + 1] * O;
    const r2 = rows[k + 2] * O;
    const r3 = rows[k + 3] * O;
    for (let o = 0; o < O; o++) {
      out[o] +=
        x0 * weight[r0 + o] + x1 * weight[r1 + o] + x2 * weight[r2 + o] + x3 * weight[r3 + o];
    }
  }
  for (; k < count; k++) {
    const x = values[k];
    const r = rows[k] * O;
    for (let o = 0; o < O; o++) out[o] += x * weight[r + o];
  }
}

/** A convolution [C, H, W] -> [O, H', W'] with zeros around. @type {typeof LAYERS[string]} */
function conv({ data, shape: [C, H, W] }, step, tables) {
  const { kernel, stride, padding, relu } = step;
  const weight = tables[step.weight];
  const [scale, shift] = [tables[step.scale], tables[step.shift]];
  const size = C * kernel[0] * kernel[1];
  const O = weight.length / size;
  const rows = Math.floor((H + 2 * padding - kernel[0]) / stride[0]) + 1;
  const columns = Math.floor((W + 2 * padding - kernel[1]) / stride[1]) + 1;
  const out = new Float32Array(O * rows * columns);
  const sums = new Float64Array(O);
  const values = new Float32Array(size);
  const places = new Int32Array(size);
  for (let row = 0; row < rows; row++) {
    const top = row * stride[0] - padding;
    for (let column = 0; column < columns; column++) {
      const left = column * stride[1] - padding;
      const [first, last] = [Math.max(0, -left), Math.min(kernel[1], W - left)];
      let count = 0;
      for (let c = 0; c < C; c++) {
        for (let y = Math.max(0, -top); y < kernel[0] && top + y < H; y++) {
          const from = (c * H + top + y) * W + left;
          const place = (c * kernel[0] + y) * kernel[1];
          for (let x = first; x < last; x++) {
            const value = data[from + x];
            if (value === 0) continue;
            values[count] = value;
            places[count++] = place + x;
          }
        }
      }
      sums.fill(0);
      mix(sums, values, places, count, weight);
      const at = row * columns + column;
      for (let o = 0; o < O; o++) {
        const y = (scale ? sums[o] * scale[o] : sums[o]) + (shift ? shift[o] : 0);
        out[o * rows * columns + at] = relu && y < 0 ? 0 : y;
      }
    }
  }
  return { data: out, shape: [O, rows, columns] };
}

/** All with all: a list of any shape -> [O]. @type {typeof LAYERS[string]} */
function dense({ data }, { weight: name, shift: bias, relu }, tables) {
  const weight = tables[name];
  const O = weight.length / data.length;
  const sums = new Float64Array(O);
  if (bias) sums.set(tables[bias]);
  const values = new Float32Array(data.length);
  const rows = new Int32Array(data.length);
  let count = 0;
  for (let n = 0; n < data.length; n++) {
    if (data[n] === 0) continue;
    values[count] = data[n];
    rows[count++] = n;
  }
  mix(sums, values, rows, count, weight);
  const out = Float32Array.from(sums);
  if (relu) for (let o = 0; o < O; o++) out[o] = Math.max(0, out[o]);
  return { data: out, shape: [O] };
}

/** A factor and a summand for each channel. @type {typeof LAYERS[string]} */
function norm({ data, shape }, step, tables) {
  const [scale, shift] = [tables[step.scale], tables[step.shift]];
  const plane = data.length / shape[0];
  const out = data.map((x, n) => {
    const y = x * scale[Math.floor(n / plane)] + shift[Math.floor(n / plane)];
    return step.relu && y < 0 ? 0 : y;
  });
  return { data: out, shape };
}

/** The largest of each square. @type {typeof LAYERS[string]} */
function pool({ data, shape: [C, H, W] }, { size }) {
  const [rows, columns] = [Math.floor(H / size), Math.floor(W / size)];
  const out = new Float32Array(C * rows * columns).fill(-Infinity);
  for (let c = 0; c < C; c++) {
    for (let y = 0; y < rows * size; y++) {
      for (let x = 0; x < columns * size; x++) {
        const n = (c * rows + Math.floor(y / size)) * columns + Math.floor(x / size);
        out[n] = Math.max(out[n], data[(c * H + y) * W + x]);
      }
    }
  }
  return { data: out, shape: [C, rows, columns] };
}

/** The mean of each channel. @type {typeof LAYERS[string]} */
function mean({ data, shape: [C] }) {
  const plane = data.length / C;
  const sums = new Float64Array(C);
  data.forEach((x, n) => (sums[Math.floor(n / plane)] += x / plane));
  return { data: Float32Array.from(sums), shape: [C] };
}

/** Zeros between the pixels and behind the last: what a transposed convolution begins with. @type {typeof LAYERS[string]} */
function spread({ data, shape: [C, H, W] }, { stride, more }) {
  const [rows, columns] = [(H - 1) * stride[0] + 1 + more[0], (W - 1) * stride[1] + 1 + more[1]];
  const out = new Float32Array(C * rows * columns);
  for (let c = 0; c < C; c++) {
    for (let y = 0; y < H; y++) {
      for (let x = 0; x < W; x++) {
        out[(c * rows + y * stride[0]) * columns + x * stride[1]] = data[(c * H + y) * W + x];
      }
    }
  }
  return { data: out, shape: [C, rows, columns] };
}

/** A list as a map. @type {typeof LAYERS[string]} */
function fold({ data }, { shape }) {
  return { data, shape };
}

/** @type {typeof LAYERS[string]} */
function sigmoid({ data, shape }) {
  return { data: data.map((x) => 1 / (1 + Math.exp(-x))), shape };
}

/** @type {typeof LAYERS[string]} */
function softmax({ data, shape }) {
  const high = data.reduce((most, x) => Math.max(most, x), -Infinity);
  const powers = Float64Array.from(data, (x) => Math.exp(x - high));
  const total = powers.reduce((sum, x) => sum + x, 0);
  return { data: Float32Array.from(powers, (x) => x / total), shape };
}

/** Primary capsules [I, D]: D channels at one position, by position and type. @type {typeof LAYERS[string]} */
function squash({ data, shape: [C, H, W] }, { dim: D }) {
  const [plane, types] = [H * W, C / D];
  const s = new Float32Array(data.length);
  for (let p = 0; p < plane; p++) {
    for (let c = 0; c < C; c++) s[p * C + c] = data[c * plane + p];
  }
  return { data: Float32Array.from(squashed(s, D)), shape: [plane * types, D] };
}
