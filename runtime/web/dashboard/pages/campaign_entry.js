// A campaign's entry form: a summary, and its editor.
import { api } from "../api.js";
import { html, useRef, useState } from "../lib.js";
import { Act } from "../parts/button.js";
import { confirm, Dialog } from "../parts/dialog.js";
import { Form } from "../parts/form.js";
import { Section } from "../parts/layout.js";
import { complain, tell } from "../parts/toast.js";
import { can } from "../session.js";
import { number, say, textOf } from "../words.js";
import { AddEntry } from "./campaign_entry_add.js";
import { LANGUAGES } from "./campaign_page.js";
import { saveCampaign } from "./campaign_saving.js";

const MODES = ["OPEN", "BEFORE_PLAY", "BEFORE_CLAIM"].map((one) => `ENTRY_MODE_${one}`);
const KINDS = ["TEXT", "EMAIL", "PHONE", "DATE", "CHOICE", "CHECKBOX", "NUMBER", "ADDRESS"].map((one) => `ENTRY_FIELD_KIND_${one}`);

/** A text by language. @param {string} [help] @param {string} [format] */
const texts = (help, format) => ({ type: "object", help, names: LANGUAGES, default: { en: "" }, additionalProperties: { type: "string", minLength: 1, maxLength: format ? 5000 : 200, format, label: say("page.text") } });
/** @param {Record<string, any>} properties */
const object = (properties, required = Object.keys(properties)) => ({ type: "object", properties, required });
const COUNTRIES = { type: "array", items: { type: "string", minLength: 2, maxLength: 2 } };

const CAPTCHAS = ["", "altcha", "siteverify"];

/** The schema of the form. @param {string} captcha the form's own, which may be a plugin's */
const schemaOf = (captcha) => object({
  entry: object({
    mode: { type: "string", enum: MODES, label: say("entry.mode") },
    fields: { type: "array", items: object({
      key: { type: "string", minLength: 1, maxLength: 64, help: say("entry.help_key") },
      label: texts(say("entry.help_texts")),
      kind: { type: "string", enum: KINDS },
      required: { type: "boolean" },
      options: { type: "array", when: ["kind", "ENTRY_FIELD_KIND_CHOICE"], help: say("entry.help_options"), items: object({ value: { type: "string", minLength: 1, maxLength: 200 }, label: texts() }, ["value"]) },
    }) },
    consents: { type: "array", help: say("entry.help_consents"), items: object({
      id: { type: "string", minLength: 1, maxLength: 64, help: say("entry.help_id") },
      text: texts(say("entry.help_texts"), "lines"),
      required: { type: "boolean" },
      link: { type: "string", maxLength: 2048, label: say("entry.link"), help: say("entry.help_link") },
    }, ["id", "text", "required"]) },
    min_age: { type: "integer", minimum: 0, maximum: 120, help: say("entry.help_min_age") },
    countries: object({ allow: { ...COUNTRIES, help: say("entry.help_allow") }, deny: COUNTRIES }),
    max_entries: { type: "integer", minimum: 0, help: say("help.unlimited") },
    one_per_contact: { type: "boolean", help: say("entry.help_contact") },
    captcha: { type: "string", enum: [...new Set([...CAPTCHAS, captcha])], titles: Object.fromEntries(CAPTCHAS.map((one) => [one, say(`entry.captcha.${one || "none"}`)])), label: say("entry.captcha"), help: say("entry.help_captcha") },
  }, ["mode", "fields", "consents", "min_age", "countries", "max_entries", "one_per_contact"]),
});

const NEW = { mode: MODES[1], fields: [], consents: [], min_age: 0, countries: null, max_entries: 0, one_per_contact: false, captcha: "" };

/** @param {{campaign: any, saved: (campaign: any) => void}} props */
export function EntryForm({ campaign, saved }) {
  const [shown, setShown] = useState("");
  const { entry } = campaign;
  const editable = can("UpdateCampaign");
  const remove = async () => {
    if (await confirm({ title: say("entry.remove_title"), text: say("entry.remove_text"), word: say("entry.remove"), danger: true })) {
      try {
        saved(await api.put("/admin/campaigns/{id}", { path: { id: campaign.id }, body: { entry: {}, revision: campaign.revision } }));
        tell(say("saved"));
      } catch (refused) {
        complain(refused);
      }
    }
  };
  const open = (/** @type {string} */ what, /** @type {string} */ word) => html`<button type="button" class="secondary outline small" onClick=${() => setShown(what)}>${say(word)}</button>`;
  const acts = html`${editable && entry && can("AddEntry") && open("add", "entry.add")}
    ${editable && open("edit", entry ? "entry.edit" : "entry.new")}
    ${editable && entry && html`<${Act} class="danger outline small" act=${remove}>${say("entry.remove")}<//>`}`;
  return html`<${Section} title=${say("entry.title")} note=${entry ? "" : say("entry.none")} acts=${acts}>
    ${entry && html`<${Summary} entry=${entry} />`}
  <//>
  ${shown === "edit" && html`<${Edit} campaign=${campaign} close=${() => setShown("")} saved=${saved} />`}
  ${shown === "add" && html`<${AddEntry} campaign=${campaign} close=${() => setShown("")} />`}`;
}

/** @param {{entry: any}} props */
function Summary({ entry }) {
  const named = (/** @type {any[]} */ all, /** @type {(one: any) => string} */ text) => (all.length
    ? html`<ul class="named">${all.map((one) => html`<li>${text(one)}${one.required ? html` <small>${say("entry.required")}</small>` : ""}</li>`)}</ul>`
    : say("none"));
  const countries = [...(entry.countries?.allow ?? []), ...(entry.countries?.deny ?? []).map((/** @type {string} */ one) => say("entry.not", { country: one }))];
  return html`<dl class="details">
    <dt>${say("entry.mode")}</dt><dd>${say(`field.${entry.mode}`)}</dd>
    <dt>${say("entry.fields")}</dt><dd>${named(entry.fields, (one) => `${textOf(one.label)} (${say(`field.${one.kind}`)})`)}</dd>
    <dt>${say("field.consents")}</dt><dd>${named(entry.consents, (one) => textOf(one.text))}</dd>
    ${entry.min_age > 0 && html`<dt>${say("field.min_age")}</dt><dd>${number(entry.min_age)}</dd>`}
    ${countries.length > 0 && html`<dt>${say("field.countries")}</dt><dd>${countries.join(", ")}</dd>`}
    ${entry.max_entries > 0 && html`<dt>${say("field.max_entries")}</dt><dd>${number(entry.max_entries)}</dd>`}
    ${entry.captcha && html`<dt>${say("entry.captcha")}</dt><dd>${entry.captcha}</dd>`}
    ${entry.one_per_contact && html`<dt>${say("field.one_per_contact")}</dt><dd>${say("entry.yes")}</dd>`}
  </dl>`;
}

/** @param {{campaign: any, close: () => void, saved: (campaign: any) => void}} props */
function Edit({ campaign, close, saved }) {
  const begun = useRef(campaign);
  const filled = useRef({ entry: campaign.entry ?? NEW });
  const save = async (/** @type {any} */ { entry }) => {
    saved(await saveCampaign(begun, { entry: { ...entry, fields: entry.fields.map(fieldOf) } }));
    tell(say("saved"));
    close();
  };
  return html`<${Dialog} title=${say("entry.title")} close=${close}>
    <${Form} schema=${schemaOf(filled.current.entry.captcha)} value=${filled.current} save=${save} word=${say("save")} cancel=${close} />
  <//>`;
}

/** A field as it is sent: an option without a text shows its value. @param {any} field */
const fieldOf = (field) => ({
  ...field,
  options: (field.options ?? []).map((/** @type {any} */ { value, label }) => ({ value, label: Object.fromEntries(Object.entries(label ?? {}).filter(([, text]) => text)) })),
});
