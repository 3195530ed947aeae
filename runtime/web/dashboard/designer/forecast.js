// The forecast of a saved game: its cost and the prizes that run out.
import { api } from "../api.js";
import { html, useState } from "../lib.js";
import { Form } from "../parts/form.js";
import { Section } from "../parts/layout.js";
import { Table } from "../parts/list.js";
import { label, number, percent, say } from "../words.js";

/** What players decide, by handler: the parameter, and the names of its shares. @type {Record<string, [string, (config: any) => string[]]>} */
const SHARES = {
  score_to_tier: ["tiers", (config) => config.tiers.map((/** @type {any} */ one) => `${number(one.min)}–${number(one.max)}`)],
  collect_items: ["caught", (config) => config.drops.map((/** @type {any} */ one) => one.type)],
};
const WIDTH = 600;
const HEIGHT = 170;
const BASE = 140;

/** @param {{game: any}} props */
export function Forecast({ game }) {
  const [found, setFound] = useState(/** @type {any} */ (null));
  const whole = { type: "integer", minimum: 0 };
  const [name, parts] = SHARES[game.reward_handler] ?? ["", () => []];
  const shares = parts(game.handler_config).map((part, i) => [`share_${i}`, { type: "number", minimum: 0, maximum: 100, label: say(`forecast.${name}`, { part }), ...(i ? {} : { help: say("help.forecast_shares") }) }]);
  const schema = {
    type: "object", required: ["plays"],
    properties: {
      plays: { type: "integer", minimum: 1, maximum: 10_000_000 }, plays_per_player: { ...whole, help: say("help.plays_per_player") },
      days: { ...whole, maximum: 3660, help: say("help.days_of_forecast") }, budget: { ...whole, help: say("help.budget_of_forecast") },
      ...Object.fromEntries(shares),
    },
  };
  const save = async (/** @type {any} */ value) => {
    const { plays, plays_per_player, days, budget } = value;
    const given = shares.map(([key]) => value[String(key)] ?? null);
    const declared = given.some((share) => share !== null) ? { [name]: given.map((share) => (share ?? 0) / 100).join(",") } : {};
    setFound(await api.get("/admin/games/{id}/forecast", { path: { id: game.id }, query: { plays, plays_per_player, days, budget, ...declared } }));
  };
  return html`<${Section} title=${say("forecast.title")} note=${say("trials.note", { revision: game.revision })}>
    <div class="sheet"><${Form} schema=${schema} value=${{ plays: 10_000 }} save=${save} word=${say("forecast.compute")} /></div>
    ${found && html`<${Outlook} found=${found} />`}
  <//>`;
}

/** @param {{found: any}} props */
function Outlook({ found }) {
  const money = (/** @type {number} */ amount) => `${number(Math.round(amount * 100) / 100)} ${found.currency}`.trim();
  const bounded = found.over_budget >= 0;
  const scaled = found.odds_factor >= 0;
  // Plays that may win several units have no odds, but a number of units per play. Without draws there is neither.
  const several = found.assumptions.some((/** @type {string} */ one) => /CAUGHT|CATCHES/.test(one)) || found.prizes.some((/** @type {any} */ one) => one.chance > 1);
  const drawn = found.prizes[0]?.chance >= 0;
  const rate = (/** @type {number} */ chance) => (several ? number(Math.round(chance * 10_000) / 10_000) : percent(chance));
  const columns = [
    { title: say("forecast.prize"), show: (/** @type {any} */ one) => html`<span class="name">${one.name}</span>` },
    { title: say("forecast.stock"), number: true, show: (/** @type {any} */ one) => (one.stock < 0 ? say("forecast.unlimited") : number(one.stock)) },
    { title: say("forecast.units"), number: true, show: (/** @type {any} */ one) => number(Math.round(one.units_mean * 10) / 10) },
    { title: say("forecast.units_99"), number: true, show: (/** @type {any} */ one) => number(one.units_99) },
    { title: say("forecast.run_out"), number: true, show: (/** @type {any} */ one) => html`<${Bar} share=${one.run_out} />` },
    { title: say("forecast.run_out_play"), number: true, show: (/** @type {any} */ one) => (one.run_out_play ? number(Math.round(one.run_out_play)) : "") },
    ...(drawn ? [{ title: say(several ? "forecast.rate" : "forecast.chance"), number: true, show: (/** @type {any} */ one) => rate(one.chance) }] : []),
    ...(scaled ? [{ title: say("forecast.within"), number: true, show: (/** @type {any} */ one) => rate(one.chance_within_budget) }] : []),
  ];
  return html`<div class="outlook" role="status">
      <p>${say("forecast.cost", { plays: found.plays, mean: money(found.mean), likely: money(found.cost_99), most: money(found.liability) })}</p>
      ${bounded && html`<p>${say("forecast.over", { budget: money(found.budget), share: percent(found.over_budget) })}${" "}
        ${scaled && (found.odds_factor > 0 ? say("forecast.factor", { factor: number(Math.round(found.odds_factor * 1000) / 1000) }) : say("forecast.no_factor"))}</p>`}
      ${found.assumptions.length > 0 && html`<p class="quiet">${say("forecast.assumptions")}</p>
        <ul class="quiet">${found.assumptions.map((/** @type {string} */ one) => html`<li key=${one}>${label(one.toLowerCase())}</li>`)}</ul>`}
    </div>
    ${found.costs.length > 1 && html`<${Distribution} found=${found} money=${money} />`}
    <${Table} caption=${say("forecast.title")} columns=${columns} items=${found.prizes.map((/** @type {any} */ one) => ({ ...one, id: one.prize_id }))} />`;
}

/** A share as a bar, with its text. @param {{share: number}} props */
function Bar({ share }) {
  return html`<span class="share"><svg viewBox="0 0 60 8" width="60" height="8" aria-hidden="true"><rect class="rest" width="60" height="8" rx="2" /><rect width=${60 * share} height="8" rx="2" /></svg> ${percent(share)}</span>`;
}

/** The distribution of the cost, with its 50, 90 and 99 % marks and the budget. @param {{found: any, money: (amount: number) => string}} props */
function Distribution({ found, money }) {
  const { costs } = found;
  const low = costs[0].low;
  const high = costs[costs.length - 1].high;
  const marks = [["50 %", found.median], ["90 %", found.cost_90], ["99 %", found.cost_99]];
  const least = Math.min(low, found.budget || low);
  const span = Math.max(high, found.budget, found.cost_99) - least || 1;
  const x = (/** @type {number} */ amount) => 10 + ((amount - least) / span) * (WIDTH - 20);
  // Ranges may differ in width: the height is the probability per amount, except for single amounts.
  const density = (/** @type {any} */ one) => one.probability / (one.high - one.low || 1);
  const most = Math.max(...costs.map(density));
  const names = marks.map(([name, at]) => `${name} ${money(Number(at))}`).join(", ");
  return html`<div class="chart forecast"><svg viewBox=${`0 -12 ${WIDTH} ${HEIGHT + 12}`} role="img" aria-label=${say("forecast.chart", { marks: names })}>
    ${costs.map((/** @type {any} */ one, /** @type {number} */ i) => html`<rect key=${i} x=${x(one.low)} width=${Math.max(2, x(one.high) - x(one.low))} y=${BASE - (density(one) / most) * (BASE - 40)} height=${(density(one) / most) * (BASE - 40)} />`)}
    <line class="base" x1="0" x2=${WIDTH} y1=${BASE} y2=${BASE} />
    ${marks.map(([name, at], i) => html`<g key=${name}><line x1=${x(Number(at))} x2=${x(Number(at))} y1=${9 + i * 15} y2=${BASE} /><text x=${x(Number(at))} y=${6 + i * 15} text-anchor=${x(Number(at)) > WIDTH / 2 ? "end" : "start"}>${name}</text></g>`)}
    ${found.budget > 0 && html`<g class="budget"><line x1=${x(found.budget)} x2=${x(found.budget)} y1="45" y2=${BASE} /><text x=${x(found.budget)} y="42" text-anchor=${x(found.budget) > WIDTH / 2 ? "end" : "start"}>${say("forecast.budget")}</text></g>`}
    <text x="10" y=${HEIGHT - 10}>${money(least)}</text><text x=${WIDTH - 10} y=${HEIGHT - 10} text-anchor="end">${money(least + span)}</text>
  </svg><p class="quiet small">${names}</p></div>`;
}
