// Small parts that every page has.
import { html, useEffect, useRef, useState } from "../lib.js";
import { hasArrived } from "../router.js";
import { ago, exact, whenNamed } from "../times.js";
import { say, state } from "../words.js";

const TONES = /** @type {Record<string, string>} */ ({
  ACTIVE: "good", CLAIMED: "good", FULFILLED: "good", DELIVERED: "good", GRANTED: "good",
  DONE: "good", WAITING: "warn", APPROVED: "warn", REJECTED: "bad", PAUSED: "warn", AWAITING: "warn", RETRY: "warn", FULFILLING: "warn",
  DEAD: "bad", FAILED: "bad", REVOKED: "bad", SUSPENDED: "bad", OPEN: "bad",
});

/**
 * A status, by its word and a colour that says how things are.
 * @param {{value: string}} props
 */
export function Status({ value }) {
  const name = value.slice(value.lastIndexOf("_") + 1);
  return html`<span class="status" data-tone=${TONES[name] ?? "quiet"}>${state(value)}</span>`;
}

/**
 * How long ago or until then; the time itself, with its zone, for who points at it or wants it so everywhere.
 * @param {{at: number, zone?: string}} props
 */
export function When({ at, zone = "UTC" }) {
  return at
    ? html`<time dateTime=${new Date(at * 1000).toISOString()} title=${whenNamed(at, zone)}>${exact.value ? whenNamed(at, zone) : ago(at)}</time>`
    : html`<span class="quiet">${say("time.unset")}</span>`;
}

/**
 * Where there is nothing: what to do next.
 * @param {{title: string, text?: string, children?: any}} props
 */
export function Empty({ title, text = "", children = null }) {
  return html`<div class="empty"><p class="empty-title">${title}</p>${text && html`<p>${text}</p>`}${children}</div>`;
}

/** While something is fetched. Read out as such, and shown only where it takes a while. */
export function Loading() {
  return html`<div class="loading" role="status" aria-label=${say("loading")}><span></span><span></span><span></span></div>`;
}

/**
 * What went wrong, and what can be done.
 * @param {{error: any, again?: () => void}} props
 */
export function Problem({ error, again }) {
  return html`<div class="problem" role="alert">
    <p>${error?.message || say("refused.unknown")}</p>
    ${error?.trace && html`<p class="quiet">${say("refused.trace", { trace: error.trace })}</p>`}
    ${again && html`<button type="button" class="secondary outline" onClick=${again}>${say("again")}</button>`}
  </div>`;
}

/**
 * A button whose act takes a while: it rests until that is done.
 * @param {{act: () => any, class?: string, disabled?: boolean, children?: any}} props
 */
export function Act({ act, children, ...rest }) {
  const [busy, setBusy] = useState(false);
  const press = async () => {
    if (!busy) {
      setBusy(true);
      try {
        await act();
      } finally {
        setBusy(false);
      }
    }
  };
  return html`<button type="button" aria-busy=${busy} onClick=${press} ...${rest}>${children}</button>`;
}

/**
 * An id, small, which is copied by a press.
 * @param {{value: string}} props
 */
export function Id({ value }) {
  const [copied, setCopied] = useState(false);
  const copy = () => navigator.clipboard?.writeText(value).then(() => setCopied(true), () => {});
  return html`<button type="button" class="id" title=${say("copy")} onClick=${copy}>${value}<span aria-live="polite">${copied ? ` ${say("copied")}` : ""}</span></button>`;
}

/**
 * The head of a page: its name, what goes before it, and what can be done.
 * @param {{title: string, back?: {href: string, text: string}, status?: string, children?: any}} props
 */
export function Head({ title, back, status, children }) {
  const own = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (hasArrived()) {
      own.current?.focus({ preventScroll: true }); // Else whoever goes by keys, or hears the page, is still where they were.
    }
  }, []);
  return html`<header class="head">
    ${back && html`<nav class="crumbs" aria-label=${say("crumbs")}><a href=${back.href}>${back.text}</a></nav>`}
    <div class="head-line">
      <h1 tabindex="-1" ref=${own}>${title}</h1>
      ${status && html`<${Status} value=${status} />`}
      <div class="acts">${children}</div>
    </div>
  </header>`;
}

/**
 * A part of a page under a name of its own.
 * @param {{title: string, note?: string, acts?: any, children?: any}} props
 */
export function Section({ title, note = "", acts = null, children }) {
  return html`<section class="part">
    <div class="part-head"><h2>${title}</h2>${note && html`<span class="quiet">${note}</span>`}<div class="acts">${acts}</div></div>
    ${children}
  </section>`;
}
