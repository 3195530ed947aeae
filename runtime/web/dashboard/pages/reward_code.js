// Shows a delivered voucher code to staff who manage rewards, or sends it to the player again. The audit log records who
// did it and why.
import { api } from "../api.js";
import { html, useState } from "../lib.js";
import { Dialog } from "../parts/dialog.js";
import { Copy } from "../parts/embed.js";
import { Form } from "../parts/form.js";
import { tell } from "../parts/toast.js";
import { can } from "../session.js";
import { say } from "../words.js";

/** A form for the reason. @param {string} help */
const reasoned = (help) => ({ type: "object", required: ["reason"], properties: { reason: { type: "string", minLength: 1, maxLength: 1000, help } } });

/** The actions on a delivered reward's code, if it has one. @param {{reward: any}} props */
export function Code({ reward }) {
  const [open, setOpen] = useState("");
  const close = () => setOpen("");
  const button = (/** @type {string} */ name, /** @type {string} */ word) => html`<button type="button" class="secondary outline small" onClick=${() => setOpen(name)}>${say(word)}</button>`;
  return reward.channel === "voucher_code" && reward.status === "REWARD_STATUS_FULFILLED" && html`
    ${can("RevealCode") && button("show", "rewards.show_code")}
    ${can("SendCode") && button("send", "rewards.send_code")}
    ${open === "show" && html`<${Shown} reward=${reward} close=${close} />`}
    ${open === "send" && html`<${Sent} reward=${reward} close=${close} />`}`;
}

/** @param {{reward: any, close: () => void}} props */
function Shown({ reward, close }) {
  const [code, setCode] = useState("");
  const save = async (/** @type {any} */ body) => setCode((await api.post("/admin/rewards/{id}/reveal-code", { path: { id: reward.id }, body })).code);
  return html`<${Dialog} title=${say("rewards.code_of", { name: reward.name })} close=${close}>
    ${code ? html`<p><input readonly aria-label=${say("rewards.code_title")} value=${code} /> <${Copy} text=${code} what=${say("rewards.code_title")} /></p>
        <footer><button type="button" class="secondary outline" onClick=${close}>${say("close")}</button></footer>`
      : html`<${Form} schema=${reasoned(say("rewards.code_noted"))} value=${{ reason: "" }} save=${save} word=${say("rewards.show_code")} cancel=${close} />`}
  <//>`;
}

/** @param {{reward: any, close: () => void}} props */
function Sent({ reward, close }) {
  const save = async (/** @type {any} */ body) => {
    const { sent_to } = await api.post("/admin/rewards/{id}/send-code", { path: { id: reward.id }, body });
    tell(say("rewards.code_sent", { contact: sent_to }));
    close();
  };
  return html`<${Dialog} title=${say("rewards.send_code_of", { name: reward.name })} close=${close}>
    <${Form} schema=${reasoned(say("rewards.send_code_noted"))} value=${{ reason: "" }} save=${save} word=${say("rewards.send_code")} cancel=${close} />
  <//>`;
}
