// What earns turns, and how much is left to play.

import { h } from "../dom.js";
import { codeOf, linkWith, share } from "../invite.js";
import { WORDS } from "../page_words.js";
import { bar, blank, card, chip, doer, known, refusal, skeleton } from "./parts.js";

/** @typedef {import("../types.js").Panel} Panel */

/** @param {Panel} panel */
export async function open(panel) {
  const { root, words, api, render, round } = panel;
  const left = h("p", { class: "left-now", role: "status" });
  const paint = () => (left.textContent = standing(panel));
  round.addEventListener("change", paint);
  paint();
  const waiting = skeleton(panel);
  root.append(left, waiting);
  try {
    const [{ quests }, far] = await Promise.all([api.get(`/public/campaigns/${encodeURIComponent(render.campaign_id)}`), progress(panel)]);
    const now = Date.now() / 1000;
    const open_now = quests.filter((/** @type {any} */ quest) => !(quest.end_date > 0 && quest.end_date <= now));
    waiting.replaceWith(
      open_now.length ? h("ul", { class: "items" }, ...open_now.map((/** @type {any} */ quest) => drawn(panel, quest, far.get(quest.id)))) : blank(panel, "⚡", words.t("quests_none")),
    );
  } catch (error) {
    waiting.replaceWith(refusal(panel, error));
  }
}

/** How much is left to play, and when more comes. @param {Panel} panel */
function standing({ words, round }) {
  const now = round.standing;
  if (!now) return "";
  const { free_plays_remaining: free, remaining_turns: turns } = now;
  const said = [];
  if (free > 0) said.push(words.t("plays_left", { count: free }));
  if (free < 0) said.push(words.t("plays_unlimited"));
  if (turns > 0) said.push(words.t("turns_left", { count: turns }));
  if (!said.length) said.push(words.t("plays_left", { count: 0 }));
  const resets = Number(now.resets_at);
  if (free === 0 && resets * 1000 > Date.now()) said.push(words.t("back_at", { when: words.when(resets), until: words.until(resets) }));
  return said.join(" · ");
}

/** The player's progress with each quest. @param {Panel} panel @returns {Promise<Map<string, any>>} */
async function progress(panel) {
  const { api, render } = panel;
  if (!known(panel)) return new Map();
  // Without a response all quests are offered: a refusal is shown on use.
  const reply = await api.get(`/players/me/quests?limit=100&campaign_id=${encodeURIComponent(render.campaign_id)}`).catch(() => ({ items: [] }));
  return new Map(reply.items.map((/** @type {any} */ one) => [one.quest_id, one]));
}

/** @param {Panel} panel @param {any} quest @param {any} [far] the player's progress */
function drawn(panel, quest, far) {
  const { words } = panel;
  const type = String(quest.type).replace("QUEST_TYPE_", "");
  const begins = Number(quest.start_date) * 1000 > Date.now();
  const label = words.t("complete");
  const again = far?.completed ? Number(far.available_at) : undefined;
  const invites = String(quest.condition?.kind).endsWith("REFERRALS");
  // Anonymous players have no progress.
  const need = Number(quest.condition?.count ?? 0);
  const have = far ? Number(far.have) : known(panel) && !invites ? need : 0;
  const side =
    invites && !far?.completed ? sharing(panel) : again !== undefined ? chip(words.t("quest_completed"), "good") : have < need ? undefined : begins ? chip(words.t("starts", { when: words.when(Number(quest.start_date)) })) : doer(panel, { label, act: "quest", path: `/quests/${encodeURIComponent(quest.id)}/complete`, before: () => becomeGuest(panel), done });
  const earns = chip(words.t("turns_earned", { count: Number(quest.turns) }), "due");
  const element = card({
    look: { emoji: "⚡" },
    title: quest.name,
    lines: [quest.description, h("span", { class: "chips" }, earns, !invites && chip(words.t(`quest_${type}`)), quest.end_date > 0 && chip(words.t("ends", { when: words.when(Number(quest.end_date)) })), again ? chip(words.t("again_at", { when: words.when(again), until: words.until(again) })) : false)],
    side,
    attributes: { "data-quest": quest.id },
  });
  if (need > 0 && again === undefined) {
    const name = words.t(`needs_${String(quest.condition.kind).replace("QUEST_CONDITION_KIND_", "")}`);
    element.append(h("div", { class: "progress" }, bar(have / need, quest.name), h("span", { class: "quiet" }, words.t("of", { have, need, name }))));
  }
  return element;

  /** @param {any} reply */
  function done(reply) {
    const said = words.t("quest_done", { count: Number(reply.turns_granted) });
    const place = h("div", { class: "doer", tabindex: "-1" }, chip(said, "good"));
    side?.replaceWith(place);
    place.focus();
    panel.say(said);
    if (panel.round.state === "refused") panel.round.rest(); // It may be played again.
  }
}

/** Shares the page with the player's code; an anonymous player becomes a guest. @param {Panel} panel */
function sharing(panel) {
  const { api, words, render, say } = panel;
  const texts = WORDS[words.locale.split("-")[0]] ?? WORDS.en;
  const button = h("button", { class: "small strong", type: "button", "data-act": "share", onclick: () => void shared() }, texts.share);
  const code = () => codeOf(api, render.campaign_id);
  void code(); // Requested early: browsers allow sharing only right after a press.
  return button;

  async function shared() {
    if (!known(panel)) await becomeGuest(panel).catch(() => {});
    if (!(await share(document.title, linkWith(await code())))) return;
    button.textContent = texts.copied;
    say(texts.copied);
  }
}

/** Turns belong to a player: an anonymous player becomes a guest. @param {Panel} panel */
async function becomeGuest(panel) {
  if (known(panel)) return;
  await panel.round.begin().finally(() => panel.round.rest());
}
