// The list of games.
import { api } from "../api.js";
import { useCampaigns } from "../contests/choosing.js";
import { html } from "../lib.js";
import { Head } from "../parts/layout.js";
import { List } from "../parts/list.js";
import { Status, When } from "../parts/values.js";
import { address } from "../router.js";
import { useTitle } from "../title.js";
import { label, number, say, state } from "../words.js";

const STATUSES = ["DRAFT", "ACTIVE", "PAUSED", "ARCHIVED"];

/** @param {string} id */
export const addressOf = (id) => address(`/games/${encodeURIComponent(id)}`);

export default function Games() {
  useTitle(say("games.title"));
  const campaigns = useCampaigns();
  const columns = [
    { title: say("game.name"), show: (/** @type {any} */ one) => html`<a class="name" href=${addressOf(one.id)}>${one.name}</a>` },
    { title: say("field.campaign_id"), show: (/** @type {any} */ one) => html`<a href=${address(`/campaigns/${encodeURIComponent(one.campaign_id)}`)}>${campaigns.name(one.campaign_id)}</a>` },
    { title: say("game.type"), show: (/** @type {any} */ one) => label(one.type) },
    { title: say("campaigns.status"), narrow: true, show: (/** @type {any} */ one) => html`<${Status} value=${one.status} />` },
    { title: say("game.revision"), number: true, show: (/** @type {any} */ one) => number(one.revision) },
    { title: say("campaigns.changed"), narrow: true, show: (/** @type {any} */ one) => html`<${When} at=${Number(one.updated_at)} />` },
  ];
  const filters = [
    { name: "q", label: say("game.name") },
    { name: "status", label: say("campaigns.status"), options: STATUSES.map((one) => ({ value: one.toLowerCase(), text: state(`GAME_STATUS_${one}`) })) },
    campaigns.filter,
  ];
  return html`<${Head} title=${say("games.title")} />
    <${List} caption=${say("games.title")} columns=${columns} filters=${filters}
      load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get("/admin/games", { query, signal })}
      empty=${{ title: say("games.empty"), text: say("games.empty_text"), act: html`<a role="button" href=${address("/campaigns")}>${say("games.campaigns")}</a>` }} />`;
}
