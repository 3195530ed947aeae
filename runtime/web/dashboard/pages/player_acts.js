// Actions on a player that need input: turns, balances, merging a guest, erasure, export.
import { api, newKey } from "../api.js";
import { widget } from "../contests/choosing.js";
import { html, useState } from "../lib.js";
import { confirm, Dialog } from "../parts/dialog.js";
import { Form } from "../parts/form.js";
import { complain, tell } from "../parts/toast.js";
import { number, say } from "../words.js";

const REASON = { type: "string", format: "lines", minLength: 1, maxLength: 500 };

/** @typedef {{id: string, close: () => void, done: () => any}} Acting */

/** @param {Acting} props */
export function Grant({ id, close, done }) {
  const [key] = useState(newKey);
  const schema = {
    type: "object",
    required: ["campaign_id", "amount", "reason"],
    properties: { campaign_id: { type: "string", minLength: 1 }, amount: { type: "integer", minimum: 1, maximum: 1000000 }, reason: REASON },
  };
  const save = async (/** @type {any} */ body) => {
    const entry = await api.post("/admin/players/{id}/turns", { path: { id }, body, key });
    tell(say("player.grant_done", { count: entry.amount, left: number(entry.balance_after) }));
    close();
    done();
  };
  return html`<${Dialog} title=${say("player.grant_title")} close=${close}>
    <p>${say("player.grant_text")}</p>
    <${Form} schema=${schema} value=${{ campaign_id: "", amount: 1, reason: "" }} widget=${widget} save=${save} word=${say("player.grant")} cancel=${close} />
  <//>`;
}

/** @param {Acting} props */
export function Adjust({ id, close, done }) {
  const [key] = useState(newKey);
  const schema = {
    type: "object",
    required: ["scope_key", "currency", "amount", "reference_id"],
    properties: {
      scope_key: { type: "string", minLength: 1, maxLength: 128, help: say("help.scope_key") },
      currency: { type: "string", minLength: 1, maxLength: 128 },
      amount: { type: "integer" },
      reference_id: { type: "string", minLength: 1, maxLength: 200 },
    },
  };
  const save = async (/** @type {any} */ body) => {
    const entry = await api.post("/admin/wallet/adjustments", { body: { player_id: id, ...body }, key });
    tell(say("player.adjust_done", { amount: `${entry.amount > 0 ? "+" : ""}${number(entry.amount)}`, currency: entry.currency, left: number(entry.balance_after) }));
    close();
    done();
  };
  return html`<${Dialog} title=${say("player.adjust_title")} close=${close}>
    <p>${say("player.adjust_text")}</p>
    <${Form} schema=${schema} value=${{ scope_key: "", currency: "points", amount: 0, reference_id: "" }} save=${save} word=${say("player.adjust")} cancel=${close} />
  <//>`;
}

/** Previews the guest's data, then merges it. @param {Acting} props */
export function Merge({ id, close, done }) {
  const schema = { type: "object", required: ["guest_id"], properties: { guest_id: { type: "string", minLength: 1, maxLength: 128, help: say("help.guest_id") } } };
  const asked = (/** @type {any} */ body) => api.post("/admin/players/{id}/merge", { path: { id }, body });
  const look = async (/** @type {any} */ { guest_id }) => {
    const has = await asked({ guest_id, preview: true });
    close();
    const text = say("player.merge_preview", { guest: has.guest_id, plays: has.plays, rewards: has.rewards, balances: has.balances, turns: has.turns });
    if (await confirm({ title: say("player.merge_title"), text, word: say("player.merge"), danger: true })) {
      try {
        await asked({ guest_id: has.guest_id });
        tell(say("player.merge_done"));
        done();
      } catch (refused) {
        complain(refused);
      }
    }
  };
  return html`<${Dialog} title=${say("player.merge_title")} close=${close}>
    <p>${say("player.merge_text")}</p>
    <${Form} schema=${schema} value=${{ guest_id: "" }} save=${look} word=${say("player.merge_look")} cancel=${close} />
  <//>`;
}

/** @param {Acting & {name: string}} props */
export function Erase({ id, name, close, done }) {
  const save = async (/** @type {any} */ body) => {
    await api.post("/admin/players/{id}/erase", { path: { id }, body });
    tell(say("player.erase_done"));
    close();
    done();
  };
  const schema = { type: "object", required: ["reason"], properties: { reason: REASON } };
  return html`<${Dialog} title=${say("player.erase_title", { name })} close=${close}>
    <p>${say("player.erase_text")}</p>
    <${Form} schema=${schema} value=${{ reason: "" }} save=${save} word=${say("player.erase")} cancel=${close} />
  <//>`;
}

/** The data of a player, as a file. @param {string} id */
export async function exported(id) {
  /** @type {any[]} */
  const items = [];
  for (let cursor = "", more = true; more; ) {
    const page = await api.get("/admin/players/{id}/export", { path: { id }, query: { limit: 100, cursor } });
    items.push(...page.items.map((/** @type {any} */ { kind, data }) => ({ kind, data })));
    cursor = page.pagination.next_cursor;
    more = page.pagination.has_more;
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify({ player_id: id, items }, null, 2)], { type: "application/json" }));
  link.download = `${id}.json`;
  link.click();
  URL.revokeObjectURL(link.href);
  tell(say("player.export_done", { count: items.length }));
}

