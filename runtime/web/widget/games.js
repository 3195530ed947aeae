// Maps games to their files.

import { loadModule } from "./load_module.js";

/** File by a game's type, else by its reward handler. */
const FILES = /** @type {Record<string, string>} */ ({
  spin_wheel: "wheel",
  scratch_card: "scratch",
  moments: "scratch",
  score_to_tier: "eggs",
  collect_items: "gifts",
  lucky_item: "collection",
});

/** The name of the file that draws a game. @param {import("./types.js").Render} render */
export const fileOf = ({ type, reward_handler, ui }) => FILES[type] ?? FILES[reward_handler] ?? (ui.wheel ? "wheel" : "plain");

/** Mounts the game of this file, or the plain one if the file fails to load. @param {string} name @param {import("./types.js").Stage} stage @returns {Promise<import("./types.js").Game>} */
export async function mountGame(name, stage) {
  const path = `./games/${name}.js`;
  const file = await import(path).catch(() => loadModule("./games/plain.js"));
  return file.mount(stage);
}
