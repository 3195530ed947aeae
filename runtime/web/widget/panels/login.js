// Sign-in: contact, code, account. A started sign-in continues after a reload.

import { h } from "../dom.js";
import { challengeOf, enter, keepChallenge, leave, sendCode } from "../login.js";

/** @typedef {import("../login.js").Kind} Kind */
/** @typedef {import("../login.js").Challenge} Challenge */

/** No server of ours has one wait longer: what a wrong clock makes of a moment is cut to that. */
const RESEND_SECONDS_MAX = 120;

const FIELDS = {
  email: { type: "email", inputmode: "email", autocomplete: "email", dir: "ltr", placeholder: "name@example.com" },
  phone: { type: "tel", inputmode: "tel", autocomplete: "tel", dir: "ltr", placeholder: "+49 151 12345678" },
};

const sheet = new CSSStyleSheet();
sheet.replaceSync(`
.login { display: grid; gap: 1.1em; }
.login p { margin: 0; }
.login fieldset { margin: 0; padding: 0; border: 0; min-width: 0; }
.login legend, .login label.name { display: block; padding: 0; margin: 0 0 .4em; font-weight: 650; }
.login .ways { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 8em), 1fr)); gap: .5em; }
.login .ways label { display: flex; align-items: center; justify-content: center; gap: .5em; min-height: 2.8em; padding: .3em .8em; border: 1px solid var(--t-line); border-radius: .9em; background: var(--t-surface); cursor: pointer; font-weight: 600; }
.login .ways label:has(:checked) { border-color: var(--t-strong); box-shadow: inset 0 0 0 1px var(--t-strong); color: var(--t-strong); }
.login .ways label:has(:focus-visible) { outline: .2em solid var(--t-text); outline-offset: .18em; }
.login .ways input { accent-color: var(--t-strong); margin: 0; outline: none; }
.login .field { width: 100%; min-height: 3em; padding: .5em .9em; font: inherit; color: var(--t-text); background: var(--t-surface); border: 1px solid var(--t-quiet); border-radius: .9em; }
.login .field::placeholder { color: var(--t-quiet); opacity: 1; }
.login .field:focus-visible { outline: .2em solid var(--t-text); outline-offset: .1em; }
.login .field[aria-invalid=true] { border-color: var(--t-wrong); border-width: 2px; }
.login .field.code { font-size: 1.5em; letter-spacing: .2em; text-align: center; font-variant-numeric: tabular-nums; }
.login .wrong { margin-top: .45em; color: var(--t-wrong); font-weight: 600; }
.login .wrong:empty { display: none; }
.login .main { width: 100%; min-width: 0; }
.login .main[aria-disabled=true] { opacity: .62; }
.login .more { display: flex; flex-wrap: wrap; align-items: center; gap: .6em; }
.login [hidden] { display: none; }
.login { --t-wrong: #b3132b; }
.login.dark { --t-wrong: #ff9aa6; }
`);

/** @param {import("../types.js").Panel} panel */
export function open(panel) {
  const { root, api, words, round, close } = panel;
  const shadow = /** @type {ShadowRoot} */ (root.getRootNode());
  if (!shadow.adoptedStyleSheets.includes(sheet)) shadow.adoptedStyleSheets.push(sheet);
  const form = h("form", { class: "login", part: "login", novalidate: true, onsubmit: submitted });
  form.classList.toggle("dark", getComputedStyle(root).colorScheme === "dark");
  root.append(form);
  /** What the form is for now. @type {() => Promise<void>} */
  let act = async () => {};
  let busy = false;
  const challenge = challengeOf(api);
  if (!api.identity.isGuest) account();
  else if (challenge) code(challenge);
  else contact("email");

  /** @param {Event} event */
  async function submitted(event) {
    event.preventDefault();
    if (busy) return;
    busy = true;
    for (const button of form.querySelectorAll("[type=submit]")) button.setAttribute("aria-disabled", "true");
    await act();
    busy = false;
    for (const button of form.querySelectorAll("[type=submit]")) button.removeAttribute("aria-disabled");
  }

  /** @param {() => Promise<void>} next @param {...any} parts */
  function show(next, ...parts) {
    act = next;
    form.replaceChildren(...parts.filter(Boolean));
    form.querySelector("[data-first]")?.focus();
  }

  /**
   * A labelled field with an error slot.
   * @param {string} label @param {Record<string, any>} attributes
   */
  function field(label, attributes) {
    const wrong = h("p", { class: "wrong", id: "login-wrong", role: "alert" });
    const input = h("input", { class: "field", id: "login-field", "aria-describedby": "login-wrong", required: true, "data-first": true, ...attributes });
    const name = h("label", { class: "name", for: "login-field" }, label);
    const refuse = (/** @type {string} */ said) => {
      wrong.textContent = said;
      input.setAttribute("aria-invalid", String(said !== ""));
      if (said) input.focus();
    };
    input.addEventListener("input", () => wrong.textContent && refuse(""));
    return { input, name, refuse, whole: h("div", {}, name, input, wrong) };
  }

  /** Where the code is to go. @param {Kind} kind @param {string} [written] @param {string} [wrong] */
  function contact(kind, written = "", wrong = "") {
    const { name, input, refuse, whole } = field(words.t(`login_${kind}_field`), { ...FIELDS[kind], value: written });
    const way = (/** @type {Kind} */ one) => h("label", {}, h("input", { type: "radio", name: "way", value: one, checked: one === kind, onchange: () => turn(one) }), words.t(`login_${one}`));
    const turn = (/** @type {Kind} */ one) => {
      kind = one;
      name.textContent = words.t(`login_${one}_field`);
      for (const [attribute, value] of Object.entries(FIELDS[one])) input.setAttribute(attribute, value);
      refuse("");
    };
    show(
      async () => {
        const value = input.value.trim();
        if (!(kind === "email" ? value.includes("@") : /^\+[\d\s().-]{5,}$/.test(value))) return refuse(words.t(`login_${kind}_wrong`));
        try {
          code(await sendCode(api, kind, value));
        } catch (error) {
          refuse(meant(error, kind));
        }
      },
      h("p", {}, words.t(round.last?.rewards.length ? "login_keep" : "login_why")),
      h("fieldset", {}, h("legend", {}, words.t("login_by")), h("div", { class: "ways" }, way("email"), way("phone"))),
      whole,
      h("button", { class: "main", type: "submit" }, words.t("login_send")),
    );
    if (wrong) refuse(wrong);
  }

  /** The code that was sent. @param {Challenge} sent @param {string} [said] */
  function code(sent, said = words.t("login_sent", { contact: sent.contact })) {
    const { input, refuse, whole } = field(words.t("login_code"), { inputmode: "numeric", autocomplete: "one-time-code", dir: "ltr", maxlength: 30, spellcheck: "false" });
    input.classList.add("code");
    const another = h("button", { class: "small", type: "button", onclick: resend }, words.t("login_resend"));
    const until = h("p", { class: "quiet" });
    const change = h("button", { class: "small", type: "button", onclick: () => (keepChallenge(api, null), contact(sent.kind, sent.contact)) }, words.t("login_change"));
    let ends = Math.min(sent.resend_at * 1000, Date.now() + RESEND_SECONDS_MAX * 1000);
    const count = () => {
      const left = Math.ceil((ends - Date.now()) / 1000);
      another.hidden = left > 0;
      until.hidden = left <= 0;
      until.textContent = words.t("login_resend_in", { count: left });
      if (left > 0 && until.isConnected) setTimeout(count, 1000);
    };
    show(
      async () => {
        const value = input.value.replaceAll(/\D/g, "");
        if (!value) return refuse(words.t("login_code_needed"));
        try {
          await enter(round, sent.challenge_id, value);
          account(true);
        } catch (error) {
          refuse(meant(error, sent.kind));
          input.select();
        }
      },
      h("p", { role: "status" }, said),
      whole,
      h("button", { class: "main", type: "submit" }, words.t("login_enter")),
      h("div", { class: "more" }, another, until, change),
    );
    count();

    async function resend() {
      try {
        code(await sendCode(api, sent.kind, sent.contact), words.t("login_again"));
      } catch (error) {
        const { wait } = /** @type {import("../api.js").Refused} */ (error);
        refuse(meant(error, sent.kind));
        if (wait) ends = Date.now() + wait * 1000;
        count();
      }
    }
  }

  /** The account. @param {boolean} [now] whether the player just signed in */
  function account(now = false) {
    const out = h("button", { class: now ? "small" : "main", type: "submit" }, words.t("login_out"));
    const next = now ? round.nextOf(round.last) : null;
    const lead = next && h("button", { class: "main", type: "button", "data-first": true, onclick: () => panel.open("rewards", next.reward) }, words.t(next.act));
    const done = now && h("button", { class: lead ? "small" : "main", type: "button", "data-first": !lead, onclick: close }, words.t("login_go_on"));
    const title = root.closest("dialog")?.querySelector("h2");
    if (title) title.textContent = words.t("login_account");
    const wrong = h("p", { class: "wrong", role: "alert" });
    show(
      async () => {
        try {
          await leave(round);
          show(async () => {}, h("p", { role: "status", tabindex: "-1", "data-first": true }, words.t("login_out_done")));
        } catch (error) {
          wrong.textContent = meant(error, "email");
        }
      },
      h("p", { role: "status" }, words.t("login_done", { name: api.identity.who })),
      now && h("p", {}, words.t("login_kept")),
      lead,
      !lead && done,
      h("div", { class: "more" }, lead && done, out),
      wrong,
    );
  }

  /** What was refused, in words. @param {unknown} error @param {Kind} kind */
  function meant(error, kind) {
    const { reason, data, wait } = /** @type {import("../api.js").Refused} */ (error);
    if (reason === "VALIDATION") {
      const otherwise = data.violations?.some((/** @type {{field: string}} */ one) => one.field === "contact_type");
      return words.t(otherwise ? "login_not_here" : `login_${kind}_wrong`);
    }
    if (reason === "CODE_WRONG" && data.attempts_left > 0) return words.t("login_tries", { count: data.attempts_left });
    if (["CODE_WRONG", "CODE_EXPIRED", "UNKNOWN_CHALLENGE"].includes(reason)) return words.t("login_code_over");
    if (wait && ["RATE_LIMITED", "RESEND_TOO_SOON"].includes(reason)) return words.t("login_wait", { count: wait });
    if (reason === "SENDER_UNAVAILABLE") return words.t("login_not_sent");
    if (reason === "NO_ANSWER") return words.t("login_no_answer");
    return words.t(words.has(reason) ? reason : "refused");
  }
}
