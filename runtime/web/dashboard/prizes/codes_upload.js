// Uploads a file of codes, to a prize's pool or a pack.
import { api, newKey, Refused } from "../api.js";
import { html, useEffect, useRef, useState } from "../lib.js";
import { Act } from "../parts/button.js";
import { useReveal } from "../parts/reveal.js";
import { complain } from "../parts/toast.js";
import { say } from "../words.js";
import { partsOf } from "./codes_file.js";

const SHOWN = 100;
const DAY_SECONDS = 86400;

/**
 * Uploads a file in parts. Leaving the page stops it; a failed part is retried with its idempotency key.
 * @param {{path: string, id: string, done: () => void, dated?: boolean}} props dated: the codes may have an expiry
 */
export function Upload({ path, id, done, dated = false }) {
  const [run, setRun] = useState(/** @type {any} */ (null));
  const [until, setUntil] = useState("");
  const [over, setOver] = useState(false);
  const own = useRef(/** @type {HTMLElement | null} */ (null));
  useReveal(own);
  const stop = useRef(/** @type {AbortController | null} */ (null));
  useEffect(() => () => stop.current?.abort(), []);
  const send = async (/** @type {any} */ from) => {
    const own = (stop.current = new AbortController());
    let now = { ...from, error: null, busy: true };
    setRun(now);
    try {
      while (now.at < now.parts.length) {
        const { body, type, lines, before } = now.parts[now.at];
        const reply = await api.post(path, { path: { id }, body, headers: { "Content-Type": type }, key: `${now.key}-${now.at}`, query: now.query, signal: own.signal });
        const errors = reply.errors.map((/** @type {any} */ one) => ({ ...one, line: one.line + before }));
        now = {
          ...now, at: now.at + 1, sent: now.sent + lines, added: now.added + reply.added, duplicates: now.duplicates + reply.duplicates,
          invalid: now.invalid + reply.invalid, errors: [...now.errors, ...errors].slice(0, SHOWN),
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
  const choose = (/** @type {any} */ { target }) => {
    begin(target.files[0]);
    target.value = ""; // The same file, corrected, is another choice.
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
  return html`<div class="upload" ref=${own} data-over=${over} onDragOver=${drag(true)} onDragLeave=${drag(false)} onDrop=${run?.busy ? drag(false) : drop}>
    <label>${say("codes.file")}<input type="file" name="codes" accept=".csv,.txt,.json" disabled=${run?.busy} onChange=${choose} /><small class="quiet">${say(dated ? "codes.file_help" : "packs.file_help")}</small></label>
    ${dated && html`<label>${say("codes.until")}<input type="date" value=${until} disabled=${run?.busy} onInput=${(/** @type {any} */ event) => setUntil(event.target.value)} /><small class="quiet">${say("codes.until_help")}</small></label>`}
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
