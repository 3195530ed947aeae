// The values before and after a change, side by side.
import { html } from "../lib.js";
import { whenNamed } from "../times.js";
import { label, say, typed } from "../words.js";

/**
 * The fields that changed, by name.
 * @param {{before: any, after: any}} entry
 * @returns {{name: string, before: any, after: any}[]}
 */
export function changed({ before, after }) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  return names
    .map((name) => ({ name, before: before?.[name], after: after?.[name] }))
    .filter((row) => row.name !== "updated_at" && JSON.stringify(row.before) !== JSON.stringify(row.after));
}

/** The fields of `now` that differ from `before`. @param {Record<string, any>} before @param {Record<string, any>} now */
export const differing = (before, now) => Object.keys(now).filter((key) => JSON.stringify(now[key]) !== JSON.stringify(before[key]));

/** Names of fields that are times. */
const TIME = /(^|_)(at|date|until)$/;

/** @param {{name: string, value: any}} props */
function Value({ name, value }) {
  return typeof value === "number" && TIME.test(name) ? whenNamed(value) : value === undefined || value === null ? html`<span class="quiet">${say("audit.nothing")}</span>`
    : typeof value === "object" ? html`<pre>${JSON.stringify(value, typed, 2)}</pre>` : String(value);
}

/** @param {{rows: {name: string, before: any, after: any}[]}} props */
export function Compared({ rows }) {
  return rows.length > 0 && html`<div class="table" role="region" aria-label=${say("audit.changed")} tabindex="0"><table class="compared">
      <thead><tr><th scope="col">${say("audit.field")}</th><th scope="col">${say("audit.before")}</th><th scope="col">${say("audit.after")}</th></tr></thead>
      <tbody>${rows.map((row) => html`<tr key=${row.name}><th scope="row">${label(row.name)}</th><td data-title=${say("audit.before")}><${Value} name=${row.name} value=${row.before} /></td><td data-title=${say("audit.after")}><${Value} name=${row.name} value=${row.after} /></td></tr>`)}</tbody>
    </table></div>`;
}
