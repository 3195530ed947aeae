// Looks up the dashboard's texts by key.
import { words } from "./words/en.js";

const LANGUAGE = "en";
const plural = new Intl.PluralRules(LANGUAGE);
const whole = new Intl.NumberFormat(LANGUAGE);

/**
 * The text of a key, with each `{name}` replaced by its value. Plural forms are chosen by `count`.
 * A missing key is shown as is, so the page still works.
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
 * Whether the key has a text.
 * @param {string} key
 */
export const has = (key) => Object.hasOwn(words, key);

/**
 * A formatted number.
 * @param {number} value
 */
export const number = (value) => whole.format(value);

/** A formatted probability. @param {number} share */
export const percent = (share) => `${(share * 100).toLocaleString(LANGUAGE, share < 1e-4 ? { maximumSignificantDigits: 3 } : { maximumFractionDigits: 3 })} %`;

/** A value as shown and edited: probabilities in percent. Takes a path, or a key from JSON.stringify. @param {string} path @param {any} value */
export const typed = (path, value) => (typeof value === "number" && path.endsWith("probability") ? percent(value) : value);

/** @param {number} amount @param {string} [currency] */
export const money = (amount, currency = "") => `${amount.toLocaleString("en", { maximumFractionDigits: 2 })}${currency && `\u00a0${currency}`}`;

/**
 * Costs by currency, each named: "5 EUR and 6 without a currency". Different currencies are not added up.
 * @param {{amount: number, currency: string}[]} costs @param {(amount: number, currency?: string) => string} [shown]
 */
export function moneys(costs, shown = money) {
  const several = costs.length > 1;
  const named = costs.toSorted((one, other) => Number(!one.currency) - Number(!other.currency) || one.currency.localeCompare(other.currency))
    .map(({ amount, currency }) => (several && !currency ? say("money.unnamed", { amount: shown(amount) }) : shown(amount, currency)));
  return new Intl.ListFormat(LANGUAGE).format(named) || shown(0);
}

/**
 * The label of an API name: its text, or `max_plays_per_day` -> "Max plays per day".
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
 * The label of an enum value: CAMPAIGN_STATUS_ACTIVE -> "Active".
 * @param {string} value
 */
export function state(value) {
  const word = value.replace(/^.*_(STATUS|STATE|MODE|TYPE|REASON|METRIC|ACCESS|SCOPE)_/, "").toLowerCase();
  return has(`state.${word}`) ? say(`state.${word}`) : label(word);
}

/** An API message as a sentence of the page. One that begins with an id stays as it is. @param {string} [message] */
export const sentence = (message = "") => message.replace(/^[a-z](?=[a-z']*[ ,])/, (first) => first.toUpperCase());

/** A text by language: in English if there is one. @param {Record<string, string>} by */
export const textOf = (by) => by.en ?? Object.values(by)[0] ?? "";
