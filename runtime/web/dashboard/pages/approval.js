// One approval: its change, before and after, and the actions approve, reject and withdraw.
import { api } from "../api.js";
import { html, useState } from "../lib.js";
import { changed, Compared } from "../parts/compared.js";
import { Dialog } from "../parts/dialog.js";
import { Form } from "../parts/form.js";
import { Head, Section } from "../parts/layout.js";
import { Table } from "../parts/list.js";
import { useData } from "../parts/requests.js";
import { Loading, Problem } from "../parts/states.js";
import { tell } from "../parts/toast.js";
import { Id, Status, When } from "../parts/values.js";
import { address } from "../router.js";
import { can, me } from "../session.js";
import { whenNamed } from "../times.js";
import { useTitle } from "../title.js";
import { label, say, sentence } from "../words.js";
import { summary } from "./approvals.js";

/** A game's fields are compared; rewards have a table. @param {any} it */
const flat = (it) => ({ ...it, ...it.definition, definition: null, rewards: null, prizes: null });

/** @param {{id: string}} props */
export default function Approval({ id }) {
  const { data: one, error, again, set } = useData((signal) => api.get("/admin/approvals/{id}", { path: { id }, signal }), [id]);
  const [asked, setAsked] = useState("");
  useTitle(one ? summary(one) : say("approvals.title"));
  if (!one) {
    return error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} />`;
  }
  const own = one.requested_by === me.value?.subject;
  const waits = one.status === "APPROVAL_STATUS_WAITING";
  const decides = !own && can(one.operation) && can("ApproveApproval");
  const acts = [
    // An approved change that failed can be retried or rejected.
    ...(decides && (waits || one.status === "APPROVAL_STATUS_APPROVED") ? ["approve", "reject"] : []),
    ...(own && waits ? ["withdraw"] : []),
  ];
  const rewards = one.after.rewards ?? [];
  const results = Object.fromEntries((one.outcome.results ?? []).map((/** @type {any} */ result) => [result.id, result]));
  const before = Object.fromEntries((one.before.rewards ?? []).map((/** @type {any} */ reward) => [reward.id, reward]));
  const prizes = one.after.prizes ?? [];
  const worth = [
    { title: say("rewards.prize"), show: (/** @type {any} */ row) => html`<span class="name">${row.name}</span>` },
    { title: label("type"), narrow: true, show: (/** @type {any} */ row) => label(row.type) },
    { title: label("value"), narrow: true, show: (/** @type {any} */ row) => `${row.value} ${row.currency}`.trim() },
  ];
  const columns = [
    { title: say("rewards.prize"), show: (/** @type {any} */ row) => html`<span class="name">${row.name}</span>` },
    { title: say("rewards.player"), show: (/** @type {any} */ row) => html`<span class="long">${row.player_id}</span>` },
    { title: say("audit.before"), narrow: true, show: (/** @type {any} */ row) => html`<${Status} value=${`REWARD_STATUS_${before[row.id].status.toUpperCase()}`} />` },
    { title: say("audit.after"), narrow: true, show: (/** @type {any} */ row) => (results[row.id]?.ok === false ? html`<small class="bad">${sentence(results[row.id].message)}</small>` : html`<${Status} value=${`REWARD_STATUS_${row.status.toUpperCase()}`} />`) },
  ];
  return html`<${Head} title=${summary(one)} status=${one.status} back=${{ href: address("/approvals"), text: say("approvals.title") }}>
      ${acts.map((act) => html`<button type="button" key=${act} class=${act === "approve" ? "" : "danger outline"} onClick=${() => setAsked(act)}>${say(`approvals.${act}`)}</button>`)}
    <//>
    ${waits && !acts.length && html`<p class="quiet">${say("approvals.not_yours")}</p>`}
    ${own && waits && html`<p class="quiet">${say("approvals.own")}</p>`}
    <dl class="details">
      <dt>${say("approvals.requested_by")}</dt><dd>${one.requested_by}</dd>
      <dt>${say("approvals.requested_at")}</dt><dd>${whenNamed(one.requested_at)}</dd>
      ${waits && html`<dt>${say("approvals.expires")}</dt><dd><${When} at=${one.expires_at} /></dd>`}
      ${one.subject_id && html`<dt>${say("audit.subject")}</dt><dd><${Id} value=${one.subject_id} /></dd>`}
      ${one.decided_by && html`<dt>${say("approvals.decided_by")}</dt><dd>${one.decided_by}, ${whenNamed(one.decided_at)}</dd>`}
      ${one.reason && html`<dt>${say("approvals.reason")}</dt><dd>${one.reason}</dd>`}
      ${one.outcome.message && html`<dt>${say("approvals.failure")}</dt><dd>${sentence(one.outcome.message)}</dd>`}
    </dl>
    <${Section} title=${say("approvals.would")}>
      ${rewards.length > 0 && html`<${Table} caption=${say("approvals.would")} columns=${columns} items=${rewards} />`}
      <${Compared} rows=${changed({ before: flat(one.before), after: flat(one.after) }).filter(({ name }) => name !== "revision")} />
      ${prizes.length > 0 && html`<h3>${say("approvals.prizes")}</h3><${Table} caption=${say("approvals.prizes")} columns=${worth} items=${prizes} />`}
    <//>
    ${asked && html`<${Decide} one=${one} act=${asked} close=${() => setAsked("")} done=${set} />`}`;
}

/** @param {{one: any, act: string, close: () => void, done: (now: any) => void}} props */
function Decide({ one, act, close, done }) {
  const schema = { type: "object", properties: { reason: { type: "string", format: "lines", maxLength: 1000 } } };
  const save = async (/** @type {any} */ body) => {
    done(await api.post(`/admin/approvals/{id}/${act}`, { path: { id: one.id }, body }));
    tell(say(`approvals.${act}_done`));
    close();
  };
  return html`<${Dialog} title=${say(`approvals.${act}_title`)} close=${close}>
    <p>${say(`approvals.${act}_text`, { what: summary(one), who: one.requested_by })}</p>
    <${Form} schema=${schema} value=${{ reason: "" }} save=${save} word=${say(`approvals.${act}`)} cancel=${close} />
  <//>`;
}
