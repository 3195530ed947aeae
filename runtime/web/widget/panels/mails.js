// Lets the player turn kinds of e-mails off and on.

import { h } from "../dom.js";
import { refusal } from "./parts.js";

/** @typedef {import("../types.js").Panel} Panel */

const KINDS = ["WON", "CODE_DELIVERED", "REMINDER", "DRAW_RESULT"];
const PREFIX = "MESSAGE_KIND_";

/** A closed list; opening it loads the profile. @param {Panel} panel */
export function mails(panel) {
  const { api, words, say } = panel;
  const shown = h("div", { class: "mails" });
  /** The queue of changes: each is sent after the one before. */
  let saved = Promise.resolve();
  const whole = h("details", { class: "terms", "data-mails": true }, h("summary", {}, words.t("mails")), shown);
  whole.addEventListener("toggle", () => void load(), { once: true });
  return whole;

  async function load() {
    try {
      const { unsubscribed } = await api.get("/players/me");
      shown.replaceChildren(...KINDS.map((kind) => choice(kind, !unsubscribed.includes(PREFIX + kind))));
    } catch (error) {
      shown.replaceChildren(refusal(panel, error));
    }
  }

  /** Not in api.js, which every page loads. @param {object} profile */
  async function put(profile) {
    const { base, tenant, identity } = api;
    const headers = { "Content-Type": "application/json", Authorization: `Bearer ${identity.token}`, ...(tenant && { "X-Tenant-Id": tenant }) };
    const answer = await fetch(`${base}/api/v1/players/me`, { method: "PUT", headers, body: JSON.stringify(profile), credentials: "omit" });
    const { code, data } = await answer.json();
    if (code !== "OK") throw Object.assign(new Error(code), { http: answer.status, reason: data?.reason ?? code, data });
  }

  /** @param {string} kind @param {boolean} checked */
  function choice(kind, checked) {
    return h("label", {}, h("input", { type: "checkbox", value: kind, checked, onchange: () => (saved = saved.then(save)) }), words.t(`mail_${kind}`));
  }

  async function save() {
    const boxes = /** @type {HTMLInputElement[]} */ ([...shown.querySelectorAll("input")]);
    if (!boxes.length) return; // An earlier change was refused.
    const unsubscribed = boxes.filter((box) => !box.checked).map((box) => PREFIX + box.value);
    try {
      await put({ unsubscribed }).catch(async (error) => {
        if (!error.reason?.startsWith("TOKEN")) throw error;
        await api.get("/players/me"); // Renews the token.
        await put({ unsubscribed });
      });
      say(words.t("mails_saved"));
    } catch (error) {
      shown.replaceChildren(refusal(panel, error));
    }
  }
}
