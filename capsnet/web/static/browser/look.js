// Looking inside a network: everything between a picture and its class capsules, and drawings.

/** @import { Analysis, Answers, Capsule, Net, RouteStep } from "../types.js" */

import { toText } from "../pack.js";
import { lengths } from "../routing.js";
import { run } from "./layers.js";
import { levels } from "./pixels.js";
import { biasOf, route, voted } from "./routing.js";
import { largest, told } from "./words.js";

/** @param {Net} net @returns {RouteStep} */
const routeOf = (net) => /** @type {RouteStep} */ (net.steps.at(-1));

/** Numbers as text, in single precision. @param {ArrayLike<number>} table */
const packed = (table) => toText(new Uint8Array(Float32Array.from(table).buffer));

/** What a network answers to pixels [C, H, W], in numbers [J]. @type {(net: Net, pixels: Float32Array) => number[]} */
export function answers(net, pixels) {
  const last = run(net.steps, net.tables, { data: pixels, shape: net.image_shape });
  const step = routeOf(net);
  if (step.do !== "route") return [...last.data];
  const v = route(last.data, step, net.tables).v.at(-1);
  return lengths(/** @type {Float64Array} */ (v), step.sizes[2]);
}

/**
 * The routing of pixels [C, H, W], and what the longest capsules draw.
 * @param {Net} net
 * @param {Float32Array} pixels
 * @param {number} numDrawn
 * @returns {Analysis}
 */
export function analyse(net, pixels, numDrawn) {
  const u = run(net.steps, net.tables, { data: pixels, shape: net.image_shape });
  const step = routeOf(net);
  const [, J, E, D] = step.sizes;
  const { votes, b, s, v } = route(u.data, step, net.tables);
  const last = v[v.length - 1];
  const long = lengths(last, E);
  const capsules = Array.from({ length: J }, (_, j) => [...last.subarray(j * E, (j + 1) * E)]);
  const drawn = largest(long, numDrawn);
  const pictures = net.drawing
    ? draw(
        net,
        drawn.map((which) => [{ which, v: capsules[which] }]),
      )
    : [];
  const error =
    pictures.length && net.task.kind === "one_label" ? missed(pictures[0], pixels) : null;
  const isBlank = pixels.every((x) => x === pixels[0]);
  return {
    image: toText(levels(pixels)),
    ...told(net, long, error, isBlank),
    lengths: long,
    v: capsules,
    u: packed(lengths(u.data, D)),
    votes: packed(lengths(votes, E)),
    b: packed(b),
    c: "",
    s_steps: s.map((x) => lengths(x, E)),
    v_steps: v.map((x) => lengths(x, E)),
    drawn,
    pictures: toText(joined(pictures)),
  };
}

/** What every primary capsule says of every class. @type {(net: Net, pixels: Float32Array) => Answers["votes"]} */
export function votesOf(net, pixels) {
  const u = run(net.steps, net.tables, { data: pixels, shape: net.image_shape });
  const step = routeOf(net);
  const bias = biasOf(step, net.tables);
  return { votes: packed(voted(u.data, step, net.tables)), bias: bias ? packed(bias) : "" };
}

/** |x - x'|² / |x|². @param {Float32Array} drawn @param {Float32Array} pixels */
function missed(drawn, pixels) {
  const miss = pixels.reduce((sum, x, n) => sum + (drawn[n] - x) ** 2, 0);
  return (
    miss /
    Math.max(
      1e-3,
      pixels.reduce((sum, x) => sum + x * x, 0),
    )
  );
}

/**
 * Draw pictures [C, H, W], each from its capsules, all others zero.
 * @param {Net} net
 * @param {Capsule[][]} pictures
 */
export function draw(net, pictures) {
  const [, J, E] = routeOf(net).sizes;
  return pictures.map((capsules) => {
    const v = new Float32Array(J * E);
    for (const capsule of capsules) v.set(capsule.v, capsule.which * E);
    return drawOne(net, v);
  });
}

/** @type {(net: Net, v: Float32Array) => Float32Array} */
function drawOne(net, v) {
  const { data, shape } = run(net.drawing ?? [], net.tables, { data: v, shape: [v.length] });
  const [C, H, W] = net.image_shape;
  if (shape.length === 1) return data;
  const out = new Float32Array(C * H * W); // what is too much below and at the right is cut
  for (let c = 0; c < C; c++) {
    for (let y = 0; y < H; y++) {
      const from = (c * shape[1] + y) * shape[2];
      out.set(data.subarray(from, from + W), (c * H + y) * W);
    }
  }
  return out;
}

/** Pictures as bytes [N, C, H, W]. @param {Float32Array[]} pictures */
export function joined(pictures) {
  const size = pictures[0]?.length ?? 0;
  const bytes = new Uint8Array(pictures.length * size);
  pictures.forEach((picture, n) => bytes.set(levels(picture), n * size));
  return bytes;
}
