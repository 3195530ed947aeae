// A lock that all tabs of a browser share.

import { pause } from "./dom.js";
import { newKey, read, write } from "./storage.js";

/** The lease: a closed tab releases the lock after this. */
const HELD_MS = 10_000;
/** Concurrent writers have written by then: the last one holds the lock. */
const SETTLED_MS = 60;
/** How long another tab's writes may take to become visible after it releases the lock. */
const SEEN_MS = 300;

/**
 * Runs `act` in one tab at a time, for all games; the next tab sees what this one has stored.
 * @template T @param {string} name @param {() => Promise<T>} act @returns {Promise<T>}
 */
export async function withTabLock(name, act) {
  const { locks } = navigator;
  if (!locks) return withStoredLock(name, act); // Plain HTTP.
  let free = true;
  const first = (/** @type {Lock | null} */ lock) => {
    free = lock !== null;
    return free ? act() : null;
  };
  const done = await locks.request(`tombola.${name}`, { ifAvailable: true }, first).catch((error) => {
    if (error.name !== "SecurityError") throw error;
    return act(); // No storage either, so there is nothing to share with other tabs.
  });
  if (free) return /** @type {T} */ (done);
  return locks.request(`tombola.${name}`, async () => {
    await Promise.race([pause(SEEN_MS), new Promise((seen) => addEventListener("storage", seen, { once: true }))]);
    return act();
  });
}

/**
 * The lock as an entry of localStorage. Tabs see its writes in one order, so who sees it released sees all that was
 * stored before.
 * @template T
 * @param {string} name @param {() => Promise<T>} act @returns {Promise<T>}
 */
async function withStoredLock(name, act) {
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
