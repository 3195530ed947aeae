// A new prize.
import { api } from "../api.js";
import { html, useState } from "../lib.js";
import { differing } from "../parts/compared.js";
import { Form } from "../parts/form.js";
import { Head } from "../parts/layout.js";
import { showSecret } from "../parts/secret.js";
import { tell } from "../parts/toast.js";
import { useUnsaved } from "../parts/unsaved.js";
import { address, go } from "../router.js";
import { useTitle } from "../title.js";
import { say } from "../words.js";
import { addressOf, NEW, schemaOf, sent, widget } from "./definition.js";

/** @param {{query: Record<string, string>}} props a campaign may be named in the address */
export default function NewPrize({ query }) {
  const [value, setValue] = useState(/** @type {any} */ ({ ...NEW, campaign_id: query.campaign_id ?? "" }));
  const [begun] = useState(value);
  useUnsaved(differing(sent(begun), sent(value)).length > 0);
  useTitle(say("prizes.new"));
  const save = async (/** @type {any} */ typed) => {
    const made = await api.post("/admin/prizes", { body: sent(typed) });
    tell(say("prizes.made", { name: made.name }));
    await showSecret(made.fulfillment.config, made.name);
    go(addressOf(made.prize_id));
  };
  return html`<${Head} title=${say("prizes.new")} back=${{ href: address("/prizes"), text: say("prizes.title") }} />
    <div class="sheet"><${Form} schema=${schemaOf(value)} value=${value} save=${save} typed=${setValue} zone=${value.release.timezone || "UTC"} widget=${widget} word=${say("prizes.make")} /></div>`;
}
