// <tombola-game game="game_...">: a game, played where it stands; <tombola-calendar campaign="camp_...">: the games of a
// campaign as doors. The entry that pages load.

import { Api } from "./api.js";
import { fileOf, mountGame } from "./games.js";
import { loadModule } from "./load_module.js";
import { Look } from "./look.js";
import { Round, rounds } from "./play.js";
import { Identity } from "./storage.js";
import { sheet } from "./style.js";
import { View } from "./view.js";
import { Words, choose } from "./words.js";

/** The origin of this file is the edge. */
const HOME = new URL(import.meta.url).origin;

/** What the page may set by CSS on the element, over what `ui.theme` says. */
const OWN = ["primary", "accent", "background", "mode"];

/**
 * Attributes: `game` (its id), `tenant`, `token` (a player's), `locale`, `client-seed`, `api` (the edge, where it is not
 * who served this file), `hosted` (fills the page). Property: `api`, an Api that is asked in place of the edge, set before
 * the element stands on a page (the dashboard's preview, in test mode). Methods: `start()`, `play()`. Events: `tombola:ready`, `started`,
 * `played`, `won`, `claimed`, `refused`, `error`, each with a `detail`; they bubble out of every shadow.
 */
export class TombolaGame extends HTMLElement {
  static observedAttributes = ["game", "tenant", "token", "locale", "client-seed", "api"];

  /** @type {Round | null} */
  #round = null;
  /** @type {View | null} */
  #view = null;
  /** @type {import("./types.js").Game | null} */
  #game = null;
  /** @type {Promise<import("./types.js").Result | null> | null} */
  #playing = null;
  /** Resolves a pending wait for a new token. @type {((renewed: boolean) => void) | null} */
  #renewed = null;
  /** @type {Promise<boolean> | null} */
  #renewal = null;
  /** The language that was chosen last. */
  #spoken = "";
  /** Counts loads, so that an outdated one stops. */
  #load = 0;

  constructor() {
    super();
    this.attachShadow({ mode: "open" }).adoptedStyleSheets = [sheet];
  }

  connectedCallback() {
    void this.#open();
  }

  disconnectedCallback() {
    this.#load++;
    this.#close();
  }

  /** @param {string} name @param {string | null} before @param {string | null} now */
  attributeChangedCallback(name, before, now) {
    if (!this.isConnected || before === now || !this.#round) return;
    if (name === "token") {
      const { identity } = this.#round.api;
      const { given, player } = identity;
      identity.given = now ?? "";
      if (!this.#round.render) return;
      const same = identity.player === player;
      const waits = this.#renewed;
      // A play that waits for a new token continues with it; the page stays as is.
      waits?.(same);
      if (this.#playing) {
        if (same) return;
        // What the player who left has requested is repeated neither with the new token nor by the new player.
        identity.given = given;
        if (now) this.#round.record.set({});
        void this.#open();
      } else if (!same) void this.#round.changed(true);
      else if (!waits) {
        void this.#round.look();
        void this.#round.tally();
        void this.#game?.look?.();
      }
    } else if (name === "client-seed") this.#round.clientSeed = now ?? "";
    else void this.#open();
  }

  /** Opens a session without playing it. @returns {Promise<import("./types.js").Session | null>} */
  async start() {
    const round = this.#round;
    if (!round?.render) return null;
    try {
      const session = await round.begin();
      round.rest();
      return session;
    } catch (error) {
      if (round.failed(error, false)) this.#refuse(round);
      return null;
    }
  }

  /** Plays once and shows the result. During a play, returns that one. @returns {Promise<import("./types.js").Result | null>} */
  play() {
    if (this.#playing) return this.#playing;
    const playing = this.#run().finally(() => {
      // What another game's took over is not ours to end.
      if (this.#playing === playing) this.#playing = null;
      this.#view?.paint();
      void this.#speak();
    });
    return (this.#playing = playing);
  }

  async #open() {
    const load = ++this.#load;
    this.#close();
    const base = (this.getAttribute("api") || HOME).replace(/\/+$/, "");
    const tenant = this.getAttribute("tenant") ?? "";
    const identity = new Identity(`${base}:${tenant}`);
    identity.given = this.getAttribute("token") ?? "";
    const api = this.api ?? new Api(base, identity, tenant);
    const round = new Round(api, this.getAttribute("game") ?? "");
    round.clientSeed = this.getAttribute("client-seed") ?? "";
    this.#round = round;
    const words = this.#words();
    rounds.add(round);
    if (!identity.given && identity.aside.length) void loadModule("./login.js").then((file) => file.recall(api));
    api.renew = async (why) => this.#round === round && this.#renew(why);
    let failure = null;
    try {
      await round.load(this.#given());
    } catch (error) {
      failure = error;
    }
    const spoken = await words;
    if (load !== this.#load) return;
    if (failure) {
      this.#dress(round, spoken);
      round.failed(failure, false);
      return this.#refuse(round);
    }
    const shown = await this.#show(round, spoken).catch((error) => {
      if (load !== this.#load) return;
      round.failed(error, false);
      this.#refuse(round);
    });
    if (!shown) return;
    round.addEventListener("signed", () => {
      void round.tally();
      void this.#game?.look?.();
      if (round.resumes) void this.play();
      else void this.#speak();
    });
    round.addEventListener("had", () => {
      void round.tally();
      void this.#game?.look?.();
    });
    round.addEventListener("session", (event) => this.#tell("started", /** @type {CustomEvent} */ (event).detail));
    this.#tell("ready", { game: /** @type {import("./types.js").Render} */ (round.render), standing: round.standing });
    // The dashboard's preview is no visit.
    if (api instanceof Api) void loadModule("./source.js").then((file) => file.reportView({ base, tenant, token: identity.token }, round.render?.campaign_id, round.render?.id)).catch(() => {});
    if (round.resumes) void this.play();
  }

  /** The language: of the attribute, the player, or the browser. */
  #locale() {
    return choose([this.getAttribute("locale"), this.#round?.api.identity.login?.player?.locale, ...navigator.languages]);
  }

  #words() {
    this.#spoken = this.#locale();
    return Words.load(this.#spoken).catch(() => new Words("en", {}));
  }

  /** The campaign's own texts, if there are any. Without their file the game is played without them. @param {Round} round @param {string} locale */
  async #page({ render, api }, locale) {
    if (!render?.ui?.page) return null;
    const file = await loadModule("./page.js").catch(() => null);
    return file && new file.Page(render, api, locale);
  }

  /** Draws the view in this language. @param {Round} round @param {Words} spoken @param {import("./page.js").Page | null} [page] */
  #dress(round, spoken, page = null) {
    this.#view?.remove();
    const ui = round.render?.ui ?? {};
    const view = (this.#view = new View(this, round, new Words(spoken.locale, spoken.words, ui.texts), new Look(ui, this.#own()), page));
    round.api.waiting = (reason) => view.wait(reason);
    // Until the game is loaded: a failed load is retried.
    view.press = () => void this.#open();
    return view;
  }

  /** Mounts the game in this language; resolves to whether it is still current. @param {Round} round @param {Words} spoken */
  async #show(round, spoken) {
    const load = this.#load;
    const page = await this.#page(round, spoken.locale);
    if (load !== this.#load) return false;
    const view = this.#dress(round, spoken, page);
    const render = /** @type {import("./types.js").Render} */ (round.render);
    const game = await mountGame(fileOf(render), view.stage(() => void (this.#game ? this.play() : this.#open())));
    if (load !== this.#load) {
      game.stop?.();
      return false;
    }
    this.#game = game;
    view.label = game.label ?? "play";
    view.paint();
    return true;
  }

  /** Switches to the player's language once no play is running and no dialog is open. @param {boolean} [focus] @returns {Promise<void>} */
  async #speak(focus = false) {
    const [round, view] = [this.#round, this.#view];
    if (!round || !view || this.#playing || this.#spoken === this.#locale()) return;
    const dialog = view.frame.querySelector("dialog");
    if (dialog) return dialog.addEventListener("close", () => void this.#speak(true), { once: true });
    const load = ++this.#load;
    const spoken = await this.#words();
    if (load !== this.#load) return;
    if (this.#playing || view.frame.querySelector("dialog")) {
      this.#spoken = "";
      return this.#speak(focus);
    }
    const focused = focus || this.shadowRoot?.activeElement;
    this.#game?.stop?.();
    this.#game = null; // Not played until it is mounted anew.
    if (!(await this.#show(round, spoken))) return;
    if (focused) this.#view?.main.focus();
    if (round.last && ["won", "lost"].includes(round.state)) this.#view?.tell(round.last);
    this.#view?.refuse();
  }

  /** The response of GET /games/{id}/render, if the page has it in the attribute `render`. @returns {any} */
  #given() {
    try {
      const render = JSON.parse(this.getAttribute("render") ?? "");
      return render.id === this.getAttribute("game") ? render : undefined;
    } catch {
      return undefined;
    }
  }

  #close() {
    this.#renewed?.(false);
    this.#playing = null;
    this.#game?.stop?.();
    this.#game = null;
    if (this.#round) rounds.delete(this.#round);
    this.#round = null;
    this.#view?.remove();
    this.#view = null;
  }

  /** Theme values set by the page's CSS. */
  #own() {
    const style = getComputedStyle(this);
    return Object.fromEntries(OWN.map((name) => [name, style.getPropertyValue(`--tombola-${name}`).trim()]));
  }

  async #run() {
    const [round, game, view] = [this.#round, this.#game, this.#view];
    if (!round || !game || !view) return null;
    const resumed = round.resumes;
    const gone = () => this.#round !== round;
    for (let mayRepeat = true; ; mayRepeat = false) {
      try {
        let payload = {};
        if (!round.resumes) {
          const session = await round.begin(Boolean(game.take));
          // Before the play: an invitation counts only for new players.
          if (location.search.includes("invite=")) await loadModule("./invite.js").then((file) => file.accept(round), () => {});
          if (gone()) return null;
          game.rest?.();
          if (game.take) {
            payload = await game.take(session);
            if (gone()) return null;
            mayRepeat = false; // The player would have to act again: a refusal says so.
          }
        }
        game.wait?.();
        const result = await round.play(payload);
        if (gone()) return result;
        this.#tell("played", result);
        // The result is shown even if its picture fails to load.
        await game.show(result).catch((error) => console.error(error));
        if (gone()) return result;
        round.shown(result);
        view.celebrate(result, resumed);
        if (result.rewards.length) this.#tell("won", { rewards: result.rewards, play_id: result.play_id });
        return result;
      } catch (error) {
        if (gone()) return null;
        const again = round.failed(error, mayRepeat) === "again";
        if (again && !resumed) continue;
        game.rest?.();
        if (again) {
          // No further play was requested.
          round.rest();
          return null;
        }
        this.#refuse(round);
        return null;
      }
    }
  }

  /** @param {Round} round */
  #refuse(round) {
    const { reason, message, data, http } = /** @type {import("./api.js").Refused} */ (round.refusal);
    this.#view?.refuse();
    this.#tell(http && http < 500 ? "refused" : "error", { reason, message, resets_at: Number(data?.resets_at ?? 0) });
  }

  /** Whether there is a token other than the rejected one. @param {import("./api.js").Refused} why */
  async #renew(why) {
    const api = /** @type {Round} */ (this.#round).api;
    if (!api.identity.given) return (await loadModule("./login.js")).renew(api, why);
    // Without a view the wait would be invisible.
    if (!this.#view) return false;
    // The page's own token: it hears of it, and may set the attribute anew. Whatever was refused waits for the same.
    return (this.#renewal ??= new Promise((resolve) => {
      this.#renewed = resolve;
      this.#view?.wait(why.reason);
      this.#tell("error", { reason: why.reason, message: why.message, resets_at: 0 });
    }).finally(() => {
      this.#renewal = this.#renewed = null;
      this.#view?.wait("");
    }));
  }

  /**
   * @template {"ready" | "started" | "played" | "won" | "refused" | "error"} N
   * @param {N} name @param {import("./v1/tombola.d.ts").TombolaEvents[`tombola:${N}`]} detail
   */
  #tell(name, detail) {
    // A copy, so that the page and the widget cannot change each other's data.
    this.dispatchEvent(new CustomEvent(`tombola:${name}`, { detail: structuredClone(detail), bubbles: true, composed: true }));
  }
}

// No timer counts the time that a device sleeps or a page is in the browser's cache.
for (const name of ["visibilitychange", "pageshow"]) addEventListener(name, () => rounds.forEach((round) => !document.hidden && round.due && void round.look()));

// Another tab signed in or out, or became a guest.
addEventListener("storage", (event) => {
  if (/^tombola\.(login|guest):/.test(event.key ?? "")) void loadModule("./login.js").then((file) => file.heard(event));
});

if (!customElements.get("tombola-game")) {
  customElements.define("tombola-game", TombolaGame);
  /** Attributes: `campaign` (its id), and `tenant`, `token`, `locale` and `api` as of a game. Events: those of its games. */
  const Calendar = class extends HTMLElement {
    connectedCallback() {
      void loadModule("./calendar.js").then((file) => file.connect(this, HOME));
    }
  };
  customElements.define("tombola-calendar", Calendar);
}
