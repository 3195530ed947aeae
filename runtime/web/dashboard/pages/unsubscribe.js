// A dialog that unsubscribes an address from the campaigns' e-mails.
import { api } from "../api.js";
import { html } from "../lib.js";
import { Dialog } from "../parts/dialog.js";
import { Form } from "../parts/form.js";
import { tell } from "../parts/toast.js";
import { label, say } from "../words.js";
import { kindOf } from "./campaign_messages.js";

const EVERY = "every_kind";
const SCHEMA = {
  type: "object",
  required: ["address"],
  properties: {
    address: { type: "string", minLength: 3, maxLength: 254 },
    kind: { type: "string", enum: [EVERY, "won", "code_delivered", "reminder", "draw_result"] },
    resume: { type: "boolean", help: say("unsubscribe.help_resume") },
  },
};

/** @param {{close: () => void}} props */
export function Unsubscribe({ close }) {
  const save = async (/** @type {any} */ { kind, ...rest }) => {
    const { address, kinds } = await api.post("/admin/messages/stops", { body: { ...rest, ...(kind === EVERY ? {} : { kind }) } });
    const names = kinds.map((/** @type {string} */ one) => label(kindOf({ kind: one })));
    tell(names.length ? say("unsubscribe.done", { address, kinds: names.join(", ") }) : say("unsubscribe.none", { address }));
    close();
  };
  return html`<${Dialog} title=${say("unsubscribe.title")} close=${close}>
    <p>${say("unsubscribe.text")}</p>
    <${Form} schema=${SCHEMA} value=${{ address: "", kind: EVERY, resume: false }} save=${save} word=${say("save")} cancel=${close} />
  <//>`;
}
