// Where we are: the address is the state, so a page can be kept, sent on, and gone back to.
import { computed, signal } from "./lib.js";

export const BASE = "/dashboard";

const here = signal(read());

/** Where we are: the path below /dashboard ("/" at the beginning), and what the query says. */
export const place = computed(() => here.value);

/** @typedef {{path: string, query: Record<string, string>}} Place */

/** @returns {Place} */
function read() {
  const path = location.pathname.startsWith(BASE) ? location.pathname.slice(BASE.length) : "";
  return { path: path.replace(/\/+$/, "") || "/", query: Object.fromEntries(new URLSearchParams(location.search)) };
}

/**
 * The address of a path below /dashboard.
 * @param {string} path
 * @param {Record<string, string | number | undefined>} [query]
 */
export function address(path, query = {}) {
  const said = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const text = new URLSearchParams(said.map(([name, value]) => [name, String(value)])).toString();
  return `${BASE}${path === "/" ? "" : path}${text ? `?${text}` : ""}`;
}

/**
 * Goes to an address of ours. replace: instead of where we are, so that going back leads past it.
 * @param {string} to
 * @param {{replace?: boolean}} [how]
 */
export function go(to, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", to);
  arrive();
}

let arrived = false;

function arrive() {
  const now = read();
  arrived ||= now.path !== here.value.path;
  here.value = now;
}

/** Whether somebody came to this page from another of ours, and it was not told yet: its name takes the focus then. */
export function hasArrived() {
  const was = arrived;
  arrived = false;
  return was;
}

/**
 * Changes what the query says; "" takes a name out of it. What a list shows begins anew with its filter.
 * @param {Record<string, string>} changes
 */
export function filter(changes) {
  const { path, query } = read();
  go(address(path, { ...query, cursor: "", ...changes }), { replace: !("cursor" in changes) });
}

/** Links of ours change the address without loading the page anew. */
export function follow() {
  addEventListener("popstate", arrive);
  document.addEventListener("click", (event) => {
    const link = /** @type {Element} */ (event.target).closest?.("a[href]");
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!(link instanceof HTMLAnchorElement) || !plain || event.defaultPrevented || link.target || link.hasAttribute("download")) {
      return;
    }
    if (link.origin === location.origin && (link.pathname === BASE || link.pathname.startsWith(`${BASE}/`)) && !link.hash) {
      event.preventDefault();
      go(link.pathname + link.search);
      scrollTo(0, 0);
    }
  });
}

/**
 * What a pattern such as "/campaigns/:id" finds in a path; null where it is another.
 * @param {string} pattern
 * @param {string} path
 * @returns {Record<string, string> | null}
 */
export function match(pattern, path) {
  const wanted = pattern.split("/");
  const parts = path.split("/");
  /** @type {Record<string, string>} */
  const found = {};
  const fits = wanted.length === parts.length && wanted.every((word, i) => {
    if (!word.startsWith(":")) {
      return word === parts[i];
    }
    try {
      found[word.slice(1)] = decodeURIComponent(parts[i]);
    } catch {
      return false;
    }
    return parts[i] !== "";
  });
  return fits ? found : null;
}
