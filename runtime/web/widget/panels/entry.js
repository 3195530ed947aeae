// The campaign's entry form: what it asks before a play or a claim. Its labels and consents come from the operator.

import { h } from "../dom.js";
import { loadModule } from "../load_module.js";
import { solve } from "../proof_of_work.js";
import { source } from "../source.js";
import { doer, known, refusal } from "./parts.js";

/** @typedef {import("../types.js").Panel} Panel */
/** @typedef {{name: string, value: () => any, refuse: (said: string) => void, focus: () => void, needed: () => boolean, element: any, text?: string}} Part */

/** How a browser asks for a kind of value, and what it may fill in. @type {Record<string, [string, string]>} */
const INPUTS = { TEXT: ["text", "off"], EMAIL: ["email", "email"], PHONE: ["tel", "tel"], DATE: ["date", "off"], NUMBER: ["number", "off"] };

/** What a browser may fill in by itself, for keys that say what they are. @type {Record<string, string>} */
const FILLED = { name: "name", first_name: "given-name", last_name: "family-name", birth_date: "bday", city: "address-level2", company: "organization" };

/** The parts of an address, whether they are required, and how browsers name them. @type {[string, boolean, string][]} */
const ADDRESS = [["line1", true, "address-line1"], ["line2", false, "address-line2"], ["postal_code", false, "postal-code"], ["city", true, "address-level2"], ["region", false, "address-level1"], ["country", true, "country"]];

const sheet = new CSSStyleSheet();
sheet.replaceSync(`
.entry { display: grid; gap: 1em; --t-wrong: #b3132b; }
.entry.dark { --t-wrong: #ff9aa6; }
.entry label, .entry legend { display: block; margin: 0 0 .35em; padding: 0; font-weight: 650; unicode-bidi: plaintext; overflow-wrap: anywhere; }
.entry label span { font-weight: 400; color: var(--t-quiet); }
.entry fieldset { display: grid; gap: .7em; margin: 0; padding: 0; border: 0; min-width: 0; }
.entry .field { box-sizing: border-box; width: 100%; min-height: 2.8em; padding: .5em .9em; font: inherit; color: var(--t-text); background: var(--t-surface); border: 1px solid var(--t-quiet); border-radius: .9em; }
.entry .tick { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: .7em; align-items: start; }
.entry .tick label { margin: 0; padding-top: .1em; font-weight: 400; white-space: pre-line; }
.entry .tick input { width: 1.5em; height: 1.5em; margin: 0; accent-color: var(--t-strong); }
.entry .tick a { color: var(--t-strong); }
.entry :is(.field, input):focus-visible { outline: .2em solid var(--t-text); outline-offset: .1em; }
.entry .field[aria-invalid=true] { border-color: var(--t-wrong); border-width: 2px; }
.entry .wrong { margin-top: .35em; color: var(--t-wrong); font-weight: 600; }
.entry .wrong:empty { display: none; }
.entry .doer { max-width: none; justify-items: stretch; }
`);

/** What was edited and not sent: fields, and consents that were ticked or unticked. Another player's is dropped. @param {Panel} panel */
function draftOf({ round, api: { identity } }) {
  const { player } = identity;
  if (round.draft?.player && round.draft.player !== player) round.draft = null;
  round.draft ??= { fields: {}, ticks: {} };
  return Object.assign(round.draft, { player });
}

/** @param {Panel} panel @param {string} [notice] why it is asked again */
export async function open(panel, notice = "") {
  const { root, words, render, round, api } = panel;
  const shadow = /** @type {ShadowRoot} */ (root.getRootNode());
  if (!shadow.adoptedStyleSheets.includes(sheet)) shadow.adoptedStyleSheets.push(sheet);
  const campaign = encodeURIComponent(render.campaign_id);
  const path = `/campaigns/${campaign}/entry`;
  const { asked, given } = known(panel) ? await api.get(path) : { asked: (await api.get(`/public/campaigns/${campaign}`)).entry, given: null };
  if (!asked) return root.append(h("p", {}, words.t("entry_none")));
  const { fields: edited, ticks } = draftOf(panel);
  /** @type {Set<string>} */
  const agreed = new Set((given?.consents ?? []).filter((/** @type {any} */ one) => one.given).map((/** @type {any} */ one) => one.id));
  /** @type {Part[]} */
  const fields = asked.fields.map((/** @type {any} */ one, /** @type {number} */ nth) => fieldOf(panel, one, `entry-${nth}`, edited, given?.fields?.[one.key], Boolean(given?.old_enough) && one.key === "birth_date" && asked.min_age <= given.old_enough));
  /** @type {Part[]} */
  const consents = asked.consents.map((/** @type {any} */ one, /** @type {number} */ nth) => consentOf(panel, one, `entry-consent-${nth}`, agreed, ticks));
  const parts = [...fields, ...consents];
  const barred = h("p", { class: "wrong", role: "alert" }, notice);
  const send = doer(panel, {
    label: words.t("entry_send"), act: "entry", type: "submit", path,
    body: () => ({
      fields: valuesOf(fields.filter((one) => one.value() !== undefined)),
      consents: valuesOf(consents.filter((one) => one.value() || agreed.has(one.name))),
      consent_texts: Object.fromEntries(consents.filter((one) => one.value()).map((one) => [one.name, one.text])),
      locale: words.locale,
      source: given ? undefined : source(),
    }),
    ready: () => {
      barred.textContent = "";
      return mark((one) => (one.needed() ? words.t("field_needed") : ""));
    },
    answer: async ({ reason, data }) => (reason === "CAPTCHA_REQUIRED" && data.captcha.kind === "altcha" ? { captcha: await solve(data.captcha) } : null),
    refused: (error) => {
      if (error.reason === "CONSENT_CHANGED") {
        for (const id of error.data.consents) ticks[id] = false;
        root.replaceChildren();
        open(panel, words.t("entry_CONSENT_CHANGED")).catch((failed) => root.replaceChildren(refusal(panel, failed)));
        return true;
      }
      const found = error.data?.violations ?? [];
      const why = error.data?.why?.reason;
      if (why) barred.textContent = words.t(words.has(`entry_${why}`) ? `entry_${why}` : "NOT_ELIGIBLE");
      const wrong = !mark((one) => (found.some((/** @type {{field: string}} */ { field }) => field === `fields.${one.name}` || field.startsWith(`fields.${one.name}.`) || field === `consents.${one.name}`) ? words.t("field_wrong") : ""));
      return wrong || Boolean(why);
    },
    done: ({ missing }) => {
      if (missing.length) {
        mark((one) => (missing.includes(`fields.${one.name}`) || missing.includes(`consents.${one.name}`) ? words.t("field_needed") : ""));
        return false;
      }
      round.draft = null;
      panel.tell("entered", { campaign_id: render.campaign_id });
      panel.say(words.t("entry_done"));
      if (panel.given?.done) panel.given.done(panel);
      else panel.close();
    },
  });
  const form = h("form", { class: "entry", novalidate: true, onsubmit: (/** @type {Event} */ event) => event.preventDefault() }, h("p", {}, words.t("entry_asks")), ...parts.map(({ element }) => element), barred, send);
  form.classList.toggle("dark", getComputedStyle(root).colorScheme === "dark");
  const withdrawn = (/** @type {string} */ id) => {
    agreed.delete(id);
    ticks[id] = false;
    for (const one of consents) if (one.name === id) one.element.querySelector("input").checked = false;
  };
  root.append(form, ...(given?.consents.length ? (await loadModule("./panels/consents.js")).consentsOf(panel, given, withdrawn) : []));

  /** Shows an error at the parts that have one and focuses the first. Returns whether there are none. @param {(part: Part) => string} problem */
  function mark(problem) {
    const wrong = parts.filter((one) => {
      const what = problem(one);
      one.refuse(what);
      return what;
    });
    wrong[0]?.focus();
    return !wrong.length;
  }
}

/** @param {Part[]} parts */
const valuesOf = (parts) => Object.fromEntries(parts.map((one) => [one.name, one.value()]));

/** A text by language for the player: the locale's, the language's, English, or the first. The service records the same. @param {string} locale @param {Record<string, string> | null} texts */
function inLanguage(locale, texts) {
  const names = Object.keys(texts ?? {});
  const name = [locale.toLowerCase(), locale.toLowerCase().split("-")[0], "en"].map((wanted) => names.find((one) => one.toLowerCase() === wanted)).find(Boolean) ?? names[0];
  return name ? { text: String(texts?.[name]), lang: name } : { text: "", lang: "" };
}

/** @param {Panel} panel @param {any} asked @param {string} id @param {Record<string, any>} edited @param {any} given @param {boolean} proven @returns {Part} */
function fieldOf({ words }, asked, id, edited, given, proven) {
  const said = edited[asked.key] ?? given;
  const kind = String(asked.kind).replace("ENTRY_FIELD_KIND_", "");
  const { text, lang } = inLanguage(words.locale, asked.label);
  const required = (asked.required || asked.key === "birth_date") && !proven;
  const wrong = h("p", { class: "wrong", id: `${id}-wrong`, role: "alert" });
  const about = { name: asked.key, "aria-describedby": `${id}-wrong`, "aria-required": required && "true" };
  const optional = !required && h("span", {}, ` (${words.t("field_optional")})`);
  /** @param {any} input @param {any} element @param {() => any} value @param {() => boolean} empty @returns {Part} */
  const part = (input, element, value, empty) => ({
    name: asked.key, element, value, focus: () => input.focus(), needed: () => required && empty(),
    refuse: (what) => {
      wrong.textContent = what;
      input.setAttribute("aria-invalid", String(what !== ""));
    },
  });
  if (kind === "CHECKBOX") {
    const input = h("input", { id, type: "checkbox", ...about, onchange: () => (edited[asked.key] = input.checked) });
    input.checked = said === true;
    const element = h("div", {}, h("div", { class: "tick" }, input, h("label", { for: id, lang }, text, optional)), wrong);
    return part(input, element, () => input.checked, () => !input.checked);
  }
  if (kind === "ADDRESS") {
    const kept = { ...said };
    const inputs = ADDRESS.map(([name, needed, filled]) => {
      const own = h("input", { class: "field", id: `${id}-${name}`, name: `${asked.key}.${name}`, dir: "auto", autocomplete: filled, maxlength: name === "country" ? 2 : 200, "aria-describedby": `${id}-wrong`, "aria-required": required && needed && "true", oninput: () => (kept[name] = own.value, edited[asked.key] = kept) });
      own.value = kept[name] ?? "";
      return { name, needed, own };
    });
    const lines = inputs.map(({ name, needed, own }) => h("div", {}, h("label", { for: own.id }, words.t(`address_${name}`), !(needed && required) && h("span", {}, ` (${words.t("field_optional")})`)), own));
    const element = h("fieldset", {}, h("legend", { lang }, text), ...lines, wrong);
    const filled = () => inputs.some(({ own }) => own.value.trim());
    const lacking = () => inputs.find(({ needed, own }) => needed && !own.value.trim());
    const value = () => (filled() ? Object.fromEntries(inputs.map(({ name, own }) => [name, own.value.trim()]).filter(([, one]) => one)) : null);
    const made = part(inputs[0].own, element, value, () => Boolean(lacking()));
    return { ...made, focus: () => (lacking() ?? inputs[0]).own.focus(), needed: () => (required || filled()) && Boolean(lacking()) };
  }
  const [type, filled] = INPUTS[kind] ?? INPUTS.TEXT;
  const own = { class: "field", id, ...about, dir: "auto", oninput: () => (edited[asked.key] = input.value) };
  const input = kind === "CHOICE"
    ? h("select", own, h("option", { value: "" }, words.t("field_choose")), ...asked.options.map((/** @type {any} */ one) => {
      const label = inLanguage(words.locale, one.label);
      return h("option", { value: one.value, lang: label.lang || undefined }, label.text || one.value);
    }))
    : h("input", { ...own, type, autocomplete: FILLED[asked.key] ?? filled, maxlength: type === "text" ? 200 : undefined, step: type === "number" ? "any" : undefined });
  input.value = said ?? "";
  const element = h("div", {}, h("label", { for: id, lang }, text, optional), input, wrong);
  const read = () => {
    const value = input.value.trim();
    if (!value) return proven || input.validity?.badInput ? undefined : null;
    return kind === "NUMBER" ? Number(value) : value;
  };
  return part(input, element, read, () => !input.value.trim());
}

/** @param {Panel} panel @param {any} asked @param {string} id @param {Set<string>} agreed @param {Record<string, boolean>} ticks @returns {Part} */
function consentOf({ words }, asked, id, agreed, ticks) {
  const { text, lang } = inLanguage(words.locale, asked.text);
  const wrong = h("p", { class: "wrong", id: `${id}-wrong`, role: "alert" });
  const input = h("input", { id, type: "checkbox", name: asked.id, "aria-describedby": `${id}-wrong`, "aria-required": asked.required && "true" });
  input.checked = ticks[asked.id] ?? agreed.has(asked.id);
  input.onchange = () => (ticks[asked.id] = input.checked);
  const link = asked.link && h("a", { href: asked.link, target: "_blank", rel: "noopener" }, words.t("entry_read"));
  const optional = !asked.required && h("span", {}, ` (${words.t("field_optional")})`);
  const element = h("div", {}, h("div", { class: "tick" }, input, h("div", {}, h("label", { for: id, lang }, text, optional), link)), wrong);
  return {
    name: asked.id, text, element, value: () => input.checked, focus: () => input.focus(), needed: () => asked.required && !input.checked,
    refuse: (what) => {
      wrong.textContent = what;
      input.setAttribute("aria-invalid", String(what !== ""));
    },
  };
}
