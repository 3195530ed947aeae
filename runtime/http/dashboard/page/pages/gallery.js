// Campaigns to begin with: eight ready ones, each made whole, as a draft.
import { api } from "../api.js";
import { html, useState } from "../lib.js";
import { Head, Loading, Problem } from "../parts/bits.js";
import { useData } from "../parts/data.js";
import { Dialog } from "../parts/dialog.js";
import { Form } from "../parts/form.js";
import { tell } from "../parts/toast.js";
import { address, go } from "../router.js";
import { useTitle } from "../shell.js";
import { say } from "../words.js";
import { addressOf, CAMPAIGN } from "./campaigns.js";

const SECTIONS = ["prizes", "games", "quests", "leaderboards"];
const NAMED = /** @type {Record<string, "prizes" | "games">} */ ({ prize_id: "prizes", fallback_prize_id: "prizes", game_id: "games" });

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
      <img src=${new URL(`../gallery/${one.name}.svg`, import.meta.url).href} alt="" width="160" height="100" />
      <h2>${one.file.campaign.name}</h2><p>${one.about}</p>
      <p class="quiet">${SECTIONS.filter((section) => one.file[section]).map((section) => say(`gallery.${section}`, { count: one.file[section].length })).join(", ")}</p>
      <button type="button" class="secondary outline" aria-label=${say("gallery.start_with", { name: one.file.campaign.name })} onClick=${() => setChosen(one)}>${say("gallery.start")}</button>
    </li>`)}</ul>
    ${chosen && html`<${Start} file=${chosen.file} close=${() => setChosen(null)} />`}`;
}

/** @param {{file: any, close: () => void}} props */
function Start({ file, close }) {
  const save = async (/** @type {any} */ value) => {
    const made = await begin(file, value);
    tell(say("campaigns.made", { name: made.name }));
    go(addressOf(made.id));
  };
  const value = { name: file.campaign.name, timezone: Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC", start_date: 0, end_date: 0 };
  const items = SECTIONS.flatMap((section) => (file[section] ?? []).map((/** @type {any} */ one) => one.name));
  return html`<${Dialog} title=${say("gallery.start_title", { name: file.campaign.name })} close=${close}>
    <p>${say("gallery.start_text", { count: items.length })}</p>
    <${Form} schema=${CAMPAIGN} value=${value} save=${save} word=${say("gallery.start")} cancel=${close} />
  <//>`;
}

/**
 * Makes all that a file has, as `tombola campaigns import` does: each names only what stands before it.
 * @param {any} file @param {any} campaign its name, zone and dates
 */
async function begin(file, campaign) {
  const made = await api.post("/admin/campaigns", { body: { ...file.campaign, ...campaign, status: "CAMPAIGN_STATUS_DRAFT" } });
  const ids = { prizes: /** @type {Record<string, string>} */ ({}), games: /** @type {Record<string, string>} */ ({}) };
  for (const section of SECTIONS) {
    for (const one of file[section] ?? []) {
      const answer = await api.post(`/admin/${section}`, { body: { ...withIds(one, ids), campaign_id: made.id } });
      if (section === "prizes" || section === "games") {
        ids[section][one.name] = answer.prize_id ?? answer.id;
      }
    }
  }
  return made;
}

/** The same with ids where names stand. @param {any} value @param {Record<"prizes" | "games", Record<string, string>>} ids @returns {any} */
function withIds(value, ids) {
  if (Array.isArray(value)) {
    return value.map((one) => withIds(one, ids));
  }
  if (!value || typeof value !== "object") {
    return value;
  }
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, NAMED[name] && typeof one === "string" ? ids[NAMED[name]][one] ?? one : withIds(one, ids)]));
}
