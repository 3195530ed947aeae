// A prize's code pool: upload, list (issued codes by their last characters, others by id), expiry, withdrawal.
import { api, newKey, Refused } from "../api.js";
import { html, useState } from "../lib.js";
import { Act } from "../parts/button.js";
import { confirm } from "../parts/dialog.js";
import { Section } from "../parts/layout.js";
import { List } from "../parts/list.js";
import { complain, tell } from "../parts/toast.js";
import { Status, When } from "../parts/values.js";
import { can } from "../session.js";
import { number, say, state } from "../words.js";
import { Ending } from "./codes_end.js";
import { Upload } from "./codes_upload.js";

const PATH = "/admin/prizes/{id}/codes";
const STATES = ["free", "assigned", "withdrawn", "expired"];

/** left: the remaining stock; null: unlimited. @param {{id: string, left: number | null}} props */
export function Codes({ id, left }) {
  const [totals, setTotals] = useState(/** @type {Record<string, number>} */ ({}));
  const [chosen, setChosen] = useState(/** @type {string[]} */ ([]));
  const [changes, setChanges] = useState(0);
  const [barred, setBarred] = useState(false);
  const [ending, setEnding] = useState(false);
  const again = () => setChanges((count) => count + 1);
  const load = async (/** @type {any} */ query, /** @type {AbortSignal} */ signal) => {
    try {
      const found = await api.get(PATH, { path: { id }, query, signal });
      setTotals(found.totals);
      return found;
    } catch (refused) {
      setBarred(refused instanceof Refused && refused.reason === "FORBIDDEN"); // A prize of the tenant, viewed by staff of a merchant.
      throw refused;
    }
  };
  const withdraw = async (/** @type {any} */ body, /** @type {number} */ count) => {
    const yes = await confirm({ title: say("codes.withdraw_title", { count }), text: say("codes.withdraw_text", { count }), word: say("codes.withdraw"), danger: true });
    if (!yes) {
      return;
    }
    try {
      const done = await api.post(`${PATH}/withdraw`, { path: { id }, body, key: newKey() });
      tell([say("codes.withdrawn", { count: done.withdrawn }), done.kept.length ? say("codes.kept", { count: done.kept.length }) : ""].join(" "));
      setChosen([]);
      again();
    } catch (refused) {
      complain(refused);
    }
  };
  const may = can("WithdrawCodes");
  const mayEnd = can("ExpireCodes") && (totals.free > 0 || totals.expired > 0);
  const choose = (/** @type {string} */ one) => setChosen((was) => (was.includes(one) ? was.filter((other) => other !== one) : [...was, one]));
  const columns = [
    ...(may ? [{
      title: say("codes.choose"), narrow: true, acts: true,
      show: (/** @type {any} */ one) => ["CODE_STATE_FREE", "CODE_STATE_EXPIRED"].includes(one.state) && html`<input type="checkbox" aria-label=${say("codes.choose_one", { code: one.id })} checked=${chosen.includes(one.id)} onChange=${() => choose(one.id)} />`,
    }] : []),
    { title: say("codes.code"), show: (/** @type {any} */ one) => html`<code>${one.state === "CODE_STATE_ASSIGNED" ? one.masked : one.id}</code>` },
    { title: say("campaigns.status"), narrow: true, show: (/** @type {any} */ one) => html`<${Status} value=${one.state} />` },
    { title: say("codes.expires"), narrow: true, show: (/** @type {any} */ one) => (one.expires_at ? html`<${When} at=${one.expires_at} />` : say("prizes.never")) },
    { title: say("codes.since"), narrow: true, show: (/** @type {any} */ one) => html`<${When} at=${one.assigned_at || one.withdrawn_at || one.created_at} />` },
  ];
  if (barred) {
    return null;
  }
  const counts = STATES.filter((name) => totals[name]).map((name) => `${number(totals[name])} ${state(name).toLowerCase()}`).join(" · ");
  return html`<${Section} title=${say("codes.title")} note=${counts} acts=${may && html`
      ${mayEnd && html`<button type="button" class="secondary outline" onClick=${() => setEnding(true)}>${say("codes.end")}</button>`}
      ${chosen.length > 0 && html`<${Act} class="danger outline" act=${() => withdraw({ ids: chosen }, chosen.length)}>${say("codes.withdraw_some", { count: chosen.length })}<//>`}
      ${totals.free > 0 && html`<${Act} class="danger outline" act=${() => withdraw({ all_free: true }, totals.free)}>${say("codes.withdraw_all", { count: totals.free })}<//>`}`}>
    ${can("ImportCodes") && html`<${Upload} path=${PATH} id=${id} done=${again} dated />`}
    ${left !== null && totals.free > left && html`<p class="notice" role="status">${say("codes.too_many", { free: totals.free, left })}</p>`}
    ${left !== null && totals.free < left && html`<p class="notice" role="status">${say("codes.too_few", { free: totals.free, left })}</p>`}
    <${List} caption=${say("codes.title")} columns=${columns} load=${load} about=${changes}
      filters=${[{ name: "state", label: say("campaigns.status"), options: STATES.map((value) => ({ value, text: state(value) })) }]}
      empty=${{ title: say("codes.empty"), text: say("codes.empty_text") }} />
    ${ending && html`<${Ending} id=${id} chosen=${chosen} totals=${totals} close=${() => setEnding(false)} done=${() => { setChosen([]); again(); }} />`}
  <//>`;
}
