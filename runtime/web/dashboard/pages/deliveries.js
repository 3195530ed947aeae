// Deliveries of rewards, with their status and last error.
import { api } from "../api.js";
import { useCampaigns } from "../contests/choosing.js";
import { html, useState } from "../lib.js";
import { Head } from "../parts/layout.js";
import { List } from "../parts/list.js";
import { dayBegins } from "../times.js";
import { useTitle } from "../title.js";
import { say, state } from "../words.js";
import { taskColumns } from "./player_won.js";
import { PlayerId } from "./players.js";

const STATUSES = ["DEAD", "RETRY", "PENDING", "DELIVERING", "AWAITING", "DELIVERED", "CANCELLED"];

export default function Deliveries() {
  useTitle(say("deliveries.title"));
  const campaigns = useCampaigns();
  const [changes, setChanges] = useState(0);
  const columns = [
    { title: say("rewards.player"), narrow: true, show: (/** @type {any} */ one) => html`<${PlayerId} id=${one.player_id} />` },
    ...taskColumns(() => setChanges((count) => count + 1)),
  ];
  const filters = [
    { name: "status", label: say("campaigns.status"), options: STATUSES.map((value) => ({ value: value.toLowerCase(), text: state(`TASK_STATUS_${value}`) })) },
    { name: "prize_id", label: say("rewards.prize_id") },
    campaigns.filter,
    { name: "contact", label: say("rewards.contact") },
    { name: "since", label: say("deliveries.since"), day: true },
    { name: "until", label: say("deliveries.until"), day: true },
  ];
  return html`<${Head} title=${say("deliveries.title")} />
    <${List} caption=${say("deliveries.title")} columns=${columns} filters=${filters} about=${changes}
      load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get("/admin/fulfillment/tasks", { query: { ...query, since: dayBegins(query.since), until: dayBegins(query.until, 1) }, signal })}
      empty=${{ title: say("deliveries.empty"), text: say("deliveries.empty_text") }} />`;
}
