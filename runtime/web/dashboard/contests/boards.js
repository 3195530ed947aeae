// The list of leaderboards, and the form for a new one.
import { api } from "../api.js";
import { html, useState } from "../lib.js";
import { Head } from "../parts/layout.js";
import { List } from "../parts/list.js";
import { tell } from "../parts/toast.js";
import { Status, When } from "../parts/values.js";
import { address, go, place } from "../router.js";
import { can } from "../session.js";
import { useTitle } from "../title.js";
import { say, state } from "../words.js";
import { Make, useCampaigns } from "./choosing.js";

/** The schema of the leaderboard form. */
export const BOARD = {
  type: "object",
  required: ["name", "metric", "mode", "campaign_id"],
  properties: {
    name: { type: "string", minLength: 1, maxLength: 200 },
    campaign_id: { type: "string" },
    game_id: { type: "string" },
    metric: { type: "string", enum: ["score", "plays", "wins", "points"] },
    mode: { type: "string", enum: ["sum", "best", "latest"] },
    start_date: { type: "integer", format: "unix-time" },
    end_date: { type: "integer", format: "unix-time" },
    prizes: {
      type: "array",
      items: {
        type: "object",
        required: ["from_rank", "to_rank", "prize_id"],
        properties: { from_rank: { type: "integer", minimum: 1, maximum: 10000 }, to_rank: { type: "integer", minimum: 1, maximum: 10000 }, prize_id: { type: "string" } },
      },
    },
  },
};

const NEW = { game_id: "", start_date: 0, end_date: 0, prizes: [] };

/** @param {string} id */
export const boardAddress = (id) => address(`/leaderboards/${encodeURIComponent(id)}`);

export default function Boards() {
  useTitle(say("boards.title"));
  const campaigns = useCampaigns();
  const [making, setMaking] = useState(place.value.query.make === "1" && can("CreateLeaderboard"));
  const make = can("CreateLeaderboard") && html`<button type="button" onClick=${() => setMaking(true)}>${say("boards.new")}</button>`;
  const save = async (/** @type {any} */ value) => {
    const made = await api.post("/admin/leaderboards", { body: value });
    tell(say("boards.made", { name: made.name }));
    go(boardAddress(made.id));
  };
  const columns = [
    { title: say("game.name"), show: (/** @type {any} */ one) => html`<a class="name" href=${boardAddress(one.id)}>${one.name}</a>` },
    { title: say("field.campaign_id"), show: (/** @type {any} */ one) => html`<span class="long">${campaigns.name(one.campaign_id)}</span>` },
    { title: say("boards.counts"), show: (/** @type {any} */ one) => counted(one) },
    { title: say("campaigns.status"), narrow: true, show: (/** @type {any} */ one) => html`<${Status} value=${one.status} />` },
    { title: say("field.end_date"), narrow: true, show: (/** @type {any} */ one) => html`<${When} at=${one.end_date} zone=${campaigns.zone(one.campaign_id)} />` },
  ];
  const filters = [
    { name: "q", label: say("game.name") },
    { name: "status", label: say("campaigns.status"), options: ["ACTIVE", "FINALIZED", "ARCHIVED"].map((one) => ({ value: one.toLowerCase(), text: state(`LEADERBOARD_STATUS_${one}`) })) },
    campaigns.filter,
  ];
  return html`<${Head} title=${say("boards.title")}>${make}<//>
    <${List} caption=${say("boards.title")} columns=${columns} filters=${filters}
      load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get("/admin/leaderboards", { query, signal })}
      empty=${{ title: say("boards.empty"), text: say("boards.empty_text"), act: make }} />
    ${making && html`<${Make} title=${say("boards.new")} schema=${BOARD} value=${NEW} zone=${campaigns.zone} save=${save} word=${say("boards.make")} close=${() => setMaking(false)} />`}`;
}

/** A leaderboard's metric and mode. @param {any} board */
export const counted = ({ metric, mode }) => `${state(metric)}, ${state(mode).toLowerCase()}`;
