// Formatted values: status, time, id.
import { html, useState } from "../lib.js";
import { ago, exact, whenNamed } from "../times.js";
import { say, state } from "../words.js";

const TONES = /** @type {Record<string, string>} */ ({
  ACTIVE: "good", CLAIMED: "good", FULFILLED: "good", DELIVERED: "good", GRANTED: "good",
  DONE: "good", WAITING: "warn", APPROVED: "warn", REJECTED: "bad", PAUSED: "warn", AWAITING: "warn", RETRY: "warn", FULFILLING: "warn",
  DEAD: "bad", FAILED: "bad", REVOKED: "bad", SUSPENDED: "bad", OPEN: "bad",
});

/**
 * A status badge with its text and color.
 * @param {{value: string}} props
 */
export function Status({ value }) {
  const name = value.slice(value.lastIndexOf("_") + 1);
  return html`<span class="status" data-tone=${TONES[name] ?? "quiet"}>${state(value)}</span>`;
}

/**
 * A relative time. The exact time with its zone is shown on hover, or everywhere if switched on.
 * @param {{at: number, zone?: string}} props
 */
export function When({ at, zone = "UTC" }) {
  return at
    ? html`<time dateTime=${new Date(at * 1000).toISOString()} title=${whenNamed(at, zone)}>${exact.value ? whenNamed(at, zone) : ago(at, zone)}</time>`
    : html`<span class="quiet">${say("time.unset")}</span>`;
}

/**
 * An id that is copied by a click.
 * @param {{value: string}} props
 */
export function Id({ value }) {
  const [copied, setCopied] = useState(false);
  const copy = () => navigator.clipboard?.writeText(value).then(() => setCopied(true), () => {});
  return html`<button type="button" class="id" title=${say("copy")} onClick=${copy}>${value}<span aria-live="polite">${copied ? ` ${say("copied")}` : ""}</span></button>`;
}
