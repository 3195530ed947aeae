// Signing in by phone or e-mail: the code, the tokens for it, their renewal and their end. Loaded when it is needed.

import { Api } from "./api.js";
import { rounds } from "./play.js";
import { Identity, read, write } from "./storage.js";
import { withTabLock } from "./tab_lock.js";

/** @typedef {import("./play.js").Round} Round */
/** @typedef {import("./types.js").Login} Login */
/** @typedef {"email" | "phone"} Kind */
/** @typedef {{challenge_id: string, expires_at: number, resend_at: number, contact: string, kind: Kind}} Challenge */

/** What refuses a guest's token: it ended, its guest has signed in, or the service errs for a while. */
const GUEST_REFUSED = ["TOKEN_INVALID", "TOKEN_EXPIRED", "PLAYER_MERGED"];

/** So many guests are put aside: the oldest goes. */
const ASIDE_MAX = 5;

/** A refresh that hangs is asked for again while the service answers the used token alike (10 seconds). */
const REFRESH_MS = 4_000;
const REFRESHES = 3;

/** @param {Login | null | undefined} login */
const idOf = (login) => login?.player.id;

/** Another tab has changed who plays: all that is to be known of it is in the storage. @param {StorageEvent} event */
export function heard({ key, oldValue, newValue }) {
  const [, what, name] = /** @type {string[]} */ (/^tombola\.(\w+):(.+)/.exec(key ?? ""));
  const [was, is] = [oldValue, newValue].map((one) => JSON.parse(one ?? "null"));
  // A guest that is no more has become somebody, who is told of beside it.
  if (what === "guest" ? is : idOf(was) !== idOf(is)) void changed(name, what === "login" && !is);
}

/** The code that was sent and still counts. @param {Api} api @returns {Challenge | null} */
export function challengeOf(api) {
  const challenge = read("sessionStorage", `tombola.challenge:${api.identity.name}`);
  return challenge?.expires_at > Date.now() / 1000 ? challenge : null;
}

/** Forgets it, or keeps another: it outlives a reload, as who looks for a code leaves the page. @param {Api} api @param {Challenge | null} challenge */
export function keepChallenge(api, challenge) {
  write("sessionStorage", `tombola.challenge:${api.identity.name}`, challenge);
}

/** Has a code sent. @param {Api} api @param {Kind} kind @param {string} contact @returns {Promise<Challenge>} */
export async function sendCode(api, kind, contact) {
  const body = { contact_type: `CONTACT_TYPE_${kind.toUpperCase()}`, contact, ...before(api) };
  const sent = await asGuest(api, () => api.once("/players/auth/start", body));
  const challenge = { ...sent, contact, kind };
  keepChallenge(api, challenge);
  return challenge;
}

/** The refresh token of the tab's last login: who has one is not counted with strangers. @param {Api} api */
function before(api) {
  const token = read("sessionStorage", `tombola.before:${api.identity.name}`);
  return token ? { refresh_token: token } : {};
}

/**
 * Signs in with the code: what the guest won, and plays that it has open, are the player's from then on.
 * @param {Round} round @param {string} challengeId @param {string} code
 */
export async function enter(round, challengeId, code) {
  const { api } = round;
  let guest = "";
  const { guest_merged, ...login } = await asGuest(api, () => {
    guest = api.identity.guest;
    return api.once("/players/auth/verify", { challenge_id: challengeId, code });
  });
  // A guest that the service has not made the player's keeps what it has won.
  if (guest_merged && api.identity.guest === guest) api.identity.guest = "";
  become(api, login);
  keepChallenge(api, null);
  await changed(api.identity.name);
}

/** Ends the login where it was begun, and here. @param {Round} round */
export async function leave(round) {
  const { api } = round;
  await api.post("/players/auth/logout").catch((error) => {
    if (error.http !== 401) throw error; // Else it is over already.
  });
  become(api, null);
  await changed(api.identity.name, true);
}

/**
 * Forgets the open sessions of who has left, in all games of the tab. A play that was asked for is kept for who signs in
 * again.
 * @param {string} name
 */
function forget(name) {
  try {
    for (const key of Object.keys(sessionStorage).filter((one) => one.startsWith(`tombola.play:${name}:`))) {
      if (!read("sessionStorage", key)?.asked) write("sessionStorage", key, null);
    }
  } catch {
    // Storage is refused: nothing is kept there.
  }
  for (const { api, record } of rounds) if (follows(api, name) && !record.now.asked) record.set({});
}

/** Whether there is another token than the one that was refused, or none is better. Throws where no answer came. @param {Api} api @param {import("./api.js").Refused} why */
export async function renew(api, why) {
  const { identity } = api;
  if (!identity.login) return GUEST_REFUSED.includes(why.reason) && putAside(api);
  const { token } = identity.login;
  // One tab after the other: a refresh token is good for one use.
  return withTabLock(`login:${identity.name}`, () => (identity.token === token ? turn(api) : Promise.resolve(true)));
}

/** Turns the refresh token into new tokens: whether it was taken. @param {Api} api @param {number} [tries] */
async function turn(api, tries = 1) {
  const { refresh_token } = /** @type {Login} */ (api.identity.login);
  try {
    become(api, await api.once("/players/auth/refresh", { refresh_token }, REFRESH_MS));
    return true;
  } catch (error) {
    const { passing, http } = /** @type {import("./api.js").Refused} */ (error);
    if (passing && !http && tries < REFRESHES) return turn(api, tries + 1);
    if (passing) throw error;
    become(api, null);
    for (const round of rounds) round.dispatchEvent(new Event("change"));
    return false;
  }
}

/** Holds the tokens, or none. @param {Api} api @param {Login | null} login */
function become({ identity }, login) {
  const before = login ?? identity.login;
  identity.login = login;
  write("sessionStorage", `tombola.before:${identity.name}`, before?.refresh_token ?? null);
}

/**
 * Goes on without the guest whose token was refused, or as a new one. What was won with it is nobody else's, and a refusal
 * may be the service's own error: the token is kept aside, and asked about anew when the page is loaded.
 * @param {Api} api @returns {boolean} whether there was one
 */
function putAside({ identity }) {
  const { guest } = identity;
  if (guest) keepAside(identity, [...identity.aside.filter((one) => one !== guest), guest]);
  identity.guest = "";
  return guest !== "";
}

/** @param {Identity} identity @param {string[]} tokens */
function keepAside(identity, tokens) {
  write("localStorage", `tombola.aside:${identity.name}`, tokens.length ? tokens.slice(-ASIDE_MAX) : null);
}

/** Asks about the guests that were put aside: one whose token is taken again plays on, one that is over is let go. @param {Api} api */
export async function recall({ base, tenant, identity }) {
  for (const token of identity.aside) {
    const asked = new Api(base, Object.assign(new Identity(identity.name), { given: token }), tenant);
    const reason = await asked.get("/players/me").then(
      () => "",
      (error) => error.reason,
    );
    const taken = reason === "" && !identity.guest;
    const over = reason === "PLAYER_MERGED" || (GUEST_REFUSED.includes(reason) && ended(token));
    const others = identity.aside.filter((one) => one !== token);
    if (taken || over) keepAside(identity, others);
    if (!taken) continue;
    identity.guest = token;
    await changed(identity.name);
  }
}

/** Whether a token has ended by what it says itself. @param {string} token */
function ended(token) {
  try {
    return JSON.parse(atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/"))).exp * 1000 < Date.now();
  } catch {
    return true; // None of ours.
  }
}

/**
 * As the guest of now, or as nobody where that one's token is not taken any more.
 * @template T @param {Api} api @param {() => Promise<T>} ask @returns {Promise<T>}
 */
async function asGuest(api, ask) {
  try {
    return await ask();
  } catch (error) {
    const { identity } = api;
    if (!identity.isGuest || !GUEST_REFUSED.includes(/** @type {any} */ (error).reason) || !putAside(api)) throw error;
    return ask();
  }
}

/** Whether who plays there is who the browser keeps under this name. @param {Api} api @param {string} name */
const follows = ({ identity }, name) => identity.name === name && !identity.given;

/**
 * Somebody else plays, in all games of the page: what was refused to the one before is looked at anew.
 * @param {string} name the identity's @param {boolean} [left] whether a player has left: nothing of theirs stays to be seen
 */
async function changed(name, left = false) {
  if (left) forget(name);
  for (const round of rounds) {
    if (!follows(round.api, name)) continue;
    if (left && !round.resumes) round.last = null;
    if (round.refusal || (left && !round.busy)) round.rest();
    await round.look();
    round.dispatchEvent(new Event("change"));
    round.dispatchEvent(new Event("signed"));
  }
}
