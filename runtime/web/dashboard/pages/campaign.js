// One campaign: its figures, launch check, games, embedding and status changes.
import { api, Refused } from "../api.js";
import { html, useEffect, useRef, useState } from "../lib.js";
import { Act } from "../parts/button.js";
import { differing } from "../parts/compared.js";
import { confirm, Dialog } from "../parts/dialog.js";
import { Embed } from "../parts/embed.js";
import { Form } from "../parts/form.js";
import { Steps, hasSteps } from "../parts/funnel.js";
import { Head, Section } from "../parts/layout.js";
import { Table } from "../parts/list.js";
import { Picture } from "../parts/picture.js";
import { useData } from "../parts/requests.js";
import { Empty, Loading, Problem } from "../parts/states.js";
import { complain, tell } from "../parts/toast.js";
import { Id, Status } from "../parts/values.js";
import { address, filter, go, place } from "../router.js";
import { can } from "../session.js";
import { period, whenNamed } from "../times.js";
import { useTitle } from "../title.js";
import { label, moneys, number, say, state } from "../words.js";
import { Budget } from "./budget.js";
import { EntryForm } from "./campaign_entry.js";
import { Exports } from "./campaign_exports.js";
import { Messages } from "./campaign_messages.js";
import { addressOf, CAMPAIGN } from "./campaigns.js";
import { moveGame, verbOf } from "./game_moves.js";
import { Launch } from "./launch.js";

const MOVES = /** @type {Record<string, string[]>} */ ({
  CAMPAIGN_STATUS_DRAFT: ["activate"],
  CAMPAIGN_STATUS_ACTIVE: ["pause", "end"],
  CAMPAIGN_STATUS_PAUSED: ["activate", "end"],
});
const TO = /** @type {Record<string, string>} */ ({ activate: "ACTIVE", pause: "PAUSED", end: "ENDED" });

const TRACKERS = ["ga4", "gtm", "meta_pixel", "consent"];

const EDITED = {
  ...CAMPAIGN,
  properties: {
    ...CAMPAIGN.properties,
    redeem_until: { type: "integer", format: "unix-time", help: say("help.redeem_until") },
    frozen: { type: "boolean", help: say("help.frozen") },
    budget: { type: "object", description: say("budget.help"), properties: { amount: { type: "number", minimum: 0 }, currency: { type: "string", maxLength: 3 } } },
    origins: { type: "array", help: say("help.origins"), items: { type: "string", minLength: 1, maxLength: 128 } },
    hosts: { type: "array", help: say("help.hosts"), items: { type: "string", minLength: 1, maxLength: 253 } },
    tracking: {
      type: "object",
      help: say("help.tracking"),
      properties: Object.fromEntries(TRACKERS.map((key) => [key, { type: "string", maxLength: key === "consent" ? 64 : 20, help: say(`help.tracking_${key}`) }])),
    },
    settings: {
      type: "object",
      help: say("help.settings"),
      properties: {
        picture: { type: "string", maxLength: 2048, label: say("field.image_url"), help: say("help.picture") },
        description: { type: "string", format: "lines", maxLength: 2000 },
        terms: { type: "string", format: "lines", maxLength: 10000, help: say("help.terms") },
      },
    },
  },
};
/** The parts of `settings` that the form edits. The others, such as the theme, are kept. */
const PAGE = Object.keys(EDITED.properties.settings.properties);

/** @param {{id: string}} props */
export default function Campaign({ id }) {
  const { data: campaign, error, again, set } = useData((signal) => api.get("/admin/campaigns/{id}", { path: { id }, signal }), [id]);
  const games = useData((signal) => everyGame(id, signal), [id]);
  const [shown, setShown] = useState("");
  const { edit = "", field = "" } = place.value.query;
  useEffect(() => setShown(edit && can("UpdateCampaign") ? "edit" : ""), [edit, field]);
  const close = () => {
    setShown("");
    filter({ edit: "", field: "" });
  };
  useTitle(campaign?.name ?? "");
  if (!campaign) {
    return error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} />`;
  }
  const zone = campaign.timezone;
  const active = (games.data ?? []).filter(({ status }) => status === "GAME_STATUS_ACTIVE");
  const move = async (/** @type {string} */ verb) => {
    const yes = await confirm({
      title: say(`campaign.${verb}_title`, { name: campaign.name }),
      text: say(`campaign.${verb}_text`, { count: active.length }),
      items: active.slice(0, 5).map(({ name }) => name),
      word: say(`campaign.${verb}`),
      danger: verb === "end",
    });
    if (yes) {
      try {
        // With the revision that was read (optimistic lock): a campaign that changed since is not activated.
        const body = { status: `CAMPAIGN_STATUS_${TO[verb]}`, revision: campaign.revision };
        const moved = await api.put("/admin/campaigns/{id}", { path: { id }, body });
        set(moved);
        tell(say("campaign.moved", { name: moved.name, state: state(moved.status) }));
      } catch (refused) {
        complain(refused);
        again();
      }
    }
  };
  const moves = can("UpdateCampaign") ? MOVES[campaign.status] ?? [] : [];
  return html`<${Head} title=${campaign.name} status=${campaign.status} back=${{ href: address("/campaigns"), text: say("campaigns.title") }}>
      ${can("ListPrizeSummary") && html`<a role="button" class="secondary outline" href=${address("/prizes", { campaign_id: id })}>${say("campaign.prizes")}</a>`}
      ${can("UpdateCampaign") && html`<button type="button" class="secondary outline" onClick=${() => setShown("edit")}>${say("campaign.edit")}</button>`}
      ${can("UpdateCampaign") && html`<a role="button" class="secondary outline" href=${address(`/campaigns/${encodeURIComponent(id)}/page`)}>${say("campaign.page")}</a>`}
      ${can("DuplicateCampaign") && html`<button type="button" class="secondary outline" onClick=${() => setShown("duplicate")}>${say("campaign.duplicate")}</button>`}
      ${moves.map((verb) => html`<${Act} class=${verb === "activate" ? "" : verb === "end" ? "danger outline" : "secondary outline"} act=${() => move(verb)}>${say(`campaign.${verb}`)}<//>`)}
    <//>
    <p class="under">${period(campaign.start_date, campaign.end_date, zone)}</p>
    ${can("GetCampaignAnalytics") && html`<${Numbers} id=${id} zone=${zone} />`}
    ${campaign.budget && html`<${Budget} budget=${campaign.budget} />`}
    ${["CAMPAIGN_STATUS_DRAFT", "CAMPAIGN_STATUS_PAUSED"].includes(campaign.status) && games.data && can("GetLaunchCheck")
      && html`<${Launch} campaign=${campaign} games=${games.data} />`}
    <${Games} games=${games} campaign=${campaign} />
    <${EntryForm} campaign=${campaign} saved=${set} />
    ${can("PreviewMessage") && html`<${Messages} campaign=${campaign} />`}
    ${can("ExportRows") && campaign.status !== "CAMPAIGN_STATUS_DRAFT" && html`<${Exports} campaign=${campaign} />`}
    ${games.data && campaign.status !== "CAMPAIGN_STATUS_ENDED" && html`<${Embed} kind="c" of=${campaign} origins=${campaign.origins}
      games=${active.map((one) => one.id)} calendar=${active.length > 0 && campaign.settings?.page?.layout === "calendar"} note=${campaign.status === "CAMPAIGN_STATUS_DRAFT" ? say("embed.draft") : ""} />`}
    <${Section} title=${say("campaign.details")}>
      <dl class="details">
        <dt>${say("campaign.id")}</dt><dd><${Id} value=${campaign.id} /></dd>
        <dt>${say("campaign.merchant")}</dt><dd>${campaign.merchant_id || say("none")}</dd>
        <dt>${say("campaign.redeem_until")}</dt><dd>${whenNamed(campaign.redeem_until, zone)}</dd>
        ${campaign.archive && html`<dt>${say("campaign.plays")}</dt><dd>${archiveOf(campaign.archive, zone)}</dd>
          <dt>${say("campaign.file")}</dt><dd><${Id} value=${campaign.archive.file_sha256} /></dd>`}
        ${campaign.frozen && html`<dt>${say("campaign.rules")}</dt><dd>${say("campaign.frozen")}</dd>`}
        <dt>${say("campaign.origins")}</dt><dd>${campaign.origins.join(", ") || say("none")}</dd>
        ${campaign.hosts.length > 0 && html`<dt>${say("field.hosts")}</dt><dd>${campaign.hosts.map((/** @type {string} */ host) => html`<a href=${`https://${host}/`} rel="noopener">${host}</a> `)}</dd>`}
      </dl>
    <//>
    ${shown === "edit" && html`<${Edit} campaign=${campaign} close=${close} saved=${set} />`}
    ${shown === "duplicate" && html`<${Duplicate} campaign=${campaign} close=${() => setShown("")} />`}`;
}

/** What was archived, and when. @param {any} archive @param {string} zone */
const archiveOf = ({ plays, deleted, finished_at }, zone) =>
  finished_at ? say("campaign.archived", { count: plays, at: whenNamed(finished_at, zone) }) : say("campaign.archiving", { count: plays, deleted: number(deleted) });

/** All games of the campaign, without paging in the table. @param {string} id @param {AbortSignal} signal */
async function everyGame(id, signal) {
  /** @type {any[]} */
  const found = [];
  for (let cursor = "", more = true; more; ) {
    const { items, pagination } = await api.get("/admin/games", { query: { campaign_id: id, limit: 100, cursor }, signal });
    found.push(...items);
    cursor = pagination.next_cursor;
    more = pagination.has_more;
  }
  return found;
}

/** @param {{id: string, zone: string}} props */
function Numbers({ id, zone }) {
  // A separate request, because it is slow to count.
  const figures = useData((signal) => (can("GetCampaignFigures") ? api.get("/admin/campaigns/{id}/figures", { path: { id }, signal }) : Promise.resolve(null)), [id]);
  const { data, error, again } = useData((signal) => api.get("/admin/campaigns/{id}/analytics", { path: { id }, signal }), [id]);
  if (error || !data) {
    return error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} />`;
  }
  const day = new Date().toLocaleDateString("sv", { timeZone: zone });
  const count = data.by_day.find((/** @type {any} */ one) => one.day === day)?.plays ?? 0;
  const tile = (/** @type {"plays" | "players" | "wins"} */ key, note = "") => html`<div class="tile"><span>${say(`numbers.${key}`)}</span><b>${number(data[key])}</b><small>${note}</small></div>`;
  return html`<div class="tiles">
    ${tile("plays", say("numbers.today", { count }))}
    ${tile("players")}
    ${tile("wins", data.plays ? say("numbers.rate", { rate: `${Math.round((data.wins / data.plays) * 1000) / 10} %` }) : "")}
    ${can("GetCampaignFigures") && html`<${Given} id=${id} figures=${figures} />`}
  </div>
  ${figures.data && hasSteps(figures.data.funnel) && html`<${Steps} funnel=${figures.data.funnel} />`}`;
}

/** The total value of awarded prizes. @param {{id: string, figures: any}} props */
function Given({ id, figures: { data, error } }) {
  return html`<div class="tile given"><span><a href=${address("/analytics", { campaign: id })}>${say("numbers.given")}</a></span>
    <b>${data ? moneys(data.costs) : "…"}</b><small>${error ? say("numbers.not_counted") : say("numbers.by_value")}</small></div>`;
}

/** @param {{games: any, campaign: any}} props */
function Games({ games: { data, error, again, set }, campaign }) {
  const move = async (/** @type {any} */ game) => {
    try {
      const moved = await moveGame(game);
      if (moved) {
        set(data.map((/** @type {any} */ one) => (one.id === moved.id ? moved : one)));
      }
    } catch (refused) {
      complain(refused);
      again();
    }
  };
  const movable = can("UpdateGame") && campaign.status !== "CAMPAIGN_STATUS_ENDED";
  const columns = [
    { title: say("game.name"), show: (/** @type {any} */ one) => html`<a class="name" href=${address(`/games/${encodeURIComponent(one.id)}`)}>${one.name}</a>` },
    { title: say("game.type"), show: (/** @type {any} */ one) => label(one.type) },
    { title: say("game.handler"), show: (/** @type {any} */ one) => html`<code>${one.reward_handler}</code>` },
    { title: say("campaigns.status"), narrow: true, show: (/** @type {any} */ one) => html`<${Status} value=${one.status} />` },
    { title: say("game.revision"), number: true, show: (/** @type {any} */ one) => number(one.revision) },
    ...(movable ? [{
      title: say("list.acts"), narrow: true, acts: true,
      show: (/** @type {any} */ one) => verbOf(one) && html`<${Act} class="secondary outline small" act=${() => move(one)}>${say(`game.${verbOf(one)}`)}<//>`,
    }] : []),
  ];
  const make = can("CreateGame") && campaign.status !== "CAMPAIGN_STATUS_ENDED" && html`<a role="button" class="secondary outline small" href=${address(`/campaigns/${encodeURIComponent(campaign.id)}/games/new`)}>${say("game.new")}</a>`;
  return html`<${Section} title=${say("campaign.games")} acts=${make}>
    ${error ? html`<${Problem} error=${error} again=${again} />` : !data ? html`<${Loading} />` : data.length
      ? html`<${Table} caption=${say("campaign.games")} columns=${columns} items=${data} />`
      : html`<${Empty} title=${say("campaign.no_games")} text=${say("campaign.no_games_text")}>
          ${can("CreatePrize") && html`<a role="button" class="secondary outline" href=${address("/prizes/new", { campaign_id: campaign.id })}>${say("prizes.new")}</a>`} ${make}<//>`}
  <//>`;
}

/** @param {{campaign: any, close: () => void, saved: (campaign: any) => void}} props */
function Edit({ campaign, close, saved }) {
  // The form's initial value. Only the fields that differ are sent, with the latest revision that was read.
  const begun = useRef(campaign);
  const filled = useRef(editable(campaign));
  const path = { id: campaign.id };
  const save = async (/** @type {any} */ value) => {
    const own = Object.fromEntries(differing(filled.current, value).map((key) => [key, value[key]]));
    if (own.settings) {
      own.settings = settingsOf(begun.current, own.settings);
    }
    try {
      saved(await api.put("/admin/campaigns/{id}", { path, body: { ...own, revision: begun.current.revision } }));
    } catch (refused) {
      if (/** @type {any} */ (refused).reason !== "STALE_REVISION") {
        throw refused;
      }
      const now = await api.get("/admin/campaigns/{id}", { path });
      const theirs = differing(editable(begun.current), editable(now));
      begun.current = now;
      throw new Refused(409, { message: say("campaign.stale", { what: theirs.map(label).join(", ") || say("campaign.stale_other") }) });
    }
    tell(say("saved"));
    close();
  };
  return html`<${Dialog} title=${say("campaign.edit_title")} close=${close}>
    <${Form} schema=${EDITED} value=${filled.current} save=${save} word=${say("save")} cancel=${close} widget=${(/** @type {string} */ name) => (name === "picture" ? Picture : null)} />
  <//>`;
}

/** The form's value. @param {any} campaign @returns {Record<string, any>} */
const editable = ({ name, timezone, start_date, end_date, redeem_until, frozen, origins, hosts, tracking, budget, settings }) => ({
  name, timezone, start_date, end_date, redeem_until, frozen, origins, hosts, budget: { amount: budget?.amount ?? 0, currency: budget?.currency ?? "" },
  tracking: Object.fromEntries(TRACKERS.map((key) => [key, tracking?.[key] ?? ""])),
  settings: Object.fromEntries(PAGE.map((key) => [key, textOf(settings?.[key])])),
});

/** A text of the settings; a picture may also be an object with its address. @param {any} value */
const textOf = (value) => (typeof value === "string" ? value : typeof value?.image === "string" ? value.image : "");

/** The settings with the form's texts. An unchanged part keeps its stored form; an empty text removes it. @param {any} campaign @param {Record<string, string>} typed */
function settingsOf({ settings }, typed) {
  const made = { ...settings };
  for (const key of PAGE.filter((key) => typed[key] !== textOf(settings?.[key]))) {
    if (typed[key]) {
      made[key] = typed[key];
    } else {
      delete made[key];
    }
  }
  return made;
}

/** @param {{campaign: any, close: () => void}} props */
function Duplicate({ campaign, close }) {
  const save = async (/** @type {any} */ value) => {
    const made = await api.post("/admin/campaigns/{id}/duplicate", { path: { id: campaign.id }, body: value });
    tell(say("campaign.copied", { name: made.name }) + (made.shift_days ? ` ${say("campaign.shifted", { count: made.shift_days })}` : ""));
    close();
    go(addressOf(made.id));
  };
  const { name, start_date, end_date } = CAMPAIGN.properties;
  const schema = { type: "object", required: ["name"], properties: { name, start_date, end_date: { ...end_date, help: say("campaign.duplicate_ends") } } };
  return html`<${Dialog} title=${say("campaign.duplicate_title", { name: campaign.name })} close=${close}>
    <p>${say("campaign.duplicate_text")}</p>
    <${Form} schema=${schema} zone=${campaign.timezone} value=${{ name: `${campaign.name} 2`, start_date: 0, end_date: 0 }} save=${save} word=${say("campaign.duplicate")} cancel=${close} />
  <//>`;
}
