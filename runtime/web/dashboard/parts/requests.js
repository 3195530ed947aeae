// Loading of a page's data: on mount, when inputs change, and on demand.
import { api } from "../api.js";
import { useCallback, useEffect, useRef, useState } from "../lib.js";

/**
 * The result of `ask`, reloaded when any of `about` changes. Stale responses are dropped.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} ask
 * @param {any[]} about
 * @returns {{data: T | null, error: any, loading: boolean, again: () => Promise<void>, set: (data: T) => void}}
 */
export function useData(ask, about) {
  const [found, setFound] = useState(/** @type {{data: T | null, error: any, loading: boolean}} */ ({ data: null, error: null, loading: true }));
  const asking = useRef(ask);
  asking.current = ask;
  const under = useRef(/** @type {AbortController | null} */ (null));
  const again = useCallback(async () => {
    under.current?.abort();
    const own = (under.current = new AbortController());
    setFound((was) => ({ ...was, loading: true }));
    try {
      const data = await asking.current(own.signal);
      if (!own.signal.aborted) {
        setFound({ data, error: null, loading: false });
      }
    } catch (error) {
      if (!own.signal.aborted) {
        setFound((was) => ({ ...was, error, loading: false }));
      }
    }
  }, []);
  useEffect(() => {
    again();
    return () => under.current?.abort();
  }, about);
  return { ...found, again, set: (data) => setFound({ data, error: null, loading: false }) };
}

const PAGES = 10;

/** The first thousand items of a list, by id. @param {string} path @param {AbortSignal} [signal] @param {Record<string, string>} [query] */
export async function loadById(path, signal, query = {}) {
  /** @type {Map<string, any>} */
  const found = new Map();
  for (let cursor = "", page = 0, more = true; more && page < PAGES; page++) {
    const { items, pagination } = await api.get(path, { query: { ...query, limit: 100, cursor }, signal });
    items.forEach((/** @type {any} */ one) => found.set(one.prize_id ?? one.id, one));
    cursor = pagination.next_cursor;
    more = pagination.has_more;
  }
  return found;
}
