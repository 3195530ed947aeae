// Test plays in bulk: the results compared with the published odds.
import { api } from "../api.js";
import { html, useState } from "../lib.js";
import { Form } from "../parts/form.js";
import { Section } from "../parts/layout.js";
import { Table } from "../parts/list.js";
import { useData } from "../parts/requests.js";
import { Empty } from "../parts/states.js";
import { When } from "../parts/values.js";
import { can } from "../session.js";
import { number, percent, say } from "../words.js";

const SCORE = { type: "object", required: ["score", "duration_ms"], properties: { score: { type: "integer", minimum: 0, default: 10 }, duration_ms: { type: "integer", minimum: 1, default: 60_000 } } };

/** @param {{game: any}} props */
export function Trials({ game }) {
  const { id } = game;
  const [run, setRun] = useState(/** @type {any} */ (null));
  const { data, again } = useData((signal) => api.get("/admin/games/{id}/test-plays", { path: { id }, query: { limit: 10 }, signal }), [id]);
  const scored = game.reward_handler === "score_to_tier";
  const schema = {
    type: "object", required: ["times", ...(scored ? ["payload"] : [])],
    properties: { times: { type: "integer", minimum: 1, maximum: 1000 }, client_seed: { type: "string", maxLength: 200, help: say("help.client_seed") }, ...(scored ? { payload: SCORE } : {}) },
  };
  const save = async (/** @type {any} */ value) => {
    setRun(await api.post("/admin/games/{id}/test-plays", { path: { id }, body: value }));
    again();
  };
  const shown = run ?? data?.items[0];
  return html`<${Section} title=${say("trials.title")} note=${say("trials.note", { revision: game.revision })}>
    ${can("MakeTestPlays") && html`<div class="sheet"><${Form} schema=${schema} value=${{ times: 1000 }} save=${save} word=${say("trials.play")} /></div>`}
    ${shown ? html`<${Run} run=${shown} />` : data && html`<${Empty} title=${say("trials.none")} text=${say("trials.none_text")} />`}
    ${data && data.items.length > 1 && html`<details><summary>${say("trials.today", { count: data.items.length })}</summary><ul class="lines">${data.items.map((/** @type {any} */ one) => html`<li key=${one.id}>
      <button type="button" class="secondary outline small" onClick=${() => setRun(one)}>${say("trials.run", { count: one.times, revision: one.revision })}</button><${When} at=${Number(one.created_at)} /></li>`)}</ul></details>`}
  <//>`;
}

/** @param {{run: any}} props */
function Run({ run }) {
  const items = run.frequencies.map((/** @type {any} */ one, /** @type {number} */ i) => ({ ...one, id: `${i}` }));
  const columns = [
    { title: say("trials.outcome"), show: (/** @type {any} */ one) => html`<span class="name">${one.name || one.prize_id || say("trials.nothing")}</span>` },
    { title: say("trials.slot"), number: true, show: (/** @type {any} */ one) => (one.slot_index < 0 ? "" : number(one.slot_index + 1)) },
    { title: say("trials.count"), number: true, show: (/** @type {any} */ one) => number(one.count) },
    { title: say("trials.share"), number: true, show: (/** @type {any} */ one) => percent(one.share) },
    { title: say("trials.declared"), number: true, show: (/** @type {any} */ one) => (one.declared < 0 ? "" : percent(one.declared)) },
  ];
  return html`<p class="count">${say("trials.run", { count: run.times, revision: run.revision })} · <${When} at=${Number(run.created_at)} /> · ${run.made_by}</p>
    <${Table} caption=${say("trials.title")} columns=${columns} items=${items} />`;
}
