// A list of API items: paged by cursor, with its filter in the address.
import { html, useEffect, useState } from "../lib.js";
import { address, filter, go, place } from "../router.js";
import { say } from "../words.js";
import { useData } from "./requests.js";
import { Empty, Loading, Problem } from "./states.js";

const PAGE = 25;
const PAUSE_MS = 300;

/**
 * @typedef {object} Column
 * @property {string} title
 * @property {(item: any) => any} show
 * @property {boolean} [number] right-aligned
 * @property {boolean} [narrow] as narrow as what it holds
 * @property {boolean} [acts] it holds buttons, which say themselves what they are: its title is for who hears it
 */

/**
 * @typedef {object} Filter
 * @property {string} name of the query parameter, in the address and of the API
 * @property {string} label
 * @property {{value: string, text: string}[]} [options] what there is to choose from; else it is a search field
 * @property {boolean} [day] it is a day
 */

/**
 * @param {object} props
 * @param {(query: Record<string, any>, signal: AbortSignal) => Promise<{items: any[], pagination: {next_cursor: string, has_more: boolean}}>} props.load
 * @param {string} props.caption the table's name
 * @param {Column[]} props.columns
 * @param {Filter[]} [props.filters]
 * @param {{title: string, text?: string, act?: any}} props.empty where there is nothing at all
 * @param {any} [props.about] what else it depends on: it is fetched anew when that changes
 * @param {(items: any[]) => any} [props.above] what else shows the items, before the table
 */
export function List({ load, caption, columns, filters = [], empty, about = null, above = () => null }) {
  const { query } = place.value;
  const asked = Object.fromEntries(filters.map(({ name }) => [name, query[name] ?? ""]));
  const cursor = query.cursor ?? "";
  const key = JSON.stringify([asked, cursor]);
  const { data, error, loading, again } = useData((signal) => load({ ...asked, cursor, limit: PAGE }, signal), [key, about]);
  const filtered = Object.values(asked).some(Boolean);
  const items = data?.items ?? [];
  const clear = html`<button type="button" class="secondary outline" onClick=${() => go(address(place.value.path))}>${say("list.clear")}</button>`;
  return html`<div class="list" aria-busy=${loading}>
    ${filters.length > 0 && html`<form class="filters" aria-label=${say("list.filter")} onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      ${filters.map((one) => html`<${Field} key=${one.name} filter=${one} caption=${caption} value=${asked[one.name]} />`)}
      ${filtered && items.length > 0 && clear}
    </form>`}
    ${error ? html`<${Problem} error=${error} again=${again} />` : !data ? html`<${Loading} />` : items.length
      ? html`${above(items)}<${Table} caption=${caption} columns=${columns} items=${items} />
          <${Pages} cursor=${cursor} next=${data.pagination} count=${items.length} />`
      : filtered || cursor
        ? html`<${Empty} title=${say("list.nothing")}>${clear}<//>`
        : html`<${Empty} title=${empty.title} text=${empty.text}>${empty.act}<//>`}
  </div>`;
}

/** A caption or label within a sentence: "API tokens" stays as it is. @param {string} text */
const inner = (text) => text.replace(/^[A-Z](?=[a-z])/, (first) => first.toLowerCase());

/** @param {{filter: Filter, caption: string, value: string}} props */
function Field({ filter: { name, label, options, day }, caption, value }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) {
      return undefined;
    }
    const later = setTimeout(() => filter({ [name]: text }), options ? 0 : PAUSE_MS);
    return () => clearTimeout(later);
  }, [text]);
  /** @param {any} event */
  const typed = (event) => setText(event.target.value);
  const by = inner(label);
  return options
    ? html`<select aria-label=${label} value=${text} onChange=${typed}>
        <option value="">${label}: ${say("list.all")}</option>
        ${options.map((one) => html`<option value=${one.value}>${one.text}</option>`)}
      </select>`
    : day
      ? html`<label class="day">${label} <input type="date" value=${text} onChange=${typed} /></label>`
      : html`<input type="search" aria-label=${say("list.search", { what: inner(caption), by })} placeholder=${say("list.search_by", { by })} value=${text} onInput=${typed} />`;
}

/**
 * A table. If wider than the page, it scrolls and is focusable by keyboard.
 * @param {{caption: string, columns: Column[], items: any[]}} props
 */
export function Table({ caption, columns, items }) {
  /** @param {Column} column */
  const kind = ({ number, narrow }) => [number && "number", narrow && "narrow"].filter(Boolean).join(" ");
  return html`<div class="table" role="region" aria-label=${caption} tabindex="0">
    <table>
      <thead><tr>${columns.map((one) => html`<th scope="col" class=${kind(one)}>${one.acts ? html`<span class="unseen">${one.title}</span>` : one.title}</th>`)}</tr></thead>
      <tbody>${items.map((item) => html`<tr key=${item.id ?? item.prize_id}>${columns.map((one) => html`<td class=${kind(one)} data-title=${one.acts ? "" : one.title}>${one.show(item)}</td>`)}</tr>`)}</tbody>
    </table>
  </div>`;
}

/** @param {{cursor: string, next: {next_cursor: string, has_more: boolean}, count: number}} props */
function Pages({ cursor, next, count }) {
  if (!cursor && !next.has_more) {
    return html`<p class="count quiet">${say("list.count", { count })}</p>`;
  }
  return html`<nav class="pages" aria-label=${say("list.pages")}>
    <button type="button" class="secondary outline" disabled=${!cursor} onClick=${() => filter({ cursor: "" })}>${say("list.first")}</button>
    <button type="button" class="secondary outline" disabled=${!next.has_more} onClick=${() => filter({ cursor: next.next_cursor })}>${say("list.next")}</button>
  </nav>`;
}
