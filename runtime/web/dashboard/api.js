// Requests to the admin edge. A refusal is thrown as `Refused`, with its field errors.
import createClient from "openapi-fetch";
import { ended, token } from "./session.js";
import { say, sentence } from "./words.js";

export const API = "/api/v1";
const AGAIN = new Set(["TOKEN_EXPIRED", "TOKEN_INVALID", "TOKEN_MISSING"]);

/** A refusal by the service, or no response (`status` 0). */
export class Refused extends Error {
  /**
   * @param {number} status
   * @param {any} envelope
   * @param {boolean} [lost] whether it may have been done, and would be done once more
   */
  constructor(status, envelope, lost = false) {
    const data = envelope?.data ?? {};
    super(sentence(envelope?.message) || say(status ? "refused.unknown" : lost ? "refused.lost" : "refused.away"));
    this.status = status;
    /** @type {string} */
    this.reason = data.reason ?? "";
    this.data = data;
    /** @type {string} */
    this.trace = envelope?.trace_id ?? "";
    /** @type {Record<string, string>} */
    this.fields = {};
    for (const { field, description } of data.violations ?? []) {
      this.fields[field] ??= description;
    }
  }
}

/** @type {any} */
const client = createClient({ baseUrl: API, bodySerializer: (/** @type {any} */ body) => (typeof body === "string" || body instanceof Blob ? body : JSON.stringify(body)) });
client.use({
  onRequest(/** @type {{request: Request}} */ { request }) {
    if (token.value) {
      request.headers.set("Authorization", `Bearer ${token.value}`);
    }
    return request;
  },
});

/**
 * @typedef {object} Asked
 * @property {Record<string, string>} [path] what stands in the path's braces
 * @property {Record<string, any>} [query] empty and undefined values are omitted
 * @property {any} [body] a text is sent as it is, under the Content-Type among the headers
 * @property {string} [key] an Idempotency-Key: asked again with it, it is done once
 * @property {Record<string, string>} [headers]
 * @property {AbortSignal} [signal]
 */

/**
 * @param {"get" | "post" | "put" | "delete"} verb
 * @param {string} path
 * @param {Asked} [asked]
 * @returns {Promise<any>} the answer's `data`
 */
async function ask(verb, path, { path: named, query = {}, body, key, headers = {}, signal } = {}) {
  const said = Object.fromEntries(Object.entries(query).filter(([, value]) => value !== "" && value !== undefined));
  let answered;
  try {
    answered = await client.request(verb, path, {
      params: { path: named, query: said },
      headers: { ...headers, ...(key ? { "Idempotency-Key": key } : {}) },
      ...(body === undefined ? {} : { body }),
      signal,
    });
  } catch (error) {
    if (signal?.aborted) {
      throw error;
    }
    throw new Refused(0, null, verb === "post" && !key);
  }
  // 202: not applied yet, awaiting approval.
  if (answered.response.ok && answered.response.status !== 202) {
    return answered.data?.data ?? answered.data;
  }
  const refused = new Refused(answered.response.status, answered.error ?? answered.data);
  if (refused.status === 401 && AGAIN.has(refused.reason) && token.value) {
    ended();
  }
  throw refused;
}

export const api = {
  /** @param {string} path @param {Asked} [asked] */
  get: (path, asked) => ask("get", path, asked),
  /** @param {string} path @param {Asked} [asked] */
  post: (path, asked) => ask("post", path, { body: {}, ...asked }),
  /** @param {string} path @param {Asked} [asked] */
  put: (path, asked) => ask("put", path, asked),
  /** @param {string} path @param {Asked} [asked] */
  remove: (path, asked) => ask("delete", path, asked),
};

/** A new Idempotency-Key: one per user action, reused by its retries. */
export const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
