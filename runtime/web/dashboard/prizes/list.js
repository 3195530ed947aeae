// The list of prizes with their remaining stock.
import { api } from "../api.js";
import { html } from "../lib.js";
import { Head } from "../parts/layout.js";
import { List } from "../parts/list.js";
import { Status } from "../parts/values.js";
import { address, place } from "../router.js";
import { can } from "../session.js";
import { useTitle } from "../title.js";
import { label, number, say, state } from "../words.js";
import { Named, useCampaigns } from "./definition.js";

const STATUSES = ["ACTIVE", "ARCHIVED"];

/** The remaining stock as a bar. @param {{prize: any}} props */
export const Gauge = ({ prize: { name, total, remaining } }) => (total
  ? html`<span class="gauge"><progress value=${remaining} max=${total} aria-label=${say("prizes.left_of", { name })}></progress>${number(remaining)} / ${number(total)}</span>`
  : html`<span class="quiet">${say("unlimited")}</span>`);

export default function Prizes() {
  useTitle(say("prizes.title"));
  const campaigns = useCampaigns();
  const make = can("CreatePrize") && html`<a role="button" href=${address("/prizes/new", { campaign_id: place.value.query.campaign_id })}>${say("prizes.new")}</a>`;
  const columns = [
    { title: say("rewards.prize"), show: (/** @type {any} */ one) => html`<${Named} id=${one.prize_id} name=${one.name} />` },
    { title: label("type"), show: (/** @type {any} */ one) => (one.type ? label(one.type) : say("none")) },
    { title: say("prizes.stock"), narrow: true, show: (/** @type {any} */ one) => html`<${Gauge} prize=${one} />${one.low && html` <span class="status" data-tone="warn">${say("prizes.low")}</span>`}` },
    { title: say("prizes.codes"), number: true, show: (/** @type {any} */ one) => (one.channel === "voucher_code" ? number(one.codes_available) : html`<span class="quiet">${say("none")}</span>`) },
    { title: say("prizes.given"), number: true, show: (/** @type {any} */ one) => number(one.awarded) },
    { title: say("campaigns.status"), narrow: true, show: (/** @type {any} */ one) => html`<${Status} value=${one.status} />` },
  ];
  const filters = [
    { name: "q", label: say("game.name") },
    { name: "type", label: label("type") },
    { name: "campaign_id", label: label("campaign_id"), options: campaigns.map((/** @type {any} */ { id, name }) => ({ value: id, text: name })) },
    { name: "status", label: say("campaigns.status"), options: STATUSES.map((value) => ({ value: value.toLowerCase(), text: state(`PRIZE_STATUS_${value}`) })) },
  ];
  return html`<${Head} title=${say("prizes.title")}>${make}<//>
    <${List} caption=${say("prizes.title")} columns=${columns} filters=${filters}
      load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get("/admin/prizes/summary", { query, signal })}
      empty=${{ title: say("prizes.empty"), text: say("prizes.empty_text"), act: make }} />`;
}
