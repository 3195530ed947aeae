// A lock that all tabs of a browser share.

import { pause } from "./dom.js";
import { loadModule } from "./load_module.js";

/** How long another tab's writes may take to become visible after it releases the lock. */
const SEEN_MS = 300;

/**
 * Runs `act` in one tab at a time, for all games; the next tab sees what this one has stored.
 * @template T @param {string} name @param {() => Promise<T>} act @returns {Promise<T>}
 */
export async function withTabLock(name, act) {
  const { locks } = navigator;
  if (!locks) return (await loadModule("./stored_lock.js")).withStoredLock(name, act); // Plain HTTP.
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
