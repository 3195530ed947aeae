// Toasts: short messages about results.
import { html, signal } from "../lib.js";
import { address } from "../router.js";
import { say } from "../words.js";

const SECONDS = 6;
/** @type {import("@preact/signals").Signal<{id: number, text: string, bad: boolean, to?: string}[]>} */
const shown = signal([]);
let last = 0;

/** @param {number} id */
const drop = (id) => {
  shown.value = shown.value.filter((one) => one.id !== id);
};

/**
 * Shows a success message.
 * @param {string} text
 */
export function tell(text) {
  const id = ++last;
  shown.value = [...shown.value.slice(-2), { id, text, bad: false }];
  setTimeout(() => drop(id), SECONDS * 1000);
}

/**
 * Shows an error, or that a change awaits approval. It stays until dismissed.
 * @param {any} error
 */
export function complain(error) {
  const waits = error?.data?.approval;
  if (waits) {
    shown.value = [...shown.value.slice(-2), { id: ++last, text: say("approvals.kept"), bad: false, to: address(`/approvals/${encodeURIComponent(waits.id)}`) }];
    return;
  }
  shown.value = [...shown.value.slice(-2), { id: ++last, text: error?.message || say("refused.unknown"), bad: true }];
}

/** Renders the toasts. */
export function Toasts() {
  return html`<div class="toasts" role="status" aria-live="polite">
    ${shown.value.map(({ id, text, bad, to }) => html`<div class="toast" key=${id} data-tone=${bad ? "bad" : "good"}>
      <span>${text}${to && html` <a href=${to} onClick=${() => drop(id)}>${say("approvals.look")}</a>`}</span><button type="button" class="plain" aria-label=${say("close")} onClick=${() => drop(id)}>×</button>
    </div>`)}
  </div>`;
}
