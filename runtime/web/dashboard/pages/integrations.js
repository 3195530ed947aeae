// Integrations: receivers of events. Each can be tested, paused and edited, has a secret and a log.
import { api } from "../api.js";
import { fromList, refuseStale } from "../contests/choosing.js";
import { html, useRef, useState } from "../lib.js";
import { Act } from "../parts/button.js";
import { differing } from "../parts/compared.js";
import { confirm, Dialog } from "../parts/dialog.js";
import { Form } from "../parts/form.js";
import { Head, Section } from "../parts/layout.js";
import { List } from "../parts/list.js";
import { PagedTable } from "../parts/paged_table.js";
import { showSecret } from "../parts/secret.js";
import { complain, tell } from "../parts/toast.js";
import { Status, When } from "../parts/values.js";
import { widget as choose } from "../prizes/definition.js";
import { place } from "../router.js";
import { can } from "../session.js";
import { useTitle } from "../title.js";
import { label, number, say, state } from "../words.js";
import { configSchema, givenConfig, RECEIVER, SECRET, serviceName, servicesOf } from "./integration_services.js";

const TYPES = ["WEBHOOK", "WORKFLOW", "SPREADSHEET", "SMS", "MESSAGING", "CRM"].map((name) => `INTEGRATION_TYPE_${name}`);
/** The built-in events; plugins emit further ones through the API. */
const EVENTS = ["play_completed", "prize_won", "prize_claimed", "quest_completed", "leaderboard_finalized", "delivery_failed", "campaign.budget_reached", "prizes.low_stock", "code.redeemed", "draw.closed", "draw.drawn", "log.checkpoint", "violation.opened"];

export default function Integrations() {
  useTitle(say("integrations.title"));
  const [shown, setShown] = useState(/** @type {{what: string, one?: any}} */ ({ what: place.value.query.make === "1" && can("CreateIntegration") ? "new" : "" }));
  const [changes, setChanges] = useState(0);
  const [logsOnly, setLogsOnly] = useState(/** @type {string[]} */ ([]));
  const close = () => setShown({ what: "" });
  const changed = () => setChanges((count) => count + 1);
  /** Performs an action and shows a toast. @param {() => Promise<any>} act @param {(got: any) => string} said */
  const doing = async (act, said) => {
    try {
      tell(said(await act()));
    } catch (refused) {
      complain(refused);
    }
    changed();
  };
  const path = (/** @type {any} */ { id }) => ({ path: { id } });
  const paused = (/** @type {any} */ one) => one.status === "INTEGRATION_STATUS_PAUSED";
  const move = async (/** @type {any} */ one) => {
    if (paused(one) || await confirm({ title: say("integrations.pause_title"), text: say("integrations.pause_text"), items: [nameOf(one)], word: say("integrations.pause"), danger: true })) {
      await doing(
        () => api.put("/admin/integrations/{id}", { ...path(one), body: { status: `INTEGRATION_STATUS_${paused(one) ? "ACTIVE" : "PAUSED"}` } }),
        ({ status }) => say("integrations.moved", { state: state(status) }),
      );
    }
  };
  const remove = async (/** @type {any} */ one) => {
    if (await confirm({ title: say("integrations.remove_title"), text: say("integrations.remove_text"), items: [nameOf(one)], word: say("integrations.remove"), danger: true })) {
      await doing(() => api.remove("/admin/integrations/{id}", path(one)), () => say("integrations.removed"));
    }
  };
  const own = (/** @type {any} */ one) => one.type !== "INTEGRATION_TYPE_EMAIL"; // Messages change with their campaign.
  const tried = (/** @type {any} */ got) => say(got.delivered ? "integrations.sent" : "integrations.not_sent", { error: got.error || state(got.status), ms: got.duration_ms });
  const button = (/** @type {string} */ what, /** @type {any} */ one) => html`<button type="button" class="secondary outline small" onClick=${() => setShown({ what, one })}>${say(`integrations.${what}`)}</button>`;
  const make = can("CreateIntegration") && html`<button type="button" onClick=${() => setShown({ what: "new" })}>${say("integrations.new")}</button>`;
  const columns = [
    { title: say("integrations.where"), show: (/** @type {any} */ one) => html`<span><span class="name">${nameOf(one)}</span><small class="channel">${typeName(one.type, logsOnly, one.config?.service)}</small></span>` },
    { title: say("integrations.events"), show: (/** @type {any} */ one) => one.events.map(label).join(", ") },
    { title: say("campaigns.status"), narrow: true, show: (/** @type {any} */ one) => html`<${Status} value=${one.status} />` },
    { title: say("players.since"), narrow: true, show: (/** @type {any} */ one) => html`<${When} at=${one.created_at} />` },
    { title: say("list.acts"), acts: true, show: (/** @type {any} */ one) => html`<div class="acts">
      ${can("ListIntegrationDeliveries") && button("log", one)}
      ${own(one) && can("TestIntegration") && html`<${Act} class="secondary outline small" act=${() => doing(() => api.post("/admin/integrations/{id}/test", path(one)), tried)}>${say("integrations.test")}<//>`}
      ${own(one) && can("UpdateIntegration") && html`<${Act} class="secondary outline small" act=${() => move(one)}>${say(paused(one) ? "integrations.resume" : "integrations.pause")}<//>`}
      ${own(one) && can("UpdateIntegration") && button("edit", one)}
      ${own(one) && can("RotateSecret") && button("rotate", one)}
      ${own(one) && can("DeleteIntegration") && html`<${Act} class="danger outline small" act=${() => remove(one)}>${say("integrations.remove")}<//>`}</div>` },
  ];
  const load = async (/** @type {any} */ query, /** @type {AbortSignal} */ signal) => {
    const found = await api.get("/admin/integrations", { query, signal });
    setLogsOnly(found.logs_only);
    return found;
  };
  const filters = [
    { name: "status", label: say("campaigns.status"), options: ["active", "paused"].map((value) => ({ value, text: state(`INTEGRATION_STATUS_${value.toUpperCase()}`) })) },
  ];
  return html`<${Head} title=${say("integrations.title")}>${make}<//>
    <${List} caption=${say("integrations.title")} columns=${columns} filters=${filters} about=${changes}
      load=${load}
      empty=${{ title: say("integrations.empty"), text: say("integrations.empty_text"), act: make }} />
    ${shown.what === "new" && html`<${Making} logsOnly=${logsOnly} close=${close} done=${changed} />`}
    ${shown.what === "edit" && html`<${Editing} one=${shown.one} logsOnly=${logsOnly} close=${close} done=${changed} />`}
    ${shown.what === "rotate" && html`<${Rotating} one=${shown.one} close=${close} />`}
    ${shown.what === "log" && html`<${Log} one=${shown.one} close=${close} tried=${tried} />`}`;
}

/** The receiver's name. @param {any} one */
const nameOf = (one) => (one.type === "INTEGRATION_TYPE_EMAIL" ? say("messages.of_campaign") : one.config?.url) || `${state(one.type)} ${one.id}`;

const EVENT_NAMES = { type: "array", items: { type: "string" } };

/** A type's label with its service, marked if it only logs. @param {string} type @param {string[]} logsOnly @param {string} [service] */
const typeName = (type, logsOnly, service) => {
  const name = service ? `${state(type)} · ${serviceName(service)}` : state(type);
  return logsOnly.includes(type) && !service ? say("integrations.logs_only", { type: name }) : name;
};

/**
 * A list with a checkbox per value: the offered ones, and others that are set.
 * @param {string[]} offered @param {string} title @param {(one: string) => string} text
 */
const choices = (offered, title, text) => (/** @type {any} */ { value = [], change, named }) => {
  const known = [...offered, ...value.filter((/** @type {string} */ one) => !offered.includes(one))];
  const turn = (/** @type {string} */ one) => change(known.filter((other) => (other === one) !== value.includes(other)));
  return html`<div id=${named.id} role="group" class="choices" aria-label=${label(title)} aria-describedby=${named["aria-describedby"]}>
    ${known.map((one) => html`<label key=${one}><input type="checkbox" name=${`${named.name}.${one}`} checked=${value.includes(one)} aria-invalid=${named["aria-invalid"]} onChange=${() => turn(one)} />${text(one)}</label>`)}
  </div>`;
};

const Events = choices(EVENTS, "events", label);
const Included = choices(["contact", "entry"], "include", (one) => say(`integrations.${one}`));

const TYPE_NAMES = Object.fromEntries(TYPES.map((one) => [one, state(one)]));
const widget = (/** @type {string} */ name, /** @type {string} */ path) => (path === "events" ? Events : path === "config.include" ? Included : name === "campaign_id" ? choose(name) : null);

/** The schema of the config. A plugin's type has a receiver. @param {string[]} logsOnly @param {any} integration @returns {any} */
const schemaOf = (logsOnly, { type, config }) => (logsOnly.includes(type) ? configSchema(type, config.service ?? servicesOf(type)[0]) : RECEIVER);

/** @param {{logsOnly: string[], close: () => void, done: () => void}} props */
function Making({ logsOnly, close, done }) {
  const value = { type: TYPES[0], config: { url: "", secret: "" }, events: ["prize_won"], campaign_id: "" };
  const [typed, setTyped] = useState(/** @type {any} */ (value));
  const schema = {
    type: "object",
    required: ["type", "events"],
    properties: {
      type: { type: "string", enum: TYPES, titles: TYPE_NAMES }, config: schemaOf(logsOnly, typed),
      events: EVENT_NAMES, campaign_id: { type: "string", help: say("integrations.help_campaign") },
    },
  };
  const save = async (/** @type {any} */ { config, ...rest }) => {
    const service = logsOnly.includes(rest.type) ? { service: config.service ?? servicesOf(rest.type)[0] } : {};
    const made = await api.post("/admin/integrations", { body: { ...rest, config: givenConfig(rest.type, { ...config, ...service }) } });
    tell(say("integrations.made"));
    close();
    done();
    await showSecret(made.config, nameOf(made));
  };
  return html`<${Dialog} title=${say("integrations.new")} close=${close}>
    <${Form} schema=${schema} value=${value} save=${save} typed=${setTyped} widget=${widget} word=${say("integrations.make")} cancel=${close} />
  <//>`;
}

/** @param {{one: any, logsOnly: string[], close: () => void, done: () => void}} props */
function Editing({ one, logsOnly, close, done }) {
  const { secret_set: hasSecret, ...had } = one.config;
  const value = { type: one.type, config: { ...had, service: had.service ?? "", secret: "" }, events: one.events };
  const [now, setNow] = useState(/** @type {any} */ (value));
  const schemed = schemaOf(logsOnly, { ...now, type: one.type });
  const { secret } = schemed.properties;
  const config = hasSecret && secret ? { ...schemed, properties: { ...schemed.properties, secret: { ...secret, help: say("integrations.secret_kept") } } } : schemed;
  const schema = { type: "object", required: ["config", "events"], properties: { config, events: EVENT_NAMES } };
  const begun = useRef({ config: one.config, events: one.events });
  const save = async (/** @type {any} */ { config, events }) => {
    const stored = await fromList("/admin/integrations", one);
    refuseStale(begun, { config: stored.config, events: stored.events });
    const ended = logsOnly.includes(one.type) && !config.service && hasSecret; // Logs only: the credential is removed.
    const typed = { config: ended ? { secret: "" } : givenConfig(one.type, config, had), events };
    const changed = differing({ config: givenConfig(one.type, had, had), events: one.events }, typed);
    const now = await api.put("/admin/integrations/{id}", { path: { id: one.id }, body: Object.fromEntries(changed.map((name) => [name, typed[/** @type {"config" | "events"} */ (name)]])) });
    tell(say("integrations.changed"));
    close();
    done();
    await showSecret(now.config, nameOf(now));
  };
  return html`<${Dialog} title=${nameOf(one)} close=${close}>
    <${Form} schema=${schema} value=${value} save=${save} typed=${setNow} widget=${widget} word=${say("save")} cancel=${close} />
  <//>`;
}

/** @param {{one: any, close: () => void}} props */
function Rotating({ one, close }) {
  const save = async (/** @type {any} */ { secret }) => {
    await api.post("/admin/integrations/{id}/rotate", { path: { id: one.id }, body: secret ? { secret } : {} });
    tell(say(secret ? "integrations.rotated" : "integrations.overlap_over"));
    close();
  };
  return html`<${Dialog} title=${say("integrations.rotate_title")} close=${close}>
    <p>${say("integrations.rotate_text")}</p>
    <${Form} schema=${{ type: "object", properties: { secret: { ...SECRET, maxLength: 8000 } } }} value=${{ secret: "" }} save=${save} word=${say("integrations.rotate")} cancel=${close} />
  <//>`;
}

/** @param {{one: any, close: () => void, tried: (got: any) => string}} props */
function Log({ one, close, tried }) {
  const [times, setTimes] = useState(0);
  const resend = async (/** @type {any} */ { id }) => {
    try {
      tell(tried(await api.post("/admin/integrations/{id}/resend", { path: { id: one.id }, body: { delivery_id: id } })));
    } catch (refused) {
      complain(refused);
    }
    setTimes(times + 1);
  };
  const columns = [
    { title: say("player.when"), narrow: true, show: (/** @type {any} */ row) => html`<${When} at=${row.created_at} />` },
    { title: say("integrations.event"), show: (/** @type {any} */ row) => html`${row.event_type} <code>${row.event_id}</code>
      <details><summary>${say("integrations.bodies")}</summary><b>${say("integrations.request")}</b><pre class="body" tabindex="0">${row.request || say("none")}</pre>
        <b>${say("integrations.answer")}</b><pre class="body" tabindex="0">${row.answer || say("none")}</pre></details>` },
    { title: say("campaigns.status"), narrow: true, show: (/** @type {any} */ row) => html`<${Status} value=${row.status} />` },
    { title: say("integrations.answer"), show: (/** @type {any} */ row) => [row.http_status || "", row.error].filter(Boolean).join(" ") || say("none") },
    { title: say("integrations.took"), number: true, show: (/** @type {any} */ row) => `${number(row.duration_ms)} ms` },
    { title: say("deliveries.attempts"), number: true, show: (/** @type {any} */ row) => number(row.attempts) },
    { title: say("integrations.next"), narrow: true, show: (/** @type {any} */ row) => (row.next_attempt_at ? html`<${When} at=${row.next_attempt_at} />` : say("none")) },
    ...(can("ResendDelivery") ? [{
      title: say("list.acts"), narrow: true, acts: true,
      show: (/** @type {any} */ row) => html`<${Act} class="secondary outline small" act=${() => resend(row)}>${say("integrations.resend")}<//>`,
    }] : []),
  ];
  return html`<${Dialog} title=${say("integrations.log_title", { name: nameOf(one) })} close=${close} wide>
    <${Section} title=${say("integrations.newest")}>
      <${PagedTable} key=${times} caption=${say("integrations.log")} columns=${columns} empty=${say("integrations.no_log")}
        load=${(/** @type {any} */ query, /** @type {AbortSignal} */ signal) => api.get("/admin/integrations/{id}/deliveries", { path: { id: one.id }, query, signal })} />
    <//>
    <footer><button type="button" class="secondary outline" onClick=${close}>${say("close")}</button></footer>
  <//>`;
}
