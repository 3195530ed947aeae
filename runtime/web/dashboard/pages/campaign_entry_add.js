// Enters a player on behalf of staff, such as a postcard.
import { api } from "../api.js";
import { html } from "../lib.js";
import { Dialog } from "../parts/dialog.js";
import { Form } from "../parts/form.js";
import { tell } from "../parts/toast.js";
import { label, say, textOf } from "../words.js";

/** @typedef {import("../parts/form.js").Schema} Schema */

const PARTS = ["line1", "line2", "postal_code", "city", "region", "country"];

const COUNTRY = { type: "string", maxLength: 2, help: say("entry.help_country") };

/** The schema of a field's value. @param {any} field @returns {Schema} */
function schemaOf({ kind, label: labels, key, options }) {
  const named = { label: textOf(labels) || label(key) };
  switch (kind) {
    case "ENTRY_FIELD_KIND_ADDRESS":
      return { ...named, type: "object", properties: Object.fromEntries(PARTS.map((part) => [part, part === "country" ? COUNTRY : { type: "string", maxLength: 200 }])) };
    case "ENTRY_FIELD_KIND_CHECKBOX":
      return { ...named, type: "boolean" };
    case "ENTRY_FIELD_KIND_CHOICE":
      return { ...named, type: "string", enum: ["", ...options.map((/** @type {any} */ one) => one.value)], titles: Object.fromEntries([["", ""], ...options.map((/** @type {any} */ one) => [one.value, textOf(one.label) || one.value])]) };
    case "ENTRY_FIELD_KIND_NUMBER":
      return { ...named, type: "number" };
    case "ENTRY_FIELD_KIND_DATE":
      return { ...named, type: "string", help: say("entry.help_date") };
    default:
      return { ...named, type: "string", maxLength: 200 };
  }
}

/** Whether a value was entered. @param {any} value */
const given = (value) => value !== "" && value !== undefined && value !== null && value !== false;

/** The values that were entered: an empty one is left out. @param {Record<string, any>} values @returns {Record<string, any>} */
const entered = (values) => Object.fromEntries(Object.entries(values)
  .map(([key, value]) => [key, typeof value === "object" && value ? entered(value) : value])
  .filter(([, value]) => given(value) && (typeof value !== "object" || Object.keys(value).length)));

/** @param {{campaign: any, close: () => void}} props */
export function AddEntry({ campaign: { id, entry }, close }) {
  const byKey = (/** @type {any[]} */ all, /** @type {string} */ key, /** @type {(one: any) => Schema} */ made) => ({ type: "object", properties: Object.fromEntries(all.map((one) => [one[key], made(one)])) });
  const schema = {
    type: "object",
    properties: {
      player_id: { type: "string", minLength: 1, maxLength: 128, help: say("entry.help_player") },
      ...(entry.fields.length > 0 && { fields: byKey(entry.fields, "key", schemaOf) }),
      ...(entry.consents.length > 0 && { consents: byKey(entry.consents, "id", (one) => ({ type: "boolean", label: textOf(one.text) })) }),
      country: COUNTRY,
      reason: { type: "string", minLength: 1, maxLength: 1000, help: say("entry.help_reason") },
    },
    required: ["player_id", "reason"],
  };
  const save = async (/** @type {any} */ { player_id, fields = {}, consents = {}, ...rest }) => {
    const body = { campaign_id: id, fields: entered(fields), consents: entered(consents), ...rest };
    const made = await api.post("/admin/players/{id}/entries", { path: { id: player_id }, body });
    tell(made.missing.length ? say("entry.added_incomplete", { missing: made.missing.map((/** @type {string} */ name) => name.replace(/^\w+\./, "")).join(", ") }) : say("entry.added"));
    close();
  };
  return html`<${Dialog} title=${say("entry.add")} close=${close}>
    <${Form} schema=${schema} value=${{}} save=${save} word=${say("entry.add")} cancel=${close} />
  <//>`;
}
