// Invitations: the link that a player shares, and the code of the link that this page was opened by.

/** The parameter of a page's address with the code of the player who shared it. */
const PARAMETER = "invite";
const ACCEPT_MS = 5_000;

/** The tokens of players who have accepted the page's invitation, with the campaign. @type {Set<string>} */
const accepted = new Set();

/** The players' codes, by campaign and token. @type {Map<string, Promise<string>>} */
const codes = new Map();

/**
 * Reports the page's invitation, if there is one, before the player's first play. A refusal changes nothing for the play.
 * @param {import("./play.js").Round} round
 */
export async function accept({ api, render }) {
  const campaign = render?.campaign_id ?? "";
  const code = new URLSearchParams(location.search).get(PARAMETER) ?? "";
  const { token } = api.identity;
  if (!code || !token || "isPreview" in api || !render?.offers?.includes("referrals") || accepted.has(`${campaign} ${token}`)) return;
  accepted.add(`${campaign} ${token}`);
  await api.once(`/campaigns/${encodeURIComponent(campaign)}/referrals`, { code: code.slice(0, 40) }, ACCEPT_MS).catch(() => {});
}

/** The player's code; "" without one. @param {import("./api.js").Api} api @param {string} campaign @returns {Promise<string>} */
export function codeOf(api, campaign) {
  const { token } = api.identity;
  if (!token || "isPreview" in api) return Promise.resolve("");
  const key = `${campaign} ${token}`;
  const asked = codes.get(key) ?? api.post(`/campaigns/${encodeURIComponent(campaign)}/referral-code`).then(({ code }) => code);
  codes.set(key, asked);
  return asked.catch(() => {
    codes.delete(key);
    return "";
  });
}

/** The page's address with this code, without this visitor's own source and invitation. @param {string} [code] */
export function linkWith(code = "") {
  const address = new URL(location.href);
  for (const name of [...address.searchParams.keys()]) if (name === PARAMETER || name.startsWith("utm_")) address.searchParams.delete(name);
  if (code) address.searchParams.set(PARAMETER, code);
  return address.href;
}

/** Shares a link, or copies it where the browser cannot share. @param {string} title @param {string} url @returns {Promise<boolean>} whether it was copied */
export async function share(title, url) {
  try {
    if (navigator.share) await navigator.share({ title, url });
    else {
      await navigator.clipboard.writeText(url);
      return true;
    }
  } catch {
    // The player closed the dialog, or the browser allows neither.
  }
  return false;
}
