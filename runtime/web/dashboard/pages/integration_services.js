// The forms of an integration's config: of webhooks, and of the services of the other types.
import { say } from "../words.js";

const text = (/** @type {number} */ most, /** @type {Record<string, any>} */ more = {}) => ({ type: "string", maxLength: most, ...more });
const help = (/** @type {string} */ name) => ({ help: say(`services.help_${name}`) });

export const SECRET = text(500, { help: say("help.secret") });
const HEADERS = { type: "object", additionalProperties: text(2000) };
const INCLUDED = {
  include: { type: "array", items: { type: "string" }, help: say("integrations.help_include") },
  consent: text(64, { help: say("integrations.help_consent") }),
};
const COLUMNS = { type: "array", items: text(100), ...help("columns") };
const FIELDS = { type: "object", additionalProperties: text(100), ...help("fields") };
const MESSAGE = text(1600, { format: "lines", ...help("text") });
const credential = (/** @type {string} */ label, /** @type {number} */ most = 500, /** @type {Record<string, any>} */ more = {}) => text(most, { label: say(`services.${label}`), ...more });

export const RECEIVER = {
  type: "object",
  required: ["url"],
  properties: { url: text(2000), secret: SECRET, headers: HEADERS, ...INCLUDED },
};

/** @type {Record<string, Record<string, {required: string[], properties: Record<string, any>}>>} */
const SERVICES = {
  INTEGRATION_TYPE_SPREADSHEET: {
    google_sheets: { required: ["spreadsheet_id"], properties: { spreadsheet_id: text(200, help("spreadsheet_id")), sheet: text(100, help("sheet")), columns: COLUMNS, secret: credential("account_key", 8000, { format: "lines", ...help("account_key") }) } },
    csv: { required: ["url"], properties: { url: text(2000), method: { type: "string", enum: ["POST", "PUT"], default: "POST", titles: { POST: "POST", PUT: "PUT" }, ...help("method") }, columns: COLUMNS, secret: SECRET, headers: HEADERS } },
  },
  INTEGRATION_TYPE_SMS: {
    twilio: { required: ["account_sid", "from", "text"], properties: { account_sid: text(34), from: text(40, help("from")), to: text(16, help("to")), text: MESSAGE, secret: credential("auth_token") } },
    http: { required: ["url", "text"], properties: { url: text(2000), to: text(16, help("to")), text: MESSAGE, format: { type: "string", enum: ["json", "form"], titles: { json: "JSON", form: say("services.form") } }, fields: { ...FIELDS, ...help("sms_fields") }, secret: SECRET, headers: HEADERS } },
  },
  INTEGRATION_TYPE_MESSAGING: {
    slack: { required: ["text"], properties: { text: MESSAGE, secret: credential("webhook_url", 2000) } },
    discord: { required: ["text"], properties: { text: MESSAGE, secret: credential("webhook_url", 2000) } },
  },
  INTEGRATION_TYPE_CRM: {
    hubspot: { required: [], properties: { fields: { ...FIELDS, ...help("properties") }, secret: credential("access_token") } },
    json: { required: ["url", "fields"], properties: { url: text(2000), fields: FIELDS, secret: SECRET, headers: HEADERS } },
  },
};

const NAMES = { google_sheets: "Google Sheets", csv: "CSV (HTTP)", twilio: "Twilio", http: say("services.gateway"), slack: "Slack", discord: "Discord", hubspot: "HubSpot", json: "JSON (HTTP)" };

/** A service's name. @param {string} service */
export const serviceName = (service) => /** @type {Record<string, string>} */ (NAMES)[service] ?? service;

/** The services of a type: the first is offered. @param {string} type */
export const servicesOf = (type) => Object.keys(SERVICES[type] ?? {});

/**
 * The schema of a type's config. Without a service, events are only logged.
 * @param {string} type @param {string} service
 */
export function configSchema(type, service) {
  const offered = servicesOf(type);
  if (!offered.length) {
    return RECEIVER;
  }
  const titles = { ...NAMES, "": say("services.none") };
  const choice = { type: "string", enum: [...offered, ""], titles, help: service ? "" : say("integrations.only_logged") };
  const { required = [], properties = {} } = SERVICES[type][service] ?? {};
  return { type: "object", required: [...required], properties: { service: choice, ...properties, ...(service ? INCLUDED : {}) } };
}

/**
 * The config to send, without empty fields and without those of another service. had: the stored one.
 * @param {string} type @param {Record<string, any>} config @param {Record<string, any>} [had]
 */
export function givenConfig(type, config, had = {}) {
  const service = config.service ?? "";
  const stored = had.service === config.service ? had : {};
  const own = (/** @type {string} */ name) => !(type in SERVICES) || name in configSchema(type, service).properties || name in stored;
  const isEmpty = (/** @type {any} */ value) => value === undefined || value === "" || (typeof value === "object" && !Object.keys(value).length);
  const isSent = (/** @type {[string, any]} */ [name, value]) => own(name) && (!isEmpty(value) || name === "headers" || name === "url");
  return Object.fromEntries(Object.entries(config).filter(isSent));
}
