// The campaign's own texts (`ui.page`): title, introduction and the like, what follows a result, and links to its legal
// pages. Loaded only where a game has them.

import { h, safe, text, wear } from "./dom.js";
import { codeOf, linkWith, share } from "./invite.js";
import { WORDS } from "./page_words.js";
import { prose } from "./prose.js";

const FALLBACK = "en";
const TICK_MS = 1_000;
const REDIRECT_MAX = 600;
const HTTPS = /^https:\/\/[^\s"'<>\\^`{|}]+$/;

/** The text in a language, else in English, else in any (rules/ui/pages.py). @param {any} texts @param {string} locale @returns {string} */
export function textOf(texts, locale) {
  if (typeof texts === "string") return texts;
  const found = Object.entries(texts && typeof texts === "object" ? texts : {}).filter(([, one]) => typeof one === "string" && one.trim());
  const by = Object.fromEntries(found);
  return by[locale] ?? by[locale.split("-")[0]] ?? by[FALLBACK] ?? found[0]?.[1] ?? "";
}

/** The campaign's state by the reason of a standing. @type {Record<string, string>} */
const STATES = { NOT_STARTED: "announced", PAUSED: "paused", ENDED: "ended", SOLD_OUT: "sold_out" };

/** The campaign's state: announced, running, paused, sold_out, claims_open or ended. @param {import("./play.js").Round} round */
function stateOf({ standing, render }) {
  const reason = standing?.reason ?? "";
  if (reason === "ENDED" && Number(render?.claims_until ?? 0) * 1000 > Date.now()) return "claims_open";
  const soldOut = reason !== "" && render?.reason === "SOLD_OUT"; // The player's own reason hides it.
  return STATES[reason] ?? (soldOut ? "sold_out" : "running");
}

const sheet = new CSSStyleSheet();
sheet.replaceSync(`
.prose > * { margin: 0 0 .5em; } .prose > :last-child { margin: 0; }
.prose :is(ul, ol) { display: block; padding-inline-start: 1.4em; text-align: start; list-style: revert; }
.prose a, .legal a { color: var(--t-strong); overflow-wrap: anywhere; }
.how { width: min(100%, 31em); text-align: start; } .how summary { cursor: pointer; text-align: center; font-weight: 650; color: var(--t-strong); }
.how .prose { margin-top: .5em; }
.next { display: flex; flex-wrap: wrap; justify-content: center; gap: .5em; } .next:empty { display: none; }
.next a, .legal a { display: inline-grid; place-items: center; min-height: 2.4em; } .next a { text-decoration: none; }
.leaving { display: flex; flex-wrap: wrap; align-items: center; justify-content: center; gap: .2em .7em; }
.card .leaving .small { margin: 0; }
.legal { display: flex; flex-wrap: wrap; justify-content: center; gap: .2em 1.4em; font-size: .9em; }
.state { max-width: 34em; text-align: center; overflow-wrap: anywhere; } .state:empty { display: none; }
.state img { display: block; max-width: 100%; max-height: 16em; margin: 0 auto .7em; border-radius: .8em; object-fit: contain; }
`);

export class Page {
  /**
   * @param {import("./types.js").Render} render
   * @param {import("./api.js").Api} api
   * @param {string} locale
   */
  constructor({ ui, campaign_id, offers }, api, locale) {
    this.texts = ui.page.texts ?? {};
    this.after = ui.page.after ?? {};
    this.states = ui.page.states ?? {};
    this.legal = Array.isArray(ui.page.legal) ? ui.page.legal.filter((/** @type {any} */ one) => ["terms", "privacy", "imprint"].includes(one)) : [];
    this.api = api;
    this.locale = locale;
    this.campaign = campaign_id;
    this.invites = Boolean(offers?.includes("referrals"));
    /** @type {Record<string, string>} */
    this.words = WORDS[locale.split("-")[0]] ?? WORDS[FALLBACK];
    this.title = this.#text("title");
    /** Stops the pending redirect. */
    this.stay = () => {};
  }

  /** @param {string} name */
  #text(name) {
    return textOf(this.texts[name], this.locale);
  }

  /** A text's elements, in one that carries a class; null without the text. @param {string} name @param {string} kind */
  #prose(name, kind) {
    const source = this.#text(name);
    return source ? h("div", { class: kind, dir: "auto" }, ...prose(source)) : null;
  }

  /** Adds the style of these texts to the page's frame. @param {HTMLElement} frame */
  dress(frame) {
    wear(frame, sheet);
  }

  /** Under the title. */
  intro() {
    return this.#prose("intro", "lead prose");
  }

  /** How to play, to be opened. */
  how() {
    const shown = this.#prose("how", "prose");
    return shown && h("details", { class: "how", part: "how" }, h("summary", {}, this.words.how), shown);
  }

  /** The text and picture of the campaign's state, which follows the round's. @param {import("./play.js").Round} round */
  notice(round) {
    const shown = h("div", { class: "state prose", part: "state", dir: "auto" });
    const paint = () => {
      const state = stateOf(round);
      if (round.state === "loading" || shown.getAttribute("data-of") === state) return;
      const { text: texts, image } = this.states[state] ?? {};
      const address = safe(image);
      shown.setAttribute("data-of", state);
      shown.replaceChildren(...(address ? [h("img", { src: address, alt: "" })] : []), ...prose(textOf(texts, this.locale)));
    };
    round.addEventListener("change", paint);
    paint();
    return shown;
  }

  /** What follows a result, on its card. @param {boolean} won @param {(said: string) => void} say @param {boolean} leaves whether it may redirect: nothing is left to do here */
  result(won, say, leaves) {
    const { url, redirect_seconds, share } = this.after;
    const address = HTTPS.test(text(url)) ? text(url) : "";
    const label = textOf(this.after.label, this.locale) || this.words.go_on;
    const seconds = Number.isInteger(redirect_seconds) ? Math.min(redirect_seconds, REDIRECT_MAX) : 0;
    return [
      this.#prose(won ? "win" : "lose", "prose"),
      this.#prose("thanks", "prose quiet"),
      h(
        "div",
        { class: "next" },
        address && h("a", { class: "small", part: "link", href: address, target: "_blank", rel: "noopener" }, label),
        share === true && this.#share(say),
      ),
      address && seconds > 0 && leaves && this.#redirect(address, seconds, say),
    ].filter(Boolean);
  }

  /** Whether a text replaces the usual one of a result. @param {boolean} won */
  says(won) {
    return this.#text(won ? "win" : "lose") !== "";
  }

  /** Shares the page, with the player's code where the campaign pays for referrals. @param {(said: string) => void} say */
  #share(say) {
    const button = h("button", { class: "small", type: "button", onclick: () => void shared() }, this.words.share);
    let code = "";
    // Requested early: browsers allow sharing only right after a press.
    if (this.invites) void codeOf(this.api, this.campaign).then((own) => (code = own));
    const shared = async () => {
      if (!(await share(this.title || document.title, linkWith(code)))) return;
      button.textContent = this.words.copied;
      say(this.words.copied);
    };
    return button;
  }

  /** Leaves for another page after a while, unless the player stays. @param {string} address @param {number} seconds @param {(said: string) => void} say */
  #redirect(address, seconds, say) {
    this.stay();
    let left = seconds;
    const counted = h("span", { "aria-hidden": "true" });
    const shown = () => (counted.textContent = this.words.leaving.replace("{count}", new Intl.NumberFormat(this.locale).format(left)));
    const line = h("p", { class: "quiet leaving" }, counted, " ", h("button", { class: "small", type: "button", onclick: () => this.stay() }, this.words.stay));
    const timer = setInterval(() => {
      left -= 1;
      shown();
      if (left > 0) return;
      this.stay();
      if (!("isPreview" in this.api)) location.assign(address);
    }, TICK_MS);
    this.stay = () => {
      clearInterval(timer);
      line.remove();
      this.stay = () => {};
    };
    shown();
    setTimeout(() => say(counted.textContent ?? ""), TICK_MS); // After the result was announced.
    return line;
  }

  /** Links to the legal pages. */
  footer() {
    const { base, tenant } = this.api;
    const query = tenant ? `?tenant_id=${encodeURIComponent(tenant)}` : "";
    const links = this.legal.map((/** @type {string} */ name) =>
      h("a", { href: `${base}/c/${encodeURIComponent(this.campaign)}/${name}${query}`, target: "_blank", rel: "noopener" }, this.words[name]),
    );
    return links.length ? h("nav", { class: "legal", part: "legal", "aria-label": this.words.legal }, ...links) : null;
  }
}
