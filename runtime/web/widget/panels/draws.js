// The campaign's prize draws: their prizes, the player's tickets, and the player's prize.

import { h } from "../dom.js";
import { blank, chip, known, refusal, skeleton } from "./parts.js";

/** @typedef {import("../types.js").Panel} Panel */

/** The most draws shown: each is read by itself. */
const SHOWN = 20;

/** @param {Panel} panel */
export async function open(panel) {
  const { root, words, api, render } = panel;
  const waiting = skeleton(panel);
  root.append(waiting);
  try {
    const { draws } = await api.get(`/public/campaigns/${encodeURIComponent(render.campaign_id)}`);
    const read = (/** @type {any} */ { id }) => api.get(`/draws/${encodeURIComponent(id)}`);
    const shown = await Promise.all(draws.slice(0, SHOWN).map((/** @type {any} */ draw) => read(draw).catch(() => draw)));
    waiting.replaceWith(shown.length ? h("ul", { class: "items" }, ...shown.map((draw) => item(panel, draw))) : blank(panel, "🎫", words.t("draws_none")));
  } catch (error) {
    waiting.replaceWith(refusal(panel, error));
  }
}

/** One draw. @param {Panel} panel @param {any} draw */
function item(panel, { id, name, status, prizes, closes_at, drawn_at, me }) {
  const { words, api } = panel;
  const prizeName = (/** @type {string} */ prize) => prizes.find((/** @type {any} */ one) => one.prize_id === prize)?.name ?? "";
  const open = status === "DRAW_STATUS_OPEN";
  const state = status === "DRAW_STATUS_CANCELLED" ? "draws_cancelled" : Number(drawn_at) > 0 ? "draws_drawn" : "draws_closed";
  const lines = [open ? Number(closes_at) > 0 && words.t("ends", { when: words.when(Number(closes_at)) }) : words.t(state)];
  if (known(panel)) lines.push(words.t("draws_tickets", { count: Number(me?.tickets ?? 0) }));
  const won = status === "DRAW_STATUS_CONFIRMED" && me && (me.prize_id ? chip(words.t("draws_won", { name: prizeName(me.prize_id) }), "good") : chip(words.t("lost")));
  const chips = prizes.map((/** @type {any} */ one) => chip(one.count > 1 ? words.t("credited", { count: one.count, name: one.name }) : one.name, "due"));
  return h(
    "li", { class: "item", "data-draw": id },
    h("div", { class: "facts" }, h("strong", {}, name), ...lines.filter(Boolean).map((line) => h("div", { class: "quiet" }, line)),
      h("div", { class: "chips" }, ...chips, won),
      !open && h("div", { class: "quiet" },
        h("a", { href: `${api.base}/api/v1/draws/${encodeURIComponent(id)}/file${api.tenant ? `?tenant_id=${encodeURIComponent(api.tenant)}` : ""}`, download: true }, words.t("draws_file")), " · ",
        h("a", { href: `${api.base}/verify#${me?.holder ?? ""}`, target: "_blank", rel: "noopener" }, words.t("check"))),
      !open && me?.holder && h("div", { class: "quiet" }, words.t("draws_line", { id: me.holder }))),
  );
}
