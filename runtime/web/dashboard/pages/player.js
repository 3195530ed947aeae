// One player: profile, history, balances and actions.
import { api } from "../api.js";
import { useCampaigns } from "../contests/choosing.js";
import { Redemptions } from "../contests/pack.js";
import { html, useState } from "../lib.js";
import { Act } from "../parts/button.js";
import { confirm } from "../parts/dialog.js";
import { Head, Section } from "../parts/layout.js";
import { PagedTable } from "../parts/paged_table.js";
import { useData } from "../parts/requests.js";
import { Loading, Problem } from "../parts/states.js";
import { complain, tell } from "../parts/toast.js";
import { Id, When } from "../parts/values.js";
import { address } from "../router.js";
import { can } from "../session.js";
import { useTitle } from "../title.js";
import { number, say, state } from "../words.js";
import { Entry, entryColumns } from "./audit.js";
import { Adjust, Erase, exported, Grant, Merge } from "./player_acts.js";
import { Entries } from "./player_entries.js";
import { Deliveries, Messages, Plays, Rewards } from "./player_won.js";
import { nameOf, playerAddress, standing } from "./players.js";

/** @param {{id: string}} props */
export default function Player({ id }) {
  const { data, error, again } = useData((signal) => api.get("/admin/players/{id}", { path: { id }, signal }), [id]);
  const [changes, setChanges] = useState(0);
  useTitle(data ? nameOf(data.player) : "");
  if (error && !data) {
    return html`<${Problem} error=${error} again=${again} />`;
  }
  const changed = () => {
    setChanges((count) => count + 1);
    return again();
  };
  // History and balances load in parallel to the profile.
  return html`${data ? html`<${Who} id=${id} data=${data} changed=${changed} />` : html`<${Loading} />`}
    ${can("ListPlayerEntries") && html`<${Entries} id=${id} about=${changes} changed=${changed} />`}
    <${Plays} id=${id} about=${changes} />
    <${Rewards} id=${id} about=${changes} changed=${changed} />
    <${Deliveries} id=${id} about=${changes} changed=${changed} />
    ${can("ListPlayerMessages") && html`<${Messages} id=${id} about=${changes} changed=${changed} />`}
    ${can("ListPlayerRedemptions") && html`<${Redemptions} path="/admin/players/{id}/redemptions" id=${id} about=${changes} of="pack" />`}
    <${Has} id=${id} about=${changes} />
    ${can("ListAuditEntries") && html`<${Log} id=${id} about=${changes} />`}`;
}

/** The profile and its actions. @param {{id: string, data: any, changed: () => Promise<void>}} props */
function Who({ id, data: { player, counts }, changed }) {
  const path = { id };
  const [shown, setShown] = useState("");
  const name = nameOf(player);
  /** Asks for confirmation, performs the action and shows a toast. @param {string} what @param {() => Promise<any>} act @param {Record<string, any>} [values] */
  const ask = async (what, act, values = {}) => {
    const said = { name, ...values };
    if (await confirm({ title: say(`player.${what}_title`, said), text: say(`player.${what}_text`, said), word: say(`player.${what}`), danger: what !== "restore" })) {
      try {
        await act();
        tell(say(`player.${what}_done`, said));
        await changed();
      } catch (refused) {
        complain(refused);
      }
    }
  };
  const suspended = player.status === "PLAYER_STATUS_SUSPENDED";
  const setStatus = (/** @type {string} */ status) => () => api.put("/admin/players/{id}", { path, body: { status: `PLAYER_STATUS_${status}` } });
  const unlink = (/** @type {any} */ one) => ask("unlink", () => api.remove("/admin/players/{id}/contacts", { path, query: { contact_id: one.id } }), { contact: one.value });
  const button = (/** @type {string} */ what, kind = "secondary") => html`<button type="button" class=${`${kind} outline`} onClick=${() => setShown(what)}>${say(`player.${what}`)}</button>`;
  const live = !player.merged_into;
  return html`<${Head} title=${name} status=${standing(player)} back=${{ href: address("/players"), text: say("players.title") }}>
      ${live && can("GrantTurns") && button("grant")}
      ${live && can("AdjustBalance") && button("adjust")}
      ${live && can("MergePlayer") && button("merge")}
      ${can("SignOutPlayer") && html`<${Act} class="secondary outline" act=${() => ask("sign_out", () => api.post("/admin/players/{id}/logout", { path }), { count: counts.sessions })}>${say("player.sign_out")}<//>`}
      ${live && can("SetPlayerStatus") && (suspended
        ? html`<${Act} class="secondary outline" act=${() => ask("restore", setStatus("ACTIVE"))}>${say("player.restore")}<//>`
        : html`<${Act} class="danger outline" act=${() => ask("suspend", setStatus("SUSPENDED"))}>${say("player.suspend")}<//>`)}
      ${can("ExportPlayer") && html`<${Act} class="secondary outline" act=${() => exported(id).catch(complain)}>${say("player.export")}<//>`}
      ${can("ErasePlayer") && button("erase", "danger")}
    <//>
    <p class="under"><${Id} value=${player.id} /></p>
    <div class="tiles">
      <div class="tile"><span>${say("numbers.plays")}</span><b>${number(counts.plays)}</b><small>${counts.last_played_at ? html`${say("player.last")} <${When} at=${counts.last_played_at} />` : ""}</small></div>
      <div class="tile"><span>${say("player.rewards")}</span><b>${number(counts.rewards)}</b><small></small></div>
      <div class="tile"><span>${say("player.sessions")}</span><b>${number(counts.sessions)}</b><small></small></div>
    </div>
    <${Section} title=${say("player.who")}>
      <dl class="details">
        <dt>${say("players.known_by")}</dt><dd>${state(player.auth_method)}</dd>
        <dt>${say("player.locale")}</dt><dd>${player.locale || say("none")}</dd>
        <dt>${say("players.since")}</dt><dd><${When} at=${player.created_at} /></dd>
        ${player.merged_into && html`<dt>${say("player.merged_into")}</dt><dd><a href=${playerAddress(player.merged_into)}>${player.merged_into}</a></dd>`}
        ${player.erased_at > 0 && html`<dt>${say("player.erased_at")}</dt><dd><${When} at=${player.erased_at} /></dd>`}
        <dt>${say("players.contacts")}</dt>
        <dd>${player.contacts.length ? html`<ul class="lines">${player.contacts.map((/** @type {any} */ one) => html`<li key=${one.id}>${one.value}
          ${can("UnlinkContact") && html`<${Act} class="danger outline small" act=${() => unlink(one)}>${say("player.unlink")}<//>`}</li>`)}</ul>` : say("none")}</dd>
      </dl>
    <//>
    ${shown === "grant" && html`<${Grant} id=${id} close=${() => setShown("")} done=${changed} />`}
    ${shown === "adjust" && html`<${Adjust} id=${id} close=${() => setShown("")} done=${changed} />`}
    ${shown === "merge" && html`<${Merge} id=${id} close=${() => setShown("")} done=${changed} />`}
    ${shown === "erase" && html`<${Erase} id=${id} name=${name} close=${() => setShown("")} done=${changed} />`}`;
}

/** Wallet, turns, quests and sessions. @param {{id: string, about: number}} props */
function Has({ id, about }) {
  const campaigns = useCampaigns();
  const part = (/** @type {string} */ what, /** @type {any[]} */ columns, /** @type {any} */ named = undefined) => html`<${Section} title=${say(`player.${what}`)}>
    <${PagedTable} caption=${say(`player.${what}`)} columns=${columns} empty=${say(`player.no_${what}`)} about=${about} named=${named}
      load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get(`/admin/players/{id}/${PATHS[what]}`, { path: { id }, query, signal })} />
  <//>`;
  const moved = { title: say("player.amount"), number: true, show: (/** @type {any} */ one) => `${one.amount > 0 ? "+" : ""}${number(one.amount)}` };
  const balance = { title: say("player.balance"), number: true, show: (/** @type {any} */ one) => number(one.balance) };
  const left = { title: say("player.left"), number: true, show: (/** @type {any} */ one) => number(one.balance_after) };
  const why = { title: say("player.why"), show: (/** @type {any} */ one) => html`${state(one.reason)}${one.reference_id ? html` <code>${one.reference_id}</code>` : ""}` };
  const when = (/** @type {string} */ name) => ({ title: say("player.when"), narrow: true, show: (/** @type {any} */ one) => html`<${When} at=${one[name]} />` });
  const of = (/** @type {string} */ name, /** @type {string} */ title) => ({ title, show: (/** @type {any} */ one) => html`<span class="long">${one[name]}</span>` });
  const campaign = { title: say("player.campaign"), show: (/** @type {any} */ one) => html`<a href=${address(`/campaigns/${encodeURIComponent(one.campaign_id)}`)}>${campaigns.name(one.campaign_id)}</a>` };
  return html`<div class="columns">
      ${part("wallet", [of("currency", say("player.currency")), { title: say("player.scope"), show: (/** @type {any} */ one) => html`<span class="long">${campaigns.name(one.scope_key)}</span>` }, balance], (/** @type {any} */ one) => `${one.scope_key} ${one.currency}`)}
      ${part("turns", [campaign, balance], (/** @type {any} */ one) => one.campaign_id)}
    </div>
    ${part("ledger", [when("created_at"), of("currency", say("player.currency")), moved, left, why])}
    ${part("turn_ledger", [when("created_at"), campaign, moved, left, why])}
    <div class="columns">
      ${part("quests", [of("name", say("game.name")), of("period", say("player.period")), when("completed_at")])}
      ${can("ListPlayerSessions") && part("signed_in", [when("created_at"), { title: say("player.until"), show: (/** @type {any} */ one) => html`<${When} at=${one.expires_at} />` }])}
    </div>`;
}

/** Audit entries of the player, its rewards, deliveries and wallet. @param {{id: string, about: number}} props */
function Log({ id, about }) {
  const [shown, setShown] = useState(/** @type {any} */ (null));
  return html`<${Section} title=${say("audit.title")} acts=${html`<a role="button" class="secondary outline small" href=${address("/audit", { player_id: id })}>${say("audit.filter")}</a>`}>
    <${PagedTable} caption=${say("audit.title")} columns=${entryColumns(setShown)} empty=${say("audit.of_player_none")} about=${about}
      load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get("/admin/audit", { query: { ...query, player_id: id }, signal })} />
    ${shown && html`<${Entry} entry=${shown} close=${() => setShown(null)} />`}
  <//>`;
}

const PATHS = /** @type {Record<string, string>} */ ({ wallet: "wallet", turns: "turns", ledger: "ledger", turn_ledger: "turns/ledger", quests: "quests", signed_in: "sessions" });
