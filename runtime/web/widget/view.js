// The frame of a game: name, button, remaining plays, result, refusals, panels.

import { h, picture, still, text } from "./dom.js";
import { css, lookOf, pictured } from "./look.js";
import { openPanel, panelsOf } from "./panels.js";

/** Refusals that share the text of another. @type {Record<string, string>} */
const MEANT = { TOKEN_MISSING: "LOGIN_REQUIRED", TOKEN_INVALID: "TOKEN_EXPIRED", PLAYER_MERGED: "TOKEN_EXPIRED" };

/** Refusals that a sign-in resolves. */
const LOGIN = ["LOGIN_REQUIRED", "TOKEN_EXPIRED"];

/** A refusal that the campaign's entry form resolves. */
const ENTRY = "ENTRY_REQUIRED";

const BADGE_MAX = 99;

/** How long the button is inactive after a result, so that an extra press does not start a new play. */
const SETTLE_MS = 600;

export class View {
  /**
   * @param {HTMLElement} host the element
   * @param {import("./play.js").Round} round
   * @param {import("./words.js").Words} words
   * @param {import("./look.js").Look} look
   * @param {import("./page.js").Page | null} [page] the campaign's own texts
   */
  constructor(host, round, words, look, page = null) {
    this.host = host;
    this.round = round;
    this.words = words;
    this.look = look;
    this.page = page;
    this.label = "play";
    this.sound = false;
    /** sound.js, loaded when sound is turned on. @type {any} */
    this.tones = null;
    /** The game's custom action of the button, if any. @type {{label: string, act: () => void} | null} */
    this.own = null;
    /** The result on the card. @type {import("./types.js").Result | null} */
    this.shown = null;
    /** When the last result came up. */
    this.settled = -SETTLE_MS;
    /** @type {() => void} */
    this.press = () => {};
    const { ui } = round.render ?? { ui: {} };
    this.root = h("div", { class: "stage", part: "stage" });
    this.card = h("section", { class: "card", part: "result", tabindex: "-1", hidden: true });
    this.main = h("button", { class: "main", part: "button", type: "button", onclick: () => this.#pressed() });
    // A held key counts as one press.
    this.main.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => event.repeat && event.preventDefault());
    this.left = h("p", { class: "left", part: "left" });
    this.panels = h("nav", { class: "panels", part: "panels", "aria-label": words.t("panels") });
    this.listener = h("div", { class: "listen", role: "status", "aria-live": "polite" });
    this.frame = h(
      "div",
      { class: "frame", part: "frame", lang: words.locale, dir: words.direction },
      look.backdrop(),
      h("slot", { name: "before" }),
      look.logo && h("img", { class: "logo", part: "logo", src: look.logo, alt: look.logoAlt }),
      round.render && h(host.hasAttribute("hosted") ? "h1" : "h2", { part: "title" }, page?.title || round.render.name),
      page?.intro() ?? (text(ui.description) && h("p", { class: "lead", part: "lead" }, ui.description)),
      page?.notice(round),
      page?.how(),
      this.root,
      this.card,
      h("div", { class: "action" }, this.main, this.left),
      this.panels,
      h("slot", { name: "after" }),
      !host.hasAttribute("hosted") && page?.footer(),
      this.listener,
    );
    look.dress(this.frame);
    if (host.hasAttribute("hosted")) {
      Object.assign(document.documentElement, { lang: words.locale, dir: words.direction });
      Object.assign(document.body.style, { color: css(look.text), background: css(look.ground) });
      document.body.style.setProperty("--text", css(look.text));
    }
    host.shadowRoot?.append(this.frame);
    page?.dress(this.frame);
    round.addEventListener("change", () => this.paint());
    this.#list();
    this.paint();
  }

  remove() {
    this.page?.stay();
    this.frame.remove();
  }

  /** The context passed to the game. @param {() => void} press @returns {import("./types.js").Stage} */
  stage(press) {
    this.press = press;
    return {
      root: this.root,
      api: this.round.api,
      render: /** @type {import("./types.js").Render} */ (this.round.render),
      ui: this.round.render?.ui ?? {},
      words: this.words,
      look: this.look,
      still,
      tick: () => this.sound && this.tones?.tick(),
      open: (panel, given) => void openPanel(this, panel, given),
      press: () => this.#pressed(),
      button: (label, act) => {
        this.own = { label, act };
        this.paint();
        return () => {
          this.own = null;
          this.paint();
        };
      },
      say: (said) => this.say(said),
    };
  }

  /** Announces a text to screen readers. @param {string} said */
  say(said) {
    this.listener.textContent = said;
  }

  /** Updates the button and figures. Nodes are kept, and so is the focus. */
  paint() {
    const { words, round } = this;
    const { busy } = round;
    const closed = !busy && round.standing?.can_play === false && !round.resumes && round.standing.reason !== ENTRY;
    const label = this.own?.label ?? words.t(this.#label(busy));
    if (this.main.textContent !== label) this.main.textContent = label;
    // Not `disabled`, which would drop the keyboard focus.
    this.main.setAttribute("aria-disabled", String(!this.own && (busy || closed)));
    this.frame.setAttribute("data-state", round.state);
    this.frame.setAttribute("data-closed", closed ? round.closed : "");
    if (!this.waited) this.left.textContent = this.#left();
    if (round.state === "ready") this.#noted();
    const { given, isGuest, who } = round.api.identity;
    this.#lead();
    this.#badge();
    const account = this.panels.querySelector("[data-panel=login]");
    if (!account) return;
    account.hidden = given !== "";
    /** @type {ChildNode} */ (account.lastChild).textContent = words.t(isGuest ? "login" : "signed_in", { name: who });
  }

  /** The card's primary action. The node is kept while the action is the same. */
  #lead() {
    const { round, words } = this;
    const { isGuest } = round.api.identity;
    const outcome = this.card.hidden ? "" : this.card.getAttribute("data-result");
    const next = outcome === "won" ? round.nextOf(this.shown) : null;
    const asks = this.card.getAttribute("data-reason") === ENTRY && !this.card.hidden;
    const way = asks ? "entry" : outcome === "won" ? (isGuest ? "keep" : next?.act ?? "") : isGuest && LOGIN.includes(this.card.getAttribute("data-reason") ?? "") ? "login" : "";
    this.frame.toggleAttribute("data-led", way !== "");
    const shown = this.card.querySelector("[data-next]");
    if ((shown?.getAttribute("data-next") ?? "") === way) return;
    const panel = ["keep", "login"].includes(way) ? "login" : "rewards";
    const act = () => (way === "entry" ? this.enter() : void openPanel(this, panel, next?.reward));
    const button = way && h("button", { class: "small strong", type: "button", "data-next": way, onclick: act }, words.t(way));
    if (shown) shown.replaceWith(...(button ? [button] : []));
    else if (button) this.card.append(button);
  }

  /** The number of unclaimed rewards, on their button. */
  #badge() {
    const tile = this.panels.querySelector("[data-panel=rewards]");
    const { unclaimed } = this.round;
    if (!tile || tile.getAttribute("data-count") === String(unclaimed || "")) return;
    tile.setAttribute("data-count", String(unclaimed || ""));
    for (const part of tile.querySelectorAll(".badge, .heard")) part.remove();
    if (!unclaimed) return;
    const count = unclaimed > BADGE_MAX ? `${this.words.number(BADGE_MAX)}+` : this.words.number(unclaimed);
    const heard = h("span", { class: "heard" }, `: ${this.words.t("unclaimed", { count: unclaimed })}`);
    tile.append(h("span", { class: "badge", "aria-hidden": "true" }, count), heard);
  }

  /** @param {boolean} busy */
  #label(busy) {
    if (this.round.state === "loading") return "loading";
    if (busy) return "playing";
    if (this.round.refusal) return "try_again";
    return this.round.last ? "again" : this.label;
  }

  /** The remaining plays as text; "" if unlimited. */
  #left() {
    const { standing } = this.round;
    if (!standing || standing.free_plays_remaining < 0 || this.round.closed) return "";
    if (standing.free_plays_remaining > 0) return this.words.t("plays_left", { count: standing.free_plays_remaining });
    if (standing.remaining_turns > 0) return this.words.t("turns_left", { count: standing.remaining_turns });
    return standing.can_play ? "" : this.#back(standing.resets_at) || this.words.t("plays_left", { count: 0 });
  }

  /** When plays reset; "" if unknown. @param {unknown} resets unix seconds */
  #back(resets) {
    const seconds = Number(resets ?? 0);
    if (!(seconds > Date.now() / 1000)) return "";
    return this.words.t("back_at", { when: this.words.when(seconds), until: this.words.until(seconds) });
  }

  /** @returns {void | Promise<void>} */
  #pressed() {
    if (performance.now() - this.settled < SETTLE_MS) return;
    if (this.own) return this.own.act();
    if (this.main.getAttribute("aria-disabled") === "true") return this.#again();
    if (this.round.standing?.reason === ENTRY && !this.round.resumes) return this.enter();
    this.card.hidden = true;
    this.page?.stay();
    this.press();
  }

  /** Checks whether the player may play by now, and plays then. */
  async #again() {
    const { round } = this;
    if (round.busy || !round.api.identity.token) return;
    await round.look();
    if (this.main.getAttribute("aria-disabled") !== "true") this.#pressed();
  }

  /** Opens the campaign's entry form, and plays once it is complete. */
  enter() {
    const done = (/** @type {import("./types.js").Panel} */ panel) => {
      panel.close();
      this.card.hidden = true;
      this.press();
    };
    void openPanel(this, "entry", { done });
  }

  /** Shows that a response is pending; "" once it arrived. @param {string} reason */
  wait(reason) {
    this.waited = reason !== "";
    const said = reason && this.words.t(["OFFLINE", "TOKEN_EXPIRED"].includes(reason) ? reason : "waiting");
    this.left.textContent = said || this.#left();
    this.say(said);
  }

  /** Shows the result as text. @param {import("./types.js").Result} result @param {boolean} [resumed] */
  tell(result, resumed = false) {
    const { words } = this;
    const won = result.rewards.length > 0;
    const { ui = {}, prizes = [] } = this.round.render ?? {};
    const names = result.rewards.map((reward) => {
      const { type, value, quantity } = reward;
      const name = (type === "item" && text(lookOf(ui, reward).label)) || reward.name;
      return type === "turns" ? `${name}: ${words.t("turns_won", { count: value * quantity })}` : quantity > 1 ? words.t("credited", { count: quantity, name }) : name;
    });
    /** @param {any} reward */
    const look = (reward) => pictured(lookOf(ui, reward), prizes.find((one) => one.prize_id === reward.prize_id));
    const list = result.rewards.map((reward, i) => h("li", { class: "prize" }, picture(look(reward)), h("span", {}, names[i])));
    this.#show(
      words.t(won ? "won" : "lost"),
      won ? h("ul", {}, ...list) : !this.page?.says(won) && h("p", { class: "quiet" }, words.t(this.round.standing?.reason === "SOLD_OUT" ? "SOLD_OUT" : "lost_more")),
      resumed && h("p", { class: "quiet" }, words.t("earlier")),
      ...(this.page?.result(won, (said) => this.say(said), !this.round.unclaimed && !(won && (this.round.api.identity.isGuest || this.round.nextOf(result)))) ?? []),
    );
    this.card.setAttribute("data-result", won ? "won" : "lost");
    this.shown = result;
    this.#lead();
    this.say(`${words.t(won ? "won" : "lost")} ${names.join(", ")} ${this.#left()}`);
  }

  /** Shows it as it comes up. @param {import("./types.js").Result} result @param {boolean} resumed */
  celebrate(result, resumed) {
    this.settled = performance.now();
    this.tell(result, resumed);
    if (!result.rewards.length) return;
    if (!still()) void import("./confetti.js").then((file) => file.confetti(this.frame, [this.look.primary, this.look.accent, this.look.strong].map(css)));
    if (this.sound) this.tones?.fanfare();
  }

  /** Shows a refusal, and when to try again. */
  refuse() {
    const { refusal } = this.round;
    if (!refusal) return;
    const key = refusal.reason === "BROKEN" || refusal.http >= 500 ? "broken" : refusal.reason;
    this.#refused(key, refusal.data?.resets_at);
    this.paint();
    if (key === ENTRY) this.enter();
  }

  /** Shows what is known before a play: that the game is closed, the player is excluded, or prizes are sold out. */
  #noted() {
    const { standing, resumes, closed } = this.round;
    const { reason = "", resets_at } = standing ?? {};
    const shown = reason !== "" && !resumes && (reason === "SOLD_OUT" || standing?.can_play === false);
    if (!shown) this.card.hidden = true;
    else if (this.card.hidden || (closed && this.card.getAttribute("data-reason") !== reason)) this.#refused(reason, resets_at);
  }

  /** Details shown with a state. @param {string} reason @returns {any[]} */
  #more(reason) {
    const { words, round } = this;
    if (reason === "SOLD_OUT") return round.render?.on_unavailable === "ON_UNAVAILABLE_FALLBACK" ? [] : [h("p", { class: "quiet" }, words.t("sold_out_more"))];
    if (reason === "ENDED" && this.panels.querySelector("[data-panel=rewards]")) {
      const until = Number(round.render?.claims_until);
      return [until * 1000 > Date.now() && h("p", {}, words.t("claims_until", { when: words.when(until, round.render?.timezone) })), h("button", { class: "small strong", type: "button", onclick: () => void openPanel(this, "rewards") }, words.t("rewards"))];
    }
    const at = Number(round.standing?.starts_at ?? 0);
    if (reason !== "NOT_STARTED" || !at) return [];
    const when = words.when(at, round.render?.timezone);
    const counted = h("div", {});
    void import("./countdown.js").then((file) => counted.replaceWith(file.countdown(words, at, () => void round.open())));
    return [h("p", {}, words.t("starts_at", { when })), counted];
  }

  /** @param {string} reason @param {unknown} resets */
  #refused(reason, resets) {
    reason = MEANT[reason] ?? reason;
    const said = this.words.t(this.words.has(reason) ? reason : "refused");
    const back = this.#back(resets);
    this.#show(said, back && h("p", {}, back), ...this.#more(reason));
    this.card.setAttribute("data-result", "refused");
    this.card.setAttribute("data-reason", reason);
    this.#lead();
    this.say(`${said} ${back}`);
  }

  /** @param {string} title @param {...any} parts */
  #show(title, ...parts) {
    // The name is the page's heading where the page is ours, and else one of the page's.
    this.card.replaceChildren(h(this.host.hasAttribute("hosted") ? "h2" : "h3", {}, title), ...parts.filter(Boolean));
    this.card.removeAttribute("data-reason");
    this.card.hidden = true; // Shown anew, so that it rises again.
    void this.card.offsetWidth;
    this.card.hidden = false;
  }

  /** The buttons of the panels, and the one for sound. */
  #list() {
    if (!this.round.render) return;
    const loud = h("span", { class: "picture", "aria-hidden": "true" }, "🔇");
    const sound = h("button", { class: "tile", type: "button", "aria-pressed": "false" }, loud, this.words.t("sound"));
    sound.addEventListener("click", () => {
      this.sound = !this.sound;
      loud.textContent = this.sound ? "🔊" : "🔇";
      sound.setAttribute("aria-pressed", String(this.sound));
      void import("./sound.js").then((file) => (this.tones = file), () => {});
    });
    const opened = panelsOf(this.round).map(([panel, picture]) =>
      h(
        "button",
        { class: "tile", type: "button", "data-panel": panel, onclick: () => void openPanel(this, panel) },
        h("span", { class: "picture", "aria-hidden": "true" }, picture),
        this.words.t(panel),
      ),
    );
    this.panels.append(...opened);
    opened[opened.length - 1].before(sound);
  }
}
