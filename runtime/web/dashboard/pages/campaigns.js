// The list of campaigns, and the form for a new one.
import { api } from "../api.js";
import { html, useState } from "../lib.js";
import { Dialog } from "../parts/dialog.js";
import { Form } from "../parts/form.js";
import { Head } from "../parts/layout.js";
import { List } from "../parts/list.js";
import { Timeline } from "../parts/timeline.js";
import { tell } from "../parts/toast.js";
import { Status, When } from "../parts/values.js";
import { address, filter, go, place } from "../router.js";
import { can } from "../session.js";
import { period } from "../times.js";
import { useTitle } from "../title.js";
import { say, state } from "../words.js";
import { Used } from "./budget.js";

const STATUSES = ["CAMPAIGN_STATUS_DRAFT", "CAMPAIGN_STATUS_ACTIVE", "CAMPAIGN_STATUS_PAUSED", "CAMPAIGN_STATUS_ENDED"];

/** The schema of the form for a new campaign. */
export const CAMPAIGN = {
  type: "object",
  required: ["name", "timezone"],
  properties: {
    name: { type: "string", minLength: 1, maxLength: 200 },
    timezone: { type: "string", format: "time-zone", maxLength: 64, help: say("help.timezone") },
    start_date: { type: "integer", format: "unix-time" },
    end_date: { type: "integer", format: "unix-time", help: say("help.end_date") },
  },
};

/** @param {string} id */
export const addressOf = (id) => address(`/campaigns/${encodeURIComponent(id)}`);

export default function Campaigns() {
  useTitle(say("campaigns.title"));
  const [making, setMaking] = useState(place.value.query.make === "1" && can("CreateCampaign"));
  const make = can("CreateCampaign") && html`<a role="button" class="secondary outline" href=${address("/campaigns/gallery")}>${say("gallery.open")}</a> <button type="button" onClick=${() => setMaking(true)}>${say("campaigns.new")}</button>`;
  const columns = [
    { title: say("campaigns.name"), show: (/** @type {any} */ one) => html`<a class="name" href=${addressOf(one.id)}>${one.name}</a>` },
    { title: say("campaigns.status"), narrow: true, show: (/** @type {any} */ one) => html`<${Status} value=${one.status} />` },
    { title: say("campaigns.period"), show: (/** @type {any} */ one) => period(one.start_date, one.end_date, one.timezone) },
    { title: say("budget.title"), narrow: true, show: (/** @type {any} */ one) => (one.budget ? html`<${Used} budget=${one.budget} />` : html`<span class="quiet">${say("none")}</span>`) },
    { title: say("campaigns.changed"), narrow: true, show: (/** @type {any} */ one) => html`<${When} at=${one.updated_at} zone=${one.timezone} />` },
  ];
  const filters = [
    { name: "q", label: say("game.name") },
    { name: "status", label: say("campaigns.status"), options: STATUSES.map((value) => ({ value: value.replace("CAMPAIGN_STATUS_", "").toLowerCase(), text: state(value) })) },
  ];
  const over = place.value.query.view === "timeline";
  return html`<${Head} title=${say("campaigns.title")}>
      <button type="button" class="secondary outline" aria-pressed=${over} onClick=${() => filter({ view: over ? "" : "timeline" })}>${say("timeline.show")}</button> ${make}<//>
    <${List} above=${(/** @type {any[]} */ items) => over && html`<${Timeline} items=${items} addressOf=${addressOf} />`} caption=${say("campaigns.title")} columns=${columns} filters=${filters}
      load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get("/admin/campaigns", { query, signal })}
      empty=${{ title: say("campaigns.empty"), text: say("campaigns.empty_text"), act: make }} />
    ${making && html`<${Making} close=${() => { setMaking(false); filter({ make: "" }); }} />`}`;
}

/** @param {{close: () => void}} props */
function Making({ close }) {
  const save = async (/** @type {any} */ value) => {
    const made = await api.post("/admin/campaigns", { body: value });
    tell(say("campaigns.made", { name: made.name }));
    go(addressOf(made.id));
  };
  const value = { timezone: Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC", start_date: 0, end_date: 0 };
  return html`<${Dialog} title=${say("campaigns.new")} close=${close}>
    <${Form} schema=${CAMPAIGN} value=${value} save=${save} word=${say("campaigns.create")} cancel=${close} />
  <//>`;
}
