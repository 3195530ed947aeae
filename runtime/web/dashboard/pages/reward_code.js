// The code of a reward that was delivered, shown again to who may move rewards. The audit log keeps who saw it, and why.
import { api } from "../api.js";
import { html, useState } from "../lib.js";
import { Dialog } from "../parts/dialog.js";
import { Copy } from "../parts/embed.js";
import { Form } from "../parts/form.js";
import { can } from "../session.js";
import { say } from "../words.js";

const SCHEMA = { type: "object", required: ["reason"], properties: { reason: { type: "string", minLength: 1, maxLength: 1000, help: say("rewards.code_noted") } } };

/** The way to a delivered reward's code, where it has one. @param {{reward: any}} props */
export function Code({ reward }) {
  const [open, setOpen] = useState(false);
  const coded = reward.channel === "voucher_code" && reward.status === "REWARD_STATUS_FULFILLED";
  return coded && can("RevealCode") && html`<button type="button" class="secondary outline small" onClick=${() => setOpen(true)}>${say("rewards.show_code")}</button>
    ${open && html`<${Shown} reward=${reward} close=${() => setOpen(false)} />`}`;
}

/** @param {{reward: any, close: () => void}} props */
function Shown({ reward, close }) {
  const [code, setCode] = useState("");
  const save = async (/** @type {any} */ body) => setCode((await api.post("/admin/rewards/{id}/reveal-code", { path: { id: reward.id }, body })).code);
  return html`<${Dialog} title=${say("rewards.code_of", { name: reward.name })} close=${close}>
    ${code ? html`<p><input readonly aria-label=${say("rewards.code_title")} value=${code} /> <${Copy} text=${code} what=${say("rewards.code_title")} /></p>
        <footer><button type="button" class="secondary outline" onClick=${close}>${say("close")}</button></footer>`
      : html`<${Form} schema=${SCHEMA} value=${{ reason: "" }} save=${save} word=${say("rewards.show_code")} cancel=${close} />`}
  <//>`;
}
