// Placeholders for data: empty, loading, error.
import { html } from "../lib.js";
import { say } from "../words.js";

/**
 * An empty state with the next step.
 * @param {{title: string, text?: string, children?: any}} props
 */
export function Empty({ title, text = "", children = null }) {
  return html`<div class="empty"><p class="empty-title">${title}</p>${text && html`<p>${text}</p>`}${children}</div>`;
}

/** A loading indicator, announced to screen readers and shown after a delay. */
export function Loading() {
  return html`<div class="loading" role="status" aria-label=${say("loading")}><span></span><span></span><span></span></div>`;
}

/**
 * An error with a retry button.
 * @param {{error: any, again?: () => void}} props
 */
export function Problem({ error, again }) {
  return html`<div class="problem" role="alert">
    <p>${error?.message || say("refused.unknown")}</p>
    ${error?.trace && html`<p class="quiet">${say("refused.trace", { trace: error.trace })}</p>`}
    ${again && html`<button type="button" class="secondary outline" onClick=${again}>${say("again")}</button>`}
  </div>`;
}
