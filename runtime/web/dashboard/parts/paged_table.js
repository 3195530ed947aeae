// A table within a page, with a "Show more" button (cursor paging).
import { html, useState } from "../lib.js";
import { say } from "../words.js";
import { Act } from "./button.js";
import { Table } from "./list.js";
import { useData } from "./requests.js";
import { Empty, Loading, Problem } from "./states.js";
import { complain } from "./toast.js";

const PAGE = 10;

/**
 * @param {object} props
 * @param {(query: Record<string, any>, signal?: AbortSignal) => Promise<any>} props.load
 * @param {string} props.caption
 * @param {import("./list.js").Column[]} props.columns
 * @param {string} props.empty
 * @param {any} [props.about] what else it depends on: it is fetched anew when that changes
 * @param {(item: any) => string} [props.named] a key of an item that has no id
 */
export function PagedTable({ load, caption, columns, empty, about = null, named }) {
  const { data, error, again } = useData((signal) => load({ limit: PAGE }, signal), [about]);
  const [rest, setRest] = useState(/** @type {{of: any, items: any[], next: any}} */ ({ of: null, items: [], next: null }));
  if (error || !data) {
    return error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} />`;
  }
  const own = rest.of === data;
  const items = own ? [...data.items, ...rest.items] : data.items;
  const next = own ? rest.next : data.pagination;
  const more = async () => {
    try {
      const page = await load({ limit: PAGE, cursor: next.next_cursor });
      setRest({ of: data, items: [...(own ? rest.items : []), ...page.items], next: page.pagination });
    } catch (refused) {
      complain(refused);
    }
  };
  if (!items.length) {
    return html`<${Empty} title=${empty} />`;
  }
  return html`<${Table} caption=${caption} columns=${columns} items=${named ? items.map((/** @type {any} */ one) => ({ ...one, id: named(one) })) : items} />
    ${next.has_more && html`<nav class="pages" aria-label=${caption}><${Act} class="secondary outline" act=${more}>${say("more")}<//></nav>`}`;
}
