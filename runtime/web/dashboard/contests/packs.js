// The list of packs of codes, and the form to create one.
import { api } from "../api.js";
import { html, useState } from "../lib.js";
import { Head } from "../parts/layout.js";
import { List } from "../parts/list.js";
import { tell } from "../parts/toast.js";
import { Status, When } from "../parts/values.js";
import { address, go } from "../router.js";
import { can } from "../session.js";
import { useTitle } from "../title.js";
import { number, say, state } from "../words.js";
import { Make, useCampaigns } from "./choosing.js";

const STATUSES = ["active", "paused", "archived"];

/** The schema of the pack form. */
export const PACK = {
  type: "object",
  required: ["name", "campaign_id", "status", "gives"],
  properties: {
    name: { type: "string", minLength: 1, maxLength: 200 },
    campaign_id: { type: "string" },
    status: { type: "string", enum: STATUSES.slice(0, 2) },
    until: { type: "integer", format: "unix-time", label: say("packs.until"), help: say("packs.until_help") },
    gives: {
      type: "object",
      properties: {
        turns: { type: "integer", minimum: 0, maximum: 1000000, help: say("packs.help_turns") },
        currency: { type: "string", maxLength: 128, help: say("packs.help_currency") },
        amount: { type: "integer", minimum: 0 },
      },
    },
  },
};

/** The form's value. @param {any} pack */
export const fields = ({ name, campaign_id, status, until, gives }) => ({
  name, campaign_id, status: status.replace("PACK_STATUS_", "").toLowerCase(), until,
  gives: { turns: gives.turns, currency: gives.currency, amount: Number(gives.amount), scope_key: gives.scope_key },
});

/** The request body. @param {any} value the form's value */
export const sent = ({ gives, ...rest }) => ({
  ...rest,
  ...(gives ? { gives: gives.currency ? { currency: gives.currency, amount: gives.amount, ...(gives.scope_key ? { scope_key: gives.scope_key } : {}) } : { turns: gives.turns } } : {}),
});

/** What a pack or a redemption gives, as text. @param {any} gift */
export const giftText = ({ turns, currency, amount }) => (turns ? say("packs.of_turns", { count: turns }) : `${number(amount)} ${currency}`);

export default function Packs() {
  useTitle(say("packs.title"));
  const campaigns = useCampaigns();
  const [making, setMaking] = useState(false);
  const save = async (/** @type {any} */ value) => {
    const made = await api.post("/admin/packs", { body: sent(value) });
    tell(say("packs.made", { name: made.name }));
    go(address(`/packs/${encodeURIComponent(made.id)}`));
  };
  const make = can("CreatePack") && html`<button type="button" onClick=${() => setMaking(true)}>${say("packs.new")}</button>`;
  const count = (/** @type {string} */ name, /** @type {string} */ title) => ({ title, number: true, show: (/** @type {any} */ one) => number(one[name]) });
  const columns = [
    { title: say("game.name"), show: (/** @type {any} */ one) => html`<a class="name" href=${address(`/packs/${encodeURIComponent(one.id)}`)}>${one.name}</a>` },
    { title: say("field.campaign_id"), show: (/** @type {any} */ one) => html`<span class="long">${campaigns.name(one.campaign_id)}</span>` },
    { title: say("packs.gives"), show: (/** @type {any} */ one) => giftText(one.gives) },
    count("free", say("packs.free")), count("used", say("packs.used")),
    { title: say("campaigns.status"), narrow: true, show: (/** @type {any} */ one) => html`<${Status} value=${one.status} />` },
    { title: say("packs.until"), narrow: true, show: (/** @type {any} */ one) => (one.until ? html`<${When} at=${one.until} zone=${campaigns.zone(one.campaign_id)} />` : say("none")) },
  ];
  const filters = [
    { name: "q", label: say("game.name") },
    { name: "status", label: say("campaigns.status"), options: STATUSES.map((value) => ({ value, text: state(value) })) },
    campaigns.filter,
  ];
  return html`<${Head} title=${say("packs.title")}>${make}<//>
    <${List} caption=${say("packs.caption")} columns=${columns} filters=${filters}
      load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get("/admin/packs", { query, signal })}
      empty=${{ title: say("packs.empty"), text: say("packs.empty_text"), act: make }} />
    ${making && html`<${Make} title=${say("packs.new")} schema=${PACK} value=${{ status: "active", until: 0, gives: { turns: 1, currency: "", amount: 0 } }} zone=${campaigns.zone} save=${save} word=${say("packs.make")} close=${() => setMaking(false)} />`}`;
}
