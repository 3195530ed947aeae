// The router: the address is the state, so pages can be bookmarked, shared and navigated.
import { computed, signal } from "./lib.js";

export const BASE = "/dashboard";

const here = signal(read());

/** The current place: the path below /dashboard ("/" is Home) and the query. */
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
 * Navigates within the dashboard. replace: replaces the history entry.
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

/** Whether the page was reached by in-app navigation and not announced yet: its heading then takes the focus. */
export function hasArrived() {
  const was = arrived;
  arrived = false;
  return was;
}

/**
 * Changes the query; "" removes a name. A new filter restarts paging.
 * @param {Record<string, string>} changes
 */
export function filter(changes) {
  const { path, query } = read();
  go(address(path, { ...query, cursor: "", ...changes }), { replace: !("cursor" in changes) });
}

/** The question before the page is left, where it has unsaved changes; "": none. */
let question = "";

/** Asks before a link, the back button or a reload leaves the page. @param {string} text "": no longer */
export function askBeforeLeaving(text) {
  question = text;
}

/** That question. */
export const askedBeforeLeaving = () => question;

/** Whether the page may be left: no unsaved changes, or the user discards them. */
function mayLeave() {
  if (question && !confirm(question)) {
    return false;
  }
  question = "";
  return true;
}

/** Internal links navigate without a reload. */
export function follow() {
  addEventListener("popstate", () => {
    if (read().path !== here.value.path && !mayLeave()) {
      history.pushState(null, "", address(here.value.path, here.value.query)); // Back to the page that stays.
      return;
    }
    arrive();
  });
  addEventListener("beforeunload", (event) => question && event.preventDefault());
  document.addEventListener("click", (event) => {
    const link = /** @type {Element} */ (event.target).closest?.("a[href]");
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!(link instanceof HTMLAnchorElement) || !plain || event.defaultPrevented || link.target || link.hasAttribute("download")) {
      return;
    }
    if (link.origin === location.origin && (link.pathname === BASE || link.pathname.startsWith(`${BASE}/`)) && !link.hash) {
      event.preventDefault();
      if (mayLeave()) {
        go(link.pathname + link.search);
        scrollTo(0, 0);
      }
    }
  });
}

/**
 * The parameters of a pattern such as "/campaigns/:id"; null if the path does not match.
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
