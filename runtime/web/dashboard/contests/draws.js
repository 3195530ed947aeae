// The list of prize draws, and the form for a new one.
import { api } from "../api.js";
import { html, useMemo, useRef, useState } from "../lib.js";
import { Dialog } from "../parts/dialog.js";
import { Form } from "../parts/form.js";
import { Head } from "../parts/layout.js";
import { List } from "../parts/list.js";
import { tell } from "../parts/toast.js";
import { Status, When } from "../parts/values.js";
import { address, go } from "../router.js";
import { can } from "../session.js";
import { useTitle } from "../title.js";
import { number, say, state } from "../words.js";
import { choosing, refuseStale, useCampaigns, widget as chosen } from "./choosing.js";

const STATUSES = ["open", "closed", "drawn", "confirmed", "cancelled"];
const SOURCES = ["entries", "currency", "ranking", "imported"];
const KINDS = ["DRAND", "DECLARED", "INTERNAL"];
const NEW = { alternates: 3, closes_at: 0, tickets: { of: "entries", currency: "", ranking: "" }, prizes: [], randomness: { kind: "DECLARED", source: "", at: 0 } };

/** @param {string[]} names @param {string} prefix */
const titles = (names, prefix) => Object.fromEntries(names.map((one) => [one, say(`${prefix}.${one.toLowerCase()}`)]));

/** The schema of a draw's form, which shows the fields of its source of tickets and kind of randomness. @param {any} value */
const schemaOf = ({ tickets, randomness }) => ({
  type: "object",
  required: ["name", "campaign_id", "tickets", "prizes", "randomness"],
  properties: {
    name: { type: "string", minLength: 1, maxLength: 200 },
    campaign_id: { type: "string" },
    tickets: {
      type: "object", required: ["of", "currency", "ranking"],
      properties: {
        of: { type: "string", enum: SOURCES, titles: titles(SOURCES, "draws.of"), label: say("draws.of"), ...(["entries", "imported"].includes(tickets.of) ? { help: say(`draws.help_${tickets.of}`) } : {}) },
        ...(tickets.of === "currency" ? { currency: { type: "string", minLength: 1, maxLength: 128, help: say("draws.help_currency") } } : {}),
        ...(tickets.of === "ranking" ? { ranking: { type: "string", label: say("draws.of.ranking") } } : {}),
      },
    },
    prizes: {
      type: "array", help: say("draws.help_prizes"),
      items: { type: "object", required: ["prize_id", "count"], properties: { prize_id: { type: "string" }, count: { type: "integer", minimum: 1, maximum: 10000, label: say("draws.count") } } },
    },
    alternates: { type: "integer", minimum: 0, maximum: 10000, label: say("draws.alternates"), help: say("draws.help_alternates") },
    closes_at: { type: "integer", format: "unix-time", label: say("draws.closes_at"), help: say("draws.help_closes_at") },
    randomness: {
      type: "object", required: ["kind", "source", "at"], help: say(`draws.help_${randomness.kind.toLowerCase()}`),
      properties: {
        kind: { type: "string", enum: KINDS, titles: titles(KINDS, "draws.kind"), label: say("draws.kind") },
        ...(randomness.kind === "DECLARED" ? { source: { type: "string", minLength: 1, maxLength: 500, label: say("draws.source"), help: say("draws.help_source") } } : {}),
        ...(randomness.kind === "INTERNAL" ? {} : { at: { type: "integer", format: "unix-time", label: say("draws.at"), help: say("draws.help_at") } }),
      },
    },
  },
});

/** The form's value. @param {any} draw */
const fields = ({ name, campaign_id, tickets, prizes, alternates, closes_at, randomness: { kind, source, at } }) => ({
  name, campaign_id, alternates, closes_at, randomness: { kind, source, at },
  prizes: prizes.map((/** @type {any} */ { prize_id, count }) => ({ prize_id, count })),
  tickets: { ...tickets, of: SOURCES.find((one) => tickets[one]) },
});

/** The request body. @param {any} value the form's value */
const sent = ({ tickets: { of, currency, scope_key, ranking }, randomness: { kind, source, at }, alternates = 0, ...rest }) => ({
  ...rest, alternates,
  tickets: of === "currency" ? { currency, ...(scope_key ? { scope_key } : {}) } : of === "ranking" ? { ranking } : { [of]: true },
  randomness: { kind, ...(kind === "DECLARED" ? { source } : {}), ...(kind === "INTERNAL" ? {} : { at }) },
});

const Ranking = choosing("/admin/leaderboards", "form.choose");

/** @param {string} name */
const widget = (name) => (name === "ranking" ? Ranking : chosen(name));

/** @param {string} id */
export const drawAddress = (id) => address(`/draws/${encodeURIComponent(id)}`);

/**
 * The form of a draw: a new one, or an open one.
 * @param {{draw?: any, zone: (campaign: string) => string, close: () => void, done: (draw: any) => void}} props
 */
export function DrawForm({ draw, zone, close, done }) {
  const given = useMemo(() => (draw ? fields(draw) : NEW), []);
  const begun = useRef(given);
  const [typed, setTyped] = useState(/** @type {any} */ (given));
  const save = async (/** @type {any} */ value) => {
    const [body, path] = [sent(value), { id: draw?.id }];
    if (draw) refuseStale(begun, fields(await api.get("/admin/draws/{id}", { path })));
    done(await (draw ? api.put("/admin/draws/{id}", { path, body }) : api.post("/admin/draws", { body })));
    tell(draw ? say("saved") : say("draws.made", { name: value.name }));
  };
  return html`<${Dialog} title=${say(draw ? "draws.edit" : "draws.new")} close=${close}>
    <${Form} schema=${schemaOf(typed)} value=${given} widget=${widget} zone=${zone(typed.campaign_id ?? "")} typed=${setTyped} save=${save} word=${say(draw ? "save" : "draws.make")} cancel=${close} />
  <//>`;
}

export default function Draws() {
  useTitle(say("draws.title"));
  const campaigns = useCampaigns();
  const [making, setMaking] = useState(false);
  const make = can("CreateDraw") && html`<button type="button" onClick=${() => setMaking(true)}>${say("draws.new")}</button>`;
  const columns = [
    { title: say("game.name"), show: (/** @type {any} */ one) => html`<a class="name" href=${drawAddress(one.id)}>${one.name}</a>` },
    { title: say("field.campaign_id"), show: (/** @type {any} */ one) => html`<span class="long">${campaigns.name(one.campaign_id)}</span>` },
    { title: say("draws.tickets"), number: true, show: (/** @type {any} */ one) => (one.closed_at ? number(Number(one.ticket_count)) : say("none")) },
    { title: say("campaigns.status"), narrow: true, show: (/** @type {any} */ one) => html`<${Status} value=${one.status} />` },
    { title: say("draws.closes_at"), narrow: true, show: (/** @type {any} */ one) => (one.closed_at || one.closes_at ? html`<${When} at=${one.closed_at || one.closes_at} zone=${campaigns.zone(one.campaign_id)} />` : say("draws.by_hand")) },
  ];
  const filters = [
    { name: "q", label: say("game.name") },
    { name: "status", label: say("campaigns.status"), options: STATUSES.map((value) => ({ value, text: state(value) })) },
    campaigns.filter,
  ];
  return html`<${Head} title=${say("draws.title")}>${make}<//>
    <${List} caption=${say("draws.title")} columns=${columns} filters=${filters}
      load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get("/admin/draws", { query, signal })}
      empty=${{ title: say("draws.empty"), text: say("draws.empty_text"), act: make }} />
    ${making && html`<${DrawForm} zone=${campaigns.zone} close=${() => setMaking(false)} done=${(/** @type {any} */ made) => go(drawAddress(made.id))} />`}`;
}
