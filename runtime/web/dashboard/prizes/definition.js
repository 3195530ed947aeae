// A prize's form: its schema, initial value and request body.
import { html, useState } from "../lib.js";
import { Picture } from "../parts/picture.js";
import { loadById, useData } from "../parts/requests.js";
import { address } from "../router.js";
import { can } from "../session.js";
import { has, label, say, state } from "../words.js";
import * as release from "./release.js";

const COUNT = { type: "integer", minimum: 0, maximum: 2147483647 };
const MODES = ["ON_WIN", "ON_CLAIM", "MANUAL"].map((name) => `REDEMPTION_MODE_${name}`);
const KINDS = ["TEXT", "LONG_TEXT", "CHOICE"].map((name) => `CLAIM_FIELD_KIND_${name}`);
const CHANNELS = ["none", "voucher_code", "webhook", "workflow", "manual"];
/** Channels that send a request: their config has the receiver. */
const SENDING = ["webhook", "workflow"];

/** Numbers for which 0 means unset. An omitted number would stay unchanged. */
const NONE = ["value", "expires_after_days", "low_stock_at"];

/** @param {string} id */
export const addressOf = (id) => address(`/prizes/${encodeURIComponent(id)}`);

/** A prize's name, linked if the role can read the prize. @param {{id: string, name: string}} props */
export const Named = ({ id, name }) => (can("GetPrize") ? html`<a class="name" href=${addressOf(id)}>${name}</a>` : html`<span class="name">${name}</span>`);

/** @param {Record<string, any>} properties @param {string[]} [required] */
const object = (properties, required = []) => ({ type: "object", properties, required });

/** Suggestions; any ISO 4217 code is accepted. */
const CURRENCIES = ["EUR", "USD", "GBP", "CHF", "JPY", "CNY", "INR", "CAD", "AUD", "SEK", "NOK", "DKK", "PLN", "CZK", "HUF", "RON", "TRY", "BRL", "MXN", "ZAR"];

/** The schema of a prize's value, by type. @param {string} type */
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

/** The form's schema. @param {any} value the input: type and channel determine further fields; stock only for a new prize */
export function schemaOf(value) {
  const { type, stock, fulfillment: { channel } } = value;
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
    ...(type === "points" ? {} : { release: release.schemaOf(value.release) }),
    claim_fields: { type: "array", description: say("prizes.help_claim_fields"), items: object({
      key: { type: "string", minLength: 1, maxLength: 64, description: say("prizes.help_claim_key") },
      label: { type: "string", minLength: 1, maxLength: 200 },
      kind: { type: "string", enum: KINDS },
      required: { type: "boolean" },
      options: { type: "array", when: ["kind", "CLAIM_FIELD_KIND_CHOICE"], items: { type: "string" }, description: say("prizes.help_claim_options") },
    }, ["key", "label", "kind"]) },
  }, ["name"]);
}

export const NEW = {
  name: "", type: "goods", value: 0, currency: "", campaign_id: "", description: "", terms: "", image_url: "", stock: { total: 0 }, constraints: { max_per_user: 0, max_per_day: 0 },
  fulfillment: { redemption_mode: MODES[0], channel: "none", config: {} }, expires_after_days: 0, low_stock_at: 0, claim_fields: [], release: { kind: "NONE" },
};

/** The form's initial value, without the stock, which changes with a reason only. @param {any} prize @returns {Record<string, any>} */
export function editable(prize) {
  const { redemption_mode, channel, config } = prize.fulfillment;
  const rest = { ...config };
  delete rest.secret_set;
  delete rest.secret_once;
  const held = Object.keys(NEW).filter((name) => name !== "stock").map((name) => [name, prize[name]]);
  return { ...Object.fromEntries(held), fulfillment: { redemption_mode, channel, config: rest }, release: release.editable(prize.release) };
}

/** The request body: an empty secret is omitted, so it stays unchanged; an empty number becomes 0. @param {any} value @returns {Record<string, any>} */
export function sent({ fulfillment: { config, ...how }, ...rest }) {
  const { secret, ...more } = config ?? {};
  const held = ["none", "voucher_code", "manual"].includes(how.channel) ? {} : { ...more, ...(secret ? { secret } : {}) };
  const none = Object.fromEntries(NONE.map((name) => [name, rest[name] ?? 0]));
  return { ...rest, ...none, fulfillment: { ...how, config: held }, release: release.sent(rest.release) };
}

/** Custom controls of a prize's fields. @param {string} name @param {string} [path] */
export const widget = (name, path) => /** @type {Record<string, any>} */ ({
  campaign_id: Campaign, image_url: Picture, redemption_mode: Mode, channel: Channel, kind: path === "release.kind" ? release.Kind : Kind, options: Options, weekdays: release.Weekdays,
})[name] ?? null;

/** Campaigns by name, if the role can list them. */
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

/** The label of a claim field's type. @param {string} kind */
export const kindName = (kind) => say(`prizes.${kind}`);

/** @param {any} props */
const Kind = ({ value, change, named }) => html`<select ...${named} value=${value} onChange=${(/** @type {any} */ event) => change(event.target.value)}>
  ${KINDS.map((one) => html`<option value=${one}>${kindName(one)}</option>`)}
</select>`;

/** The options of a choice, one per line. @param {any} props */
function Options({ value = [], change, named }) {
  // Keeps the raw text: an unfinished line is not an option yet.
  const [text, setText] = useState(value.join("\n"));
  /** @param {any} event */
  const typed = ({ target }) => {
    setText(target.value);
    change(target.value.split("\n").map((/** @type {string} */ line) => line.trim()).filter(Boolean));
  };
  return html`<textarea ...${named} rows="3" value=${text} onInput=${typed}></textarea>`;
}

/** A channel's label; for a plugin's channel its name. @param {string} name */
export const channelName = (name) => (has(`prizes.by_${name}`) ? say(`prizes.by_${name}`) : label(name));

/** @param {any} props */
const Channel = ({ schema, value, change, named }) => html`<select ...${named} value=${value} onChange=${(/** @type {any} */ event) => change(event.target.value)}>
  ${schema.enum.map((/** @type {string} */ one) => html`<option value=${one}>${channelName(one)}</option>`)}
</select>`;
