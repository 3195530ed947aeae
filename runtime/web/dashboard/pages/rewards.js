// Rewards: found by what staff has at hand, and moved singly or several at once.
import { api } from "../api.js";
import { useCampaigns } from "../contests/choosing.js";
import { html, useState } from "../lib.js";
import { Act } from "../parts/button.js";
import { Head } from "../parts/layout.js";
import { List } from "../parts/list.js";
import { Status, When } from "../parts/values.js";
import { Named } from "../prizes/definition.js";
import { can } from "../session.js";
import { dayBegins } from "../times.js";
import { useTitle } from "../title.js";
import { say, state } from "../words.js";
import { PlayerId } from "./players.js";
import { RewardActs } from "./reward_acts.js";
import { moveRewards } from "./reward_moves.js";

const STATUSES = ["WON", "CLAIMED", "FULFILLING", "FULFILLED", "FAILED", "EXPIRED", "REVOKED"];

export default function Rewards() {
  useTitle(say("rewards.title"));
  const campaigns = useCampaigns();
  const [chosen, setChosen] = useState(/** @type {Record<string, any>} */ ({}));
  const [refused, setRefused] = useState(/** @type {Record<string, string>} */ ({}));
  const [changes, setChanges] = useState(0);
  const many = Object.values(chosen);
  const moves = can("BulkRewards") ? ["fulfill", "retry", "revoke"] : [];
  const choose = (/** @type {any} */ one) => setChosen(({ [one.id]: was, ...others }) => (was ? others : { ...others, [one.id]: one }));
  const move = async (/** @type {string} */ what) => {
    const why = await moveRewards(what, many);
    if (why) {
      setRefused(why);
      setChosen(Object.fromEntries(many.filter(({ id }) => why[id]).map((one) => [one.id, one])));
      setChanges((count) => count + 1);
    }
  };
  const columns = [
    ...(moves.length ? [{
      title: say("rewards.choose"), narrow: true, acts: true,
      show: (/** @type {any} */ one) => html`<input type="checkbox" aria-label=${say("rewards.choose_one", { name: one.name })} checked=${Boolean(chosen[one.id])} disabled=${!chosen[one.id] && many.length >= 100} onChange=${() => choose(one)} />`,
    }] : []),
    { title: say("rewards.prize"), show: (/** @type {any} */ one) => html`<${Named} id=${one.prize_id} name=${one.name} />${refused[one.id] && html`<br /><small class="bad">${refused[one.id]}</small>`}` },
    { title: say("rewards.player"), narrow: true, show: (/** @type {any} */ one) => html`<${PlayerId} id=${one.player_id} />` },
    { title: say("campaigns.status"), narrow: true, show: (/** @type {any} */ one) => html`<${Status} value=${one.status} />` },
    { title: say("list.acts"), narrow: true, acts: true, show: (/** @type {any} */ one) => html`<${RewardActs} reward=${one} changed=${() => setChanges((count) => count + 1)} />` },
    { title: say("rewards.won"), narrow: true, show: (/** @type {any} */ one) => html`<${When} at=${one.won_at} />` },
  ];
  const filters = [
    { name: "contact", label: say("rewards.contact") },
    ...(can("FulfillReward") ? [{ name: "code", label: say("rewards.code") }] : []),
    { name: "prize_id", label: say("rewards.prize_id") },
    campaigns.filter,
    { name: "status", label: say("campaigns.status"), options: STATUSES.map((value) => ({ value: value.toLowerCase(), text: state(`REWARD_STATUS_${value}`) })) },
    { name: "won_from", label: say("rewards.won_from"), day: true },
    { name: "won_until", label: say("rewards.won_until"), day: true },
  ];
  return html`<${Head} title=${say("rewards.title")}>
      ${many.length > 0 && moves.map((what) => html`<${Act} class=${`${what === "revoke" ? "danger" : "secondary"} outline`} act=${() => move(what)}>${say(`rewards.${what}_many`, { count: many.length })}<//>`)}
    <//>
    <${List} caption=${say("rewards.title")} columns=${columns} filters=${filters} about=${changes}
      load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get("/admin/rewards", { query: { ...query, won_from: dayBegins(query.won_from), won_until: dayBegins(query.won_until, 1) }, signal })}
      empty=${{ title: say("rewards.empty"), text: say("rewards.empty_text") }} />`;
}
