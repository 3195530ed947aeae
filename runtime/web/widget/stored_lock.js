// The lock of tab_lock.js where the browser has none: on plain HTTP.

import { pause } from "./dom.js";
import { newKey, read, write } from "./storage.js";

/** The lease: a closed tab releases the lock after this. */
const HELD_MS = 10_000;
/** Concurrent writers have written by then: the last one holds the lock. */
const SETTLED_MS = 60;

/**
 * The lock as an entry of localStorage. Tabs see its writes in one order, so who sees it released sees all that was
 * stored before.
 * @template T
 * @param {string} name @param {() => Promise<T>} act @returns {Promise<T>}
 */
export async function withStoredLock(name, act) {
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
