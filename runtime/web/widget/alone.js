// One at a time, where another tab is at it, or the browser has no locks (plain HTTP). Loaded when it is needed.

import { pause } from "./dom.js";
import { newKey, read, write } from "./keep.js";

/** Who has ended without a word is waited for no longer. */
const HELD_MS = 10_000;
/** Who writes at the same time has written by then: the last one holds it. */
const SETTLED_MS = 60;
/** What another tab writes down is seen a moment later: it may let go before. */
const SEEN_MS = 300;

/**
 * After who is at it now, once what that one wrote down can be seen.
 * @template T
 * @param {string} name @param {() => Promise<T>} act @returns {Promise<T>}
 */
export async function next(name, act) {
  return navigator.locks.request(`tombola.${name}`, async () => {
    await Promise.race([pause(SEEN_MS), new Promise((seen) => addEventListener("storage", seen, { once: true }))]);
    return act();
  });
}

/**
 * By what all tabs read, in the order in which it is written: who sees that it is free sees all that was written before.
 * @template T
 * @param {string} name @param {() => Promise<T>} act @returns {Promise<T>}
 */
export async function alone(name, act) {
  const [key, mine] = [`tombola.alone:${name}`, newKey()];
  const held = () => read("localStorage", key);
  while (held()?.by !== mine) {
    if (!(held()?.until > Date.now())) write("localStorage", key, { by: mine, until: Date.now() + HELD_MS });
    await pause(SETTLED_MS);
  }
  try {
    return await act();
  } finally {
    if (held()?.by === mine) write("localStorage", key, null);
  }
}
