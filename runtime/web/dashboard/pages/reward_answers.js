// The claim form that a winner submitted.
import { api } from "../api.js";
import { html, useState } from "../lib.js";
import { Dialog } from "../parts/dialog.js";
import { useData } from "../parts/requests.js";
import { Loading, Problem } from "../parts/states.js";
import { can } from "../session.js";
import { say } from "../words.js";

/** A button for a reward's claim form, if submitted. @param {{reward: any}} props */
export function Answers({ reward }) {
  const [open, setOpen] = useState(false);
  return reward.answered && can("GetReward") && html`<button type="button" class="secondary outline small" aria-label=${say("rewards.answers_of", { name: reward.name })} onClick=${() => setOpen(true)}>${say("rewards.answers")}</button>
    ${open && html`<${Shown} reward=${reward} close=${() => setOpen(false)} />`}`;
}

/** @param {{reward: any, close: () => void}} props */
function Shown({ reward, close }) {
  const { data, error, again } = useData((signal) => api.get("/admin/rewards/{id}", { path: { id: reward.id }, signal }), [reward.id]);
  return html`<${Dialog} title=${say("rewards.answers_of", { name: reward.name })} close=${close}>
    ${error ? html`<${Problem} error=${error} again=${again} />` : !data ? html`<${Loading} />` : html`
      <dl class="details">${data.answers.map((/** @type {any} */ one) => html`<dt>${one.label}</dt><dd class="said">${one.value}</dd>`)}</dl>
      ${!can("FulfillReward") && html`<p>${say("rewards.answers_hidden")}</p>`}`}
    <footer><button type="button" class="secondary outline" onClick=${close}>${say("close")}</button></footer>
  <//>`;
}
