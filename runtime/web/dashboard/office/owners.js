// Tenants, and the merchants of a tenant: list, create, edit, suspend, restore.
import { api } from "../api.js";
import { Edit, fromList } from "../contests/choosing.js";
import { html, useState } from "../lib.js";
import { Act } from "../parts/button.js";
import { confirm, Dialog } from "../parts/dialog.js";
import { Form } from "../parts/form.js";
import { Head } from "../parts/layout.js";
import { List } from "../parts/list.js";
import { complain, tell } from "../parts/toast.js";
import { Id, Status, When } from "../parts/values.js";
import { place } from "../router.js";
import { can, me } from "../session.js";
import { useTitle } from "../title.js";
import { say } from "../words.js";

/**
 * Asks for confirmation, performs the action and shows a toast.
 * @param {import("../parts/dialog.js").Question} question
 * @param {() => Promise<any>} act
 * @param {string} said
 */
export async function ask(question, act, said) {
  if (await confirm(question)) {
    await act().then(() => tell(said), complain);
  }
}

export default function Owners() {
  const kinds = place.value.path.slice(1);
  const kind = kinds === "tenants" ? "Tenant" : "Merchant";
  const status = `${kind.toUpperCase()}_STATUS_`;
  const title = say(`owners.${kinds}`);
  useTitle(title);
  const [shown, setShown] = useState(/** @type {any} */ (null));
  const [changes, setChanges] = useState(0);
  const changed = () => setChanges((count) => count + 1);
  // Read-only for staff of a merchant.
  const may = (/** @type {string} */ act) => can(`${act}${kind}`) && (kind === "Tenant" || !me.value?.merchant_id);
  const move = async (/** @type {any} */ { id, name }, /** @type {boolean} */ suspends) => {
    const word = say(suspends ? "owners.suspend" : "owners.restore");
    await ask({ title: `${word}: ${name}`, text: say(suspends ? "owners.suspend_text" : "owners.restore_text"), word, danger: suspends }, () => api.put(`/admin/${kinds}/{id}`, { path: { id }, body: { status: status + (suspends ? "SUSPENDED" : "ACTIVE") } }), say("saved"));
    changed();
  };
  const make = may("Create") && html`<button type="button" onClick=${() => setShown({})}>${say(`owners.new_${kinds}`)}</button>`;
  const columns = [
    { title: say("people.name"), show: (/** @type {any} */ one) => html`<span class="name">${one.name}</span> <${Id} value=${one.id} />` },
    ...(kind === "Tenant" ? [{ title: say("field.origins"), show: (/** @type {any} */ one) => one.origins.join(", ") || say("none") }] : []),
    { title: say("campaigns.status"), narrow: true, show: (/** @type {any} */ one) => html`<${Status} value=${one.status} />` },
    { title: say("players.since"), narrow: true, show: (/** @type {any} */ one) => html`<${When} at=${one.created_at} />` },
    { title: say("list.acts"), acts: true, show: (/** @type {any} */ one) => {
      const active = one.status === `${status}ACTIVE`;
      return may("Update") && html`<div class="acts"><button type="button" class="secondary outline small" onClick=${() => setShown(one)}>${say("owners.change")}</button>
        <${Act} class=${active ? "danger outline small" : "secondary outline small"} act=${() => move(one, active)}>${say(active ? "owners.suspend" : "owners.restore")}<//></div>`;
    } },
  ];
  return html`<${Head} title=${title}>${make}<//>
    <${List} caption=${title} columns=${columns} about=${changes} filters=${[{ name: "q", label: say("people.name") }]}
      load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get(`/admin/${kinds}`, { query, signal })}
      empty=${{ title: say(`owners.no_${kinds}`), text: say("owners.about"), act: make }} />
    ${shown && html`<${Change} kinds=${kinds} one=${shown} close=${() => setShown(null)} done=${changed} />`}`;
}

/** The form of a tenant's mail sender. @param {{smtp_url_set?: boolean}} [stored] */
const senderSchema = (stored) => ({
  type: "object",
  help: say("owners.help_sender"),
  properties: {
    name: { type: "string", maxLength: 100, label: say("owners.sender_name") },
    address: { type: "string", maxLength: 320, label: say("owners.sender_address") },
    reply_to: { type: "string", maxLength: 320 },
    smtp_url: { type: "string", maxLength: 1000, help: say(stored?.smtp_url_set ? "owners.help_smtp_kept" : "owners.help_smtp") },
  },
});

/** The form's fields of a tenant or merchant. @param {string} kinds @param {any} one */
const fieldsOf = (kinds, { name = "", origins = [], hosts = [], sender }) => {
  const { name: from = "", address = "", reply_to = "" } = sender ?? {};
  return kinds === "tenants" ? { name, origins, hosts, sender: { name: from, address, reply_to, smtp_url: "" } } : { name };
};

/** The fields to send: an empty sender removes the stored one. @param {any} fields */
const sent = ({ sender, ...rest }) => (sender ? { ...rest, sender: Object.fromEntries(Object.entries(sender).filter(([, value]) => value)) } : rest);

/** @param {{kinds: string, one: any, close: () => void, done: () => void}} props */
function Change({ kinds, one, close, done }) {
  const origins = { type: "array", help: say("help.origins"), items: { type: "string", maxLength: 128 } };
  const hosts = { type: "array", help: say("help.hosts_of_tenant"), items: { type: "string", maxLength: 253 } };
  const schema = {
    type: "object",
    required: ["name"],
    properties: { name: { type: "string", minLength: 1, maxLength: 200 }, ...(kinds === "tenants" ? { origins, hosts, sender: senderSchema(one.sender) } : {}) },
  };
  const path = `/admin/${kinds}`;
  const fields = (/** @type {any} */ it) => fieldsOf(kinds, it);
  if (one.id) {
    return html`<${Edit} title=${say(`owners.edit_${kinds}`)} path=${`${path}/{id}`} one=${one} load=${() => fromList(path, one)} schema=${schema} fields=${fields} sent=${sent} close=${close} saved=${done} />`;
  }
  const save = async (/** @type {any} */ typed) => {
    await api.post(path, { body: sent(typed) });
    tell(say("saved"));
    close();
    done();
  };
  return html`<${Dialog} title=${say(`owners.new_${kinds}`)} close=${close}>
    <${Form} schema=${schema} value=${fields(one)} save=${save} word=${say(`owners.make_${kinds}`)} cancel=${close} />
  <//>`;
}
