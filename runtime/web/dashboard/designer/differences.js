// The differences between two objects of the API, by path, side by side.
import { html } from "../lib.js";
import { say, typed } from "../words.js";

/** @typedef {{id: string, before: string, after: string}} Difference */

/**
 * Every value that differs. Lists of different lengths are compared as a whole.
 * @param {any} before @param {any} after @param {string} [path] @returns {Difference[]}
 */
export function differences(before, after, path = "") {
  if (alike(before, after)) {
    return [];
  }
  const both = [before, after].every((one) => one && typeof one === "object") && Array.isArray(before) === Array.isArray(after);
  if (!both || (Array.isArray(before) && before.length !== after.length)) {
    return [{ id: path, before: shown(before, path), after: shown(after, path) }];
  }
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names.flatMap((name) => differences(before[name], after[name], Array.isArray(before) ? `${path}[${name}]` : path ? `${path}.${name}` : name));
}

/** Whether two values are equal, regardless of key order. @param {any} one @param {any} other */
export const alike = (one, other) => JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));

/** @param {any} value @returns {any} */
function sorted(value) {
  if (Array.isArray(value)) {
    return value.map(sorted);
  }
  return value && typeof value === "object" ? Object.fromEntries(Object.keys(value).sort().map((name) => [name, sorted(value[name])])) : value;
}

/** @param {any} value @param {string} path */
const shown = (value, path) => (value === undefined || value === null || value === "" ? say("none") : typeof value === "object" ? JSON.stringify(value, typed, 1) : String(typed(path, value)));

/** Two columns, side by side. @param {{items: Difference[], caption: string, left: string, right: string}} props */
export function Differences({ items, caption, left, right }) {
  return html`<div class="table" role="region" aria-label=${caption} tabindex="0"><table>
    <thead><tr><th scope="col">${say("differences.field")}</th><th scope="col">${left}</th><th scope="col">${right}</th></tr></thead>
    <tbody>${items.map((one) => html`<tr key=${one.id}><td data-title=""><code>${one.id}</code></td>
      <td data-title=${left}><span class="said">${one.before}</span></td><td data-title=${right}><span class="said">${one.after}</span></td></tr>`)}</tbody>
  </table></div>`;
}
