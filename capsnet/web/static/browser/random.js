// The random numbers of torch.Generator on a CPU: the Mersenne Twister, 24 bits of each number.

const SIZE = 624;

/** Numbers in 0 … 1, as torch.rand(count) gives them after manual_seed(seed). @param {number} seed @param {number} count */
export function randomNumbers(seed, count) {
  const state = new Uint32Array(SIZE);
  state[0] = seed;
  for (let n = 1; n < SIZE; n++) {
    state[n] = Math.imul(1812433253, state[n - 1] ^ (state[n - 1] >>> 30)) + n;
  }
  twist(state); // there are as many numbers as are ever asked for
  return Float64Array.from({ length: count }, (_, n) => (temper(state[n]) & 0xffffff) / 2 ** 24);
}

/** @param {Uint32Array} state */
function twist(state) {
  for (let n = 0; n < SIZE; n++) {
    const y = (state[n] & 0x80000000) | (state[(n + 1) % SIZE] & 0x7fffffff);
    state[n] = state[(n + 397) % SIZE] ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
  }
}

/** @param {number} y */
function temper(y) {
  y ^= y >>> 11;
  y ^= (y << 7) & 0x9d2c5680;
  y ^= (y << 15) & 0xefc60000;
  return y ^ (y >>> 18);
}
