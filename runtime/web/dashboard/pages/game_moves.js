// What becomes of a game: activated or paused, after a question.
import { api } from "../api.js";
import { confirm } from "../parts/dialog.js";
import { tell } from "../parts/toast.js";
import { say, state } from "../words.js";

const VERBS = /** @type {Record<string, "activate" | "pause">} */ ({ GAME_STATUS_DRAFT: "activate", GAME_STATUS_PAUSED: "activate", GAME_STATUS_ACTIVE: "pause" });
const TO = { activate: "ACTIVE", pause: "PAUSED" };

/** What can be done with it: "" for nothing. @param {any} game */
export const verbOf = ({ status }) => VERBS[status] ?? "";

/** Asks, and does it; the game as it is then, null where it was not wanted. @param {any} game */
export async function moveGame(game) {
  const verb = VERBS[game.status];
  const yes = await confirm({ title: say(`game.${verb}_title`, { name: game.name }), text: say(`game.${verb}_text`), word: say(`game.${verb}`) });
  if (!yes) {
    return null;
  }
  // With the revision that was read: what somebody else has changed meanwhile is not undone.
  const body = { status: `GAME_STATUS_${TO[verb]}`, revision: game.revision };
  const moved = await api.put("/admin/games/{id}", { path: { id: game.id }, body });
  tell(say("game.moved", { name: moved.name, state: state(moved.status) }));
  return moved;
}
