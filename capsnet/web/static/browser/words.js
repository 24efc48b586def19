// What an answer says in words, and why it is not to be trusted, as capsnet.prediction tells it.

/** @import { Net } from "../types.js" */

const LONG = 0.5; // midway between the margins of Eq. 4
const SURE = 0.7; // midway between that and the upper margin
const CLOSE = 0.1;
const STRANGE = 1.5; // times the usual error
const BLANK = "there is nothing on the picture";
const SMALLEST = 1e-6;

/** The places of the largest numbers, the largest first. @param {ArrayLike<number>} x @param {number} count */
export const largest = (x, count) =>
  Array.from(x, (_, n) => n)
    .sort((a, b) => x[b] - x[a] || a - b)
    .slice(0, count);

/** Answers [J] as probabilities, where a calibration is known. @type {(net: Net, answers: number[]) => number[]} */
function probabilities({ task, calibration }, answers) {
  if (!calibration || task.kind === "pairs") return answers;
  const { temperature } = calibration;
  if (task.kind === "one_label") {
    const powers = answers.map((x) => Math.max(x, SMALLEST) ** (1 / temperature));
    const total = powers.reduce((sum, x) => sum + x, 0);
    return powers.map((x) => x / total);
  }
  return answers.map((x) => {
    const p = Math.min(1 - SMALLEST, Math.max(SMALLEST, x));
    return 1 / (1 + ((1 - p) / p) ** (1 / temperature));
  });
}

/** @type {(net: Net, shown: number[]) => string} */
function decided({ task: { kind, names }, calibration }, shown) {
  const lines = calibration?.thresholds ?? [];
  if (kind === "several_labels") {
    /** @type {(p: number, j: number) => boolean} */
    const isThere = (p, j) => (calibration ? p >= (lines[j] ?? 0.5) : p > 0.5);
    return names.filter((_, j) => isThere(shown[j], j)).join(", ") || "none";
  }
  if (kind === "pairs")
    return largest(shown, 2)
      .sort((a, b) => a - b)
      .map((j) => names[j])
      .join(" + ");
  if (lines.length && names.length === 2) return names[shown[1] >= lines[0] ? 1 : 0];
  return names[largest(shown, 1)[0]];
}

/**
 * What answers [J] say, and why not to trust them.
 * @param {Net} net
 * @param {number[]} answers
 * @param {number | null} error of the drawing, |x - x'|² / |x|²
 * @param {boolean} isBlank
 */
export function told(net, answers, error, isBlank) {
  const shown = probabilities(net, answers);
  const said = decided(net, shown);
  return { said, doubts: isBlank ? [BLANK] : doubts(net, answers, error, shown, said) };
}

/** @type {(net: Net, answers: number[], error: number | null, shown: number[], said: string) => string[]} */
function doubts({ task, calibration, usual_error: usual }, answers, error, shown, said) {
  const found = [];
  const isCalibrated =
    calibration && (calibration.temperature !== 1 || calibration.thresholds.length);
  if (task.kind === "one_label" && isCalibrated) {
    const sure = shown[task.names.indexOf(said)];
    if (sure < SURE) found.push(`“${said}” is not sure, with a probability of only ${two(sure)}`);
    const long = Math.max(...answers);
    if (long < LONG) found.push(`no capsule is long, the longest has a length of ${two(long)}`);
  } else if (task.kind !== "several_labels") {
    const count = task.kind === "pairs" ? 2 : 1;
    const ranked = largest(answers, count + 1);
    const [last, next] = [answers[ranked[count - 1]], answers[ranked[count]]];
    if (last < SURE)
      found.push(
        `“${task.names[ranked[count - 1]]}” is not sure, with a length of only ${two(last)}`,
      );
    if (ranked.length > count && (next >= LONG || (last - next < CLOSE && CLOSE < next)))
      found.push(
        `it may be “${task.names[ranked[count]]}” as well: length ${two(next)} beside ${two(last)}`,
      );
  }
  if (error !== null && usual !== null && error > STRANGE * usual)
    found.push(
      `it is unlike the images that the network knows: what it draws misses ` +
        `${(100 * Math.min(error, 1)).toFixed()} % of the picture, where ${(100 * usual).toFixed()} % is usual`,
    );
  return found;
}

/** @param {number} x */
const two = (x) => x.toFixed(2);
