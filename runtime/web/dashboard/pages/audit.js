// The audit log, with values before and after.
import { api } from "../api.js";
import { html, useState } from "../lib.js";
import { changed, Compared } from "../parts/compared.js";
import { Dialog } from "../parts/dialog.js";
import { Head } from "../parts/layout.js";
import { List } from "../parts/list.js";
import { Id, When } from "../parts/values.js";
import { dayBegins, whenNamed } from "../times.js";
import { useTitle } from "../title.js";
import { has, label, say } from "../words.js";

const KINDS = ["campaign", "game", "prize", "reward", "player", "quest", "leaderboard", "draw", "pack", "asset", "message", "integration", "merchant", "tenant", "staff", "token", "task", "violation", "approval", "export"];

const kindOf = (/** @type {string} */ kind) => (has(`audit.kind_${kind}`) ? say(`audit.kind_${kind}`) : label(kind));

/** The columns of the log. @param {(entry: any) => void} open shows an entry's details */
export const entryColumns = (open) => [
  { title: say("audit.when"), narrow: true, show: (/** @type {any} */ one) => html`<${When} at=${one.created_at} />` },
  { title: say("audit.actor"), show: (/** @type {any} */ one) => one.actor || say("none") },
  { title: say("audit.action"), show: (/** @type {any} */ one) => html`<button type="button" class="link" onClick=${() => open(one)}>${one.action}</button>` },
  { title: say("audit.subject"), show: (/** @type {any} */ one) => html`<span class="wrapped">${one.subject_id}</span>` },
  { title: say("audit.changed"), show: (/** @type {any} */ one) => changed(one).map(({ name }) => label(name)).slice(0, 4).join(", ") },
];

export default function Audit() {
  const [shown, setShown] = useState(/** @type {any} */ (null));
  useTitle(say("audit.title"));
  const filters = [
    { name: "subject_type", label: say("audit.kind"), options: KINDS.map((value) => ({ value, text: kindOf(value) })) },
    { name: "subject_id", label: say("audit.subject_id") },
    { name: "player_id", label: say("audit.player_id") },
    { name: "actor", label: say("audit.actor") },
    { name: "action", label: say("audit.action_begins") },
    { name: "since", label: say("audit.since"), day: true },
    { name: "until", label: say("audit.until"), day: true },
    { name: "q", label: say("audit.words") },
  ];
  return html`<${Head} title=${say("audit.title")} />
    <${List} caption=${say("audit.title")} columns=${entryColumns(setShown)} filters=${filters} empty=${{ title: say("audit.none"), text: say("audit.none_text") }}
      load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get("/admin/audit", { query: { ...query, since: dayBegins(query.since), until: dayBegins(query.until, 1) }, signal })} />
    ${shown && html`<${Entry} entry=${shown} close=${() => setShown(null)} />`}`;
}

/** @param {{entry: any, close: () => void}} props */
export function Entry({ entry, close }) {
  const rows = changed(entry);
  return html`<${Dialog} title=${entry.action} close=${close} wide>
    <dl class="details">
      <dt>${say("audit.when")}</dt><dd>${whenNamed(entry.created_at)}</dd>
      <dt>${say("audit.actor")}</dt><dd>${entry.actor || say("none")}</dd>
      <dt>${say("audit.subject")}</dt><dd><${Id} value=${entry.subject_id} /></dd>
      <dt>${say("audit.trace")}</dt><dd><${Id} value=${entry.trace_id} /></dd>
    </dl>
    <${Compared} rows=${rows} />
  <//>`;
}
