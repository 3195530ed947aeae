// The panels of a game, each in a file of `panels/`, loaded on first use.

import { loadModule } from "./load_module.js";

/** By name (the key of its words, and its file): what stands for it, and whether there is anything to show in it. @type {Record<string, [string, (render: import("./types.js").Render, round: import("./play.js").Round) => boolean]>} */
const PANELS = {
  prizes: ["🎁", (render) => render.prizes.length > 0],
  rewards: ["🎟️", (render, round) => render.prizes.length > 0 || round.api.identity.token !== ""],
  milestones: ["🚩", (render) => rungs(render)],
  quests: ["⚡", (render) => has(render, "quests")],
  codes: ["🔑", (render) => has(render, "codes")],
  draws: ["🎫", (render) => has(render, "draws")],
  ranking: ["🏆", (render) => has(render, "leaderboards")],
  wallet: ["👛", (render) => rungs(render) || render.reward_handler === "lucky_item" || render.prizes.some((prize) => prize.type === "points")],
  history: ["🕘", () => true],
  fair: ["🔍", () => true],
  login: ["👤", () => true],
};

/** @param {import("./types.js").Render} render @param {string} name */
const has = (render, name) => Boolean(render.offers?.includes(name));

/** @param {import("./types.js").Render} render */
const rungs = (render) => Boolean(render.milestones?.rungs.length);

/** The names of what there is, each with what stands for it. @param {import("./play.js").Round} round */
export const panelsOf = (round) =>
  Object.entries(PANELS).flatMap(([name, [picture, there]]) => (round.render && there(round.render, round) ? [[name, picture]] : []));

/** @param {import("./view.js").View} view @param {string} name @param {any} [given] what it is opened for */
export async function openPanel(view, name, given) {
  view.page?.stay();
  try {
    const { openDialog } = await loadModule("./panels/dialog.js");
    await openDialog(view, name, given);
  } catch {
    view.say((view.left.textContent = view.words.t("NO_ANSWER")));
  }
}
