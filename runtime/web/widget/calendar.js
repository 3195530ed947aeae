// <tombola-calendar>: a door for each game of a campaign, in the order of their starts. A door opens its game in place of
// the doors. The campaign's own page has the same doors (http/pages/campaign_parts.py).

import { Api } from "./api.js";
import { h, safe, text } from "./dom.js";
import { loadModule } from "./load_module.js";
import { Look } from "./look.js";
import { Page, textOf } from "./page.js";
import { Identity } from "./storage.js";
import { sheet } from "./style.js";
import { Words, choose } from "./words.js";

/** @typedef {import("./types.js").Render} Render */

/** The edge caches the campaign for two seconds. */
const STALE_MS = 3_000;
/** The delay before a due door that is still locked is loaded again: the device's clock is ahead. */
const AHEAD_MS = 10_000;
/** The longest delay of a timer. */
const WAIT_MAX_MS = 2 ** 31 - 1;
/** The reasons of games that can be played. */
const OPEN = ["", "SOLD_OUT"];
const LEGAL = ["terms", "privacy", "imprint"];
const OWN = ["primary", "accent", "background", "mode"];
/** Attributes that a calendar passes to its games. */
const SHARED = ["tenant", "token", "locale", "api"];
const PICTURES = /** @type {Record<string, string>} */ ({ spin_wheel: "🎡", scratch_card: "🎟️", instant_win: "🎟️", egg_catcher: "🥚", gift_catcher: "🎁", collection: "🍁" });

const doors = new CSSStyleSheet();
doors.replaceSync(`
.doors { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(7.6em, 42%), 1fr)); gap: .8em; width: 100%; margin: 0; padding: 0; list-style: none; }
.doors li { display: flex; min-width: 0; }
.doors li > * { flex: 1; min-width: 0; display: flex; flex-direction: column; align-items: center; justify-content: center; gap: .25em; min-height: 8.2em; padding: .7em .4em; border-radius: 1.2em; text-align: center; overflow-wrap: anywhere; color: var(--t-text); background: var(--t-surface); border: 1px solid var(--t-line); }
.doors .number { font-size: 1.9em; line-height: 1.1; font-weight: 800; }
.doors .picture { font-size: 1.3em; line-height: 1.2; }
.doors .name { font-weight: 650; unicode-bidi: plaintext; }
.doors .when { font-size: .9em; color: var(--t-quiet); }
.doors button { transition: transform .15s; }
.doors button:hover { transform: translateY(-.15em); border-color: var(--t-strong); }
.doors :not([data-door=closed]) > button .when { padding: .25em 1.1em; border-radius: 99em; font-weight: 700; color: var(--t-on-primary); background: var(--t-primary); }
.doors [data-door=locked] > *, .doors [data-door=closed] > * { background: none; border-style: dashed; }
.doors [data-door=today] > * { border: .2em solid var(--t-strong); }
.behind { width: 100%; display: flex; flex-direction: column; align-items: center; gap: .8em; }
.behind:focus { outline: none; }
.behind tombola-game { align-self: stretch; }
`);

/** The calendars of this page. @type {WeakMap<HTMLElement, Calendar>} */
const calendars = new WeakMap();

/** Draws a calendar that was put on the page. @param {HTMLElement} host @param {string} home the edge that served this file */
export function connect(host, home) {
  const made = calendars.get(host);
  if (made) void made.load();
  else calendars.set(host, new Calendar(host, home));
}

class Calendar {
  /** @param {HTMLElement} host @param {string} home the edge that served this file */
  constructor(host, home) {
    this.host = host;
    this.home = home;
    this.root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
    this.root.adoptedStyleSheets = [sheet, doors];
    /** The game that is open. @type {HTMLElement | null} */
    this.game = null;
    /** Counts loads, so that an outdated one stops. */
    this.loads = 0;
    this.timer = 0;
    /** When the next door opens, in milliseconds. */
    this.due = Infinity;
    const attributes = ["campaign", ...SHARED];
    new MutationObserver((changes) => changes.forEach(({ attributeName }) => this.changed(attributeName ?? ""))).observe(host, { attributeFilter: attributes });
    // A timer does not count the time that the device sleeps.
    document.addEventListener("visibilitychange", () => !document.hidden && Date.now() >= this.due && this.#renew());
    void this.load();
  }

  /** Loads the doors anew, unless a game is open. */
  #renew() {
    if (!this.game && this.host.isConnected) void this.load();
  }

  /** @param {string} name of an attribute */
  changed(name) {
    const value = this.host.getAttribute(name);
    if (this.game && SHARED.includes(name)) value === null ? this.game.removeAttribute(name) : this.game.setAttribute(name, value);
    else if (name !== "token") void this.load();
  }

  /** Reads the campaign and draws its doors. @param {string} [focus] the game whose door gets the focus */
  async load(focus = "") {
    const load = ++this.loads;
    clearTimeout(this.timer);
    const { host } = this;
    const base = (host.getAttribute("api") || this.home).replace(/\/+$/, "");
    const tenant = host.getAttribute("tenant") ?? "";
    const id = host.getAttribute("campaign") ?? "";
    const { login } = new Identity(`${base}:${tenant}`);
    const locale = choose([host.getAttribute("locale"), login?.player?.locale, ...navigator.languages]);
    // The response is the same for every player, so it needs no token.
    const api = new Api(base, /** @type {any} */ ({ token: "" }), tenant);
    const asked = api.get(`/public/campaigns/${encodeURIComponent(id)}`).catch((/** @type {unknown} */ error) => error);
    const words = await Words.load(locale).catch(() => new Words("en", {}));
    const reply = await asked;
    if (load !== this.loads) return;
    if (reply instanceof Error) return this.#refuse(words, reply);
    this.#draw(api, words, reply);
    if (focus) /** @type {HTMLElement | null} */ (this.root.querySelector(`[data-game="${CSS.escape(focus)}"]`))?.focus();
    void loadModule("./source.js").then((file) => file.reportView({ base, tenant }, id)).catch(() => {});
  }

  /** @param {Words} words @param {any} settings @param {...any} parts */
  #frame(words, settings, ...parts) {
    const style = getComputedStyle(this.host);
    const look = new Look(settings, Object.fromEntries(OWN.map((name) => [name, style.getPropertyValue(`--tombola-${name}`).trim()])));
    const logo = look.logo && h("img", { class: "logo", part: "logo", src: look.logo, alt: look.logoAlt });
    const frame = h("div", { class: "frame", part: "frame", lang: words.locale, dir: words.direction }, look.backdrop(), h("slot", { name: "before" }), logo, ...parts, h("slot", { name: "after" }));
    look.dress(frame);
    this.root.replaceChildren(frame);
    return frame;
  }

  /** @param {Words} words @param {any} error */
  #refuse(words, error) {
    const said = words.t(error.http === 404 ? "UNKNOWN_GAME" : "NO_ANSWER");
    this.#frame(words, {}, h("p", { class: "left", role: "alert" }, said), h("button", { class: "main", part: "button", type: "button", onclick: () => void this.load() }, words.t("try_again")));
  }

  /** @param {Api} api @param {Words} words @param {any} campaign with its games */
  #draw(api, words, campaign) {
    const settings = campaign.settings ?? {};
    const own = settings.page && typeof settings.page === "object" ? settings.page : {};
    const legal = LEGAL.filter((name) => textOf(own.texts?.[name], words.locale));
    const page = new Page(/** @type {any} */ ({ ui: { page: { ...own, legal } }, campaign_id: campaign.id }), api, words.locale);
    const ordered = [...(campaign.games ?? [])].sort((/** @type {Render} */ one, /** @type {Render} */ other) => Number(one.starts_at) - Number(other.starts_at) || (one.id < other.id ? -1 : 1));
    const list = h("ol", { class: "doors", part: "doors" }, ...ordered.map((game, i) => this.#door(words, game, i + 1)));
    this.game = null;
    this.list = list;
    const frame = this.#frame(
      words,
      settings,
      h("h2", { part: "title" }, page.title || campaign.name),
      page.intro() ?? (text(settings.description) && h("p", { class: "lead", part: "lead" }, settings.description)),
      ordered.length ? list : h("p", { class: "quiet" }, words.t("CAMPAIGN_CLOSED")),
      page.footer(),
    );
    page.dress(frame);
    const next = Math.min(...ordered.filter(({ starts_at: at }) => Number(at)).map(({ starts_at: at, reason }) => {
      const left = Number(at) * 1000 - Date.now();
      return left > 0 ? left : reason === "NOT_STARTED" ? AHEAD_MS : Infinity;
    }));
    this.due = Date.now() + next + STALE_MS;
    if (next < WAIT_MAX_MS) this.timer = setTimeout(() => this.#renew(), next + STALE_MS);
  }

  /** @param {Words} words @param {Render} game @param {number} number */
  #door(words, game, number) {
    const { reason } = game;
    const opens = OPEN.includes(reason);
    const locked = reason === "NOT_STARTED";
    const starts = Number(game.starts_at);
    const today = opens && starts > 0 && dayOf(starts, game.timezone) === dayOf(Date.now() / 1000, game.timezone);
    const image = safe(game.ui?.picture?.image ?? game.ui?.picture);
    const shown = image && !locked ? h("img", { class: "picture", src: image, alt: "" }) : h("span", { class: "picture", "aria-hidden": "true" }, locked ? "🔒" : text(game.ui?.picture?.emoji) || (PICTURES[game.type] ?? "🎲"));
    const when = locked ? words.t("starts_at", { when: words.when(starts, game.timezone) }) : words.t(reason || "play");
    const inner = [h("span", { class: "number", "aria-hidden": "true" }, words.number(number)), shown, h("span", { class: "name" }, game.name), h("span", { class: "when" }, when)];
    const state = locked ? "locked" : !opens ? "closed" : today ? "today" : "open";
    const door = opens || game.state === "CAMPAIGN_STATE_CLAIMS_OPEN"
      ? h("button", { type: "button", part: "door", "data-game": game.id, "aria-current": today && "date", onclick: () => this.#open(words, game) }, ...inner)
      : h("div", { part: "door" }, ...inner);
    return h("li", { "data-door": state }, door);
  }

  /** Shows the game of a door in place of the doors. @param {Words} words @param {Render} game */
  #open(words, game) {
    this.loads++; // A load that is under way would remove the game.
    const given = Object.fromEntries(SHARED.map((name) => [name, this.host.getAttribute(name)]));
    if (given.api === null) given.api = this.home;
    this.game = h("tombola-game", { ...given, game: game.id });
    const back = h("button", { class: "small", part: "button", type: "button", onclick: () => void this.load(game.id) }, words.t("close"));
    const shown = h("section", { class: "behind", tabindex: "-1", "aria-label": game.name }, back, this.game);
    this.list.replaceWith(shown);
    shown.focus();
  }
}

/** The day of a time in a zone. @param {number} seconds unix @param {string} zone */
function dayOf(seconds, zone) {
  const at = new Date(seconds * 1000);
  try {
    return at.toLocaleDateString("en-CA", { timeZone: zone || "UTC" });
  } catch {
    return at.toLocaleDateString("en-CA"); // Not supported by this browser.
  }
}
