// SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104), for Node and browsers. crypto.subtle has both, but each call is a promise:
// it takes four times as long for the millions of short texts of a draw, and pages without HTTPS lack it.
// @ts-nocheck

const isPrime = (number) => ![2, 3, 5, 7, 11, 13, 17].some((least) => least < number && number % least === 0);
const PRIMES = Array.from({ length: 310 }, (_, at) => at + 2).filter(isPrime);
/** The first 32 bits of the fraction. */
const bitsOf = (number) => ((number % 1) * 2 ** 32) | 0;
const START = Int32Array.from(PRIMES.slice(0, 8), (prime) => bitsOf(Math.sqrt(prime)));
const ROUNDS = Int32Array.from(PRIMES, (prime) => bitsOf(Math.cbrt(prime)));
const words = new Int32Array(ROUNDS.length);
const utf8 = new TextEncoder();

const turn = (word, bits) => (word >>> bits) | (word << (32 - bits));

/** Mixes the 64 bytes of a block into the state. */
function mix(state, view, block) {
  for (let i = 0; i < 16; i += 1) words[i] = view.getInt32(block + i * 4);
  for (let i = 16; i < words.length; i += 1) {
    const [early, late] = [words[i - 15], words[i - 2]];
    const first = turn(early, 7) ^ turn(early, 18) ^ (early >>> 3);
    const second = turn(late, 17) ^ turn(late, 19) ^ (late >>> 10);
    words[i] = words[i - 16] + first + words[i - 7] + second;
  }
  let [a, b, c, d, e, f, g, h] = state;
  for (let i = 0; i < words.length; i += 1) {
    const first = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[i] + words[i]) | 0;
    const second = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((word, i) => (state[i] += word));
}

/** The 32 bytes of the hash. parts: texts, as UTF-8, and bytes, one after another. */
export function sha256(...parts) {
  const all = parts.map((part) => (typeof part === "string" ? utf8.encode(part) : part));
  const length = all.reduce((sum, part) => sum + part.length, 0);
  const padded = new Uint8Array(Math.ceil((length + 9) / 64) * 64);
  let at = 0;
  for (const part of all) {
    padded.set(part, at);
    at += part.length;
  }
  padded[length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setBigUint64(padded.length - 8, BigInt(length) * 8n);
  const state = START.slice();
  for (let block = 0; block < padded.length; block += 64) mix(state, view, block);
  state.forEach((word, i) => view.setInt32(i * 4, word));
  return padded.slice(0, 32);
}

/** The 32 bytes of the HMAC. key: at most 64 bytes. */
export function hmac(key, text) {
  const padded = (pad) => Uint8Array.from({ length: 64 }, (_, i) => (key[i] ?? 0) ^ pad);
  return sha256(padded(0x5c), sha256(padded(0x36), text));
}

export const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
