// A player's entries to campaigns, with their consents.
import { api } from "../api.js";
import { useCampaigns } from "../contests/choosing.js";
import { html } from "../lib.js";
import { Act } from "../parts/button.js";
import { confirm } from "../parts/dialog.js";
import { Section } from "../parts/layout.js";
import { PagedTable } from "../parts/paged_table.js";
import { complain, tell } from "../parts/toast.js";
import { When } from "../parts/values.js";
import { address } from "../router.js";
import { can } from "../session.js";
import { label, number, say } from "../words.js";

/** @param {{id: string, about: number, changed: () => void}} props */
export function Entries({ id, about, changed }) {
  const campaigns = useCampaigns();
  const withdraw = async (/** @type {any} */ entry, /** @type {any} */ consent) => {
    const said = { name: consent.id };
    if (await confirm({ title: say("entry.withdraw_title", said), text: say("entry.withdraw_text", said), word: say("entry.withdraw"), danger: true })) {
      try {
        await api.post("/admin/players/{id}/consents/withdraw", { path: { id }, body: { campaign_id: entry.campaign_id, consents: [consent.id] } });
        tell(say("entry.withdrawn_done", said));
        changed();
      } catch (refused) {
        complain(refused);
      }
    }
  };
  const columns = [
    { title: say("player.campaign"), show: (/** @type {any} */ one) => html`<a href=${address(`/campaigns/${encodeURIComponent(one.campaign_id)}`)}>${campaigns.name(one.campaign_id)}</a>` },
    { title: say("entry.fields"), show: (/** @type {any} */ one) => lines(valuesOf(one).map(([name, text]) => html`<li key=${name}><span class="long">${name}: ${text}</span></li>`)) },
    { title: say("field.consents"), show: (/** @type {any} */ one) => lines(one.consents.map((/** @type {any} */ consent) => html`<li key=${consent.id}>
        <span class="long" title=${`SHA-256 ${consent.text_sha256}`}>${consent.text}</span>
        <small>${say(consent.given ? "entry.given" : consent.outdated ? "entry.outdated" : "entry.withdrawn")} <${When} at=${consent.decided_at} /></small>
        ${(consent.given || consent.outdated) && can("WithdrawConsents") && html`<${Act} class="danger outline small" act=${() => withdraw(one, consent)}>${say("entry.withdraw")}<//>`}</li>`)) },
    { title: say("entry.missing"), show: (/** @type {any} */ one) => one.missing.map((/** @type {string} */ name) => name.replace(/^\w+\./, "")).join(", ") || say("none") },
    { title: say("player.when"), narrow: true, show: (/** @type {any} */ one) => html`<${When} at=${one.updated_at} />` },
  ];
  return html`<${Section} title=${say("entry.of_player")}>
    <${PagedTable} caption=${say("entry.of_player")} columns=${columns} empty=${say("entry.of_player_none")} about=${about}
      load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get("/admin/players/{id}/entries", { path: { id }, query, signal })} />
  <//>`;
}

/** A list within a cell. @param {any[]} items */
const lines = (items) => (items.length ? html`<ul class="lines">${items}</ul>` : say("none"));

/** The entered values as text. @param {any} entry @returns {[string, string][]} */
function valuesOf({ fields, old_enough, old_enough_on, country, source }) {
  const text = (/** @type {any} */ value) => (typeof value === "object" ? Object.values(value).join(", ") : typeof value === "number" ? number(value) : typeof value === "boolean" ? say(value ? "entry.yes" : "entry.no") : String(value));
  const from = Object.entries(source ?? {}).filter(([, value]) => value);
  return [
    ...Object.entries(fields ?? {}).map(([key, value]) => /** @type {[string, string]} */ ([label(key), text(value)])),
    ...(old_enough ? [/** @type {[string, string]} */ ([say("entry.old_enough"), say("entry.old_enough_on", { age: old_enough, day: old_enough_on })])] : []),
    ...(country ? [/** @type {[string, string]} */ ([say("entry.country"), country])] : []),
    ...(from.length ? [/** @type {[string, string]} */ ([say("entry.source"), from.map(([key, value]) => `${key}=${value}`).join(", ")])] : []),
  ];
}
