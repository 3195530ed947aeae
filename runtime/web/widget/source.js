// Where a visitor came from, and the report of a page view with it.

/** The parameters of a page's address that say where its visitor came from, and what the service refuses in them. */
const SOURCE = ["utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content"];
const SOURCE_MAX = 200;
const UNSEEN = /[\p{C}\p{Zl}\p{Zp}]/gu;

/** The views that this page has reported, also where parts are of a later version. @type {Set<string>} */
const reported = (/** @type {any} */ (globalThis)[Symbol.for("tombola.views")] ??= new Set());

/** Where the visitor came from, by the page's address; undefined: unknown. The service stores it with a new entry. */
export function source() {
  const query = new URLSearchParams(location.search);
  const found = SOURCE.map((name) => [name, [...(query.get(name) ?? "").replace(UNSEEN, "")].slice(0, SOURCE_MAX).join("").trim()]);
  // Only the host: a path or query may be personal. A link from the site itself is no source.
  const host = /^https?:\/\/([\w.-]+)/.exec(document.referrer)?.[1];
  if (query.has("invite") && !found[0][1]) found[0][1] = "referral";
  const parts = [...found, ["referrer", host === location.hostname ? "" : host]].filter(([, one]) => one);
  return parts.length ? Object.fromEntries(parts) : undefined;
}

/**
 * Reports a view of a game, or of a campaign's page, once per page load; nothing if the visitor objects to tracking.
 * @param {{base: string, tenant: string, token?: string}} edge @param {string} campaign @param {string} [game]
 */
export function reportView({ base, tenant, token }, campaign, game = "") {
  const view = `${base}:${tenant}:${campaign}:${game}`;
  if (!campaign || reported.has(view) || navigator.doNotTrack === "1" || /** @type {any} */ (navigator).globalPrivacyControl) return;
  reported.add(view);
  const headers = /** @type {Record<string, string>} */ ({ "Content-Type": "application/json" });
  if (token) headers.Authorization = `Bearer ${token}`;
  if (tenant) headers["X-Tenant-Id"] = tenant;
  const body = JSON.stringify({ game_id: game, source: source() });
  // The visitor may leave before the response.
  fetch(`${base}/api/v1/campaigns/${encodeURIComponent(campaign)}/views`, { method: "POST", headers, body, credentials: "omit", keepalive: true }).catch(() => {});
}
