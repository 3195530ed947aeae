// One game's plays: what state they are in, and that each is asked for once and shown once. Draws nothing.

import { Refused } from "./api.js";
import { Record, endOf, newKey } from "./storage.js";
import { withTabLock } from "./tab_lock.js";

/** @typedef {import("./types.js").Session} Session */
/** @typedef {import("./types.js").Result} Result */
/** @typedef {import("./types.js").Standing} Standing */
/** @typedef {"loading" | "ready" | "started" | "playing" | "won" | "lost" | "refused"} State */

/** Refusals that say that the session is of no use any more, and that nothing was used up: another one is begun. */
const ENDED = ["SESSION_EXPIRED", "GAME_CHANGED", "SESSION_PLAYED", "SESSION_INVALID"];

/** Reasons of a standing that say that nobody may play, not only this player. */
const CLOSED = ["NOT_STARTED", "PAUSED", "ENDED"];

/** How long a session is used at most: the default of SESSION_TTL_SECONDS. */
const SESSION_MS = 900_000;
/** A stored session with less time left is not used. */
const MARGIN_MS = 20_000;
/** The same for games in which the player acts before the play. */
const ACTING_MS = 600_000;

/**
 * The games of this page, which hear of a login or a new guest: one set, also where parts are of a later version.
 * @type {Set<Round>}
 */
export const rounds = (/** @type {any} */ (globalThis)[Symbol.for("tombola.rounds")] ??= new Set());

/**
 *     loading -> ready -> started -> playing -> won | lost -> started ...
 *     any of them -> refused, and from there again
 *
 * `change` is dispatched at each step. A play that was asked for and not yet shown is written down: who loads the
 * page again finds it by `resumes`.
 */
export class Round extends EventTarget {
  /** @param {import("./api.js").Api} api @param {string} gameId */
  constructor(api, gameId) {
    super();
    this.api = api;
    this.path = `/games/${encodeURIComponent(gameId)}`;
    this.record = new Record(`${api.base}:${api.tenant}:${gameId}`);
    /** @type {State} */
    this.state = "loading";
    /** @type {import("./types.js").Render | null} */
    this.render = null;
    /** @type {Standing | null} */
    this.standing = null;
    /** @type {Result | null} */
    this.last = null;
    /** @type {Refused | null} */
    this.refusal = null;
    /** How many rewards of the player's wait to be claimed, in this campaign. */
    this.unclaimed = 0;
    /** Ids of the rewards that were claimed here. @type {Set<string>} */
    this.claimed = new Set();
    /** The embedding page's client seed; "" has one drawn for each play. */
    this.clientSeed = "";
    /** What was edited in the entry form and not sent. It is personal: no storage has it. @type {any} */
    this.draft = null;
  }

  /** @param {State} state @param {Refused | null} [refusal] */
  #become(state, refusal = null) {
    this.state = state;
    this.refusal = refusal;
    this.dispatchEvent(new Event("change"));
  }

  /** Whether something is asked for. */
  get busy() {
    return ["loading", "started", "playing"].includes(this.state);
  }

  /** Why nobody may play: NOT_STARTED, PAUSED, ENDED; "" where the game is open. */
  get closed() {
    const reason = this.standing?.reason ?? "";
    return CLOSED.includes(reason) ? reason : "";
  }

  /** Whether the player may play again since the last look. */
  get due() {
    const { can_play, resets_at } = this.standing ?? {};
    return can_play === false && Number(resets_at) > 0 && Number(resets_at) * 1000 <= Date.now();
  }

  /** Whether an earlier play was requested and its result never shown. Without a token it was another player's. */
  get resumes() {
    return Boolean(this.record.now.asked && this.api.identity.token);
  }

  /**
   * What the game is: one request, or none where the page has it; what is left to a player who is known comes after.
   * @param {any} [known] what the page has of it
   */
  async load(known) {
    this.#become("loading");
    const render = known ?? (await this.api.get(`${this.path}/render`));
    this.render = { ...render, ui: render.ui && typeof render.ui === "object" ? render.ui : {} };
    this.standing = this.#known();
    this.#become("ready");
    void this.tally();
    if (!this.standing) await this.look();
  }

  /** Asks how many rewards wait to be claimed: nothing to ask for who has never played. */
  async tally() {
    const { token, player } = this.api.identity;
    const { campaign_id } = this.render ?? {};
    if (token) {
      const path = `/rewards/me?campaign_id=${encodeURIComponent(campaign_id ?? "")}&status=REWARD_STATUS_WON&limit=100`;
      const found = await this.api.get(path).catch(() => null);
      if (!found || this.api.identity.player !== player) return;
      this.unclaimed = found.items.filter((/** @type {any} */ reward) => !reward.claimed_at).length;
    } else this.unclaimed = 0;
    this.dispatchEvent(new Event("change"));
  }

  /** The rewards that are kept of a result, with their prizes; points and turns are there at once. @param {Result | null} result */
  #heldOf(result) {
    /** @type {any[]} */
    const won = [...(result?.rewards ?? []), ...(result?.milestones_granted ?? [])];
    const prizeOf = (/** @type {string} */ id) => this.render?.prizes.find((one) => one.prize_id === id);
    return won.flatMap(({ reward_id: id, prize_id }) => (id && prizeOf(prize_id)?.type !== "turns" ? [{ id: String(id), prize: prizeOf(prize_id) }] : []));
  }

  /**
   * What the winner of a result does next, and with which reward: claims it, looks at its code, or at what became of it.
   * @param {Result | null} result @returns {{act: "claim" | "see_code" | "rewards", reward: string} | null}
   */
  nextOf(result) {
    const held = this.#heldOf(result);
    const due = held.find(({ id, prize }) => prize?.needs_claim && !this.claimed.has(id));
    if (due) return { act: "claim", reward: due.id };
    const coded = held.find(({ prize }) => prize?.gives_code);
    return coded ? { act: "see_code", reward: coded.id } : held.length ? { act: "rewards", reward: held[0].id } : null;
  }

  /** What somebody may play of whom nobody has to be asked; null of others. @returns {Standing | null} */
  #known() {
    const { rules, access, reason, starts_at } = /** @type {import("./types.js").Render} */ (this.render);
    const begun = reason === "NOT_STARTED" && Number(starts_at) * 1000 <= Date.now();
    if (CLOSED.includes(reason) && !begun) return { ...newcomer(rules), can_play: false, reason, starts_at };
    const { token, isGuest } = this.api.identity;
    const locked = access === "GAME_ACCESS_PLAYER" && (!token || (isGuest && !rules.admits_guests));
    if (locked) return { ...newcomer(rules), can_play: false, reason: "LOGIN_REQUIRED" };
    if (token) return null;
    const standing = newcomer(rules);
    return standing.can_play && reason === "SOLD_OUT" ? { ...standing, reason } : standing;
  }

  /** The campaign begins: who is known asks what is left, nobody else has to. */
  async open() {
    this.standing = this.#known();
    this.dispatchEvent(new Event("change"));
    if (!this.standing) await this.look();
  }

  /** Loads the remaining plays; no change without a response, or if the player has changed meanwhile. */
  async look() {
    const { identity } = this.api;
    const { player } = identity;
    try {
      const standing = await this.api.get(`${this.path}/eligibility`);
      if (identity.player !== player) return;
      this.standing = standing;
    } catch (error) {
      if (/** @type {Refused} */ (error).http !== 401) return;
      this.standing = this.#known() ?? this.standing;
    }
    this.dispatchEvent(new Event("change"));
  }

  /** The player changed: earlier refusals are checked again. @param {boolean} left whether the previous player left: its draft and result are removed */
  async changed(left) {
    const { asked, session } = this.record.now;
    if (left) this.draft = null;
    // A plan is the next play's of one player.
    if (!asked && (left || (!this.busy && session?.drop_plan?.[0]))) this.record.set({});
    if (left && !asked) this.last = null;
    if (this.refusal || (left && !this.busy)) this.rest();
    await this.look();
    this.dispatchEvent(new Event("change"));
    this.dispatchEvent(new Event("signed"));
  }

  /** A session to play: the player's stored one, else a new one. @param {boolean} [acts] whether the player acts before the play @returns {Promise<Session>} */
  async begin(acts = false) {
    this.#become("started");
    const { session: kept, until = 0 } = this.record.now;
    const { identity } = this.api;
    if (kept && identity.token && until - (acts ? ACTING_MS : MARGIN_MS) > Date.now()) return kept;
    // A concurrent second start uses the guest that the first one created.
    const session = await (identity.token ? this.#start() : withTabLock(`guest:${identity.name}`, () => this.#start()));
    this.#keep(session);
    this.dispatchEvent(new CustomEvent("session", { detail: session }));
    return session;
  }

  /** Stores a session. @param {Session} session @param {number} [since] when it was first requested */
  #keep(session, since) {
    this.record.set({ session, until: endOf(Number(session.expires_at), SESSION_MS, since) });
  }

  /** @returns {Promise<Session>} */
  async #start() {
    const { identity } = this.api;
    const { guest_token, ...session } = await this.api.post(`${this.path}/start`, {}, newKey());
    if (!guest_token) return session;
    // Another request created the player meanwhile, and its turns would be lost with it: this guest is dropped.
    if (identity.token) return this.#start();
    identity.guest = guest_token;
    return session;
  }

  /**
   * Plays the session, or the one of before that was never shown (`payload` is then what it was).
   * @param {object} [payload] @returns {Promise<Result>}
   */
  async play(payload = {}) {
    const { session, asked: before } = this.record.now;
    if (!session) throw new Refused(0, "SESSION_EXPIRED", "there is no session");
    const asked = before ?? { key: newKey(), payload, client_seed: this.clientSeed || newKey(), at: Date.now() };
    this.record.set({ session, asked });
    this.#become("playing");
    const body = { session_id: session.session_id, payload: asked.payload, client_seed: asked.client_seed, next: true };
    const reply = await this.api.post(`${this.path}/play`, body, asked.key);
    // One of before may be counted already in what was asked since.
    if (before) void this.look();
    else this.#count(reply);
    return { ...reply, session, client_seed: asked.client_seed };
  }

  /** Marks the play as shown. @param {Result} result */
  shown(result) {
    this.last = result;
    this.unclaimed += this.#heldOf(result).filter(({ prize }) => prize?.needs_claim).length;
    if (result.next) this.#keep(result.next, this.record.now.asked?.at);
    else this.record.set({});
    this.#become(result.rewards.length ? "won" : "lost");
    if (!result.next) void this.look();
  }

  /**
   * How to handle a refusal: "again" to try another session, otherwise it is shown.
   * @param {unknown} error @param {boolean} mayRepeat @returns {"again" | "refused"}
   */
  failed(error, mayRepeat) {
    const refused = error instanceof Refused ? error : new Refused(0, "BROKEN", String(error));
    // A final refusal: nothing was played.
    if (!refused.passing && refused.http !== 401) this.record.set({});
    if (mayRepeat && ENDED.includes(refused.reason)) return "again";
    this.#become("refused", refused);
    if (refused.http && refused.http < 500 && this.render) void this.look().then(() => this.closed && this.state === "refused" && this.rest());
    return "refused";
  }

  /** Ready again after a refusal. */
  rest() {
    this.#become("ready");
  }

  /** Counts what was played, so that nobody has to be asked, but for the turns that prizes are. @param {Result} reply */
  #count({ rewards, milestones_granted, next }) {
    if (milestones_granted.length || rewards.some(({ type }) => type === "turns")) void this.look();
    const standing = this.standing;
    if (!standing) return;
    if (standing.free_plays_remaining > 0) standing.free_plays_remaining -= 1;
    else if (standing.free_plays_remaining === 0 && standing.remaining_turns > 0) standing.remaining_turns -= 1;
    standing.can_play = Boolean(next);
  }
}

/** The allowance of a player without plays. @param {import("./types.js").Render["rules"]} rules @returns {Standing} */
function newcomer(rules) {
  const limits = [rules.max_plays_per_day, rules.max_plays_per_user].filter((limit) => limit > 0);
  const free = rules.requires_turn ? 0 : limits.length ? Math.min(...limits) : -1;
  return { can_play: free !== 0, reason: free ? "" : "NO_TURNS", remaining_turns: 0, free_plays_remaining: free, resets_at: "0", starts_at: "0" };
}
