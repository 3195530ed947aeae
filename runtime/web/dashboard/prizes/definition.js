// A prize's fields: what the form asks for, what it begins with, and what of it is sent.
import { html, useState } from "../lib.js";
import { loadById, useData } from "../parts/requests.js";
import { address } from "../router.js";
import { can } from "../session.js";
import { has, label, say, state } from "../words.js";

const COUNT = { type: "integer", minimum: 0, maximum: 2147483647 };
const MODES = ["ON_WIN", "ON_CLAIM", "MANUAL"].map((name) => `REDEMPTION_MODE_${name}`);
const KINDS = ["TEXT", "LONG_TEXT", "CHOICE"].map((name) => `CLAIM_FIELD_KIND_${name}`);
const CHANNELS = ["none", "voucher_code", "webhook", "workflow", "manual"];
/** Channels that send to somebody: their config says to whom. */
const SENDING = ["webhook", "workflow"];

/** Numbers of which 0 is none. What is left out stays as it was. */
const NONE = ["value", "expires_after_days", "low_stock_at"];

/** @param {string} id */
export const addressOf = (id) => address(`/prizes/${encodeURIComponent(id)}`);

/** A prize by its name, which leads to it where that may be read. @param {{id: string, name: string}} props */
export const Named = ({ id, name }) => (can("GetPrize") ? html`<a class="name" href=${addressOf(id)}>${name}</a>` : html`<span class="name">${name}</span>`);

/** @param {Record<string, any>} properties @param {string[]} [required] */
const object = (properties, required = []) => ({ type: "object", properties, required });

/** What is offered; any of ISO 4217 may be typed. */
const CURRENCIES = ["EUR", "USD", "GBP", "CHF", "JPY", "CNY", "INR", "CAD", "AUD", "SEK", "NOK", "DKK", "PLN", "CZK", "HUF", "RON", "TRY", "BRL", "MXN", "ZAR"];

/** What the value of a prize is, by its type. @param {string} type */
function valueOf(type) {
  switch (type) {
    case "turns":
      return { type: "integer", minimum: 1, maximum: 1000, label: say("prizes.value_turns"), description: say("prizes.help_turns") };
    case "points":
      return { type: "integer", minimum: 1, label: say("prizes.value_points"), description: say("prizes.help_points") };
    default:
      return { type: "number", minimum: 0, description: say("prizes.help_value") };
  }
}

/** The form's schema. @param {any} value what is typed: type and channel say what else there is; stock: of a new prize alone */
export function schemaOf({ type, stock, fulfillment: { channel } }) {
  const config = SENDING.includes(channel)
    ? object({ url: { type: "string", maxLength: 2048 }, secret: { type: "string", maxLength: 500, help: say("help.secret") }, headers: { type: "object", additionalProperties: { type: "string", description: say("prizes.help_header") } } }, ["url"])
    : { type: "object" };
  return object({
    name: { type: "string", minLength: 1, maxLength: 200 },
    type: { type: "string", maxLength: 100, description: say("prizes.help_type") },
    value: valueOf(type),
    currency: { type: "string", maxLength: 3, examples: CURRENCIES, description: say("prizes.help_currency") },
    campaign_id: { type: "string" },
    description: { type: "string", maxLength: 2000, format: "lines" },
    terms: { type: "string", maxLength: 10000, format: "lines" },
    image_url: { type: "string", maxLength: 2048, description: say("prizes.help_image") },
    ...(stock ? { stock: object({ total: { ...COUNT, description: say("prizes.help_total") } }) } : {}),
    constraints: object({ max_per_user: { ...COUNT, help: say("help.unlimited") }, max_per_day: { ...COUNT, help: say("help.unlimited_days") } }),
    fulfillment: object({
      redemption_mode: { type: "string", enum: MODES },
      channel: { type: "string", enum: CHANNELS.includes(channel) ? CHANNELS : [...CHANNELS, channel] },
      ...(["none", "voucher_code", "manual"].includes(channel) ? {} : { config }),
    }),
    expires_after_days: { ...COUNT, help: say("help.expires_after_days") },
    low_stock_at: { ...COUNT, description: say("prizes.help_low") },
    claim_fields: { type: "array", description: say("prizes.help_claim_fields"), items: object({
      key: { type: "string", minLength: 1, maxLength: 64, description: say("prizes.help_claim_key") },
      label: { type: "string", minLength: 1, maxLength: 200 },
      kind: { type: "string", enum: KINDS },
      required: { type: "boolean" },
      options: { type: "array", items: { type: "string" }, description: say("prizes.help_claim_options") },
    }, ["key", "label", "kind"]) },
  }, ["name"]);
}

export const NEW = {
  name: "", type: "goods", value: 0, currency: "", campaign_id: "", description: "", terms: "", image_url: "", stock: { total: 0 }, constraints: { max_per_user: 0, max_per_day: 0 },
  fulfillment: { redemption_mode: MODES[0], channel: "none", config: {} }, expires_after_days: 0, low_stock_at: 0, claim_fields: [],
};

/** What a form begins with: all but the stock, which is moved for a reason. @param {any} prize @returns {Record<string, any>} */
export function editable(prize) {
  const { redemption_mode, channel, config } = prize.fulfillment;
  const rest = { ...config };
  delete rest.secret_set;
  delete rest.secret_once;
  const held = Object.keys(NEW).filter((name) => name !== "stock").map((name) => [name, prize[name]]);
  return { ...Object.fromEntries(held), fulfillment: { redemption_mode, channel, config: rest } };
}

/** What is sent of it: a secret that was not typed stays as it is, a number that was emptied becomes none. @param {any} value @returns {Record<string, any>} */
export function sent({ fulfillment: { config, ...how }, ...rest }) {
  const { secret, ...told } = config ?? {};
  const held = ["none", "voucher_code", "manual"].includes(how.channel) ? {} : { ...told, ...(secret ? { secret } : {}) };
  const none = Object.fromEntries(NONE.map((name) => [name, rest[name] ?? 0]));
  return { ...rest, ...none, fulfillment: { ...how, config: held } };
}

/** The controls that a prize's fields have of their own. @param {string} name */
export const widget = (name) => /** @type {Record<string, any>} */ ({ campaign_id: Campaign, redemption_mode: Mode, channel: Channel, kind: Kind, options: Options })[name] ?? null;

/** Campaigns by name, for who may list them. */
export const useCampaigns = () => useData(async (signal) => (can("ListCampaigns") ? [...(await loadById("/admin/campaigns", signal)).values()] : []), []).data ?? [];

/** @param {any} props */
function Campaign({ value, change, named }) {
  const items = useCampaigns();
  return html`<select ...${named} value=${value} onChange=${(/** @type {any} */ event) => change(event.target.value)}>
    <option value="">${say("prizes.every_campaign")}</option>
    ${items.map((/** @type {any} */ one) => html`<option key=${one.id} value=${one.id}>${one.name}</option>`)}
    ${value && !items.some((/** @type {any} */ { id }) => id === value) && html`<option value=${value}>${value}</option>`}
  </select>`;
}

/** @param {any} props */
const Mode = ({ value, change, named }) => html`<select ...${named} value=${value} onChange=${(/** @type {any} */ event) => change(event.target.value)}>
  ${MODES.map((one) => html`<option value=${one}>${state(one)}</option>`)}
</select>`;

/** What an answer is called. @param {string} kind */
export const kindName = (kind) => say(`prizes.${kind}`);

/** @param {any} props */
const Kind = ({ value, change, named }) => html`<select ...${named} value=${value} onChange=${(/** @type {any} */ event) => change(event.target.value)}>
  ${KINDS.map((one) => html`<option value=${one}>${kindName(one)}</option>`)}
</select>`;

/** A choice's options, one a line. @param {any} props */
function Options({ value = [], change, named }) {
  // What is typed stays as it is: a line that is begun is no option yet.
  const [text, setText] = useState(value.join("\n"));
  /** @param {any} event */
  const typed = ({ target }) => {
    setText(target.value);
    change(target.value.split("\n").map((/** @type {string} */ line) => line.trim()).filter(Boolean));
  };
  return html`<textarea ...${named} rows="3" value=${text} onInput=${typed}></textarea>`;
}

/** What a channel is called; a plugin's by its own name. @param {string} name */
export const channelName = (name) => (has(`prizes.by_${name}`) ? say(`prizes.by_${name}`) : label(name));

/** @param {any} props */
const Channel = ({ schema, value, change, named }) => html`<select ...${named} value=${value} onChange=${(/** @type {any} */ event) => change(event.target.value)}>
  ${schema.enum.map((/** @type {string} */ one) => html`<option value=${one}>${channelName(one)}</option>`)}
</select>`;
