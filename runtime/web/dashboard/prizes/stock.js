// A prize's stock: history and adjustment.
import { api, newKey } from "../api.js";
import { html, useState } from "../lib.js";
import { Dialog } from "../parts/dialog.js";
import { Form } from "../parts/form.js";
import { Section } from "../parts/layout.js";
import { PagedTable } from "../parts/paged_table.js";
import { wanted } from "../parts/reveal.js";
import { tell } from "../parts/toast.js";
import { When } from "../parts/values.js";
import { can } from "../session.js";
import { number, say } from "../words.js";

const MOST = 2147483647;

/** @param {{prize: any, moved: () => Promise<void>}} props */
export function Stock({ prize, moved }) {
  const [asked, setAsked] = useState(can("MoveStock") && wanted() === "stock.total");
  const columns = [
    { title: say("audit.when"), narrow: true, show: (/** @type {any} */ one) => html`<${When} at=${one.created_at} />` },
    { title: say("audit.actor"), show: (/** @type {any} */ one) => html`<span class="long">${one.actor || say("none")}</span>` },
    { title: say("stock.why"), show: (/** @type {any} */ one) => html`<span class="said">${one.reason || say("stock.edited")}</span>` },
    { title: say("stock.from_to"), number: true, show: (/** @type {any} */ one) => `${count(one.total_before)} → ${count(one.total_after)}` },
    { title: say("stock.left_then"), number: true, show: (/** @type {any} */ one) => (one.total_after ? number(one.remaining_after) : say("unlimited")) },
  ];
  const act = can("MoveStock") && html`<button type="button" class="secondary outline small" onClick=${() => setAsked(true)}>${say("stock.adjust")}</button>`;
  return html`${(act || can("ListStockMoves")) && html`<${Section} title=${say("stock.moves")} acts=${act}>
      ${can("ListStockMoves") && html`<${PagedTable} caption=${say("stock.moves")} columns=${columns} empty=${say("stock.none")} about=${`${prize.stock.total} ${prize.updated_at}`}
        load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get("/admin/prizes/{id}/stock/moves", { path: { id: prize.prize_id }, query, signal })} />`}
    <//>`}
    ${asked && html`<${Adjust} prize=${prize} moved=${moved} close=${() => setAsked(false)} />`}`;
}

/** @param {number} total */
const count = (total) => (total ? number(total) : say("unlimited"));

/** @param {{prize: any, moved: () => Promise<void>, close: () => void}} props */
function Adjust({ prize, moved, close }) {
  const { total, awarded } = prize.stock;
  const [key] = useState(newKey);
  const [value, setValue] = useState(/** @type {any} */ ({ by: total ? "change" : "total", reason: "" }));
  const schema = {
    type: "object",
    required: ["reason"],
    properties: {
      by: { type: "string", enum: total ? ["change", "total", "unlimited"] : ["total"] },
      ...(value.by === "change" ? { change: { type: "integer", minimum: -MOST, maximum: MOST, description: say("stock.help_change") } } : {}),
      ...(value.by === "total" ? { total: { type: "integer", minimum: Math.max(1, awarded), maximum: MOST, description: say("stock.help_total", { count: awarded }) } } : {}),
      reason: { type: "string", minLength: 1, maxLength: 500 },
    },
  };
  const save = async (/** @type {any} */ { by, reason, ...typed }) => {
    const body = { reason, [by]: by === "unlimited" ? true : typed[by] ?? 0 };
    const move = await api.post("/admin/prizes/{id}/stock", { path: { id: prize.prize_id }, body, key });
    tell(say("stock.moved", { name: prize.name, from: count(move.total_before), to: count(move.total_after) }));
    close();
    await moved();
  };
  return html`<${Dialog} title=${say("stock.adjust_title", { name: prize.name })} close=${close}>
    <p>${say("stock.now", { total: count(total), awarded })}</p>
    <${Form} schema=${schema} value=${value} save=${save} typed=${setValue} widget=${(/** @type {string} */ name) => (name === "by" ? By : null)} word=${say("stock.adjust")} cancel=${close} />
  <//>`;
}

/** @param {any} props */
const By = ({ schema, value, change, named }) => html`<select ...${named} value=${value} onChange=${(/** @type {any} */ event) => change(event.target.value)}>
  ${schema.enum.map((/** @type {string} */ one) => html`<option value=${one}>${say(`stock.by_${one}`)}</option>`)}
</select>`;
