// What the player has of each currency, and how it came and went.

import { h, picture } from "../dom.js";
import { lookOf } from "../look.js";
import { blank, card, known, pages, refusal, skeleton } from "./parts.js";

/** @typedef {import("../types.js").Panel} Panel */

/** @param {Panel} panel */
export async function open(panel) {
  const { root, words, api, render } = panel;
  const none = () => blank(panel, "👛", words.t("wallet_none"));
  if (!known(panel)) return root.append(none());
  const waiting = skeleton(panel);
  root.append(waiting);
  const scope = encodeURIComponent(render.scope_key);
  /** @type {any[]} */
  const own = [];
  try {
    for (let cursor = "", more = true; more; ) {
      const reply = await api.get(`/wallet?scope_key=${scope}&limit=100${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
      own.push(...reply.items);
      ({ has_more: more, next_cursor: cursor } = reply.pagination);
    }
  } catch (error) {
    return waiting.replaceWith(refusal(panel, error));
  }
  if (!own.length) return waiting.replaceWith(none());
  const ledger = h("div", {});
  const choices = own.map((balance) =>
    h(
      "button",
      { class: "balance", type: "button", "aria-pressed": "false", "data-currency": balance.currency, onclick: () => void choose(balance) },
      picture(lookOf(render.ui, lookedUp(balance.currency))),
      h("strong", {}, words.number(Number(balance.balance))),
      h("span", {}, balance.currency),
    ),
  );
  waiting.replaceWith(h("div", { class: "balances" }, ...choices), h("h3", {}, words.t("ledger")), ledger);
  await choose(own[0]);

  /** @param {any} balance */
  async function choose(balance) {
    choices.forEach((choice, i) => choice.setAttribute("aria-pressed", String(own[i] === balance)));
    const into = h("div", {});
    ledger.replaceChildren(into);
    const path = `/wallet/ledger?scope_key=${scope}&currency=${encodeURIComponent(balance.currency)}`;
    await pages(panel, path, (entry) => drawn(panel, entry), { into, blank: none });
  }
}

/** What a currency is called by in the looks of a game. @param {string} currency */
const lookedUp = (currency) => ({ name: currency, type: currency === "points" ? "points" : "item" });

/** @param {Panel} panel @param {any} entry */
function drawn({ words }, entry) {
  const amount = Number(entry.amount);
  const signed = new Intl.NumberFormat(words.locale, { signDisplay: "exceptZero" }).format(amount);
  const reason = String(entry.reason).replace("LEDGER_REASON_", "");
  return card({
    title: words.t(`ledger_${reason}`),
    lines: [words.when(Number(entry.created_at))],
    side: [h("strong", { class: "amount", "data-kind": amount < 0 ? "less" : "more" }, signed), h("div", { class: "quiet" }, words.t("ledger_after", { balance: Number(entry.balance_after) }))],
    attributes: { "data-entry": entry.id },
  });
}
