// The kinds of bending in Warp, and how far each goes.

export const KINDS = {
  rotate: { min: -180, max: 180, step: 1, unit: "°" },
  scale: { min: 0.5, max: 1.5, step: 0.01, unit: "×" },
  shear: { min: -1, max: 1, step: 0.01, unit: "" },
  right: { min: -12, max: 12, step: 0.5, unit: " px" },
  down: { min: -12, max: 12, step: 0.5, unit: " px" },
  thicken: { min: -2, max: 2, step: 0.1, unit: " px" },
};
export const NAMES = Object.keys(KINDS);
export const PIECES = [1, 2, 4]; // along each side, when it is cut

/** The nearest value that a slider can have. */
export const bound = (name, x) => {
  const { min, max, step } = KINDS[name];
  return Number((Math.round(Math.min(max, Math.max(min, x)) / step) * step).toFixed(2));
};
