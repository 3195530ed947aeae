// What stands in place of data: nothing there, not there yet, or an error.
import { html } from "../lib.js";
import { say } from "../words.js";

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
