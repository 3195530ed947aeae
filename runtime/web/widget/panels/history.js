// What the player has played: each leads to the check of its draw.

import { h } from "../dom.js";
import { loadModule } from "../load_module.js";
import { lookOf } from "../look.js";
import { blank, card, known, pages } from "./parts.js";

/** @param {import("../types.js").Panel} panel */
export async function open(panel) {
  const { root, words, round, render } = panel;
  const none = () => blank(panel, "🕘", words.t("history_none"));
  if (!known(panel)) return root.append(none());
  await pages(
    panel,
    `${round.path}/history/me`,
    (play) => {
      const won = play.rewards.map((/** @type {any} */ reward) => (reward.quantity > 1 ? words.t("credited", { count: reward.quantity, name: reward.name }) : reward.name));
      const check = h("button", { class: "small", type: "button", "aria-label": `${words.t("check")}: ${words.when(Number(play.played_at))}`, onclick: () => panel.open("fair", play) }, words.t("check"));
      return card({
        look: won.length ? lookOf(render.ui, play.rewards[0]) : { emoji: "🍃" },
        title: won.join(", ") || words.t("lost"),
        lines: [words.when(Number(play.played_at))],
        side: check,
        attributes: { "data-play": play.id },
      });
    },
    { blank: none },
  );
  // The consents are otherwise in the panel of rewards, which a game without prizes may lack.
  if (!render.prizes.length) await (await loadModule("./panels/consents.js")).addConsents(panel);
}
