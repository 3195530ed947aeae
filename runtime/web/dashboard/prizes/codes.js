// A prize's pool of codes: filled from a file, listed (what was won by its end, the others by their ids), ended, withdrawn.
import { api, newKey, Refused } from "../api.js";
import { html, useEffect, useRef, useState } from "../lib.js";
import { Act } from "../parts/button.js";
import { confirm } from "../parts/dialog.js";
import { Section } from "../parts/layout.js";
import { List } from "../parts/list.js";
import { complain, tell } from "../parts/toast.js";
import { Status, When } from "../parts/values.js";
import { can } from "../session.js";
import { number, say, state } from "../words.js";
import { Ending } from "./codes_end.js";
import { partsOf } from "./codes_file.js";

const PATH = "/admin/prizes/{id}/codes";
const STATES = ["free", "assigned", "withdrawn", "expired"];
const SHOWN = 100;
const DAY_SECONDS = 86400;

/** left: the stock that is left; null: unlimited. @param {{id: string, left: number | null}} props */
export function Codes({ id, left }) {
  const [totals, setTotals] = useState(/** @type {Record<string, number>} */ ({}));
  const [chosen, setChosen] = useState(/** @type {string[]} */ ([]));
  const [changes, setChanges] = useState(0);
  const [barred, setBarred] = useState(false);
  const [ending, setEnding] = useState(false);
  const again = () => setChanges((count) => count + 1);
  const load = async (/** @type {any} */ query, /** @type {AbortSignal} */ signal) => {
    try {
      const found = await api.get(PATH, { path: { id }, query, signal });
      setTotals(found.totals);
      return found;
    } catch (refused) {
      setBarred(refused instanceof Refused && refused.reason === "FORBIDDEN"); // The tenant's, and a merchant's staff asks.
      throw refused;
    }
  };
  const withdraw = async (/** @type {any} */ body, /** @type {number} */ count) => {
    const yes = await confirm({ title: say("codes.withdraw_title", { count }), text: say("codes.withdraw_text", { count }), word: say("codes.withdraw"), danger: true });
    if (!yes) {
      return;
    }
    try {
      const done = await api.post(`${PATH}/withdraw`, { path: { id }, body, key: newKey() });
      tell([say("codes.withdrawn", { count: done.withdrawn }), done.kept.length ? say("codes.kept", { count: done.kept.length }) : ""].join(" "));
      setChosen([]);
      again();
    } catch (refused) {
      complain(refused);
    }
  };
  const may = can("WithdrawCodes");
  const mayEnd = can("ExpireCodes") && (totals.free > 0 || totals.expired > 0);
  const choose = (/** @type {string} */ one) => setChosen((was) => (was.includes(one) ? was.filter((other) => other !== one) : [...was, one]));
  const columns = [
    ...(may ? [{
      title: say("codes.choose"), narrow: true, acts: true,
      show: (/** @type {any} */ one) => ["CODE_STATE_FREE", "CODE_STATE_EXPIRED"].includes(one.state) && html`<input type="checkbox" aria-label=${say("codes.choose_one", { code: one.id })} checked=${chosen.includes(one.id)} onChange=${() => choose(one.id)} />`,
    }] : []),
    { title: say("codes.code"), show: (/** @type {any} */ one) => html`<code>${one.state === "CODE_STATE_ASSIGNED" ? one.masked : one.id}</code>` },
    { title: say("campaigns.status"), narrow: true, show: (/** @type {any} */ one) => html`<${Status} value=${one.state} />` },
    { title: say("codes.expires"), narrow: true, show: (/** @type {any} */ one) => (one.expires_at ? html`<${When} at=${one.expires_at} />` : say("prizes.never")) },
    { title: say("codes.since"), narrow: true, show: (/** @type {any} */ one) => html`<${When} at=${one.assigned_at || one.withdrawn_at || one.created_at} />` },
  ];
  if (barred) {
    return null;
  }
  const counts = STATES.filter((name) => totals[name]).map((name) => `${number(totals[name])} ${state(name).toLowerCase()}`).join(" · ");
  return html`<${Section} title=${say("codes.title")} note=${counts} acts=${may && html`
      ${mayEnd && html`<button type="button" class="secondary outline" onClick=${() => setEnding(true)}>${say("codes.end")}</button>`}
      ${chosen.length > 0 && html`<${Act} class="danger outline" act=${() => withdraw({ ids: chosen }, chosen.length)}>${say("codes.withdraw_some", { count: chosen.length })}<//>`}
      ${totals.free > 0 && html`<${Act} class="danger outline" act=${() => withdraw({ all_free: true }, totals.free)}>${say("codes.withdraw_all", { count: totals.free })}<//>`}`}>
    ${can("ImportCodes") && html`<${Upload} id=${id} done=${again} />`}
    ${left !== null && totals.free > left && html`<p class="notice" role="status">${say("codes.too_many", { free: totals.free, left })}</p>`}
    ${left !== null && totals.free < left && html`<p class="notice" role="status">${say("codes.too_few", { free: totals.free, left })}</p>`}
    <${List} caption=${say("codes.title")} columns=${columns} load=${load} about=${changes}
      filters=${[{ name: "state", label: say("campaigns.status"), options: STATES.map((value) => ({ value, text: state(value) })) }]}
      empty=${{ title: say("codes.empty"), text: say("codes.empty_text") }} />
    ${ending && html`<${Ending} id=${id} chosen=${chosen} totals=${totals} close=${() => setEnding(false)} done=${() => { setChosen([]); again(); }} />`}
  <//>`;
}

/**
 * Sends a file part by part. What is under way stops with the page; a part that failed goes on under its key.
 * @param {{id: string, done: () => void}} props
 */
function Upload({ id, done }) {
  const [run, setRun] = useState(/** @type {any} */ (null));
  const [until, setUntil] = useState("");
  const [over, setOver] = useState(false);
  const stop = useRef(/** @type {AbortController | null} */ (null));
  useEffect(() => () => stop.current?.abort(), []);
  const send = async (/** @type {any} */ from) => {
    const own = (stop.current = new AbortController());
    let now = { ...from, error: null, busy: true };
    setRun(now);
    try {
      while (now.at < now.parts.length) {
        const { body, type, lines, before } = now.parts[now.at];
        const told = await api.post(PATH, { path: { id }, body, headers: { "Content-Type": type }, key: `${now.key}-${now.at}`, query: now.query, signal: own.signal });
        const errors = told.errors.map((/** @type {any} */ one) => ({ ...one, line: one.line + before }));
        now = {
          ...now, at: now.at + 1, sent: now.sent + lines, added: now.added + told.added, duplicates: now.duplicates + told.duplicates,
          invalid: now.invalid + told.invalid, errors: [...now.errors, ...errors].slice(0, SHOWN),
        };
        setRun(now);
      }
    } catch (error) {
      now = { ...now, error: own.signal.aborted ? null : error };
    }
    setRun({ ...now, busy: false });
    done();
  };
  const begin = async (/** @type {File | undefined} */ file) => {
    if (!file) {
      return;
    }
    try {
      const parts = partsOf(file.name, await file.text());
      const total = parts.reduce((sum, { lines }) => sum + lines, 0);
      const query = until ? { expires_at: Date.parse(until) / 1000 + DAY_SECONDS } : {};
      await send({ name: file.name, parts, total, query, key: newKey(), at: 0, sent: 0, added: 0, duplicates: 0, invalid: 0, errors: [] });
    } catch {
      complain(new Refused(400, { message: say("codes.no_file", { name: file.name }) }));
    }
  };
  const drag = (/** @type {boolean} */ is) => (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    setOver(is);
  };
  const drop = (/** @type {DragEvent} */ event) => {
    drag(false)(event);
    begin(event.dataTransfer?.files[0]);
  };
  const left = run && run.at < run.parts.length;
  return html`<div class="upload" data-over=${over} onDragOver=${drag(true)} onDragLeave=${drag(false)} onDrop=${run?.busy ? drag(false) : drop}>
    <label>${say("codes.file")}<input type="file" accept=".csv,.txt,.json" disabled=${run?.busy} onChange=${(/** @type {any} */ event) => begin(event.target.files[0])} /><small class="quiet">${say("codes.file_help")}</small></label>
    <label>${say("codes.until")}<input type="date" value=${until} disabled=${run?.busy} onInput=${(/** @type {any} */ event) => setUntil(event.target.value)} /><small class="quiet">${say("codes.until_help")}</small></label>
    ${run && html`<div class="under-way">
      <progress max=${run.total || 1} value=${run.sent} aria-label=${say("codes.progress", { name: run.name })}></progress>
      <p role="status">${say(run.busy ? "codes.sending" : left ? "codes.stopped" : "codes.done", { sent: run.sent, total: run.total, added: run.added, duplicates: run.duplicates, invalid: run.invalid })}</p>
      ${run.error && html`<p class="bad" role="alert">${run.error.message}</p>`}
      ${run.busy ? html`<button type="button" class="secondary outline" onClick=${() => stop.current?.abort()}>${say("codes.stop")}</button>`
        : left && html`<${Act} class="secondary outline" act=${() => send(run)}>${say("codes.go_on")}<//>`}
      ${run.errors.length > 0 && html`<details><summary>${say("codes.refused", { count: run.errors.length })}</summary>
        <ul class="lines">${run.errors.map((/** @type {any} */ one) => html`<li>${say("codes.line", { line: one.line })}<span>${one.reason}</span></li>`)}</ul></details>`}
    </div>`}
  </div>`;
}
