// What this browser keeps from visit to visit. It may refuse to, as it does where all cookies are
// blocked: then nothing is kept, and the page works all the same.

/** @param {string} key */
export function recall(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** @param {string} key @param {string} text */
export function remember(key, text) {
  try {
    localStorage.setItem(key, text);
  } catch {
    // Nothing depends on it.
  }
}
