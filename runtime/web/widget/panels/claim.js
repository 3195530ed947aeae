// The claim form of a prize. Its labels come from the operator.

import { h } from "../dom.js";
import { doer } from "./parts.js";

/** @typedef {import("../types.js").Panel} Panel */

const LONGEST = { TEXT: 200, LONG_TEXT: 2000 };

/** What a browser may fill in by itself, for keys that say what they are. @type {Record<string, string>} */
const FILLED = { name: "name", first_name: "given-name", last_name: "family-name", address: "street-address", street: "street-address", city: "address-level2", postcode: "postal-code", zip: "postal-code", email: "email", phone: "tel" };

/** What was typed and not sent, by reward: a panel that is opened again has it. It is personal, so no storage does. @type {Map<string, Record<string, string>>} */
const typed = new Map();

const sheet = new CSSStyleSheet();
sheet.replaceSync(`
.claim { grid-column: 1 / -1; display: grid; gap: .9em; padding-top: .8em; border-top: 1px dashed var(--t-line); --t-wrong: #b3132b; }
.claim.dark { --t-wrong: #ff9aa6; }
.claim label { display: block; margin: 0 0 .35em; font-weight: 650; unicode-bidi: plaintext; overflow-wrap: anywhere; }
.claim label span { font-weight: 400; color: var(--t-quiet); }
.claim .field { box-sizing: border-box; width: 100%; min-height: 2.8em; padding: .5em .9em; font: inherit; color: var(--t-text); background: var(--t-surface); border: 1px solid var(--t-quiet); border-radius: .9em; }
.claim textarea.field { min-height: 6em; resize: vertical; }
.claim .field:focus-visible { outline: .2em solid var(--t-text); outline-offset: .1em; }
.claim .field[aria-invalid=true] { border-color: var(--t-wrong); border-width: 2px; }
.claim .wrong { margin-top: .35em; color: var(--t-wrong); font-weight: 600; }
.claim .wrong:empty { display: none; }
.claim .doer { max-width: none; justify-items: stretch; }
`);

/**
 * The form. claimed receives the claim's response.
 * @param {Panel} panel @param {any} reward with what its prize asks
 * @param {(now: any) => void} claimed
 */
export function form(panel, reward, claimed) {
  const { root, words } = panel;
  const shadow = /** @type {ShadowRoot} */ (root.getRootNode());
  if (!shadow.adoptedStyleSheets.includes(sheet)) shadow.adoptedStyleSheets.push(sheet);
  const said = typed.get(reward.id) ?? {};
  typed.set(reward.id, said);
  /** @type {ReturnType<typeof field>[]} */
  const fields = reward.prize.claim_fields.map((/** @type {any} */ asked, /** @type {number} */ nth) => field(asked, nth));
  const send = doer(panel, {
    label: words.t("claim"), act: "claim", type: "submit", path: `/rewards/${encodeURIComponent(reward.id)}/claim`,
    body: () => ({ answers: Object.fromEntries(Object.entries(said).filter(([, value]) => value.trim())) }),
    ready: () => markInvalid(fields.filter(({ asked, input }) => asked.required && !input.value.trim()), "field_needed"),
    refused: (error) => !markInvalid(fields.filter(({ asked }) => error.data?.violations?.some((/** @type {any} */ one) => one.field === `answers.${asked.key}`)), "field_wrong"),
    done: (now) => {
      typed.delete(reward.id);
      claimed(now);
    },
  });
  const whole = h("form", { class: "claim", novalidate: true, onsubmit: (/** @type {Event} */ event) => event.preventDefault() }, h("p", {}, words.t("claim_asks")), ...fields.map(({ element }) => element), send);
  whole.classList.toggle("dark", getComputedStyle(root).colorScheme === "dark");
  return whole;

  /** Shows an error at these fields and focuses the first. Returns whether there are none. @param {any[]} wrong @param {string} what */
  function markInvalid(wrong, what) {
    for (const one of fields) one.refuse(wrong.includes(one) ? words.t(what) : "");
    wrong[0]?.input.focus();
    return !wrong.length;
  }

  /** @param {any} asked @param {number} nth @returns {{asked: any, element: any, input: any, refuse: (said: string) => void}} */
  function field(asked, nth) {
    const id = `claim-${reward.id}-${nth}`;
    const kind = String(asked.kind).replace("CLAIM_FIELD_KIND_", "");
    const wrong = h("p", { class: "wrong", id: `${id}-wrong`, role: "alert" });
    const own = {
      class: "field", id, name: asked.key, dir: "auto", "aria-describedby": `${id}-wrong`, "aria-required": asked.required && "true",
      autocomplete: FILLED[asked.key.toLowerCase()] ?? "off", maxlength: LONGEST[/** @type {keyof LONGEST} */ (kind)], oninput: changed,
    };
    const input = kind === "CHOICE"
      ? h("select", own, h("option", { value: "" }, words.t("field_choose")), ...asked.options.map((/** @type {string} */ one) => h("option", { value: one }, one)))
      : h(kind === "LONG_TEXT" ? "textarea" : "input", own);
    input.value = said[asked.key] ?? "";
    const label = h("label", { for: id }, asked.label, !asked.required && h("span", {}, ` (${words.t("field_optional")})`));
    return { asked, input, refuse, element: h("div", {}, label, input, wrong) };

    function changed() {
      said[asked.key] = input.value;
      if (wrong.textContent) refuse("");
    }

    /** @param {string} why */
    function refuse(why) {
      wrong.textContent = why;
      input.setAttribute("aria-invalid", String(why !== ""));
    }
  }
}
