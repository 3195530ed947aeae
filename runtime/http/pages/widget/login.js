// Signing in by phone or e-mail: the code, the tokens for it, their renewal and their end. Loaded when it is needed.

import { read, write } from "./keep.js";

/** @typedef {import("./api.js").Api} Api */
/** @typedef {import("./play.js").Round} Round */
/** @typedef {import("./types.js").Login} Login */
/** @typedef {"email" | "phone"} Kind */
/** @typedef {{challenge_id: string, expires_at: number, resend_at: number, contact: string, kind: Kind}} Challenge */

/** What refuses a guest's token for good: it ended, or its guest has signed in. */
const GUEST_OVER = ["TOKEN_INVALID", "TOKEN_EXPIRED", "PLAYER_MERGED"];

/** Renewals under way, by whose they are: a refresh token is good for one. @type {Map<string, Promise<boolean>>} */
const renewals = new Map();

/** Rounds whose player has signed in. @type {Set<Round>} */
const rounds = new Set();

/** The other tabs of this page's origin: one that was duplicated shares its login, whose tokens change. */
const tabs = typeof BroadcastChannel === "function" ? new BroadcastChannel("tombola.login") : null;
tabs?.addEventListener("message", ({ data }) => {
  for (const round of rounds) {
    const { identity } = round.api;
    if (identity.name === data.name && identity.login?.refresh_token === data.was) identity.login = data.login;
    round.dispatchEvent(new Event("change"));
  }
});

/** Has the round follow what becomes of its player's login. @param {Round} round */
export function watch(round) {
  rounds.add(round);
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
  const login = await asGuest(api, () => api.once("/players/auth/verify", { challenge_id: challengeId, code }));
  api.identity.guest = "";
  become(api, login);
  keepChallenge(api, null);
  watch(round);
  await changed(round);
}

/** Ends the login where it was begun, and here. @param {Round} round */
export async function leave(round) {
  const { api, record } = round;
  await api.post("/players/auth/logout").catch((error) => {
    if (error.http !== 401) throw error; // Else it is over already.
  });
  become(api, null);
  // Open sessions are the player's, in all games. A play that was asked for is kept for who signs in again.
  if (!record.now.asked) record.set({});
  for (const name of kept(api)) if (!read("sessionStorage", name)?.asked) write("sessionStorage", name, null);
  round.last = null;
  round.rest();
  await changed(round);
}

/** The names of what this tab keeps of plays. @param {Api} api @returns {string[]} */
function kept(api) {
  try {
    return Object.keys(sessionStorage).filter((name) => name.startsWith(`tombola.play:${api.identity.name}:`));
  } catch {
    return []; // Storage is refused: nothing is kept there.
  }
}

/** Turns the refresh token into new tokens: whether it was taken. Throws where no answer came. @param {Api} api */
export function renew(api) {
  const { name } = api.identity;
  const renewal = renewals.get(name) ?? turn(api).finally(() => renewals.delete(name));
  renewals.set(name, renewal);
  return renewal;
}

/** @param {Api} api */
async function turn(api) {
  const login = /** @type {Login} */ (api.identity.login);
  try {
    become(api, await api.once("/players/auth/refresh", { refresh_token: login.refresh_token }));
    return true;
  } catch (error) {
    if (/** @type {import("./api.js").Refused} */ (error).passing) throw error;
    // Another tab may have used it, and told us of the next one meanwhile.
    if (api.identity.login?.refresh_token === login.refresh_token) become(api, null);
    return api.identity.login !== null;
  }
}

/** Holds the tokens, or none, in every tab that shares them. @param {Api} api @param {Login | null} login */
function become(api, login) {
  const { identity } = api;
  const was = identity.login?.refresh_token;
  identity.login = login;
  write("sessionStorage", `tombola.before:${identity.name}`, (login?.refresh_token ?? was) || null);
  if (was) tabs?.postMessage({ name: identity.name, was, login });
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
    if (!identity.isGuest || !identity.guest || !GUEST_OVER.includes(/** @type {any} */ (error).reason)) throw error;
    identity.guest = "";
    return ask();
  }
}

/** Somebody else plays: what was refused to the one before is looked at anew. @param {Round} round */
async function changed(round) {
  if (round.refusal) round.rest();
  await round.look();
  round.dispatchEvent(new Event("change"));
  round.dispatchEvent(new Event("signed"));
}
