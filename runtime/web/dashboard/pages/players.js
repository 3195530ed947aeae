// The list of players, with search by id, part of a name, or full contact.
import { api } from "../api.js";
import { html, useState } from "../lib.js";
import { Head } from "../parts/layout.js";
import { List } from "../parts/list.js";
import { Status, When } from "../parts/values.js";
import { address } from "../router.js";
import { can } from "../session.js";
import { useTitle } from "../title.js";
import { say, state } from "../words.js";
import { Unsubscribe } from "./unsubscribe.js";

/** @param {string} id */
export const playerAddress = (id) => address(`/players/${encodeURIComponent(id)}`);

/** A player's id on one line. A long id shows its end, where ids differ. @param {{id: string}} props */
export const PlayerId = ({ id }) => (can("InspectPlayer")
  ? html`<a class="line" title=${id} href=${playerAddress(id)}><bdi>${id}</bdi></a>`
  : html`<span class="line" title=${id}><bdi>${id}</bdi></span>`);

/** A player's name, contact or id, whichever exists first. @param {any} player */
export const nameOf = (player) => player.display_name || player.contacts[0]?.value || player.id;

/** Its contacts, masked. @param {any} player */
export const contactsOf = (player) => player.contacts.map((/** @type {any} */ one) => one.value).join(", ");

export default function Players() {
  useTitle(say("players.title"));
  const [unsubscribing, setUnsubscribing] = useState(false);
  const columns = [
    { title: say("players.name"), show: (/** @type {any} */ one) => html`<a class="name" href=${playerAddress(one.id)}>${nameOf(one)}</a>` },
    { title: say("players.contacts"), show: (/** @type {any} */ one) => contactsOf(one) || say("none") },
    { title: say("players.known_by"), show: (/** @type {any} */ one) => state(one.auth_method) },
    { title: say("campaigns.status"), narrow: true, show: (/** @type {any} */ one) => html`<${Status} value=${standing(one)} />` },
    { title: say("players.since"), narrow: true, show: (/** @type {any} */ one) => html`<${When} at=${one.created_at} />` },
  ];
  const filters = [
    { name: "q", label: say("players.search") },
    { name: "status", label: say("campaigns.status"), options: ["active", "suspended"].map((value) => ({ value, text: state(`PLAYER_STATUS_${value.toUpperCase()}`) })) },
  ];
  return html`<${Head} title=${say("players.title")}>${can("UnsubscribeAddress") && html`<button type="button" class="secondary outline" onClick=${() => setUnsubscribing(true)}>${say("unsubscribe.title")}</button>`}<//>
    <${List} caption=${say("players.title")} columns=${columns} filters=${filters}
      load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get("/admin/players", { query, signal })}
      empty=${{ title: say("players.empty"), text: say("players.empty_text") }} />
    ${unsubscribing && html`<${Unsubscribe} close=${() => setUnsubscribing(false)} />`}`;
}

/** A player's status. @param {any} player */
export function standing(player) {
  return player.merged_into ? "PLAYER_STATUS_MERGED" : player.erased_at ? "PLAYER_STATUS_ERASED" : player.status;
}
