// A player's plays, rewards and deliveries.
import { api } from "../api.js";
import { html, useState } from "../lib.js";
import { Act } from "../parts/button.js";
import { confirm, Dialog } from "../parts/dialog.js";
import { Section } from "../parts/layout.js";
import { PagedTable } from "../parts/paged_table.js";
import { loadById, useData } from "../parts/requests.js";
import { Loading, Problem } from "../parts/states.js";
import { complain, tell } from "../parts/toast.js";
import { Id, Status, When } from "../parts/values.js";
import { channelName, Named } from "../prizes/definition.js";
import { address } from "../router.js";
import { can } from "../session.js";
import { label, number, say, state } from "../words.js";
import { kindOf } from "./campaign_messages.js";
import { DeliveryDetails } from "./delivery_details.js";
import { RewardActs } from "./reward_acts.js";
import { retryTask } from "./reward_moves.js";

/** @param {{id: string, about: number}} props */
export function Plays({ id, about }) {
  const [shown, setShown] = useState("");
  const games = useData((signal) => (can("ListGames") ? loadById("/admin/games", signal) : Promise.resolve(new Map())), []);
  const columns = [
    { title: say("player.when"), narrow: true, show: (/** @type {any} */ one) => html`<${When} at=${one.played_at} />` },
    { title: say("player.game"), show: (/** @type {any} */ one) => html`<a href=${address(`/games/${encodeURIComponent(one.game_id)}`)}>${games.data?.get(one.game_id)?.name ?? one.game_id}</a>` },
    { title: say("player.won"), show: (/** @type {any} */ one) => won(one) },
    { title: say("list.acts"), narrow: true, acts: true, show: (/** @type {any} */ one) => html`<button type="button" class="secondary outline small" onClick=${() => setShown(one.id)}>${say("play.look")}</button>` },
  ];
  return html`<${Section} title=${say("player.plays")}>
    <${PagedTable} caption=${say("player.plays")} columns=${columns} empty=${say("player.no_plays")} about=${about}
      load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get("/admin/players/{id}/plays", { path: { id }, query, signal })} />
    ${shown && html`<${Play} id=${shown} close=${() => setShown("")} />`}
  <//>`;
}

/** The result of a play as text. @param {any} play */
function won(play) {
  const rewards = play.rewards.map((/** @type {any} */ one) => (one.quantity > 1 ? `${number(one.quantity)} × ${one.name}` : one.name)).join(", ");
  return rewards || (play.unavailable.length ? say("play.unavailable", { prizes: play.unavailable.join(", ") }) : say("play.nothing"));
}

/** A play's decision, and whether its replay gives the same result. @param {{id: string, close: () => void}} props */
function Play({ id, close }) {
  const { data, error, again } = useData((signal) => api.post("/admin/plays/{id}/replay", { path: { id }, signal }), [id]);
  const path = data?.replayed?.path ?? [];
  return html`<${Dialog} title=${say("play.title")} close=${close} wide>
    ${error ? html`<${Problem} error=${error} again=${again} />` : !data ? html`<${Loading} />` : html`
      <p class="replay" data-tone=${data.matches ? "good" : "bad"}>${data.matches ? say("play.matches") : say("play.differs", { why: data.replayed?.mismatch ?? "" })}</p>
      <dl class="details">
        <dt>${say("play.id")}</dt><dd><${Id} value=${data.play.id} /></dd>
        <dt>${say("player.when")}</dt><dd><${When} at=${data.play.played_at} /></dd>
        <dt>${say("player.won")}</dt><dd>${won(data.play)}</dd>
        ${data.play.unavailable.length > 0 && html`<dt>${say("play.could_not")}</dt><dd>${data.play.unavailable.join(", ")}</dd>`}
        <dt>${say("game.revision")}</dt><dd>${number(data.play.revision)}</dd>
        <dt>${say("play.payload")}</dt><dd><code>${JSON.stringify(data.payload)}</code></dd>
        <dt>${say("play.seed")}</dt><dd><${Id} value=${data.play.seed} /></dd>
        <dt>${say("play.client_seed")}</dt><dd>${data.play.client_seed || say("none")}</dd>
        <dt>${say("play.path")}</dt>
        <dd>${path.length ? html`<ol class="named">${path.map((/** @type {any} */ step) => html`<li><code>${JSON.stringify(step)}</code></li>`)}</ol>` : say("none")}</dd>
      </dl>`}
    <footer><button type="button" class="secondary outline" onClick=${close}>${say("close")}</button></footer>
  <//>`;
}

/** @param {{id: string, about: number, changed: () => any}} props */
export function Rewards({ id, about, changed }) {
  const columns = [
    { title: say("player.when"), narrow: true, show: (/** @type {any} */ one) => html`<${When} at=${one.won_at} />` },
    { title: say("rewards.prize"), show: (/** @type {any} */ one) => html`<span class="name">${one.name}</span>` },
    { title: say("campaigns.status"), narrow: true, show: (/** @type {any} */ one) => html`<${Status} value=${one.status} />` },
    { title: say("list.acts"), narrow: true, acts: true, show: (/** @type {any} */ one) => html`<${RewardActs} reward=${one} changed=${changed} />` },
  ];
  return html`<${Section} title=${say("player.rewards")}>
    <${PagedTable} caption=${say("player.rewards")} columns=${columns} empty=${say("player.no_rewards")} about=${about}
      load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get("/admin/rewards", { query: { ...query, player_id: id }, signal })} />
  <//>`;
}

/** @param {{id: string, about: number, changed: () => any}} props */
export function Deliveries({ id, about, changed }) {
  return html`<${Section} title=${say("player.deliveries")}>
    <${PagedTable} caption=${say("player.deliveries")} columns=${taskColumns(changed)} empty=${say("player.no_deliveries")} about=${about}
      load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get("/admin/players/{id}/tasks", { path: { id }, query, signal })} />
  <//>`;
}

/** The columns of a delivery: its status and errors. @param {() => any} changed */
export function taskColumns(changed) {
  return [
    { title: say("rewards.prize"), show: (/** @type {any} */ one) => html`<span><${Named} id=${one.prize_id} name=${one.prize_name} /><small class="channel">${channelName(one.channel)}</small></span>` },
    { title: say("player.when"), narrow: true, show: (/** @type {any} */ one) => html`<${When} at=${one.updated_at} />` },
    { title: say("campaigns.status"), narrow: true, show: (/** @type {any} */ one) => html`<${Status} value=${one.status} />` },
    { title: say("deliveries.attempts"), number: true, show: (/** @type {any} */ one) => number(one.attempts) },
    { title: say("deliveries.cause"), show: (/** @type {any} */ one) => html`<span class="clamp" title=${one.last_error}>${one.last_error || say("none")}</span>` },
    { title: say("list.acts"), narrow: true, acts: true, show: (/** @type {any} */ one) => html`<div class="acts"><${DeliveryDetails} task=${one} />${can("RetryTask") && ["TASK_STATUS_DEAD", "TASK_STATUS_RETRY", "TASK_STATUS_AWAITING"].includes(one.status)
      && html`<${Act} class="secondary outline small" act=${() => retryTask(one, changed)}>${say("rewards.retry")}<//>`}</div>` },
  ];
}

/** The e-mails to the player, sent or not. @param {{id: string, about: number, changed: () => any}} props */
export function Messages({ id, about, changed }) {
  const resend = async (/** @type {any} */ one) => {
    if (await confirm({ title: say("messages.resend_title"), text: say("messages.resend_text"), word: say("messages.resend") })) {
      try {
        const got = await api.post("/admin/integrations/{id}/resend", { path: { id: one.integration_id }, body: { delivery_id: one.id } });
        tell(got.delivered ? say("messages.resent") : say("messages.not_sent", { error: got.error || state(got.status) }));
        await changed();
      } catch (refused) {
        complain(refused);
      }
    }
  };
  const columns = [
    { title: say("player.when"), narrow: true, show: (/** @type {any} */ one) => html`<${When} at=${one.tried_at} />` },
    { title: say("messages.kind"), show: (/** @type {any} */ one) => html`<span class="name">${label(kindOf(one))}</span><small class="channel">${one.subject}</small>` },
    { title: say("campaigns.status"), narrow: true, show: (/** @type {any} */ one) => html`<${Status} value=${one.status} />` },
    { title: say("deliveries.cause"), show: (/** @type {any} */ one) => html`<span class="clamp" title=${one.error}>${one.error || say("none")}</span>` },
    ...(can("ResendDelivery") ? [{ title: say("list.acts"), narrow: true, acts: true, show: (/** @type {any} */ one) => html`<${Act} class="secondary outline small" act=${() => resend(one)}>${say("messages.resend")}<//>` }] : []),
  ];
  return html`<${Section} title=${say("messages.title")}>
    <${PagedTable} caption=${say("messages.title")} columns=${columns} empty=${say("messages.of_player_none")} about=${about}
      load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get("/admin/players/{id}/messages", { path: { id }, query, signal })} />
  <//>`;
}
