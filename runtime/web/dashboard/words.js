// The page's words, by their keys: all of them stand in one file.
import { words } from "./words/en.js";

const LANGUAGE = "en";
const plural = new Intl.PluralRules(LANGUAGE);
const whole = new Intl.NumberFormat(LANGUAGE);

/**
 * The words of a key, with `{name}` replaced by its value. Words that are an object are chosen by `count`.
 * A key that nobody wrote shows itself: a page with a word missing still works.
 * @param {string} key
 * @param {Record<string, string | number>} [values]
 * @returns {string}
 */
export function say(key, values = {}) {
  const found = /** @type {Record<string, string | Record<string, string>>} */ (words)[key] ?? key;
  const text = typeof found === "string" ? found : found[plural.select(Number(values.count ?? 0))] ?? found.other;
  return text.replace(/\{(\w+)\}/g, (_, name) => {
    const value = values[name];
    return typeof value === "number" ? whole.format(value) : String(value ?? "");
  });
}

/**
 * Whether there are words of this key.
 * @param {string} key
 */
export const has = (key) => Object.hasOwn(words, key);

/**
 * A number, as people read it.
 * @param {number} value
 */
export const number = (value) => whole.format(value);

/** A chance, as people read it. @param {number} share */
export const percent = (share) => `${(share * 100).toLocaleString(LANGUAGE, share < 1e-4 ? { maximumSignificantDigits: 3 } : { maximumFractionDigits: 3 })} %`;

/** A value of the API's as it is typed and shown: chances in percent. Takes a path, or a name as JSON.stringify gives it. @param {string} path @param {any} value */
export const typed = (path, value) => (typeof value === "number" && path.endsWith("probability") ? percent(value) : value);

/** @param {number} amount @param {string} [currency] */
export const money = (amount, currency = "") => `${amount.toLocaleString("en", { maximumFractionDigits: 2 })}${currency && `\u00a0${currency}`}`;

/** What things cost, currency by currency: they do not add up. @param {{amount: number, currency: string}[]} costs @param {number} [among] */
export const moneys = (costs, among = 1) => costs.map(({ amount, currency }) => money(amount / among, currency)).join(" + ") || money(0);

/**
 * A name of the API's, as people read it: `max_plays_per_day` -> "Max plays per day", unless there are words for it.
 * @param {string} name
 */
export function label(name) {
  if (has(`field.${name}`)) {
    return say(`field.${name}`);
  }
  const spaced = name.replaceAll("_", " ");
  return spaced.charAt(0).toUpperCase() + spaced.slice(1);
}

/**
 * An enum's value, as people read it: CAMPAIGN_STATUS_ACTIVE -> "Active".
 * @param {string} value
 */
export function state(value) {
  const word = value.replace(/^.*_(STATUS|STATE|MODE|TYPE|REASON|METRIC|ACCESS|SCOPE)_/, "").toLowerCase();
  return has(`state.${word}`) ? say(`state.${word}`) : label(word);
}
