// The launch check: problems to fix before a campaign is activated. The service decides what to check.
import { api } from "../api.js";
import { html } from "../lib.js";
import { Section } from "../parts/layout.js";
import { useData } from "../parts/requests.js";
import { Loading, Problem } from "../parts/states.js";
import { address } from "../router.js";
import { say } from "../words.js";

const TONES = /** @type {Record<string, string>} */ ({ LAUNCH_LEVEL_OK: "good", LAUNCH_LEVEL_WARNING: "warn", LAUNCH_LEVEL_PROBLEM: "bad" });

/** The page that fixes it, if it is another one. @param {string} field such as prizes/prize_1.stock.total */
const placeOf = (field) => /^(?:(?:prizes|games)\/[^.]+|quests)/.exec(field)?.[0];

/** @param {{campaign: any, games: any[]}} props games: it is checked anew where they change */
export function Launch({ campaign, games }) {
  const { data, error, again } = useData((signal) => api.get("/admin/campaigns/{id}/launch-check", { path: { id: campaign.id }, signal }), [JSON.stringify([campaign, games])]);
  const items = /** @type {any[]} */ (data?.items ?? []);
  const count = (/** @type {string} */ tone) => items.filter(({ level }) => TONES[level] === tone).length;
  const note = !data ? "" : count("bad") ? say("campaign.check_bad", { count: count("bad") }) : count("warn") ? say("campaign.check_warn", { count: count("warn") }) : say("campaign.check_good");
  return html`<${Section} title=${say("campaign.check")} note=${note}>
    ${error ? html`<${Problem} error=${error} again=${again} />` : !data ? html`<${Loading} />` : html`<ul class="checks">
      ${items.map(({ level, field, message }) => html`<li data-tone=${TONES[level]}><span class="mark" role="img" aria-label=${say(`check.${TONES[level]}`)}></span>
        <span>${message}${placeOf(field) && TONES[level] !== "good" && html` <a href=${address(`/${placeOf(field)}`)}>${say("check.open")}</a>`}</span></li>`)}
    </ul>`}
  <//>`;
}
