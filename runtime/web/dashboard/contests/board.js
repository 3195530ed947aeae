// One leaderboard: standings, prizes by rank, and corrections by staff.
import { api, newKey } from "../api.js";
import { html, useState } from "../lib.js";
import { playerAddress } from "../pages/players.js";
import { Act } from "../parts/button.js";
import { confirm, Dialog } from "../parts/dialog.js";
import { Form } from "../parts/form.js";
import { Head, Section } from "../parts/layout.js";
import { List } from "../parts/list.js";
import { loadById, useData } from "../parts/requests.js";
import { Loading, Problem } from "../parts/states.js";
import { complain, tell } from "../parts/toast.js";
import { Id, When } from "../parts/values.js";
import { address, go } from "../router.js";
import { can } from "../session.js";
import { period } from "../times.js";
import { useTitle } from "../title.js";
import { number, say, state } from "../words.js";
import { BOARD, counted } from "./boards.js";
import { Edit } from "./choosing.js";

const REASON = { type: "string", format: "lines", minLength: 1, maxLength: 500 };
const SHOWN = 20;

/** @param {any} board what the form holds of it */
const fields = ({ name, campaign_id, game_id, metric, mode, start_date, end_date, prizes }) => ({
  name, campaign_id, game_id, metric: short(metric), mode: short(mode), start_date, end_date, prizes,
});

/** @param {string} value an enum's */
const short = (value) => value.slice(value.lastIndexOf("_") + 1).toLowerCase();

/** @param {any} one a place */
const who = (one) => one.display_name || one.contact || one.player_id;

/** @param {{id: string}} props */
export default function Board({ id }) {
  const path = { id };
  const { data: board, error, again, set } = useData((signal) => api.get("/admin/leaderboards/{id}", { path, signal }), [id]);
  const campaign = useData(async (signal) => board && api.get("/admin/campaigns/{id}", { path: { id: board.campaign_id }, signal }), [board?.campaign_id]);
  const game = useData(async (signal) => board?.game_id && api.get("/admin/games/{id}", { path: { id: board.game_id }, signal }), [board?.game_id]);
  const prizes = useData((signal) => loadById("/admin/prizes", signal), []);
  const [shown, setShown] = useState(/** @type {{what: string, one?: any}} */ ({ what: "" }));
  const [changes, setChanges] = useState(0);
  useTitle(board?.name ?? "");
  if (!board) {
    return error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} />`;
  }
  const zone = campaign.data?.timezone ?? "UTC";
  const active = board.status === "LEADERBOARD_STATUS_ACTIVE";
  const prizeOf = (/** @type {string} */ prize) => prizes.data?.get(prize)?.name ?? prize;
  const load = async (/** @type {any} */ query, /** @type {AbortSignal | undefined} */ signal) => {
    const found = await api.get("/admin/leaderboards/{id}/standings", { path, query, signal });
    return { ...found, items: found.items.map((/** @type {any} */ one) => ({ ...one, id: one.player_id })) };
  };
  const changed = () => {
    setChanges((count) => count + 1);
    return again();
  };
  const finalize = async () => {
    const { items, pagination } = await load({ limit: 100 }, undefined);
    const won = items.filter((/** @type {any} */ one) => one.prize_id);
    const awarded = won.slice(0, SHOWN).map((/** @type {any} */ one) => `${one.rank}. ${who(one)}: ${prizeOf(one.prize_id)}`);
    const further = won.length > SHOWN || pagination.has_more ? [say("board.further")] : [];
    if (await confirm({ title: say("board.finalize_title", { name: board.name }), text: say(pagination.has_more ? "board.finalize_many" : "board.finalize_text", { count: won.length }), items: [...awarded, ...further], word: say("board.finalize") })) {
      const done = await api.post("/admin/leaderboards/{id}/finalize", { path, body: {} });
      tell(say("board.finalized", { count: done.standings.filter((/** @type {any} */ one) => one.reward_id).length }));
      await changed();
    }
  };
  const archive = async () => {
    if (await confirm({ title: say("board.archive_title", { name: board.name }), text: say(active ? "board.archive_live" : "board.archive_text"), word: say("board.archive"), danger: true })) {
      const { archived } = await api.remove("/admin/leaderboards/{id}", { path });
      tell(say(archived ? "archived" : "board.removed", { name: board.name }));
      if (archived) {
        set({ ...board, status: "LEADERBOARD_STATUS_ARCHIVED" });
      } else {
        go(address("/leaderboards"));
      }
    }
  };
  const button = (/** @type {string} */ what, /** @type {any} */ one, kind = "secondary") => html`<button type="button" class=${`${kind} outline small`} aria-label=${`${say(`board.${what}`)}: ${who(one)}`} onClick=${() => setShown({ what, one })}>${say(`board.${what}`)}</button>`;
  const columns = [
    { title: say("board.rank"), number: true, show: (/** @type {any} */ one) => number(one.rank) },
    { title: say("players.name"), show: (/** @type {any} */ one) => (can("InspectPlayer") ? html`<a class="name" href=${playerAddress(one.player_id)}>${who(one)}</a>` : html`<span class="name">${who(one)}</span>`) },
    { title: say("board.score"), number: true, show: (/** @type {any} */ one) => number(Number(one.score)) },
    { title: say("board.reached"), narrow: true, show: (/** @type {any} */ one) => html`<${When} at=${one.achieved_at} zone=${zone} />` },
    { title: say("field.prize_id"), show: (/** @type {any} */ one) => (one.prize_id ? html`${prizeOf(one.prize_id)}${one.reason && html` <small>${one.reason === "PENDING" ? say("board.pending") : state(one.reason)}</small>`}` : say("none")) },
    ...(active && (can("AdjustScore") || can("DisqualifyPlayer")) ? [{
      title: say("list.acts"), acts: true,
      show: (/** @type {any} */ one) => html`<div class="acts">${can("AdjustScore") && button("adjust", one)}${can("DisqualifyPlayer") && button("disqualify", one, "danger")}</div>`,
    }] : []),
  ];
  const close = () => setShown({ what: "" });
  return html`<${Head} title=${board.name} status=${board.status} back=${{ href: address("/leaderboards"), text: say("boards.title") }}>
      ${active && can("UpdateLeaderboard") && html`<button type="button" class="secondary outline" onClick=${() => setShown({ what: "edit" })}>${say("campaign.edit")}</button>`}
      ${active && can("FinalizeLeaderboard") && html`<${Act} act=${() => finalize().catch(complain)}>${say("board.finalize")}<//>`}
      ${board.status !== "LEADERBOARD_STATUS_ARCHIVED" && can("DeleteLeaderboard") && html`<${Act} class="danger outline" act=${() => archive().catch(complain)}>${say("board.archive")}<//>`}
    <//>
    <p class="under">${period(board.start_date, board.end_date, zone)}</p>
    <${Section} title=${say("board.standings")} note=${say(active ? "board.live" : "board.kept")}>
      <${List} caption=${say("board.standings")} columns=${columns} about=${changes} load=${load}
        empty=${{ title: say("board.empty"), text: say("board.empty_text") }} />
    <//>
    <${Section} title=${say("campaign.details")}>
      <dl class="details">
        <dt>${say("campaign.id")}</dt><dd><${Id} value=${board.id} /></dd>
        <dt>${say("boards.counts")}</dt><dd>${counted(board)}</dd>
        <dt>${say("field.campaign_id")}</dt><dd><a href=${address(`/campaigns/${encodeURIComponent(board.campaign_id)}`)}>${campaign.data?.name ?? board.campaign_id}</a></dd>
        <dt>${say("field.game_id")}</dt><dd>${board.game_id ? html`<a href=${address(`/games/${encodeURIComponent(board.game_id)}`)}>${game.data?.name ?? board.game_id}</a>` : say("board.every_game")}</dd>
        <dt>${say("field.prizes")}</dt><dd>${board.prizes.length ? html`<ul class="lines">${board.prizes.map((/** @type {any} */ one) => html`<li key=${one.from_rank}><span>${prizeOf(one.prize_id)}</span><span class="quiet">${say("board.ranks", { from: one.from_rank, to: one.to_rank })}</span></li>`)}</ul>` : say("none")}</dd>
      </dl>
    <//>
    ${shown.what === "edit" && html`<${Edit} title=${say("board.edit_title")} path="/admin/leaderboards/{id}" one=${board} schema=${BOARD} fields=${fields} zone=${zone} close=${close} saved=${(/** @type {any} */ one) => { set(one); setChanges(changes + 1); }} />`}
    ${(shown.what === "adjust" || shown.what === "disqualify") && html`<${Correct} id=${id} ...${shown} close=${close} done=${changed} />`}`;
}

/** A correction with a reason. @param {{id: string, what: string, one?: any, close: () => void, done: () => any}} props */
function Correct({ id, what, one, close, done }) {
  const [key] = useState(newKey);
  const adjusts = what === "adjust";
  const schema = { type: "object", required: ["delta", "reason"], properties: { ...(adjusts ? { delta: { type: "integer", help: say("help.delta") } } : {}), reason: REASON } };
  const save = async (/** @type {any} */ value) => {
    const body = { player_id: one.player_id, ...value };
    await api.post(`/admin/leaderboards/{id}/${what}`, { path: { id }, body, ...(adjusts ? { key } : {}) });
    tell(say(`board.${what}_done`, { name: who(one) }));
    close();
    await done();
  };
  return html`<${Dialog} title=${say(`board.${what}_title`, { name: who(one) })} close=${close}>
    <p>${say(`board.${what}_text`)}</p>
    <${Form} schema=${schema} value=${{ ...(adjusts ? { delta: 0 } : {}), reason: "" }} save=${save} word=${say(`board.${what}`)} cancel=${close} />
  <//>`;
}
