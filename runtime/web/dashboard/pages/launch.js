// The launch check: problems to fix before a campaign is activated. The service decides what to check.
import { api } from "../api.js";
import { html } from "../lib.js";
import { Section } from "../parts/layout.js";
import { useData } from "../parts/requests.js";
import { Loading, Problem } from "../parts/states.js";
import { address } from "../router.js";
import { can } from "../session.js";
import { say } from "../words.js";

const TONES = /** @type {Record<string, string>} */ ({ LAUNCH_LEVEL_OK: "good", LAUNCH_LEVEL_WARNING: "warn", LAUNCH_LEVEL_PROBLEM: "bad" });

/** The parts of a campaign's settings in its edit form; the others are on its page. */
const EDITED = /^(?:end_date|origins|budget|settings\.(?:picture|description|terms))/;

/**
 * The address of the form with the field; "" if the dashboard has none, as for a setting of the service.
 * @param {string} field such as prizes/prize_1.stock.total @param {any} campaign @param {any[]} games
 */
function placeOf(field, campaign, games) {
  const [, kind, id, rest] = /^(prizes|games|quests|packs)\/([^.]+)\.(.*)$/.exec(field) ?? [];
  const own = `/campaigns/${encodeURIComponent(campaign.id)}`;
  if (kind) {
    return kind === "quests" ? address("/quests", { edit: id, field: rest }) : address(`/${kind}/${encodeURIComponent(id)}`, { field: rest });
  }
  if (field === "games") {
    return games.length ? address(`/games/${encodeURIComponent(games[0].id)}`) : address(`${own}/games/new`);
  }
  if (field === "integrations" || field === "draws") {
    return address(`/${field}`);
  }
  if (EDITED.test(field)) {
    return can("UpdateCampaign") ? address(own, { edit: "1", field }) : "";
  }
  return field.startsWith("settings") && can("UpdateCampaign") ? address(`${own}/page`, { field: field.replace(/^settings\.?(?:page\.)?/, "") }) : "";
}

/** @param {{campaign: any, games: any[]}} props games: it is checked anew where they change */
export function Launch({ campaign, games }) {
  const { data, error, again } = useData((signal) => api.get("/admin/campaigns/{id}/launch-check", { path: { id: campaign.id }, signal }), [JSON.stringify([campaign, games])]);
  const items = /** @type {any[]} */ (data?.items ?? []);
  const count = (/** @type {string} */ tone) => items.filter(({ level }) => TONES[level] === tone).length;
  const note = !data ? "" : count("bad") ? say("campaign.check_bad", { count: count("bad") }) : count("warn") ? say("campaign.check_warn", { count: count("warn") }) : say("campaign.check_good");
  return html`<${Section} title=${say("campaign.check")} note=${note}>
    ${error ? html`<${Problem} error=${error} again=${again} />` : !data ? html`<${Loading} />` : html`<ul class="checks">
      ${items.map(({ level, field, message }) => html`<li data-tone=${TONES[level]}><span class="mark" role="img" aria-label=${say(`check.${TONES[level]}`)}></span>
        <span>${message}${TONES[level] !== "good" && placeOf(field, campaign, games) && html` <a href=${placeOf(field, campaign, games)}>${say("check.open")}</a>`}</span></li>`)}
    </ul>`}
  <//>`;
}
