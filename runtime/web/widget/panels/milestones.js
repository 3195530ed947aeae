// The player's progress toward each milestone, and prizes to redeem.

import { h } from "../dom.js";
import { lookOf } from "../look.js";
import { bar, blank, card, chip, doer, known, pages, prizeName } from "./parts.js";

/** @typedef {import("../types.js").Panel} Panel */

/** @param {Panel} panel @param {string} [taken] what was just taken */
export async function open(panel, taken = "") {
  const { root, words, round, render } = panel;
  const spend = render.milestones?.mode === "MILESTONE_MODE_SPEND_EXCHANGE";
  if (!known(panel)) return root.append(blank(panel, "🚩", words.t("milestones_none")));
  if (taken) {
    const rewards = h("button", { class: "small", type: "button", onclick: () => panel.open("rewards") }, words.t("rewards"));
    const notice = h("div", { class: "notice", tabindex: "-1" }, h("p", {}, words.t("redeemed", { name: taken })), rewards);
    root.append(notice);
    notice.focus();
  }
  root.append(h("p", { class: "quiet" }, words.t(spend ? "milestones_spend" : "milestones_reach")));
  await pages(panel, `${round.path}/milestones`, (rung) => drawn(panel, rung, spend), {
    tag: "ol",
    blank: () => blank(panel, "🚩", words.t("milestones_none")),
  });
}

/** @param {Panel} panel @param {any} rung @param {boolean} spend */
function drawn(panel, rung, spend) {
  const { words, render, round } = panel;
  const state = String(rung.status).replace("MILESTONE_STATUS_", "");
  const prize = prizeName(panel, rung.prize_id);
  const have = Math.min(Number(rung.balance), Number(rung.threshold));
  const progress = words.t("of", { have, need: Number(rung.threshold), name: rung.currency });
  const label = spend ? words.t("redeem_for", { count: Number(rung.threshold), name: rung.currency }) : words.t("redeem");
  const redeem = () =>
    doer(panel, {
      label,
      act: "redeem",
      path: `${round.path}/redeem`,
      body: { milestone_id: rung.id },
      done: (/** @type {any} */ reply) => {
        const name = reply.reward?.name || rung.name;
        panel.say(words.t("redeemed", { name }));
        panel.tell("claimed", { reward: reply.reward, milestone: reply.milestone });
        if (reply.reward?.type === "turns") void round.look();
        panel.root.replaceChildren();
        void open(panel, name);
      },
    });
  const element = card({
    look: lookOf(render.ui, { prize_id: rung.prize_id, name: prize, type: "goods" }),
    title: rung.name || prize,
    lines: [prize && prize !== rung.name && prize],
    side: state === "CLAIMABLE" ? redeem() : state === "GRANTED" && chip(words.t("granted"), "good"),
    attributes: { "data-rung": rung.id, "data-status": state },
  });
  const full = state === "GRANTED";
  element.append(h("div", { class: "progress" }, bar(full ? 1 : Number(rung.progress), rung.name || prize), h("span", { class: "quiet" }, full ? words.t("reached") : progress)));
  return element;
}
