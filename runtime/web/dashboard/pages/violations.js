// Discrepancies that the auditor found. Staff close each one with a reason.
import { api } from "../api.js";
import { html, useState } from "../lib.js";
import { Dialog } from "../parts/dialog.js";
import { Form } from "../parts/form.js";
import { Head } from "../parts/layout.js";
import { List } from "../parts/list.js";
import { tell } from "../parts/toast.js";
import { Id, Status, When } from "../parts/values.js";
import { address } from "../router.js";
import { can } from "../session.js";
import { useTitle } from "../title.js";
import { say, state } from "../words.js";

/** The page of a discrepancy's subject by the prefix of its check. Players are for the tenant's own staff. */
const PAGES = /** @type {Record<string, string>} */ ({ player: "/players", prize: "/prizes", board: "/leaderboards", draw: "/draws" });
const REASON = { type: "string", minLength: 1, maxLength: 500 };

export default function Violations() {
  const [shown, setShown] = useState(/** @type {any} */ (null));
  const [changes, setChanges] = useState(0);
  useTitle(say("violations.title"));
  const columns = [
    { title: say("violations.since"), narrow: true, show: (/** @type {any} */ one) => html`<${When} at=${one.first_seen_at} />` },
    { title: say("violations.holds"), show: (/** @type {any} */ one) => html`<button type="button" class="link" onClick=${() => setShown(one)}>${one.holds || one.check}</button>` },
    { title: say("violations.of"), show: (/** @type {any} */ one) => html`<${Subject} one=${one} />` },
    { title: say("violations.expected"), show: (/** @type {any} */ one) => html`<span class="wrapped">${one.expected}</span>` },
    { title: say("violations.found"), show: (/** @type {any} */ one) => html`<span class="wrapped">${one.found}</span>` },
    { title: say("campaigns.status"), narrow: true, show: (/** @type {any} */ one) => html`<${Status} value=${one.status} />` },
  ];
  const filters = [
    { name: "status", label: say("campaigns.status"), options: ["open", "closed"].map((value) => ({ value, text: state(`VIOLATION_STATUS_${value.toUpperCase()}`) })) },
    { name: "check", label: say("violations.check") },
    { name: "subject_id", label: say("violations.subject_id") },
  ];
  return html`<${Head} title=${say("violations.title")} />
    <${List} caption=${say("violations.title")} columns=${columns} filters=${filters} about=${changes}
      empty=${{ title: say("violations.none"), text: say("violations.none_text") }}
      load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get("/admin/violations", { query, signal })} />
    ${shown && html`<${Shown} one=${shown} close=${() => setShown(null)} done=${() => setChanges((count) => count + 1)} />`}`;
}

/** The subject, with a link. @param {{one: any}} props */
function Subject({ one }) {
  const path = PAGES[one.check.split("_")[0]];
  return path && (path !== "/players" || can("InspectPlayer"))
    ? html`<a href=${address(`${path}/${encodeURIComponent(one.subject_id)}`)}>${one.subject_id}</a>`
    : html`<span class="wrapped">${one.subject_id}</span>`;
}

/** @param {{one: any, close: () => void, done: () => void}} props */
function Shown({ one, close, done }) {
  const isOpen = one.status === "VIOLATION_STATUS_OPEN";
  const save = async (/** @type {any} */ body) => {
    await api.post("/admin/violations/{id}/close", { path: { id: one.id }, body });
    tell(say("violations.closed"));
    close();
    done();
  };
  return html`<${Dialog} title=${one.holds || one.check} close=${close} wide>
    <dl class="details">
      <dt>${say("violations.check")}</dt><dd><code>${one.check}</code></dd>
      <dt>${say("violations.of")}</dt><dd><${Subject} one=${one} /></dd>
      ${one.row_id && html`<dt>${say("violations.row")}</dt><dd><${Id} value=${one.row_id} /></dd>`}
      <dt>${say("violations.expected")}</dt><dd class="said">${one.expected}</dd>
      <dt>${say("violations.found")}</dt><dd class="said">${one.found}</dd>
      <dt>${say("violations.since")}</dt><dd><${When} at=${one.first_seen_at} /></dd>
      <dt>${say("violations.last")}</dt><dd><${When} at=${one.last_seen_at} /></dd>
      ${one.gone_at > 0 && html`<dt>${say("violations.gone")}</dt><dd><${When} at=${one.gone_at} /></dd>`}
      ${!isOpen && html`<dt>${say("violations.closed_by")}</dt><dd>${one.closed_by}, <${When} at=${one.closed_at} /></dd>
        <dt>${say("field.reason")}</dt><dd class="said">${one.reason}</dd>`}
    </dl>
    ${isOpen && can("CloseViolation")
      ? html`<p>${say("violations.close_text")}</p>
        <${Form} schema=${{ type: "object", required: ["reason"], properties: { reason: REASON } }} value=${{ reason: "" }} save=${save} word=${say("violations.close")} cancel=${close} />`
      : html`<footer><button type="button" class="secondary outline" onClick=${close}>${say("close")}</button></footer>`}
  <//>`;
}
