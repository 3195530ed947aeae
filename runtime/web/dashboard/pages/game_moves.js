// Activates or pauses a game after confirmation.
import { api } from "../api.js";
import { confirm } from "../parts/dialog.js";
import { tell } from "../parts/toast.js";
import { say, state } from "../words.js";

const VERBS = /** @type {Record<string, "activate" | "pause">} */ ({ GAME_STATUS_DRAFT: "activate", GAME_STATUS_PAUSED: "activate", GAME_STATUS_ACTIVE: "pause" });
const TO = { activate: "ACTIVE", pause: "PAUSED" };

/** The available action; "" if none. @param {any} game */
export const verbOf = ({ status }) => VERBS[status] ?? "";

/** Asks and performs it. Returns the updated game, or null if cancelled. @param {any} game */
export async function moveGame(game) {
  const verb = VERBS[game.status];
  const yes = await confirm({ title: say(`game.${verb}_title`, { name: game.name }), text: say(`game.${verb}_text`), word: say(`game.${verb}`) });
  if (!yes) {
    return null;
  }
  // With the revision that was read (optimistic lock): concurrent changes are not overwritten.
  const body = { status: `GAME_STATUS_${TO[verb]}`, revision: game.revision };
  const moved = await api.put("/admin/games/{id}", { path: { id: game.id }, body });
  tell(say("game.moved", { name: moved.name, state: state(moved.status) }));
  return moved;
}
