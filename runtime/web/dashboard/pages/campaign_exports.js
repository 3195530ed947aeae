// Exports of a campaign's participants and winners, all or those who agree to a consent.
import { html, useState } from "../lib.js";
import { Act } from "../parts/button.js";
import { useExport } from "../parts/download.js";
import { Section } from "../parts/layout.js";
import { say } from "../words.js";

/** @param {{campaign: any}} props */
export function Exports({ campaign: { id, entry } }) {
  const [consent, setConsent] = useState("");
  const { progress, formats, take } = useExport();
  const button = (/** @type {string} */ kind) => html`<${Act} class="secondary outline small" act=${() => take(kind, { campaign_id: id, consent })}>${say(`export.of_${kind}`)}<//>`;
  return html`<${Section} title=${say("export.people")} note=${say("export.people_note")}>
    <form class="filters" aria-label=${say("list.filter")} onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      ${entry?.consents.length > 0 && html`<select aria-label=${say("export.consent")} value=${consent} onChange=${(/** @type {any} */ event) => setConsent(event.target.value)}>
        <option value="">${say("export.everyone")}</option>
        ${entry.consents.map((/** @type {any} */ one) => html`<option value=${one.id}>${say("export.agrees", { consent: one.id })}</option>`)}
      </select>`}
      ${formats}
    </form>
    <p class="acts">${entry && button("participants")} ${button("winners")}</p>
    <p class="quiet" role="status">${progress}</p>
  <//>`;
}
