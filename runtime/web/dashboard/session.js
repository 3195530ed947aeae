// The session. The token is in memory and in this tab's sessionStorage, never in a URL that a server sees.
import { computed, signal } from "./lib.js";
import { BASE, go } from "./router.js";

const KEPT = "tombola.token";
const BEGUN = "tombola.sign-in";

/**
 * @typedef {object} Me GET /admin/me
 * @property {string} subject
 * @property {string} tenant_id
 * @property {string} tenant_name "" where it could not be read
 * @property {string} merchant_id
 * @property {string[]} roles
 * @property {number} expires_at
 * @property {string[]} operations
 * @property {string} consumer_url the public address for players; "" if not configured
 * @property {string} default_tenant the tenant that public links may omit
 */

/** The token; "" if signed out. */
export const token = signal("");

/** @type {import("@preact/signals").Signal<Me | null>} */
export const me = signal(null);

/** Why a sign-in is needed: a text key; "" for no reason. */
export const notice = signal("");

const may = computed(() => new Set(me.value?.operations ?? []));

/**
 * Whether the role permits an operation ("CreateCampaign"). Other actions are not shown.
 * @param {string} operation
 */
export const can = (operation) => may.value.has(operation);

/**
 * Restores the session from the address or the tab (link, issuer's response, token), then loads the user.
 * @param {(link: {who: string, tenant: string}, before: string) => Promise<boolean>} asked whether it is wanted that a
 *   link signs in, replacing `before` ("": signed out)
 */
export async function begin(asked) {
  token.value = sessionStorage.getItem(KEPT) ?? "";
  const link = new URLSearchParams(location.hash.slice(1)).get("link");
  const query = new URLSearchParams(location.search);
  if (link) {
    history.replaceState(null, "", location.pathname + location.search); // First, so that nothing else can read it.
    if (token.value) {
      await enter(async () => ({ token: token.value }), "");
      if (token.value && !me.value) return;
    }
    // Anyone can send a link (login CSRF): ask before it changes the user or tenant.
    if (!(await asked(namedBy(link), me.value?.subject ?? ""))) return;
    await enter(() => post("/admin/auth/link", { link }), "sign_in.link_used");
  } else if (query.has("state") && (query.has("code") || query.has("error"))) {
    await fromIssuer(query);
  } else if (token.value) {
    await enter(async () => ({ token: token.value }), "sign_in.ended");
  }
}

/** The subject and tenant of a sign-in link; "" if unreadable. @param {string} link */
function namedBy(link) {
  try {
    const bytes = atob(link.split(".")[1].replaceAll("-", "+").replaceAll("_", "/"));
    const said = JSON.parse(new TextDecoder().decode(Uint8Array.from(bytes, (one) => one.charCodeAt(0))));
    return { who: String(said.sub), tenant: String(said.tenant_id ?? "") };
  } catch {
    return { who: "", tenant: "" };
  }
}

/**
 * Signs in with a pasted token.
 * @param {string} text
 */
export const withToken = (text) => enter(async () => ({ token: text.trim() }), "sign_in.token_wrong");

/** Redirects to the issuer, which returns to the current page. */
export async function toIssuer() {
  const redirect_uri = location.origin + BASE;
  const { url, ...kept } = await post("/admin/auth/oidc/start", { redirect_uri });
  sessionStorage.setItem(BEGUN, JSON.stringify({ ...kept, redirect_uri, place: location.pathname + location.search }));
  location.assign(url);
}

/** @returns {Promise<boolean>} whether staff may sign in at an issuer */
export async function hasIssuer() {
  const answer = await fetch("/api/v1/admin/auth/methods");
  return answer.ok && (await answer.json()).data.oidc;
}

/** Ends the session, first on the server, which revokes the token. */
export async function signOut() {
  try {
    await post("/admin/auth/logout", {});
  } catch {
    notice.value = "sign_in.not_ended"; // The token may still be valid: tell the user.
    forget();
    return;
  }
  notice.value = "sign_in.out";
  forget();
}

/** The token is no longer valid. The address stays, so that the next sign-in continues there. */
export function ended() {
  notice.value = "sign_in.ended";
  forget();
}

function forget() {
  sessionStorage.removeItem(KEPT);
  token.value = "";
  me.value = null;
}

/** @param {URLSearchParams} query */
async function fromIssuer(query) {
  const begun = JSON.parse(sessionStorage.getItem(BEGUN) ?? "null");
  sessionStorage.removeItem(BEGUN);
  const place = typeof begun?.place === "string" && begun.place.startsWith(BASE) ? begun.place : BASE;
  go(place, { replace: true });
  // Login CSRF: an unsolicited response would sign the user in as someone else.
  if (!begun || begun.state !== query.get("state") || !query.get("code")) {
    notice.value = "sign_in.issuer_refused";
    return;
  }
  const { verifier, nonce, redirect_uri } = begun;
  await enter(() => post("/admin/auth/oidc/finish", { code: query.get("code"), verifier, nonce, redirect_uri }), "sign_in.issuer_refused");
}

/**
 * @param {() => Promise<{token: string}>} ask
 * @param {string} otherwise why it did not work, in words
 */
async function enter(ask, otherwise) {
  const [kept, was] = [token.value, me.value];
  try {
    token.value = (await ask()).token;
    sessionStorage.setItem(KEPT, token.value); // Stored before anything can fail: a link works only once.
    me.value = await get("/admin/me");
    notice.value = "";
  } catch (error) {
    const reason = error instanceof Error ? error.message : "";
    notice.value = reason === "ROLE_REQUIRED" ? "sign_in.no_role" : reason === "away" ? "refused.away" : otherwise;
    if (reason === "away" && token.value !== kept) {
      me.value = null; // The stored token may be valid: it is tried again on reload.
    } else if (was) {
      token.value = kept; // The previous user stays signed in.
      sessionStorage.setItem(KEPT, kept);
    } else if (reason !== "away") {
      forget();
    }
  }
}

/** @param {string} path */
const get = (path) => send(path, { headers: { Authorization: `Bearer ${token.value}` } });

/** @param {string} path @param {any} body */
const post = (path, body) =>
  send(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...(token.value ? { Authorization: `Bearer ${token.value}` } : {}) },
    body: JSON.stringify(body),
  });

/** @param {string} path @param {RequestInit} init */
async function send(path, init) {
  const answer = await fetch(`/api/v1${path}`, init).catch(() => {
    throw new Error("away");
  });
  const { data } = await answer.json();
  if (!answer.ok) {
    throw new Error(answer.status >= 500 || answer.status === 429 ? "away" : data?.reason ?? "");
  }
  return data;
}
