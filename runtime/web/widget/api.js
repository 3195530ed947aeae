// Requests to the consumer edge: the envelope, an Idempotency-Key per action, and retries without a response.

import { ASSET, pause } from "./dom.js";

const TIMEOUT_MS = 20_000;
/** How long idempotent requests are retried: actions with a key, and reads. */
const PATIENCE_MS = 60_000;
const LOOK_PATIENCE_MS = 12_000;
/** Retry delays; the last one repeats. */
const WAITS_MS = [300, 1_000, 2_000, 4_000, 8_000];

/** A refusal by the service, or, with the reason NO_ANSWER, no response. */
export class Refused extends Error {
  /** @param {number} http @param {string} reason @param {string} message @param {any} [data] @param {number} [wait] seconds */
  constructor(http, reason, message, data = {}, wait = 0) {
    super(message);
    this.http = http;
    this.reason = reason;
    this.data = data;
    this.wait = wait;
  }

  /** Whether a retry may succeed: nothing was decided, or the outcome is unknown. */
  get passing() {
    return this.http === 0 || this.http >= 500 || this.http === 429 || this.reason === "IDEMPOTENCY_IN_PROGRESS";
  }
}

export class Api {
  /**
   * @param {string} base the edge's address, without a slash at its end
   * @param {import("./storage.js").Identity} identity
   * @param {string} [tenant]
   */
  constructor(base, identity, tenant = "") {
    this.base = base;
    this.identity = identity;
    this.tenant = tenant;
    /** Called while waiting for a response: with a reason, or "" once it arrived. @type {(reason: string) => void} */
    this.waiting = () => {};
    /** Called when a token is rejected; resolves to whether there is a new one. @type {(why: Refused) => Promise<boolean>} */
    this.renew = async () => false;
  }

  /** The response of a GET. @param {string} path below /api/v1 @returns {Promise<any>} */
  get(path) {
    return this.#ask("GET", path, undefined, "");
  }

  /**
   * The response of an action: retried with one key until there is a response, so it runs once.
   * @param {string} path @param {object} [body] @param {string} [key] Idempotency-Key, where the route knows it
   * @returns {Promise<any>}
   */
  post(path, body = {}, key = "") {
    return this.#ask("POST", path, JSON.stringify(body), key);
  }

  /** The same, without retries. @param {string} path @param {object} body @param {number} [ms] so long @returns {Promise<any>} */
  once(path, body, ms) {
    return this.#once("POST", path, JSON.stringify(body), "", ms);
  }

  /** @param {string} verb @param {string} path @param {string | undefined} body @param {string} key */
  async #ask(verb, path, body, key) {
    const patience = body ? PATIENCE_MS : LOOK_PATIENCE_MS;
    let patienceEnds = Date.now() + patience;
    const { player } = this.identity;
    // A guest who signs in is the same player.
    const same = () => this.identity.player === player || !(player || this.identity.given);
    /** @type {any} */
    let refused;
    for (let tries = 0, renewed = false; ; tries++) {
      const { token } = this.identity;
      try {
        if (!same()) throw refused; // Not repeated as another player.
        const answer = await this.#once(verb, path, body, key);
        if (tries) this.waiting("");
        return answer;
      } catch (error) {
        refused = error;
        if (refused.reason.startsWith("TOKEN") && !renewed) {
          try {
            // A sign-in or refresh in the meantime changed the token.
            renewed = this.identity.token !== token || (await this.renew(refused));
            if (renewed) continue;
          } catch (lost) {
            refused = lost;
          }
        }
        // Without a key a retry might run it twice.
        const again = same() && refused.passing && (verb === "GET" || key !== "" || (refused.http && refused.wait > 0));
        if (!again || Date.now() + refused.wait * 1000 > patienceEnds) {
          if (tries) this.waiting("");
          throw refused;
        }
        this.waiting(navigator.onLine ? refused.reason : "OFFLINE");
        await this.#until(refused.wait * 1000 || WAITS_MS[Math.min(tries, WAITS_MS.length - 1)]);
        if (!navigator.onLine) {
          await new Promise((resolve) => addEventListener("online", resolve, { once: true }));
          patienceEnds = Date.now() + patience;
        }
      }
    }
  }

  /** Waits for a delay, or until the network is back. @param {number} ms */
  #until(ms) {
    return Promise.race([pause(ms), new Promise((resolve) => addEventListener("online", resolve, { once: true }))]);
  }

  /** Parses JSON, with the URLs of uploaded pictures below this edge's. @param {string} json */
  read(json) {
    if (!json.includes('"/assets/')) return JSON.parse(json);
    return JSON.parse(json, (_, value) => (typeof value === "string" && ASSET.test(value) && value.startsWith("/") ? this.base + value : value));
  }

  /** @param {string} verb @param {string} path @param {string | undefined} body @param {string} key @param {number} [ms] */
  async #once(verb, path, body, key, ms = TIMEOUT_MS) {
    const headers = /** @type {Record<string, string>} */ ({});
    const token = this.identity.token;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (token) headers.Authorization = `Bearer ${token}`;
    if (this.tenant) headers["X-Tenant-Id"] = this.tenant;
    if (key) headers["Idempotency-Key"] = key;
    let answer, envelope, why;
    try {
      answer = await fetch(`${this.base}/api/v1${path}`, {
        method: verb,
        headers,
        body,
        credentials: "omit",
        signal: AbortSignal.timeout(ms),
      });
      envelope = this.read(await answer.text());
    } catch (error) {
      why = error;
    }
    const wait = Number(answer?.headers.get("Retry-After")) || 0;
    // A proxy answered instead of the service, so nothing was decided.
    if (!answer || typeof envelope?.code !== "string") throw new Refused(0, "NO_ANSWER", String(why), {}, wait);
    if (envelope.code === "OK") return envelope.data;
    const data = envelope.data ?? {};
    throw new Refused(answer.status, String(data.reason ?? envelope.code), String(envelope.message), data, wait);
  }
}
