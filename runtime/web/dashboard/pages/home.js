// Home: active campaigns, and the items that need attention.
import { api } from "../api.js";
import { html } from "../lib.js";
import { Head, Section } from "../parts/layout.js";
import { Table } from "../parts/list.js";
import { Menu } from "../parts/menu.js";
import { loadById, useData } from "../parts/requests.js";
import { Empty, Loading, Problem } from "../parts/states.js";
import { Status, When } from "../parts/values.js";
import { Named } from "../prizes/definition.js";
import { address } from "../router.js";
import { can } from "../session.js";
import { period } from "../times.js";
import { useTitle } from "../title.js";
import { number, say } from "../words.js";
import { approvalAddress, summary } from "./approvals.js";
import Now from "./now.js";

const RUNNING_MAX = 10;
const LOW = 0.1;
const SHOWN_MAX = 5;

/** The entries of the "Create" menu: operation, label, path, query. @type {[string, string, string, Record<string, string>?][]} */
const CREATES = [
  ["CreateCampaign", "home.create_template", "/campaigns/gallery"], ["CreateCampaign", "home.create_campaign", "/campaigns", { make: "1" }],
  ["CreatePrize", "home.create_prize", "/prizes/new"], ["CreateLeaderboard", "home.create_board", "/leaderboards", { make: "1" }],
  ["CreateQuest", "home.create_quest", "/quests", { make: "1" }], ["CreateIntegration", "home.create_integration", "/integrations", { make: "1" }],
];

/** @param {{ask: (signal: AbortSignal) => Promise<any>, show: (data: any) => any, title: string, acts?: any}} props */
function Part({ ask, show, title, acts = null }) {
  const { data, error, again } = useData(ask, []);
  return html`<${Section} title=${title} acts=${acts}>${error ? html`<${Problem} error=${error} again=${again} />` : data ? show(data) : html`<${Loading} />`}<//>`;
}

export default function Home() {
  useTitle(say("home.title"));
  return html`<${Head} title=${say("home.title")}><${Menu} text=${say("home.create")} items=${CREATES.filter(([needs]) => can(needs)).map(([, text, path, query]) => ({ text: say(text), href: address(path, query) }))} /><//>
    ${can("WatchLive") && html`<${Now} />`}
    ${can("ListCampaigns") && html`<${Running} />`}
    <div class="columns">
      ${can("ListPrizeSummary") && html`<${Stock} />`}
      ${can("ListTasks") && html`<${Dead} />`}
      ${can("ListApprovals") && html`<${Waiting} />`}
      ${can("ListViolations") && html`<${Violations} />`}
    </div>`;
}

function Running() {
  const ask = async (/** @type {AbortSignal} */ signal) => {
    const [active, paused] = await Promise.all(["active", "paused"].map((status) => api.get("/admin/campaigns", { query: { status, limit: RUNNING_MAX }, signal })));
    const items = [...active.items, ...paused.items].slice(0, RUNNING_MAX);
    const numbers = can("GetCampaignAnalytics")
      ? await Promise.all(items.map((/** @type {any} */ { id }) => api.get("/admin/campaigns/{id}/analytics", { path: { id }, signal })))
      : [];
    return items.map((/** @type {any} */ item, /** @type {number} */ i) => ({ ...item, numbers: numbers[i] }));
  };
  const columns = [
    { title: say("campaigns.name"), show: (/** @type {any} */ one) => html`<a class="name" href=${address(`/campaigns/${encodeURIComponent(one.id)}`)}>${one.name}</a>` },
    { title: say("campaigns.status"), narrow: true, show: (/** @type {any} */ one) => html`<${Status} value=${one.status} />` },
    { title: say("campaigns.period"), show: (/** @type {any} */ one) => period(one.start_date, one.end_date, one.timezone) },
    ...["plays", "players", "wins"].map((key) => ({
      title: say(`numbers.${key}`), number: true, show: (/** @type {any} */ one) => (one.numbers ? number(one.numbers[key]) : ""),
    })),
  ];
  const to = html`<a role="button" class="secondary outline small" href=${address("/campaigns")}>${say("home.view_all")}</a>`;
  return html`<${Part} title=${say("home.running")} ask=${ask} acts=${to} show=${(/** @type {any[]} */ items) =>
    items.length
      ? html`<${Table} caption=${say("home.running")} columns=${columns} items=${items} />`
      : html`<${Empty} title=${say("home.none_running")} text=${say("home.none_running_text")}>
          ${can("CreateCampaign") && html`<a role="button" href=${address("/campaigns/gallery")}>${say("gallery.open")}</a> <a role="button" class="secondary outline" href=${address("/campaigns", { make: "1" })}>${say("campaigns.new")}</a>`}
        <//>`} />`;
}

function Stock() {
  const ask = async (/** @type {AbortSignal} */ signal) => {
    const low = [...(await loadById("/admin/prizes/summary", signal)).values()].filter((/** @type {any} */ { total, remaining }) => total > 0 && remaining < total * LOW);
    return low.sort((/** @type {any} */ one, /** @type {any} */ other) => one.remaining / one.total - other.remaining / other.total).slice(0, SHOWN_MAX);
  };
  return html`<${Part} title=${say("home.stock")} ask=${ask} show=${(/** @type {any[]} */ items) =>
    items.length
      ? html`<ul class="lines">${items.map((one) => html`<li key=${one.prize_id}><${Named} id=${one.prize_id} name=${one.name} />
          <span class="gauge"><progress value=${one.remaining} max=${one.total} aria-label=${one.name}></progress>${number(one.remaining)} / ${number(one.total)}</span></li>`)}</ul>`
      : html`<p class="quiet">${say("home.stock_fine")}</p>`} />`;
}

function Dead() {
  const ask = (/** @type {AbortSignal} */ signal) => api.get("/admin/fulfillment/tasks", { query: { status: "dead", limit: SHOWN_MAX }, signal });
  const to = html`<a role="button" class="secondary outline small" href=${address("/deliveries", { status: "dead" })}>${say("home.view_all")}</a>`;
  return html`<${Part} title=${say("home.dead")} ask=${ask} acts=${to} show=${(/** @type {any} */ { items }) =>
    items.length
      ? html`<ul class="lines">${items.map((/** @type {any} */ one) => html`<li key=${one.id}><span>${one.last_error || one.channel}</span>
          <span class="quiet">${say("home.attempts", { count: one.attempts })}, <${When} at=${one.updated_at} /></span></li>`)}</ul>`
      : html`<p class="quiet">${say("home.dead_none")}</p>`} />`;
}

function Waiting() {
  const ask = (/** @type {AbortSignal} */ signal) => api.get("/admin/approvals", { query: { status: "waiting", limit: 100 }, signal });
  const to = html`<a role="button" class="secondary outline small" href=${address("/approvals", { status: "waiting" })}>${say("home.view_all")}</a>`;
  return html`<${Part} title=${say("home.approvals")} ask=${ask} acts=${to} show=${(/** @type {any} */ { items, pagination }) =>
    items.length
      ? html`<p><b>${number(items.length)}${pagination.has_more ? "+" : ""}</b></p>
        <ul class="lines">${items.slice(0, SHOWN_MAX).map((/** @type {any} */ one) => html`<li key=${one.id}><a href=${approvalAddress(one)}>${summary(one)}</a><span class="quiet">${one.requested_by}</span></li>`)}</ul>`
      : html`<p class="quiet">${say("home.approvals_none")}</p>`} />`;
}

function Violations() {
  const ask = (/** @type {AbortSignal} */ signal) => api.get("/admin/violations", { query: { status: "open", limit: SHOWN_MAX }, signal });
  const to = html`<a role="button" class="secondary outline small" href=${address("/violations", { status: "open" })}>${say("home.view_all")}</a>`;
  return html`<${Part} title=${say("home.violations")} ask=${ask} acts=${to} show=${(/** @type {any} */ { items }) =>
    items.length
      ? html`<ul class="lines">${items.map((/** @type {any} */ one) => html`<li key=${one.id}><span>${one.holds}</span><${Status} value=${one.status} /></li>`)}</ul>`
      : html`<p class="quiet">${say("home.violations_none")}</p>`} />`;
}
