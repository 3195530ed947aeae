// The launch check: what would go wrong if a campaign were activated as it is.
import { api } from "../api.js";
import { isZone } from "../times.js";
import { say } from "../words.js";

const ALMOST = 1e-9;

/**
 * @typedef {object} Found
 * @property {"good" | "warn" | "bad"} tone bad: it would not work; warn: it works, perhaps not as meant
 * @property {string} text
 */

/**
 * All that the check looks at. Prizes are those that the games name.
 * @param {any} campaign
 * @param {any[]} games
 * @param {AbortSignal} [signal]
 * @returns {Promise<Found[]>}
 */
export async function check(campaign, games, signal) {
  const active = games.filter(({ status }) => status === "GAME_STATUS_ACTIVE");
  const ids = [...new Set(active.flatMap(named))];
  const prizes = await Promise.all(ids.map((id) => api.get("/admin/prizes/{id}", { path: { id }, signal })));
  const codes = await codesOf(new Set(prizes.filter(givesCodes).map(({ prize_id }) => prize_id)), signal);
  return [
    dates(campaign),
    active.length ? good("check.games", { count: active.length }) : bad("check.games_none"),
    ...active.flatMap(odds),
    ...prizes.map(stock),
    ...[...codes].map(([prize, count]) => {
      const { name } = prizes.find(({ prize_id }) => prize_id === prize);
      return count ? good("check.codes", { prize: name, count }) : bad("check.codes_none", { prize: name });
    }),
    ...active.map((game) => (Object.keys(game.ui ?? {}).length ? good : warn)(Object.keys(game.ui ?? {}).length ? "check.looks" : "check.looks_none", { game: game.name })),
    campaign.origins?.length ? good("check.origins") : warn("check.origins_none"),
  ];
}

/** @typedef {Record<string, string | number>} Values */
/** @param {string} key @param {Values} [values] @returns {Found} */
const good = (key, values) => ({ tone: "good", text: say(key, values) });
/** @param {string} key @param {Values} [values] @returns {Found} */
const warn = (key, values) => ({ tone: "warn", text: say(key, values) });
/** @param {string} key @param {Values} [values] @returns {Found} */
const bad = (key, values) => ({ tone: "bad", text: say(key, values) });

/** @param {any} campaign */
function dates({ start_date, end_date, timezone }) {
  if (end_date && end_date <= Date.now() / 1000) {
    return bad("check.dates_over");
  }
  if (end_date && start_date >= end_date) {
    return bad("check.dates_order");
  }
  return end_date && isZone(timezone) ? good("check.dates") : warn("check.dates_open");
}

/** The prizes that a game names. @param {any} game @returns {string[]} */
function named(game) {
  /** @type {string[]} */
  const found = [];
  JSON.stringify([game.handler_config, game.milestones, game.fallback_prize_id && { prize_id: game.fallback_prize_id }], (key, value) => {
    if (key === "prize_id" && typeof value === "string" && value) {
      found.push(value);
    }
    return value;
  });
  return found;
}

/** @param {any} game @returns {Found[]} */
function odds({ name, handler_config: config }) {
  const lists = Array.isArray(config?.prizes) ? [config.prizes] : Object.values(config?.prize_groups ?? {});
  return lists.map((list) => {
    const sum = list.reduce((/** @type {number} */ total, /** @type {any} */ one) => total + one.probability, 0);
    return sum > ALMOST ? good("check.odds", { game: name, sum: `${Math.round(sum * 1e6) / 1e4} %` }) : warn("check.odds_none", { game: name });
  });
}

/** @param {any} prize */
const givesCodes = ({ fulfillment }) => fulfillment?.channel === "voucher_code";

/** @param {any} prize */
function stock({ name, stock: { total, remaining } }) {
  if (!total) {
    return good("check.stock_open", { prize: name });
  }
  return remaining > 0 ? good("check.stock", { prize: name, count: remaining }) : bad("check.stock_none", { prize: name });
}

/** How many codes each of the prizes has left. @param {Set<string>} wanted @param {AbortSignal} [signal] */
async function codesOf(wanted, signal) {
  const found = new Map([...wanted].map((id) => [id, 0]));
  for (let cursor = "", more = wanted.size > 0; more; ) {
    const { items, pagination } = await api.get("/admin/prizes/summary", { query: { limit: 100, cursor }, signal });
    for (const { prize_id, codes_available } of items) {
      if (found.has(prize_id)) {
        found.set(prize_id, codes_available);
      }
    }
    cursor = pagination.next_cursor;
    more = pagination.has_more;
  }
  return found;
}
