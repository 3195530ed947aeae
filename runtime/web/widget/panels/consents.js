// Lists the consents that the player has given, each with a button that withdraws it.

import { h } from "../dom.js";
import { chip, doer } from "./parts.js";

/** @typedef {import("../types.js").Panel} Panel */

/** Adds the player's consents to the panel, if there are any. @param {Panel} panel */
export async function addConsents(panel) {
  const { api, render, root } = panel;
  const { given } = await api.get(`/campaigns/${encodeURIComponent(render.campaign_id)}/entry`).catch(() => ({}));
  root.append(...consentsOf(panel, given));
}

/** A closed list; nothing without consents. @param {Panel} panel @param {any} entry @param {(id: string) => void} [ended] a consent was withdrawn */
export function consentsOf(panel, entry, ended = () => {}) {
  // A consent to an earlier text also counts until it is withdrawn.
  const inForce = (entry?.consents ?? []).filter((/** @type {any} */ one) => one.given || one.outdated);
  const list = h("ul", { class: "items" }, ...inForce.map((/** @type {any} */ one) => drawn(panel, one, ended)));
  return inForce.length ? [h("details", { class: "terms", "data-consents": true }, h("summary", {}, panel.words.t("consents")), list)] : [];
}

/** @param {Panel} panel @param {any} consent @param {(id: string) => void} ended */
function drawn(panel, { id, text, locale }, ended) {
  const { render, words, say } = panel;
  const path = `/campaigns/${encodeURIComponent(render.campaign_id)}/entry`;
  // Without fields: the service then only withdraws, also for a player who may not enter any more.
  const end = doer(panel, {
    label: words.t("consent_end"), act: "withdraw", path, body: { consents: { [id]: false } },
    done: () => {
      end.replaceChildren(chip(words.t("consent_ended")));
      element.focus();
      say(words.t("consent_ended"));
      ended(id);
    },
  });
  const element = h("li", { class: "item", "data-consent": id, tabindex: "-1" }, h("div", { class: "facts", lang: locale || undefined }, text || id), h("div", { class: "side" }, end));
  return element;
}
