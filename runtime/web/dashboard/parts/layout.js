// The head of a page and its sections.
import { html, useEffect, useRef } from "../lib.js";
import { hasArrived } from "../router.js";
import { say } from "../words.js";
import { Status } from "./values.js";

/**
 * The head of a page: title, back link and actions.
 * @param {{title: string, back?: {href: string, text: string}, status?: string, children?: any}} props
 */
export function Head({ title, back, status, children }) {
  const own = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (hasArrived()) {
      own.current?.focus({ preventScroll: true }); // Otherwise keyboard and screen reader users stay at the previous position.
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
 * A section of a page with a heading.
 * @param {{title: string, note?: string, acts?: any, children?: any}} props
 */
export function Section({ title, note = "", acts = null, children }) {
  return html`<section class="part">
    <div class="part-head"><h2>${title}</h2>${note && html`<span class="quiet">${note}</span>`}<div class="acts">${acts}</div></div>
    ${children}
  </section>`;
}
