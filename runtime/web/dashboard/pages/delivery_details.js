// The request and response of a delivery's attempts.
import { api } from "../api.js";
import { html, useState } from "../lib.js";
import { Dialog } from "../parts/dialog.js";
import { Table } from "../parts/list.js";
import { useData } from "../parts/requests.js";
import { Loading, Problem } from "../parts/states.js";
import { When } from "../parts/values.js";
import { can } from "../session.js";
import { number, say } from "../words.js";

const TRIED = [
  { title: say("player.when"), narrow: true, show: (/** @type {any} */ one) => html`<${When} at=${one.tried_at} />` },
  { title: say("integrations.took"), number: true, show: (/** @type {any} */ one) => `${number(one.duration_ms)} ms` },
  { title: say("deliveries.wrong"), show: (/** @type {any} */ one) => one.error || say("none") },
  { title: say("integrations.answer"), show: (/** @type {any} */ one) => (one.answer ? html`<pre class="body" tabindex="0">${one.answer}</pre>` : say("none")) },
];

/** Channels without a request. */
const SILENT = ["none", "voucher_code", "manual"];

/** A button for a delivery's attempts, after the first one. @param {{task: any}} props */
export function DeliveryDetails({ task }) {
  const [open, setOpen] = useState(false);
  return task.attempts > 0 && !SILENT.includes(task.channel) && can("GetReward") && html`<button type="button" class="secondary outline small" aria-label=${say("deliveries.look_at", { id: task.id })} onClick=${() => setOpen(true)}>${say("deliveries.look")}</button>
    ${open && html`<${Shown} task=${task} close=${() => setOpen(false)} />`}`;
}

/** @param {{task: any, close: () => void}} props */
function Shown({ task, close }) {
  const { data, error, again } = useData((signal) => api.get("/admin/rewards/{id}", { path: { id: task.reward_id }, signal }), [task.reward_id]);
  const reply = data?.delivery;
  return html`<${Dialog} title=${say("deliveries.last")} close=${close} wide>
    ${error ? html`<${Problem} error=${error} again=${again} />` : !reply ? html`<${Loading} />` : html`
      <dl class="details">
        <dt>${say("player.when")}</dt><dd><${When} at=${reply.tried_at} /></dd>
        <dt>${say("integrations.took")}</dt><dd>${number(reply.duration_ms)} ms</dd>
        <dt>${say("deliveries.cause")}</dt><dd class="said">${reply.task.last_error || say("none")}</dd>
      </dl>
      <b>${say("integrations.request")}</b><pre class="body" tabindex="0">${reply.request || say("none")}</pre>
      <p class="quiet">${say("deliveries.made_anew")}</p>
      <b>${say("integrations.answer")}</b><pre class="body" tabindex="0">${reply.answer || say("none")}</pre>
      ${reply.earlier.length > 0 && html`<p><b>${say("deliveries.earlier")}</b></p><${Table} caption=${say("deliveries.earlier")} columns=${TRIED} items=${[...reply.earlier].reverse()} />`}`}
    <footer><button type="button" class="secondary outline" onClick=${close}>${say("close")}</button></footer>
  <//>`;
}
