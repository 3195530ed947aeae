// The list of approvals.
import { api } from "../api.js";
import { html } from "../lib.js";
import { Head } from "../parts/layout.js";
import { List } from "../parts/list.js";
import { Status, When } from "../parts/values.js";
import { address } from "../router.js";
import { useTitle } from "../title.js";
import { say, state } from "../words.js";

const STATUSES = ["WAITING", "APPROVED", "DONE", "REJECTED", "WITHDRAWN", "EXPIRED", "FAILED"];

/** A one-line summary of the change. @param {any} one */
export function summary({ operation, subject_id, after }) {
  return say(`approvals.${operation}`, {
    subject: subject_id, amount: after?.amount > 0 ? `+${after.amount}` : after?.amount, currency: after?.currency, name: after?.definition?.name ?? after?.name, count: after?.rewards?.length,
  });
}

/** @param {any} one */
export const approvalAddress = (one) => address(`/approvals/${encodeURIComponent(one.id)}`);

export default function Approvals() {
  useTitle(say("approvals.title"));
  const columns = [
    { title: say("approvals.what"), show: (/** @type {any} */ one) => html`<a class="name" href=${approvalAddress(one)}>${summary(one)}</a>` },
    { title: say("approvals.requested_by"), show: (/** @type {any} */ one) => one.requested_by },
    { title: say("approvals.requested_at"), narrow: true, show: (/** @type {any} */ one) => html`<${When} at=${one.requested_at} />` },
    { title: say("campaigns.status"), narrow: true, show: (/** @type {any} */ one) => html`<${Status} value=${one.status} />` },
  ];
  const filters = [{ name: "status", label: say("campaigns.status"), options: STATUSES.map((value) => ({ value: value.toLowerCase(), text: state(value) })) }];
  return html`<${Head} title=${say("approvals.title")} />
    <${List} caption=${say("approvals.title")} columns=${columns} filters=${filters} empty=${{ title: say("approvals.none"), text: say("approvals.none_text") }}
      load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get("/admin/approvals", { query, signal })} />`;
}
