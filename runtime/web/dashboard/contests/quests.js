// The list of quests, with forms to create, edit and archive them.
import { api } from "../api.js";
import { html, useEffect, useState } from "../lib.js";
import { Act } from "../parts/button.js";
import { confirm } from "../parts/dialog.js";
import { Head } from "../parts/layout.js";
import { List } from "../parts/list.js";
import { complain, tell } from "../parts/toast.js";
import { Status } from "../parts/values.js";
import { filter, place } from "../router.js";
import { can } from "../session.js";
import { period } from "../times.js";
import { useTitle } from "../title.js";
import { number, say, state } from "../words.js";
import { Edit, Make, useCampaigns } from "./choosing.js";
import { Secret } from "./secret.js";

const TYPES = ["one_time", "daily", "weekly"];

const KINDS = ["self_declared", "plays", "wins", "points", "logins", "event", "referrals"];
const OWN_WORD = { kind: KINDS[0], count: 0, game_id: "" };

/** The schema of the quest form. */
const QUEST = {
  type: "object",
  required: ["name", "campaign_id", "type", "turns", "status"],
  properties: {
    name: { type: "string", minLength: 1, maxLength: 200 },
    description: { type: "string", format: "lines", maxLength: 2000 },
    campaign_id: { type: "string" },
    type: { type: "string", enum: TYPES },
    turns: { type: "integer", minimum: 0, maximum: 1000000 },
    status: { type: "string", enum: ["draft", "active"] },
    start_date: { type: "integer", format: "unix-time" },
    end_date: { type: "integer", format: "unix-time" },
    condition: {
      type: "object",
      required: ["kind", "count"],
      properties: {
        kind: { type: "string", enum: KINDS, help: say("quests.help_kind") },
        count: { type: "integer", minimum: 0, maximum: 1000000000 },
        game_id: { type: "string" },
      },
    },
  },
};

const NEW = { description: "", type: "one_time", turns: 1, status: "draft", start_date: 0, end_date: 0, condition: OWN_WORD };

/** The form's value. @param {any} quest */
const fields = ({ name, description, campaign_id, type, turns, status, start_date, end_date, condition }) => ({
  name, description, campaign_id, type: type.replace("QUEST_TYPE_", "").toLowerCase(), turns,
  status: status.replace("QUEST_STATUS_", "").toLowerCase(), start_date, end_date,
  condition: condition ? { ...condition, kind: kindOf(condition), count: Number(condition.count) } : OWN_WORD,
});

/** @param {any} condition */
const kindOf = ({ kind }) => kind.replace("QUEST_CONDITION_KIND_", "").toLowerCase();

/** The request body: a self-declared quest has a condition without a kind. @param {any} value the form's value */
const sent = ({ condition, ...rest }) => ({ ...rest, ...(condition ? { condition: condition.kind === KINDS[0] ? {} : condition } : {}) });

/** A quest's requirement as text. @param {any} quest */
const taken = ({ condition }) => (condition ? say("quests.takes", { count: Number(condition.count), kind: state(kindOf(condition)).toLowerCase() }) : state(KINDS[0]));

/** @param {any} quest */
const takesEvents = ({ condition }) => !!condition && kindOf(condition) === "event";

export default function Quests() {
  useTitle(say("quests.title"));
  const campaigns = useCampaigns();
  const [shown, setShown] = useState(/** @type {any} */ (place.value.query.make === "1" && can("CreateQuest") ? {} : null));
  const [changes, setChanges] = useState(0);
  const changed = () => setChanges((count) => count + 1);
  const [withSecret, setWithSecret] = useState(/** @type {any} */ (null));
  const { edit = "" } = place.value.query;
  useEffect(() => {
    if (edit && can("UpdateQuest")) {
      api.get("/admin/quests/{id}", { path: { id: edit } }).then(setShown, complain);
    }
  }, [edit]);
  const close = () => {
    setShown(null);
    filter({ edit: "", field: "" });
  };
  const saved = (/** @type {any} */ one) => {
    if (one.secret) {
      setWithSecret(one);
    }
    changed();
  };
  const rotate = async (/** @type {any} */ one) => {
    if (await confirm({ title: say("quests.rotate_title", one), text: say("quests.rotate_text"), word: say("quests.new_secret") })) {
      saved(await api.post("/admin/quests/{id}/rotate-secret", { path: { id: one.id }, body: {} }));
    }
  };
  const end = async (/** @type {any} */ one) => {
    if (await confirm({ title: say("quests.end_title", one), text: say("quests.end_text"), word: say("quests.end_old"), danger: true })) {
      await api.post("/admin/quests/{id}/rotate-secret", { path: { id: one.id }, body: { end_previous: true } });
      tell(say("quests.ended"));
    }
  };
  const save = async (/** @type {any} */ value) => {
    const made = await api.post("/admin/quests", { body: sent(value) });
    tell(say("quests.made", { name: made.name, state: state(made.status) }));
    close();
    saved(made);
  };
  const archive = async (/** @type {any} */ one) => {
    if (await confirm({ title: say("quests.archive_title", { name: one.name }), text: say("quests.archive_text"), word: say("board.archive"), danger: true })) {
      const { archived } = await api.remove("/admin/quests/{id}", { path: { id: one.id } });
      tell(say(archived ? "archived" : "quests.removed", { name: one.name }));
      changed();
    }
  };
  const make = can("CreateQuest") && html`<button type="button" onClick=${() => setShown({})}>${say("quests.new")}</button>`;
  const open = (/** @type {any} */ one) => one.status !== "QUEST_STATUS_ARCHIVED";
  const columns = [
    { title: say("game.name"), show: (/** @type {any} */ one) => html`<span class="name">${one.name}</span>` },
    { title: say("field.campaign_id"), show: (/** @type {any} */ one) => html`<span class="long">${campaigns.name(one.campaign_id)}</span>` },
    { title: say("quests.often"), show: (/** @type {any} */ one) => state(one.type) },
    { title: say("quests.condition"), show: taken },
    { title: say("quests.turns"), number: true, show: (/** @type {any} */ one) => number(one.turns) },
    { title: say("campaigns.status"), narrow: true, show: (/** @type {any} */ one) => html`<${Status} value=${one.status} />` },
    { title: say("campaigns.period"), show: (/** @type {any} */ one) => period(one.start_date, one.end_date, campaigns.zone(one.campaign_id)) },
    { title: say("list.acts"), acts: true, show: (/** @type {any} */ one) => open(one) && html`<div class="acts">
      ${can("UpdateQuest") && html`<button type="button" class="secondary outline small" onClick=${() => setShown(one)}>${say("campaign.edit")}</button>`}
      ${takesEvents(one) && can("RotateQuestSecret") && html`<${Act} class="secondary outline small" act=${() => rotate(one).catch(complain)}>${say("quests.new_secret")}<//>
      ${one.secret_set && html`<${Act} class="secondary outline small" act=${() => end(one).catch(complain)}>${say("quests.end_old")}<//>`}`}
      ${can("DeleteQuest") && html`<${Act} class="danger outline small" act=${() => archive(one).catch(complain)}>${say("board.archive")}<//>`}</div>` },
  ];
  const options = (/** @type {string[]} */ values) => values.map((value) => ({ value, text: state(value) }));
  const filters = [
    { name: "q", label: say("game.name") },
    { name: "status", label: say("campaigns.status"), options: options(["draft", "active", "archived"]) },
    { name: "type", label: say("quests.often"), options: options(TYPES) },
    campaigns.filter,
  ];
  return html`<${Head} title=${say("quests.title")}>${make}<//>
    <${List} caption=${say("quests.title")} columns=${columns} filters=${filters} about=${changes}
      load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get("/admin/quests", { query, signal })}
      empty=${{ title: say("quests.empty"), text: say("quests.empty_text"), act: make }} />
    ${shown && (shown.id
      ? html`<${Edit} title=${say("quests.edit_title")} path="/admin/quests/{id}" one=${shown} schema=${QUEST} fields=${fields} sent=${sent} zone=${campaigns.zone(shown.campaign_id)} close=${close} saved=${saved} />`
      : html`<${Make} title=${say("quests.new")} schema=${QUEST} value=${NEW} zone=${campaigns.zone} save=${save} word=${say("quests.make")} close=${close} />`)}
    ${withSecret && html`<${Secret} quest=${withSecret} close=${() => setWithSecret(null)} />`}`;
}
