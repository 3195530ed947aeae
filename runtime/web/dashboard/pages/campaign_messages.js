// The e-mails to a campaign's players, edited beside a preview.
import { api, Refused } from "../api.js";
import { html, useEffect, useRef, useState } from "../lib.js";
import { Form } from "../parts/form.js";
import { Head, Section } from "../parts/layout.js";
import { useData } from "../parts/requests.js";
import { Loading, Problem } from "../parts/states.js";
import { complain, tell } from "../parts/toast.js";
import { useUnsaved } from "../parts/unsaved.js";
import { address } from "../router.js";
import { useTitle } from "../title.js";
import { label, say, sentence } from "../words.js";
import { LANGUAGES } from "./campaign_page.js";
import { saveCampaign } from "./campaign_saving.js";

const KINDS = ["won", "code_delivered", "reminder", "draw_result"];
const PAUSE_MS = 400;

/** Shown as they are written. */
const PLACEHOLDERS = Object.fromEntries(["player_name", "campaign", "claim_url", "prize", "expires_at", "code", "draw"].map((one) => [one, `{${one}}`]));

/** A text by language. @param {number} maxLength @param {string} [format] */
const texts = (maxLength, format) => ({ type: "object", names: LANGUAGES, additionalProperties: { type: "string", minLength: 1, maxLength, format, label: say("page.text") } });
const SCHEMA = {
  type: "object",
  properties: {
    language: { type: "string", enum: LANGUAGES, label: say("messages.default_language"), help: say("messages.help_language"), titles: Object.fromEntries(LANGUAGES.map((one) => [one, one])) },
    ...Object.fromEntries(KINDS.map((kind) => [kind, {
      type: "object", help: say(`messages.help_${kind}`, PLACEHOLDERS),
      properties: {
        sent: { type: "boolean", label: say("messages.sent") },
        ...(kind === "reminder" ? { hours: { type: "integer", minimum: 1, maximum: 2160, label: say("messages.hours") } } : {}),
        subject: { ...texts(200), label: say("messages.subject"), help: say("messages.help_subject") },
        body: { ...texts(5000, "lines"), label: say("messages.body"), help: say("messages.help_body", PLACEHOLDERS) },
      },
    }])),
  },
};

/** The form's value. @param {any} campaign @returns {Record<string, any>} */
function editable({ messages }) {
  const stored = (/** @type {string} */ kind) => messages?.templates.find((/** @type {any} */ one) => one.kind === enumOf(kind));
  const part = (/** @type {string} */ kind) => {
    const { subject, body, hours, paused } = stored(kind) ?? { paused: true };
    return { sent: !paused, ...(kind === "reminder" ? { hours: hours || 24 } : {}), subject: subject ?? {}, body: body ?? {} };
  };
  return { language: messages?.language || "en", ...Object.fromEntries(KINDS.map((kind) => [kind, part(kind)])) };
}

/** won, of MESSAGE_KIND_WON. @param {{kind: string}} one */
export const kindOf = ({ kind }) => kind.replace("MESSAGE_KIND_", "").toLowerCase();

/** @param {string} kind */
const enumOf = (kind) => `MESSAGE_KIND_${kind.toUpperCase()}`;

/** @param {string} kind @param {any} value */
function templateOf(kind, { sent, hours = 0, subject = {}, body = {} }) {
  const written = (/** @type {Record<string, string>} */ by) => Object.fromEntries(Object.entries(by).filter(([, text]) => text?.trim()));
  return { kind: enumOf(kind), paused: !sent, hours, subject: written(subject), body: written(body) };
}

/** The messages of the form: those that are sent, and paused ones with own texts. @param {any} value */
function messagesOf(value) {
  const all = KINDS.map((kind) => templateOf(kind, value[kind] ?? {}));
  const templates = all.filter(({ paused, subject, body }) => !paused || Object.keys({ ...subject, ...body }).length > 0);
  return templates.length ? { language: value.language, templates } : {};
}

/** @param {{id: string}} props */
export default function CampaignMessages({ id }) {
  const { data: campaign, error, again } = useData((signal) => api.get("/admin/campaigns/{id}", { path: { id }, signal }), [id]);
  useTitle(campaign?.name ?? "");
  if (!campaign) {
    return error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} />`;
  }
  return html`<${Head} title=${say("messages.title")} status=${campaign.status} back=${{ href: address(`/campaigns/${encodeURIComponent(id)}`), text: campaign.name }} />
    <${Editor} key=${id} campaign=${campaign} />`;
}

/** @param {{campaign: any}} props */
function Editor({ campaign }) {
  const begun = useRef(campaign);
  const filled = useRef(editable(campaign));
  const [value, setValue] = useState(filled.current);
  const unsaved = JSON.stringify(messagesOf(value)) !== JSON.stringify(messagesOf(filled.current));
  useUnsaved(unsaved);
  const save = async (/** @type {any} */ typed) => {
    const messages = messagesOf(typed);
    try {
      await saveCampaign(begun, { messages });
    } catch (refused) {
      throw /** @type {any} */ (refused).data?.violations ? inForm(refused, messages) : refused;
    }
    filled.current = typed;
    setValue({ ...typed });
    tell(say("saved"));
  };
  return html`<div class="designer">
    <div><${Section} title=${say("messages.edit")}>
      <p class="quiet">${say("messages.addressed")}</p>
      <div class="sheet"><${Form} schema=${SCHEMA} value=${filled.current} save=${save} typed=${setValue} word=${say("save")} /></div>
    <//></div>
    <div class="aside"><${Shown} campaign=${campaign} value=${value} /></div>
  </div>`;
}

/** A refusal with the paths of the form. @param {any} refused @param {any} messages */
function inForm({ status, message, data }, messages) {
  const placed = (/** @type {string} */ _, /** @type {string} */ nth) => (nth ? `${kindOf(messages.templates[nth])}.` : "");
  const violations = data.violations.map((/** @type {any} */ one) => ({ ...one, field: one.field.replace(/^messages\.(?:templates\[(\d+)\]\.)?/, placed) }));
  return new Refused(status, { message, data: { ...data, violations } });
}

/** A message with sample values, in a language, and the sender. @param {{campaign: any, value: any}} props */
function Shown({ campaign, value }) {
  const [kind, setKind] = useState(KINDS[0]);
  const [language, setLanguage] = useState("");
  const [to, setTo] = useState("");
  const [asked, setAsked] = useState("");
  const template = templateOf(kind, value[kind] ?? {});
  const body = { template, language, default_language: value.language };
  const wanted = JSON.stringify(body);
  useEffect(() => {
    const timer = setTimeout(() => setAsked(wanted), asked ? PAUSE_MS : 0);
    return () => clearTimeout(timer);
  }, [wanted]);
  const path = { id: campaign.id };
  const { data, error } = useData(async (signal) => (asked ? api.post("/admin/campaigns/{id}/messages/preview", { path, body: JSON.parse(asked), signal }) : null), [asked]);
  const send = async (/** @type {any} */ event) => {
    event.preventDefault();
    try {
      const { sent_to } = await api.post("/admin/campaigns/{id}/messages/preview", { path, body: { ...body, to } });
      tell(say("messages.sample_sent", { contact: sent_to }));
    } catch (refused) {
      complain(refused);
    }
  };
  const choice = (/** @type {string} */ name, /** @type {string} */ chosen, /** @type {(to: string) => void} */ change, /** @type {string[][]} */ items) => html`<label>${name}<select value=${chosen} onChange=${(/** @type {any} */ event) => change(event.target.value)}>
    ${items.map(([one, shown]) => html`<option key=${one} value=${one}>${shown}</option>`)}</select></label>`;
  return html`<${Section} title=${say("messages.preview")}>
    <div class="choices">
      ${choice(say("messages.kind"), kind, setKind, KINDS.map((one) => [one, label(one)]))}
      ${choice(say("page.language"), language, setLanguage, [["", say("messages.default")], ...LANGUAGES.map((one) => [one, one])])}
    </div>
    ${error ? html`<p class="bad" role="alert">${sentence(/** @type {any} */ (error).data?.violations?.[0]?.description ?? /** @type {any} */ (error).message)}</p>` : !data ? html`<${Loading} />` : html`
      <div class="sheet mail" lang=${data.language} dir="auto">
        <p><b>${data.subject}</b><br /><small class="quiet">${data.sender}</small></p>
        <${Rendered} source=${data.html} />
      </div>
      ${data.sender ? html`<form class="choices" onSubmit=${send}>
          <label>${say("messages.to")}<input type="email" required maxLength="254" value=${to} onInput=${(/** @type {any} */ event) => setTo(event.target.value)} /></label>
          <button type="submit" class="secondary outline">${say("messages.send_sample")}</button>
        </form>` : html`<p class="quiet">${say("messages.no_sender")}</p>`}`}
  <//>`;
}

/** HTML of the service, without what could run. @param {{source: string}} props */
function Rendered({ source }) {
  const own = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => own.current?.replaceChildren(...new DOMParser().parseFromString(source, "text/html").body.childNodes), [source]);
  return html`<div ref=${own}></div>`;
}

/** The messages of a campaign on its page. @param {{campaign: any}} props */
export function Messages({ campaign }) {
  const sent = (campaign.messages?.templates ?? []).filter((/** @type {any} */ one) => !one.paused);
  const link = html`<a role="button" class="secondary outline small" href=${address(`/campaigns/${encodeURIComponent(campaign.id)}/messages`)}>${say("messages.edit_link")}</a>`;
  return html`<${Section} title=${say("messages.title")} acts=${link}
    note=${sent.length ? sent.map((/** @type {any} */ one) => label(kindOf(one))).join(", ") : say("messages.none")} />`;
}
