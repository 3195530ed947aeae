// What the player has won: claimed here, with the code to show, to copy and to scan.

import { h } from "../dom.js";
import { loadModule } from "../load_module.js";
import { lookOf, pictured } from "../look.js";
import { code } from "./code.js";
import { blank, card, chip, content, doer, known, pages } from "./parts.js";

/** @typedef {import("../types.js").Panel} Panel */

/** How a state is marked. @type {Record<string, string>} */
const KINDS = { WON: "due", CLAIMED: "good", FULFILLING: "good", FULFILLED: "good", EXPIRED: "bad", REVOKED: "bad", FAILED: "bad" };

/** @param {Panel} panel @param {string} [given] the reward that is looked for */
export async function open(panel, given = panel.given) {
  const { root, words, render, api } = panel;
  const none = () => blank(panel, "🎟️", words.t("rewards_none"));
  const signIn = panel.round.standing?.can_play === false && h("button", { class: "small", type: "button", onclick: () => panel.open("login") }, words.t("login"));
  if (!known(panel)) return root.append(signIn ? blank(panel, "🎟️", words.t("rewards_none"), signIn) : none());
  if (api.identity.isGuest) {
    const keep = h("button", { class: "small", type: "button", onclick: () => panel.open("login") }, words.t("login"));
    root.append(h("div", { class: "notice" }, h("p", {}, words.t("rewards_guest")), keep));
  }
  const list = await pages(panel, `/rewards/me?campaign_id=${encodeURIComponent(render.campaign_id)}`, (reward) => drawn(panel, reward), { blank: none });
  if (render.offers?.includes("messages")) root.append((await loadModule("./panels/mails.js")).mails(panel));
  void loadModule("./panels/consents.js").then((file) => file.addConsents(panel), () => {});
  if (!given) return;
  const wanted = list.querySelector(`[data-reward="${CSS.escape(given)}"]`);
  wanted?.scrollIntoView({ block: "nearest" });
  /** @type {HTMLElement | null | undefined} */ (wanted?.querySelector("button"))?.focus();
}

/** @param {Panel} panel @param {any} reward */
function drawn(panel, reward) {
  const { words, render } = panel;
  const state = String(reward.status).replace("REWARD_STATUS_", "");
  const claimable = state === "WON" && !reward.claimed_at;
  const element = card({
    look: pictured(lookOf(render.ui, reward), reward.prize),
    title: reward.quantity > 1 ? words.t("credited", { count: reward.quantity, name: reward.name }) : reward.name,
    lines: [
      reward.won_at && words.t("reward_won", { when: words.when(Number(reward.won_at)) }),
      claimable && reward.expires_at > 0 && words.t("reward_until", { when: words.when(Number(reward.expires_at)) }),
      reward.code_error && words.t("panel_CODE_UNAVAILABLE"),
    ],
    side: !claimable ? chip(words.t(`reward_${state}`), KINDS[state]) : reward.prize?.claim_fields?.length ? asking() : doer(panel, { label: words.t("claim"), act: "claim", path: `/rewards/${encodeURIComponent(reward.id)}/claim`, done: claimed }),
    attributes: { "data-reward": reward.id, "data-status": state },
  });
  element.append(...content(panel, reward.prize));
  if (reward.code) element.append(code(panel, String(reward.code)));
  return element;

  /** The way to what the prize asks before it is claimed. */
  function asking() {
    const button = h("button", { class: "small strong", type: "button", "data-act": "ask", onclick: () => void ask() }, words.t("claim"));
    return button;

    async function ask() {
      const { form } = await loadModule("./panels/claim.js");
      if (!button.isConnected) return;
      element.append(form(panel, reward, claimed));
      button.parentElement?.remove();
      element.querySelector(".claim .field")?.focus();
    }
  }

  /** @param {any} now */
  function claimed(now) {
    panel.round.claimed.add(now.id);
    const next = drawn(panel, { ...now, prize: reward.prize });
    next.setAttribute("tabindex", "-1");
    element.replaceWith(next);
    next.focus();
    panel.say(words.t("claimed", { name: now.name }));
    panel.tell("claimed", { reward: now });
  }
}
