// Templates: nine complete campaigns, created as drafts.
import { api, newKey, Refused } from "../api.js";
import { fileAddress } from "../files.js";
import { html, useState } from "../lib.js";
import { Dialog } from "../parts/dialog.js";
import { Form } from "../parts/form.js";
import { Head } from "../parts/layout.js";
import { useData } from "../parts/requests.js";
import { Loading, Problem } from "../parts/states.js";
import { tell } from "../parts/toast.js";
import { address, go } from "../router.js";
import { useTitle } from "../title.js";
import { say } from "../words.js";
import { addressOf, CAMPAIGN } from "./campaigns.js";

const SECTIONS = ["prizes", "games", "quests", "leaderboards"];

export default function Gallery() {
  useTitle(say("gallery.title"));
  const { data, error, again } = useData((signal) => api.get("/gallery.json", { signal }), []);
  const [chosen, setChosen] = useState(/** @type {any} */ (null));
  if (!data) {
    return error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} />`;
  }
  return html`<${Head} title=${say("gallery.title")} back=${{ href: address("/campaigns"), text: say("campaigns.title") }} />
    <p class="under">${say("gallery.text")}</p>
    <ul class="gallery">${data.campaigns.map((/** @type {any} */ one) => html`<li key=${one.name}>
      <img src=${fileAddress(`gallery/${one.name}.svg`)} alt="" width="160" height="100" />
      <h2>${one.file.campaign.name}</h2><p>${one.about}</p>
      <p class="quiet">${SECTIONS.filter((section) => one.file[section]).map((section) => say(`gallery.${section}`, { count: one.file[section].length })).join(", ")}</p>
      <button type="button" class="secondary outline" aria-label=${say("gallery.start_with", { name: one.file.campaign.name })} onClick=${() => setChosen(one)}>${say("gallery.start")}</button>
    </li>`)}</ul>
    ${chosen && html`<${Start} file=${chosen.file} close=${() => setChosen(null)} />`}`;
}

/** @param {{file: any, close: () => void}} props */
function Start({ file, close }) {
  const [key] = useState(newKey);
  const save = async (/** @type {any} */ value) => {
    const end = value.end_date || file.campaign.end_date; // A file may count its end from the start.
    const campaign = { ...file.campaign, ...value, end_date: end || 0, status: "draft" };
    const made = await api.post("/admin/campaigns/import", { body: { file: { ...file, campaign } }, key }).catch(shown);
    tell(say("campaigns.made", { name: made.name }));
    go(addressOf(made.campaign_id));
  };
  const value = { name: file.campaign.name, timezone: Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC", start_date: 0, end_date: 0 };
  const items = SECTIONS.flatMap((section) => (file[section] ?? []).map((/** @type {any} */ one) => one.name));
  return html`<${Dialog} title=${say("gallery.start_title", { name: file.campaign.name })} close=${close}>
    <p>${say("gallery.start_text", { count: items.length })}</p>
    <${Form} schema=${CAMPAIGN} value=${value} save=${save} word=${say("gallery.start")} cancel=${close} />
  <//>`;
}

/** Maps a refusal of the file's campaign to the form's fields. @param {unknown} error @returns {never} */
function shown(error) {
  if (error instanceof Refused) {
    error.fields = Object.fromEntries(Object.entries(error.fields).map(([field, why]) => [field.replace(/^campaign\./, ""), why]));
  }
  throw error;
}
