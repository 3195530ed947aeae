// Analytics of a campaign for a range of days, and exports.
import { api } from "../api.js";
import { html } from "../lib.js";
import { fromInput } from "../local_times.js";
import { Act } from "../parts/button.js";
import { Chart, Numbers } from "../parts/chart.js";
import { useExport } from "../parts/download.js";
import { Steps, hasSteps, share } from "../parts/funnel.js";
import { Head, Section } from "../parts/layout.js";
import { loadById, useData } from "../parts/requests.js";
import { Empty, Loading, Problem } from "../parts/states.js";
import { address, filter, place } from "../router.js";
import { can } from "../session.js";
import { dayAfter, when } from "../times.js";
import { useTitle } from "../title.js";
import { money, moneys, number, say } from "../words.js";

const EXPORTS = ["plays", "rewards", "winners", "ledger", "tasks", "audit", "redemptions", "participants", "views"];

const BARS_MAX = 10;
const COUNTRIES = new Intl.DisplayNames("en", { type: "region" });

export default function Analytics() {
  useTitle(say("analytics.title"));
  const campaigns = useData((signal) => loadById("/admin/campaigns", signal), []);
  const { query } = place.value;
  const items = [...(campaigns.data?.values() ?? [])];
  const id = query.campaign || items[0]?.id || "";
  const campaign = items.find((/** @type {any} */ one) => one.id === id);
  // With a campaign in the address, its figures load without waiting for the list.
  return html`<${Head} title=${say("analytics.title")} />
    ${campaigns.error ? html`<${Problem} error=${campaigns.error} again=${campaigns.again} />` : !campaigns.data ? html`<${Loading} />`
      : !id ? html`<${Empty} title=${say("analytics.none")} text=${say("analytics.none_text")}>${can("CreateCampaign") && html`<a role="button" href=${address("/campaigns/gallery")}>${say("gallery.open")}</a>`}<//>` : html`<${Asked} items=${items} id=${id} />`}
    ${id && !campaigns.error && html`<${Figures} key=${JSON.stringify([id, query.game, query.from, query.to])} id=${id} campaign=${campaign} />`}`;
}

/** @param {{items: any[], id: string}} props */
function Asked({ items, id }) {
  const { query } = place.value;
  const games = useData((signal) => (can("ListGames") ? loadById("/admin/games", signal, { campaign_id: id }) : Promise.resolve(new Map())), [id]);
  const pick = (/** @type {string} */ name) => (/** @type {any} */ event) => filter({ [name]: event.target.value, ...(name === "campaign" ? { game: "" } : {}) });
  const known = items.some((one) => one.id === id) ? items : [{ id, name: id }, ...items];
  return html`<form class="filters" aria-label=${say("list.filter")} onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
    <select aria-label=${say("analytics.campaign")} value=${id} onChange=${pick("campaign")}>${known.map((one) => html`<option value=${one.id}>${one.name}</option>`)}</select>
    <select aria-label=${say("analytics.game")} value=${query.game ?? ""} onChange=${pick("game")}>
      <option value="">${say("analytics.every_game")}</option>
      ${[...(games.data?.values() ?? [])].map((/** @type {any} */ one) => html`<option value=${one.id}>${one.name}</option>`)}
    </select>
    <label>${say("analytics.from")} <input type="date" value=${query.from ?? ""} onChange=${pick("from")} /></label>
    <label>${say("analytics.to")} <input type="date" value=${query.to ?? ""} onChange=${pick("to")} /></label>
  </form>`;
}

/** @param {{id: string, campaign: any}} props */
function Figures({ id, campaign }) {
  const { query } = place.value;
  const asked = { game_id: query.game ?? "", from: query.from ?? "", to: query.to ?? "" };
  const { data, error, again } = useData((signal) => api.get("/admin/campaigns/{id}/figures", { path: { id }, query: asked, signal }), [id, JSON.stringify(asked)]);
  if (!data) {
    return error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} />`;
  }
  const name = campaign?.name ?? id;
  return html`<p class="under">${say("time.in_zone", { zone: data.timezone })} ${data.counted_until > 0 && say("analytics.counted", { when: when(data.counted_until, data.timezone) })}</p>
    ${hasSteps(data.funnel) && html`<${Funnel} figures=${data} ofGame=${Boolean(asked.game_id)} />`}
    ${(data.funnel.views > 0 || data.by_source.some((/** @type {any} */ one) => one.source)) && html`<${Views} figures=${data} />`}
    ${data.funnel.plays || data.funnel.views ? html`
      <${Days} figures=${data} />
      <${Hours} figures=${data} />
      ${!asked.game_id && data.games.length > 1 && html`<${Games} figures=${data} />`}
      <${Odds} figures=${data} />` : html`<${Empty} title=${say("analytics.nothing")} text=${say("analytics.nothing_text")} />`}
    ${data.prizes.length > 0 && html`<${Cost} figures=${data} />`}
    ${can("ExportRows") && html`<${Exports} id=${id} name=${name} zone=${data.timezone} />`}`;
}

/** @param {{figures: any, ofGame: boolean}} props */
function Funnel({ figures: { funnel, players, returning_players: returning, costs, entries, opted_in: agreed }, ofGame }) {
  return html`<${Section} title=${say("analytics.funnel")} note=${say("analytics.starts_note")}>
    <${Steps} funnel=${funnel} />
    <div class="tiles measures">
      ${funnel.visitors > 0 && html`<div class="tile"><span>${say("analytics.visitors")}</span><b>${number(funnel.visitors)}</b><small class="quiet">${say("analytics.daily")}</small></div>`}
      <div class="tile"><span>${say(ofGame ? "analytics.players_ever" : "analytics.players")}</span><b>${number(players)}</b></div>
      <div class="tile"><span>${say(ofGame ? "analytics.returning_game" : "analytics.returning")}</span><b>${number(returning)}</b><small class="quiet">${players ? share(returning / players) : ""}</small></div>
      ${entries > 0 && !ofGame && html`<div class="tile"><span>${say("analytics.opted_in")}</span><b>${share(agreed / entries)}</b><small class="quiet">${say("analytics.of_entries", { count: entries })}</small></div>`}
      <div class="tile"><span>${say("analytics.cost")}</span><b>${moneys(costs)}</b><small class="quiet">${say("analytics.cost_of_play", { cost: moneys(costs.map((/** @type {any} */ one) => ({ ...one, amount: one.amount / Math.max(funnel.plays, 1) }))) })}</small></div>
    </div>
  <//>`;
}

/** Views by source, device and country. @param {{figures: any}} props */
function Views({ figures: { by_source: sources, by_device: devices, by_country: countries } }) {
  const of = (/** @type {any} */ one) => one.source || say("analytics.direct");
  const counts = (/** @type {string[]} */ ...keys) => keys.map((key) => ({ key, title: say(`analytics.${key}`), text: ["medium", "utm_campaign"].includes(key) }));
  /** @type {[string, any[], any[]][]} */
  const groups = [
    ["sources", sources.map((/** @type {any} */ one) => ({ ...one, name: of(one) })), counts("name", "medium", "utm_campaign", "views", "visitors", "entries", "opted_in", "plays", "wins", "claimed")],
    ["devices", devices.map((/** @type {any} */ one) => ({ ...one, name: say(`device.${one.name}`) })), counts("name", "views", "visitors")],
    ["countries", countries.map((/** @type {any} */ one) => ({ ...one, name: one.name ? COUNTRIES.of(one.name) : say("analytics.unknown") })), counts("name", "views", "visitors")],
  ];
  return groups.map(([key, items, columns]) => items.length > 0 && html`<${Section} key=${key} title=${say(`analytics.${key}`)} note=${key === "sources" ? say("analytics.sources_note") : ""}>
    <${Bars} label=${say(`analytics.${key}`)} items=${items} />
    <${Numbers} open=${key === "sources"} caption=${say(`analytics.${key}`)} name=${key} items=${items} columns=${columns} />
  <//>`);
}

/** The largest ones as bars. Hidden from screen readers: the table below has the data. @param {{label: string, items: any[]}} props */
function Bars({ label, items }) {
  const shown = items.slice(0, BARS_MAX).filter(({ views }) => views > 0);
  const most = Math.max(...shown.map(({ views }) => views), 1);
  return html`<ol class="bars" role="img" aria-label=${label}>${shown.map(({ name, medium, utm_campaign: ad, views }) => html`<li>
    <span class="wrapped">${[name, medium, ad].filter(Boolean).join(" · ")}</span><progress max=${most} value=${views}></progress><b>${number(views)}</b></li>`)}</ol>`;
}

/** The lines of a chart, and the columns of its table; without views if there are none. @param {any[]} rows @param {[string, string][]} series */
function linesOf(rows, series) {
  const shown = series.filter(([key]) => key.startsWith("vi") ? rows.some((row) => row[key] > 0) : true);
  return {
    lines: shown.map(([key, colour]) => ({ label: say(`analytics.${key}`), values: rows.map((row) => row[key]), colour })),
    columns: shown.map(([key]) => ({ key, title: say(`analytics.${key}`) })),
  };
}

/** @param {{figures: any}} props */
function Days({ figures: { by_day: days } }) {
  const { lines, columns } = linesOf(days, [["plays", "--own"], ["wins", "--good"], ["players", "--warn"], ["views", "--text"], ["visitors", "--quiet"]]);
  return html`<${Section} title=${say("analytics.by_day")}>
    <${Chart} label=${say("analytics.by_day")} axis=${say("analytics.day")} names=${days.map((/** @type {any} */ day) => day.day)} lines=${lines} />
    <${Numbers} caption=${say("analytics.by_day")} name="days" items=${days} columns=${[{ key: "day", title: say("analytics.day") }, ...columns]} />
  <//>`;
}

/** @param {{figures: any}} props */
function Hours({ figures: { by_hour: hours } }) {
  const { lines, columns } = linesOf(hours, [["plays", "--own"], ["wins", "--good"], ["views", "--text"], ["visitors", "--quiet"]]);
  return html`<${Section} title=${say("analytics.by_hour")} note=${say("analytics.by_hour_note")}>
    <${Chart} label=${say("analytics.by_hour")} axis=${say("analytics.hour")} names=${hours.map((/** @type {any} */ { hour }) => `${hour}:00`)} lines=${lines} />
    <${Numbers} caption=${say("analytics.by_hour")} name="hours" items=${hours} columns=${[{ key: "hour", title: say("analytics.hour") }, ...columns]} />
  <//>`;
}

/** @param {{figures: any}} props */
function Games({ figures: { games } }) {
  return html`<${Section} title=${say("analytics.games")}>
    <${Numbers} open caption=${say("analytics.games")} name="games" items=${games.map((/** @type {any} */ game) => ({ ...game, id: game.game_id }))} columns=${[
      { key: "name", title: say("analytics.game"), show: (/** @type {any} */ game) => html`<button type="button" class="link" onClick=${() => filter({ game: game.game_id })}>${game.name}</button>` },
      ...["starts", "plays", "wins"].map((key) => ({ key, title: say(`analytics.${key}`) })),
    ]} />
  <//>`;
}

/** @param {{figures: any}} props */
function Cost({ figures: { prizes } }) {
  return html`<${Section} title=${say("analytics.cost_by_prize")} note=${say("analytics.cost_note")}>
    <${Numbers} open caption=${say("analytics.cost_by_prize")} name="cost" items=${prizes.map((/** @type {any} */ prize) => ({ ...prize, id: prize.prize_id }))} columns=${[
      { key: "name", title: say("analytics.prize") }, { key: "units", title: say("analytics.units") },
      { key: "cost", title: say("analytics.cost"), show: (/** @type {any} */ prize) => money(prize.cost) },
      { key: "currency", title: say("field.currency") },
    ]} />
  <//>`;
}

/** @param {{figures: any}} props */
function Odds({ figures: { odds } }) {
  return odds.map((/** @type {any} */ one) => {
    const off = one.odds.filter((/** @type {any} */ { by_chance: fine }) => !fine).length;
    const title = `${say("analytics.odds", { name: one.name, revision: one.revision })}${one.prize_group && `: ${one.prize_group}`}`;
    return html`<${Section} key=${`${one.game_id} ${one.revision} ${one.prize_group}`} title=${title} note=${say("analytics.draws", { count: one.draws })}>
      <p class=${off ? "odds-off" : "quiet"}>${off ? say("analytics.odds_off", { count: off }) : say("analytics.odds_fine")}</p>
      <${Numbers} open caption=${title} name=${`odds-${one.revision}${one.prize_group}`} items=${one.odds.map((/** @type {any} */ row) => ({ ...row, name: row.drawn ? row.name : say("analytics.loss") }))} columns=${[
        { key: "name", title: say("analytics.drawn") },
        { key: "declared", title: say("analytics.declared"), show: (/** @type {any} */ row) => share(row.declared) },
        { key: "draws", title: say("analytics.realised"), show: (/** @type {any} */ row) => `${number(row.draws)}\u00a0(${share(one.draws ? row.draws / one.draws : 0)})` },
        { key: "expected", title: say("analytics.expected"), show: (/** @type {any} */ row) => say("analytics.between", { low: Math.ceil(row.low), high: Math.floor(row.high) }) },
        { key: "by_chance", title: say("analytics.chance"), show: (/** @type {any} */ row) => html`<span class="status" data-tone=${row.by_chance ? "good" : "bad"}>${say(row.by_chance ? "analytics.by_chance" : "analytics.not_by_chance")}</span>` },
      ]} />
    <//>`;
  });
}

/** @param {{id: string, name: string, zone: string}} props */
function Exports({ id, name, zone }) {
  const { query } = place.value;
  const { progress, formats, take } = useExport();
  const days = { from: query.from ? fromInput(`${query.from}T00:00`, zone) : "", to: query.to ? fromInput(`${dayAfter(query.to)}T00:00`, zone) : "" };
  return html`<${Section} title=${say("analytics.exports")} note=${say("analytics.exports_note", { name })}>
    <div class="filters">${formats}</div>
    <p class="acts">${EXPORTS.map((kind) => html`<${Act} key=${kind} class="secondary outline small" act=${() => take(kind, { campaign_id: id, ...days })}>${say(`export.${kind}`)}<//>`)}</p>
    <p class="quiet" role="status">${progress}</p>
  <//>`;
}
