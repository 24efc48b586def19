// The shapes of things, for the type checker and the reader; the browser never asks for this file.

// What the server answers. Names and fields are those of capsnet/web/schema.py, and a test holds it.

export interface Slider {
  low: number;
  high: number;
  step: number;
  usual: number;
  unit: string;
}

export type Bend = "rotate" | "scale" | "shear" | "right" | "down" | "thicken";

export interface Limits {
  bends: Record<Bend, Slider>;
  pieces: number[];
  place: Slider;
  trained_shift: number;
  tweaks: Slider[];
  max_iters: number;
  max_pose: number;
  max_number: number;
  max_pictures: number;
  max_picture_pixels: number;
}

export interface NetCard {
  name: string;
  data: string;
  error_percent: number | null;
  num_parameters: number;
  image_shape: [number, number, number];
  classes: string[];
  grid: [number, number, number];
  field: [number, number, number];
  primary_dim: number;
  class_dim: number;
  num_iters: number;
  routing: string;
  leaky: boolean;
  has_bias: boolean;
  has_decoder: boolean;
  reads_digits: boolean;
  tells_numbers: boolean;
}

export interface Digits {
  image_shape: [number, number, number];
  classes: string[];
  num_pages: number;
}

export interface CnnCard {
  name: string;
  data: string;
  error_percent: number | null;
  num_parameters: number;
}

export interface Info {
  capsnet: NetCard;
  others: NetCard[];
  overlap: NetCard;
  cnn: CnnCard | null;
  digits: Digits;
  limits: Limits;
  has_cnn: boolean;
  why_no_cnn: string;
  has_samples: boolean;
  num_mistakes: number;
}

export interface Dimensions {
  order: number[][];
  names: string[][];
  spreads: number[][] | null;
}

export interface Poses {
  mean: string;
  ways: string;
}

export interface Sample {
  number: number;
  label: number;
  said: string;
  image: string;
}

export interface Mistake {
  sample: Sample;
  file: string;
  said: string;
  confidence: number;
}

export interface MistakesPage {
  total: number;
  mistakes: Mistake[];
}

export interface Picture {
  image: string;
}

export interface Analysis {
  image: string;
  said: string;
  doubts: string[];
  lengths: number[];
  v: number[][];
  u: string;
  votes: string;
  b: string;
  c: string;
  s_steps: number[][];
  v_steps: number[][];
  drawn: number[];
  pictures: string;
}

export interface Votes {
  votes: string;
  bias: string;
}

export interface Capsule {
  which: number;
  v: number[];
}

export interface WarpAnswer {
  analysis: Analysis;
  cnn: number[] | null;
}

export interface SweepAnswer {
  values: number[];
  capsnet: number[][];
  cnn: number[][] | null;
}

/** What each path of the API answers. */
export interface Answers {
  info: Info;
  dimensions: Dimensions;
  poses: Poses;
  samples: Sample[];
  digits: Sample[];
  mistakes: MistakesPage;
  analyse: Analysis;
  votes: Votes;
  overlap: Analysis;
  warp: WarpAnswer;
  sweep: SweepAnswer;
}

// What a static build holds instead of a server: capsnet/web/page.py writes it, browser/ reads it.

/** A file of the build, and what it is called in messages. */
export interface DataFile {
  path: string;
  name: string;
  bytes: number;
}

/** Test images: how many of each class, one class after the other, and what each is in words. */
export interface Shelf {
  file: DataFile;
  image_shape: Shape;
  counts: number[];
  said: string[][];
}

/** How a picture file becomes an image; ink is found on paper and fills a share of the square. */
export interface Reading {
  size: number;
  channels: number;
  fit: "pad" | "crop" | "stretch";
  ink: boolean;
  share: number;
}

/** All that the browser needs to answer; `first` are answers to what is asked first. */
export interface Site {
  first: { path: string; body?: unknown; answer: unknown }[];
  nets: { capsnet: DataFile; others: DataFile[]; overlap: DataFile; cnn: DataFile | null };
  samples: Shelf | null;
  digits: Shelf;
  bends: Record<Bend, Slider>;
  reading: Reading;
}

/** A layer: what it does, its options, and the names of its tables. */
export interface Step {
  do: string;
}

export interface RouteStep extends Step {
  weight: string;
  shift?: string;
  sizes: [I: number, J: number, E: number, D: number];
  iters: number;
  leaky: boolean;
}

export type Tables = Record<string, Float32Array>;

/** Numbers and their shape. */
export interface Block {
  data: Float32Array;
  shape: number[];
}

/** A network: steps to its capsules or probabilities, steps that draw capsules, and its task. */
export interface Net {
  steps: Step[];
  drawing: Step[] | null;
  image_shape: Shape;
  task: { kind: "one_label" | "several_labels" | "pairs"; names: string[] };
  calibration: { temperature: number; thresholds: number[] } | null;
  usual_error: number | null;
  poses: Poses | null;
  tables: Tables;
}

// What the page makes of it.

/** Channels, height and width of a picture. */
export type Shape = [number, number, number];

/** What its test images are: of a network, or of Overlap. */
export type Kind = Pick<NetCard, "image_shape" | "classes">;

/** How a picture is bent and cut, by name. */
export type Warp = Record<Bend | "pieces" | "seed", number>;

/** What the visitor has chosen; state.js says what each is. */
export interface State {
  mode: string;
  sample: number;
  image: string;
  which: number;
  range: number;
  tweak: number[];
  step: number;
  iters: number;
  net: number;
  capsule: number;
  pair: number[];
  own: string;
  other: number;
  place: number[];
  warp: number[];
  sweep: Bend;
  to: number;
  along: number;
  present: number;
  caption: string;
  hide: string;
  names: string;
}

/** What was drawn: strokes of points in a colour, over a picture or on black. */
export interface Pad {
  under: { bytes: Uint8Array; shape: Shape } | null;
  strokes: { colour: string; points: [x: number, y: number][] }[];
}

/** Where a picture is from, as in the address. */
export type Source = Pick<State, "sample" | "image">;

/** An analysis whose tables are unpacked, see scene.js. */
export interface Routed extends Omit<Analysis, "image" | "u" | "votes" | "pictures"> {
  image: Uint8Array;
  u: Float32Array;
  votes: Float32Array;
  pictures: Uint8Array;
  I: number;
  J: number;
  logit(t: number, i: number, j: number): number;
  agreement(t: number, i: number, j: number): number;
  couplings: Float32Array[];
  trace: VoteTrace | null;
}

/** All votes [I, J, E], and the class capsules v [J, E] of each iteration; known in Route. */
export interface VoteTrace {
  votes: Float32Array;
  v: Float64Array[];
}

/**
 * A mode of the page: `enter` builds its panel, which lives until the signal is aborted; one that
 * `follows` shows at every "choice" what is chosen, and need not be built anew.
 */
export interface Mode {
  follows?: boolean;
  enter(panel: HTMLElement, signal: AbortSignal): unknown;
}

/** A mode as the tabs know it, before it is loaded. */
export interface ModeEntry {
  title: string;
  lead(card: NetCard): string;
  load(): Promise<Mode>;
}

/** A curve of a chart. */
export interface Curve {
  label: string;
  style: string;
  values: number[];
}

/** Red, green and blue, 0 to 255. */
export type Colour = [number, number, number];

/** From a number to a colour in CSS. */
export type Scale = (value: number) => string;

// Making elements, see dom.js.

export type Attributes = Record<string, string | number | boolean | null | (() => unknown)>;
export type Child = Node | string | null;

/** The elements of index.html that are more than an HTMLElement. */
export interface Elements {
  input: HTMLCanvasElement;
  seen: HTMLCanvasElement;
  primary: HTMLCanvasElement;
  reconstruction: HTMLCanvasElement;
  "preview-canvas": HTMLCanvasElement;
  flow: SVGSVGElement;
}
