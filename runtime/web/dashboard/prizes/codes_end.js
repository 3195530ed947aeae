// The dialog that changes the expiry of codes.
import { api, newKey } from "../api.js";
import { html, useState } from "../lib.js";
import { Dialog } from "../parts/dialog.js";
import { Form } from "../parts/form.js";
import { tell } from "../parts/toast.js";
import { say } from "../words.js";

/**
 * @param {object} props
 * @param {string} props.id the prize's
 * @param {string[]} props.chosen the codes' ids that are chosen in the list
 * @param {Record<string, number>} props.totals how many of each state
 * @param {() => void} props.done
 * @param {() => void} props.close
 */
export function Ending({ id, chosen, totals, done, close }) {
  const [key] = useState(newKey);
  const counts = /** @type {Record<string, number>} */ ({ chosen: chosen.length, free: totals.free ?? 0, expired: totals.expired ?? 0 });
  const which = Object.keys(counts).filter((name) => counts[name]);
  const [value, setValue] = useState(/** @type {any} */ ({ which: which[0] }));
  const schema = {
    type: "object",
    properties: {
      which: { type: "string", enum: which, counts, label: say("codes.end_which") },
      expires_at: { type: "integer", format: "unix-time", label: say("codes.until"), description: say("codes.end_help") },
      reason: { type: "string", maxLength: 1000, label: say("stock.why") },
    },
  };
  const save = async (/** @type {any} */ { which: of, expires_at, reason = "" }) => {
    const those = of === "chosen" ? { ids: chosen } : { [`all_${of}`]: true };
    const body = { ...those, ...(expires_at ? { expires_at } : { never: true }), reason };
    const { changed, kept } = await api.post("/admin/prizes/{id}/codes/expiry", { path: { id }, body, key });
    tell([say("codes.ended", { count: changed }), kept.length ? say("codes.kept", { count: kept.length }) : ""].join(" "));
    close();
    done();
  };
  return html`<${Dialog} title=${say("codes.end_title")} close=${close}>
    <p>${say("codes.end_text")}</p>
    <${Form} schema=${schema} value=${value} save=${save} typed=${setValue} widget=${(/** @type {string} */ name) => (name === "which" ? Which : null)}
      word=${say("codes.end_some", { count: counts[value.which] })} cancel=${close} />
  <//>`;
}

/** @param {any} props */
const Which = ({ schema, value, change, named }) => html`<select ...${named} value=${value} onChange=${(/** @type {any} */ event) => change(event.target.value)}>
  ${schema.enum.map((/** @type {string} */ name) => html`<option value=${name}>${say(`codes.end_${name}`, { count: schema.counts[name] })}</option>`)}
</select>`;
