// The live section of Home.
import { html } from "../lib.js";
import { Section } from "../parts/layout.js";
import { useLive } from "../parts/live.js";
import { Loading } from "../parts/states.js";
import { address } from "../router.js";
import { can } from "../session.js";
import { label, moneys, number, say } from "../words.js";
import { Budgets } from "./budget.js";

const DAY = 86_400;
const SOON = 7 * DAY;

/** The operation that a page requires (pages.js). */
const NEEDS = /** @type {const} */ ({
  "/analytics": "GetCampaignFigures",
  "/campaigns": "ListCampaigns",
  "/deliveries": "ListTasks",
  "/integrations": "ListIntegrations",
  "/prizes": "ListPrizeSummary",
});

/** The address of a page; undefined without permission. @param {keyof typeof NEEDS} path */
const way = (path) => (can(NEEDS[path]) ? address(path) : undefined);

/** @param {{path: keyof typeof NEEDS, text: any, value: string, query?: string, tone?: string}} props */
function Tile({ path, text, value, query = "", tone = "" }) {
  const href = way(path) && way(path) + query;
  return html`<div class="tile"><span>${href ? html`<a href=${href}>${text}</a>` : text}</span><b data-tone=${tone}>${value}</b></div>`;
}

/** When a prize runs out: "today", "on Thursday", "in 23 days". */
const emptyOn = (/** @type {any} */ { remaining, empty_at: at }, /** @type {number} */ now) => {
  if (!remaining) {
    return say("now.empty");
  }
  if (at - now < DAY) {
    return say("now.empty_today");
  }
  return at - now < SOON
    ? say("now.empty_on", { day: new Intl.DateTimeFormat("en", { weekday: "long" }).format(at * 1000) })
    : say("now.empty_in", { count: Math.floor((at - now) / DAY) });
};

export default function Now() {
  const { data, away } = useLive();
  if (!data) {
    return html`<${Section} title=${say("now.title")}>${away ? html`<p class="quiet" role="status">${say("now.away")}</p>` : html`<${Loading} />`}<//>`;
  }
  return html`<${Section} title=${say("now.title")} note=${away ? say("now.away") : say("now.live")}>
    <div class="tiles now" data-away=${away}>
      <${Tile} path="/analytics" text=${say("now.plays")} value=${number(data.plays)} />
      <${Tile} path="/analytics" text=${say("now.wins")} value=${number(data.wins)} />
      <${Tile} path="/analytics" text=${say("now.cost")} value=${moneys(data.costs_a_day)} />
      <${Tile} path="/deliveries" text=${say("now.waiting")} value=${number(data.deliveries_waiting)} />
      <${Tile} path="/deliveries" query="?status=dead" text=${say("now.dead")} value=${number(data.deliveries_dead)} tone=${data.deliveries_dead ? "bad" : ""} />
    </div>
    ${data.prizes.length > 0 && html`<h3>${say("now.runway")}</h3>
      <ul class="lines">${data.prizes.map((/** @type {any} */ one) => html`<li key=${one.prize_id}>
        <span>${way("/prizes") ? html`<a href=${address(`/prizes/${encodeURIComponent(one.prize_id)}`)}>${one.name}</a>` : one.name}</span>
        <span class="quiet">${emptyOn(one, data.at)}, ${say("now.left", { count: one.remaining, rate: one.a_day })}</span></li>`)}</ul>`}
    ${data.budgets.length > 0 && html`<${Budgets} budgets=${data.budgets} href=${(/** @type {string} */ id) => way("/campaigns") && address(`/campaigns/${encodeURIComponent(id)}`)} />`}
    ${data.low_prizes.length > 0 && html`<h3>${say("now.low")}</h3>
      <ul class="lines low">${data.low_prizes.map((/** @type {any} */ one) => html`<li key=${one.prize_id}>
        <span>${way("/prizes") ? html`<a href=${address(`/prizes/${encodeURIComponent(one.prize_id)}`)}>${one.name}</a>` : one.name}</span>
        <span class="quiet">${say("now.low_left", { count: one.remaining })}</span></li>`)}</ul>`}
    ${data.integrations.length > 0 && html`<h3>${say("now.failing")}</h3>
      <ul class="lines">${data.integrations.map((/** @type {any} */ one) => html`<li key=${one.integration_id}>
        <span>${way("/integrations") ? html`<a href=${address("/integrations")}>${label(one.type)}</a>` : label(one.type)}</span>
        <span class="quiet">${say("now.to_send", { count: one.waiting })}</span></li>`)}</ul>`}
  <//>`;
}
