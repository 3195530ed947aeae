// Solves ALTCHA's proof of work: searches the number that hashes to the challenge. Hashing is asynchronous, so the page
// stays responsive.

const BATCH = 500;

/** The solution of a challenge. Rejects if there is none, or the page has no secure context. @param {{algorithm: string, challenge: string, salt: string, signature: string, maxnumber: number}} asked */
export async function solve({ algorithm, challenge, salt, signature, maxnumber }) {
  const encoder = new TextEncoder();
  for (let first = 0; first <= maxnumber; first += BATCH) {
    const numbers = Array.from({ length: Math.min(BATCH, maxnumber + 1 - first) }, (_, nth) => first + nth);
    const hashes = await Promise.all(numbers.map((number) => crypto.subtle.digest(algorithm, encoder.encode(`${salt}${number}`))));
    const found = hashes.findIndex((hash) => hex(hash) === challenge);
    if (found >= 0) return btoa(JSON.stringify({ algorithm, challenge, salt, signature, number: first + found }));
  }
  throw new Error("the challenge has no solution");
}

/** @param {ArrayBuffer} hash */
const hex = (hash) => Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, "0")).join("");
