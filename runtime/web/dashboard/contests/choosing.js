// Shared by forms: selects by name, and an edit that detects concurrent changes.
import { api, Refused } from "../api.js";
import { html, useRef, useState } from "../lib.js";
import { differing } from "../parts/compared.js";
import { Dialog } from "../parts/dialog.js";
import { Form } from "../parts/form.js";
import { loadById, useData } from "../parts/requests.js";
import { tell } from "../parts/toast.js";
import { label, say } from "../words.js";

/** @param {string} path @param {string} [empty] the key of the empty option */
export const choosing = (path, empty = "form.none") =>
  /** @param {{value: string, change: (value: string) => void, named: any}} props */
  function Choose({ value, change, named: control }) {
    const { data, error } = useData((signal) => loadById(path, signal), []);
    const known = [...(data ?? [])];
    return html`<select ...${control} value=${value ?? ""} onChange=${(/** @type {any} */ event) => change(event.target.value)}>
      <option value="">${say(control.required ? "form.choose" : empty)}</option>
      ${known.map(([id, one]) => html`<option key=${id} value=${id}>${one.name}</option>`)}
      ${value && !data?.has(value) && html`<option value=${value}>${value}</option>`}
    </select>${error && html`<small class="wrong" role="alert">${error.message}</small>`}`;
  };

const CHOSEN = /** @type {Record<string, any>} */ ({
  campaign_id: choosing("/admin/campaigns"), game_id: choosing("/admin/games", "analytics.every_game"), prize_id: choosing("/admin/prizes"),
});

/** The select controls of a form. @param {string} name */
export const widget = (name) => CHOSEN[name];

/** Names and time zones of campaigns, and a filter by campaign. */
export function useCampaigns() {
  const { data } = useData((signal) => loadById("/admin/campaigns", signal), []);
  const options = [...(data ?? [])].map(([value, { name }]) => ({ value, text: name }));
  return {
    name: (/** @type {string} */ id) => data?.get(id)?.name ?? id,
    zone: (/** @type {string} */ id) => data?.get(id)?.timezone ?? "UTC",
    filter: { name: "campaign_id", label: say("field.campaign_id"), options },
  };
}

/**
 * A form that creates an item in a campaign, with times in the campaign's zone.
 * @param {{title: string, schema: any, value: any, word: string, save: (value: any) => Promise<any>, zone: (campaign: string) => string, close: () => void}} props
 */
export function Make({ title, schema, value, word, save, zone, close }) {
  const [campaign, setCampaign] = useState("");
  return html`<${Dialog} title=${title} close=${close}>
    <${Form} schema=${schema} value=${value} widget=${widget} zone=${zone(campaign)} typed=${(/** @type {any} */ now) => setCampaign(now.campaign_id)} save=${save} word=${word} cancel=${close} />
  <//>`;
}

/**
 * Throws if an item, which has no revision for an optimistic lock, has changed since it was read: saving again overwrites.
 * @param {{current: any}} begun the item's fields as read @param {any} now
 */
export function refuseStale(begun, now) {
  const theirs = differing(begun.current, now);
  begun.current = now;
  if (theirs.length) {
    throw new Refused(409, { message: say("campaign.stale", { what: theirs.map(label).join(", ") }) });
  }
}

/**
 * An item as stored now, where only its list can be read; the one given if it is not among the first thousand.
 * @param {string} path @param {any} one
 */
export const fromList = async (path, one) => (await loadById(path)).get(one.id) ?? one;

/**
 * Sends the changed fields, unless others changed the item.
 * @param {{title: string, path: string, one: any, load?: () => Promise<any>, schema: any, fields: (one: any) => Record<string, any>, sent?: (value: any) => any, zone?: string, close: () => void, saved: (one: any) => void}} props
 */
export function Edit({ title, path, one, load, schema, fields, sent = (value) => value, zone, close, saved }) {
  const begun = useRef(fields(one));
  const filled = useRef(begun.current);
  const about = { path: { id: one.id } };
  const save = async (/** @type {any} */ value) => {
    refuseStale(begun, fields(await (load ? load() : api.get(path, about))));
    const own = differing(filled.current, value).map((key) => [key, value[key]]);
    saved(await api.put(path, { ...about, body: sent(Object.fromEntries(own)) }));
    tell(say("saved"));
    close();
  };
  return html`<${Dialog} title=${title} close=${close}>
    <${Form} schema=${schema} value=${filled.current} widget=${widget} zone=${zone} save=${save} word=${say("save")} cancel=${close} />
  <//>`;
}
