// Sign-in by phone or email: codes, tokens, refresh and sign-out. Loaded on demand.

import { Api } from "./api.js";
import { rounds } from "./play.js";
import { Identity, claimsOf, endOf, read, write } from "./storage.js";
import { withTabLock } from "./tab_lock.js";

/** @typedef {import("./play.js").Round} Round */
/** @typedef {import("./types.js").Login} Login */
/** @typedef {"email" | "phone"} Kind */
/** @typedef {{challenge_id: string, expires_at: number, resend_at: number, contact: string, kind: Kind, until: number}} Challenge */

/** Refusals of a guest's token: expired, guest merged, or a temporary error of the service. */
const GUEST_REFUSED = ["TOKEN_INVALID", "TOKEN_EXPIRED", "PLAYER_MERGED"];

/** How long a code is valid. */
const CODE_MS = 300_000;

/** The maximum number of guests set aside; the oldest is dropped. */
const ASIDE_MAX = 5;

/** A hanging refresh is retried while the service still accepts the used token (10 seconds). */
const REFRESH_MS = 4_000;
const REFRESHES = 3;

/** @param {Login | null | undefined} login */
const idOf = (login) => login?.player.id;

/** Another tab changed the player: the state is in the storage. @param {StorageEvent} event */
export function heard({ key, oldValue, newValue }) {
  const [, what, name] = /** @type {string[]} */ (/^tombola\.(\w+):(.+)/.exec(key ?? ""));
  const [was, is] = [oldValue, newValue].map((one) => JSON.parse(one ?? "null"));
  // A guest that no longer exists was merged into a player, which is reported with it.
  if (what === "guest" ? is : idOf(was) !== idOf(is)) void changed(name, what === "login" && !is);
}

/** The pending code. @param {Api} api @returns {Challenge | null} */
export function challengeOf(api) {
  const challenge = read("sessionStorage", `tombola.challenge:${api.identity.name}`);
  return challenge?.until > Date.now() ? challenge : null;
}

/** Clears or stores it. It survives a reload, since players leave the page to read the code. @param {Api} api @param {Challenge | null} challenge */
export function keepChallenge(api, challenge) {
  write("sessionStorage", `tombola.challenge:${api.identity.name}`, challenge);
}

/** Requests a code. @param {Api} api @param {Kind} kind @param {string} contact @returns {Promise<Challenge>} */
export async function sendCode(api, kind, contact) {
  const body = { contact_type: `CONTACT_TYPE_${kind.toUpperCase()}`, contact, ...before(api) };
  const sent = await asGuest(api, () => api.once("/players/auth/start", body));
  const challenge = { ...sent, contact, kind, until: endOf(Number(sent.expires_at), CODE_MS) };
  keepChallenge(api, challenge);
  return challenge;
}

/** The refresh token of the tab's last login, which exempts from the rate limit of strangers. @param {Api} api */
function before(api) {
  const token = read("sessionStorage", `tombola.before:${api.identity.name}`);
  return token ? { refresh_token: token } : {};
}

/**
 * Signs in with the code. The guest's rewards and open plays move to the player.
 * @param {Round} round @param {string} challengeId @param {string} code
 */
export async function enter(round, challengeId, code) {
  const { api } = round;
  let guest = "";
  const { guest_merged, ...login } = await asGuest(api, () => {
    guest = api.identity.guest;
    return api.once("/players/auth/verify", { challenge_id: challengeId, code });
  });
  // A guest that was not merged keeps its rewards.
  if (guest_merged && api.identity.guest === guest) api.identity.guest = "";
  become(api, login);
  keepChallenge(api, null);
  await changed(api.identity.name);
}

/** Signs out on the server, and here. @param {Round} round */
export async function leave(round) {
  const { api } = round;
  await api.post("/players/auth/logout").catch((error) => {
    if (error.http !== 401) throw error; // Otherwise it has ended already.
  });
  become(api, null);
  await changed(api.identity.name, true);
}

/**
 * Clears the open sessions of the previous player, also of games on other pages of the tab. A requested play is kept for the player
 * who signs in again.
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
}

/** Whether there is another token than the one that was refused, or none is better. Throws where no answer came. @param {Api} api @param {import("./api.js").Refused} why */
export async function renew(api, why) {
  const { identity } = api;
  if (!identity.login) return GUEST_REFUSED.includes(why.reason) && putAside(api);
  const { token } = identity.login;
  // One tab at a time: a refresh token works once.
  return withTabLock(`login:${identity.name}`, () => (identity.token === token ? turn(api) : Promise.resolve(true)));
}

/** Exchanges the refresh token for new tokens; resolves to whether it was accepted. @param {Api} api @param {number} [tries] */
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

/** Stores the tokens, or clears them. @param {Api} api @param {Login | null} login */
function become({ identity }, login) {
  const before = login ?? identity.login;
  identity.login = login;
  write("sessionStorage", `tombola.before:${identity.name}`, before?.refresh_token ?? null);
}

/**
 * Continues without the guest whose token was refused, or as a new guest. Its rewards belong to no other player, and a refusal
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

/** Checks the guests that were set aside: resumes one whose token is accepted again, drops one that has ended. @param {Api} api */
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

/** Whether a token has expired by its own claim, or is none of ours. @param {string} token */
function ended(token) {
  return !(claimsOf(token).exp * 1000 >= Date.now());
}

/**
 * As the current guest, or anonymous if its token is no longer accepted.
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

/** Whether that round's player is the stored one of this name. @param {Api} api @param {string} name */
const follows = ({ identity }, name) => identity.name === name && !identity.given;

/**
 * The player changed, in all games of the page: earlier refusals are checked again.
 * @param {string} name the identity's @param {boolean} [left] whether a player has left: nothing of theirs stays to be seen
 */
async function changed(name, left = false) {
  if (left) forget(name);
  await Promise.all([...rounds].filter(({ api }) => follows(api, name)).map((round) => round.changed(left)));
}
