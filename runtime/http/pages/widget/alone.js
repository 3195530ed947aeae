// One at a time, where the browser has no locks (plain HTTP): by what all tabs read. Loaded when it is needed.

import { pause } from "./dom.js";
import { newKey, read, write } from "./keep.js";

/** Who has ended without a word is waited for no longer. */
const HELD_MS = 10_000;
/** Who writes at the same time has written by then: the last one holds it. */
const SETTLED_MS = 60;

/**
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
