// Who changed what: the audit log, with what was before and after side by side.
import { api } from "../api.js";
import { html, useState } from "../lib.js";
import { Head, Id, When } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { List } from "../parts/list.js";
import { useTitle } from "../shell.js";
import { whenNamed } from "../times.js";
import { has, label, say } from "../words.js";

const KINDS = ["campaign", "game", "prize", "reward", "wallet", "player", "quest", "leaderboard", "integration", "merchant", "tenant", "staff", "task", "violation"];

const kindOf = (/** @type {string} */ kind) => (has(`audit.kind_${kind}`) ? say(`audit.kind_${kind}`) : label(kind));

export default function Audit() {
  const [shown, setShown] = useState(/** @type {any} */ (null));
  useTitle(say("audit.title"));
  const columns = [
    { title: say("audit.when"), show: (/** @type {any} */ one) => html`<${When} at=${one.created_at} />` },
    { title: say("audit.actor"), show: (/** @type {any} */ one) => one.actor || say("none") },
    { title: say("audit.action"), show: (/** @type {any} */ one) => html`<button type="button" class="link" onClick=${() => setShown(one)}>${one.action}</button>` },
    { title: say("audit.subject"), show: (/** @type {any} */ one) => html`<span class="wrapped">${one.subject_id}</span>` },
    { title: say("audit.changed"), show: (/** @type {any} */ one) => changed(one).map(({ name }) => label(name)).slice(0, 4).join(", ") },
  ];
  const filters = [
    { name: "subject_type", label: say("audit.kind"), options: KINDS.map((value) => ({ value, text: kindOf(value) })) },
    { name: "subject_id", label: say("audit.subject_id") },
    { name: "actor", label: say("audit.actor") },
  ];
  return html`<${Head} title=${say("audit.title")} />
    <${List} caption=${say("audit.title")} columns=${columns} filters=${filters} empty=${{ title: say("audit.none"), text: say("audit.none_text") }}
      load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get("/admin/audit", { query, signal })} />
    ${shown && html`<${Entry} entry=${shown} close=${() => setShown(null)} />`}`;
}

/**
 * What is another after it, by name.
 * @param {{before: any, after: any}} entry
 * @returns {{name: string, before: any, after: any}[]}
 */
function changed({ before, after }) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  return names
    .map((name) => ({ name, before: before?.[name], after: after?.[name] }))
    .filter((row) => row.name !== "updated_at" && JSON.stringify(row.before) !== JSON.stringify(row.after));
}

/** Fields that are times, as the API names them. */
const TIME = /_(at|date|until)$/;

/** @param {{name: string, value: any}} props */
function Value({ name, value }) {
  return typeof value === "number" && TIME.test(name) ? whenNamed(value) : value === undefined || value === null ? html`<span class="quiet">${say("audit.nothing")}</span>`
    : typeof value === "object" ? html`<pre>${JSON.stringify(value, null, 2)}</pre>` : String(value);
}

/** @param {{entry: any, close: () => void}} props */
function Entry({ entry, close }) {
  const rows = changed(entry);
  return html`<${Dialog} title=${entry.action} close=${close} wide>
    <dl class="details">
      <dt>${say("audit.when")}</dt><dd>${whenNamed(entry.created_at)}</dd>
      <dt>${say("audit.actor")}</dt><dd>${entry.actor || say("none")}</dd>
      <dt>${say("audit.subject")}</dt><dd><${Id} value=${entry.subject_id} /></dd>
      <dt>${say("audit.trace")}</dt><dd><${Id} value=${entry.trace_id} /></dd>
    </dl>
    ${rows.length > 0 && html`<div class="table" role="region" aria-label=${say("audit.changed")} tabindex="0"><table class="compared">
      <thead><tr><th scope="col">${say("audit.field")}</th><th scope="col">${say("audit.before")}</th><th scope="col">${say("audit.after")}</th></tr></thead>
      <tbody>${rows.map((row) => html`<tr key=${row.name}><th scope="row">${label(row.name)}</th><td data-title=${say("audit.before")}><${Value} name=${row.name} value=${row.before} /></td><td data-title=${say("audit.after")}><${Value} name=${row.name} value=${row.after} /></td></tr>`)}</tbody>
    </table></div>`}
  <//>`;
}
