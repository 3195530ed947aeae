// People and tokens: API tokens, and recent staff sign-ins with their sessions.
import { api } from "../api.js";
import { html, useState } from "../lib.js";
import { Act } from "../parts/button.js";
import { Dialog } from "../parts/dialog.js";
import { Copy } from "../parts/embed.js";
import { Form } from "../parts/form.js";
import { Head, Section } from "../parts/layout.js";
import { List } from "../parts/list.js";
import { PagedTable } from "../parts/paged_table.js";
import { Status, When } from "../parts/values.js";
import { can, me } from "../session.js";
import { whenNamed } from "../times.js";
import { useTitle } from "../title.js";
import { label, say } from "../words.js";
import { ask } from "./owners.js";

const ROLES = ["admin", "designer", "reward_manager"];
const LIFE_SECONDS = 90 * 86_400;

const danger = true;
const now = () => Math.floor(Date.now() / 1000);

/** A token's status. @param {any} one */
const stateOf = ({ revoked_at, expires_at }) => (revoked_at ? "TOKEN_STATUS_REVOKED" : expires_at <= now() ? "TOKEN_STATUS_EXPIRED" : "TOKEN_STATUS_ACTIVE");

export default function People() {
  useTitle(say("people.title"));
  const [shown, setShown] = useState(/** @type {{making?: boolean, made?: any}} */ ({}));
  const [changes, setChanges] = useState(0);
  const close = () => setShown({});
  const changed = () => setChanges((count) => count + 1);
  const revoke = (/** @type {any} */ { id, name, last_used_at }) => ask(
    { danger, title: say("people.revoke_title"), text: last_used_at ? say("people.revoke_used", { when: whenNamed(last_used_at) }) : say("people.revoke_unused"), items: [`${name} (${id})`], word: say("people.revoke") },
    () => api.remove("/admin/tokens/{id}", { path: { id } }),
    say("people.revoked"),
  ).then(changed);
  const end = (/** @type {string} */ subject) => ask(
    { danger, title: say("people.end_title"), text: say("people.end_text"), items: [subject], word: say("people.end") },
    () => api.post("/admin/staff/revoke", { body: { subject } }),
    say("people.ended"),
  ).then(changed);
  const make = can("CreateToken") && html`<button type="button" onClick=${() => setShown({ making: true })}>${say("people.new")}</button>`;
  const columns = [
    { title: say("people.name"), show: (/** @type {any} */ one) => html`<span class="name">${one.name}</span> <code>${one.id}</code>` },
    { title: say("people.roles"), show: (/** @type {any} */ one) => [...one.roles.map(label), one.merchant_id].filter(Boolean).join(", ") },
    { title: say("people.made_by"), show: (/** @type {any} */ one) => one.made_by },
    { title: say("people.used"), narrow: true, show: (/** @type {any} */ one) => (one.last_used_at ? html`<${When} at=${one.last_used_at} />` : say("people.never")) },
    { title: say("people.ends"), narrow: true, show: (/** @type {any} */ one) => html`<${When} at=${one.expires_at} />` },
    { title: say("campaigns.status"), narrow: true, show: (/** @type {any} */ one) => html`<${Status} value=${stateOf(one)} />` },
    { title: say("list.acts"), narrow: true, acts: true, show: (/** @type {any} */ one) => can("DeleteToken") && stateOf(one) === "TOKEN_STATUS_ACTIVE" && html`<${Act} class="danger outline small" act=${() => revoke(one)}>${say("people.revoke")}<//>` },
  ];
  const staff = [
    { title: say("audit.when"), narrow: true, show: (/** @type {any} */ one) => html`<${When} at=${one.created_at} />` },
    { title: say("audit.actor"), show: (/** @type {any} */ one) => one.actor },
    { title: say("audit.action"), narrow: true, show: (/** @type {any} */ one) => html`<code>${one.action}</code>` },
    { title: say("people.address"), show: (/** @type {any} */ one) => one.after?.address },
    // Staff of a merchant cannot end sessions: the person may belong to the tenant.
    { title: say("list.acts"), narrow: true, acts: true, show: (/** @type {any} */ one) => can("RevokeStaff") && !me.value?.merchant_id && one.action === "staff.sign_in" && html`<${Act} class="danger outline small" act=${() => end(one.actor)}>${say("people.end")}<//>` },
  ];
  return html`<${Head} title=${say("people.title")}>${make}<//>
    <${Section} title=${say("people.tokens")}>
      <${List} caption=${say("people.tokens")} columns=${columns} about=${changes} filters=${[{ name: "q", label: say("people.name") }, { name: "made_by", label: say("people.maker") }]}
        load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get("/admin/tokens", { query, signal })}
        empty=${{ title: say("people.none"), text: say("people.none_text"), act: make }} />
    <//>
    ${can("ListAuditEntries") && html`<${Section} title=${say("people.staff")}>
      <${PagedTable} caption=${say("people.staff")} columns=${staff} empty=${say("people.nobody")} about=${changes}
        load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get("/admin/audit", { query: { ...query, subject_type: "staff" }, signal })} />
    <//>`}
    ${shown.making && html`<${Making} close=${close} done=${(/** @type {any} */ made) => { setShown({ made }); changed(); }} />`}
    ${shown.made && html`<${Made} made=${shown.made} close=${close} />`}`;
}

/** @param {{close: () => void, done: (made: any) => void}} props */
function Making({ close, done }) {
  const own = me.value?.roles ?? [];
  const roles = own.includes("admin") ? ROLES : ROLES.filter((role) => own.includes(role));
  const schema = {
    type: "object",
    required: ["name", "roles", "expires_at"],
    properties: {
      name: { type: "string", minLength: 1, maxLength: 100 },
      roles: { type: "array", items: { type: "string", enum: roles } },
      ...(me.value?.merchant_id ? {} : { merchant_id: { type: "string", maxLength: 128, help: say("help.merchant_id") } }),
      expires_at: { type: "integer", format: "unix-time" },
    },
  };
  const value = { name: "", roles: roles.slice(-1), expires_at: now() + LIFE_SECONDS };
  const save = async (/** @type {any} */ body) => done(await api.post("/admin/tokens", { body }));
  return html`<${Dialog} title=${say("people.new")} close=${close}>
    <${Form} schema=${schema} value=${value} save=${save} word=${say("people.make")} cancel=${close} />
  <//>`;
}

/** The token itself, shown once. @param {{made: any, close: () => void}} props */
function Made({ made, close }) {
  return html`<${Dialog} title=${say("people.made", { name: made.name })} close=${close}>
    <p>${say("people.once")}</p>
    <div class="row"><input class="code" readonly aria-label=${say("people.token")} value=${made.secret} onFocus=${(/** @type {any} */ event) => event.target.select()} /><${Copy} text=${made.secret} what=${say("people.token")} /></div>
    <footer><button type="button" class="secondary outline" onClick=${close}>${say("close")}</button></footer>
  <//>`;
}
