// The widget's texts: one file per language in `words/`, chosen by the `locale` attribute, the player's locale, then the browser's.

import { loadModule } from "./load_module.js";
import en from "./words/en.js";

/** The available languages. */
export const LANGUAGES = ["en", "de", "fr", "es", "it", "pt", "nl", "pl", "tr", "ar", "ja", "zh"];

const RIGHT_TO_LEFT = ["ar"];

/** @param {string} path @returns {Promise<Record<string, any>>} */
const wordsIn = async (path) => (await import(path)).default;

/** Right-to-left scripts: Hebrew, Arabic and related ones. */
const RIGHT_TO_LEFT_LETTER = /[\u0590-\u08ff\ufb1d-\ufeff]/;

/** The first of these locales with a file: ["pt-BR", "en"] -> "pt-BR". @param {(string | null | undefined)[]} wanted */
export function choose(wanted) {
  for (const locale of wanted) {
    try {
      if (locale && LANGUAGES.includes(new Intl.Locale(locale).language)) return new Intl.Locale(locale).toString();
    } catch {
      // Not a locale: try the next one.
    }
  }
  return "en";
}

export { en };

export class Words {
  /** @param {string} locale @param {Record<string, any>} words @param {Record<string, any>} [own] `ui.texts` */
  constructor(locale, words, own = {}) {
    this.locale = locale;
    /** @type {Record<string, any>} */
    this.words = {};
    this.own = own;
    this.#add({ ...en, ...words });
    this.direction = RIGHT_TO_LEFT.includes(new Intl.Locale(locale).language) ? "rtl" : "ltr";
    this.plurals = new Intl.PluralRules(locale);
    /** Made once: making one takes milliseconds on a phone. @type {Intl.NumberFormat | undefined} */
    this.numbers = undefined;
  }

  /** @param {Record<string, any>} words */
  #add(words) {
    Object.assign(this.words, words);
    for (const [key, text] of Object.entries(this.own ?? {})) {
      if (key in words && (typeof text === "string" || typeof text?.other === "string")) this.words[key] = text;
    }
  }

  /** Loads the panels' texts, which a play alone does not need. */
  async more() {
    const { language } = new Intl.Locale(this.locale);
    for (const file of await Promise.all(["en", language].map((name) => loadModule(`./words/more/${name}.js`).catch(() => ({}))))) this.#add(file.default ?? {});
  }

  /** The words of a locale. @param {string} locale @param {Record<string, any>} [own] */
  static async load(locale, own) {
    const language = new Intl.Locale(locale).language;
    const words = language === "en" ? en : await wordsIn(`./words/${language}.js`);
    return new Words(locale, words, own);
  }

  /**
   * The text of a key, with {names} filled in. Plural forms are chosen by `count`.
   * @param {string} key @param {Record<string, any>} [values]
   * @returns {string}
   */
  t(key, values = {}) {
    /** @type {any} */
    let words = this.words[key] ?? "";
    if (typeof words === "object") words = words[this.plurals.select(values.count)] ?? words.other;
    return words.replace(/\{(\w+)\}/g, (/** @type {string} */ _, /** @type {string} */ name) => {
      const value = values[name];
      return typeof value === "number" ? this.number(value) : this.apart(String(value ?? ""));
    });
  }

  /** A name in a sentence, apart from its direction where they may differ: what stands beside it stays in its place. @param {string} name */
  apart(name) {
    // What reads as the sentence does stays in it: a date of ours, set apart, would hide from who guesses directions by it.
    const reads = this.direction === "rtl" ? RIGHT_TO_LEFT_LETTER.test(name.match(/\p{L}/u)?.[0] ?? "") : !RIGHT_TO_LEFT_LETTER.test(name);
    return reads ? name : `\u2068${name}\u2069`;
  }

  /** Whether there are words of this key. @param {string} key */
  has(key) {
    return key in this.words;
  }

  /** @param {number} value */
  number(value) {
    this.numbers ??= new Intl.NumberFormat(this.locale);
    return this.numbers.format(value);
  }

  /** A number and its unit, as the language orders them: "3", "hours". @param {number} count @param {string} unit of Intl.NumberFormat */
  counted(count, unit) {
    const parts = new Intl.NumberFormat(this.locale, { style: "unit", unit, unitDisplay: "long" }).formatToParts(count);
    return parts.filter(({ type }) => type === "integer" || type === "unit");
  }

  /**
   * When something is: "today, 18:00", "Tue, 3 March, 00:00". In the time of who lives here, or in a zone, which is named
   * where it has another time.
   * @param {number} seconds unix @param {string} [zone]
   */
  when(seconds, zone) {
    const at = new Date(seconds * 1000);
    const wall = (/** @type {Date} */ date, timeZone = zone) => (timeZone ? new Date(date.toLocaleString("en-US", { timeZone })) : new Date(date));
    try {
      wall(at);
    } catch {
      zone = undefined; // Not supported by this browser.
    }
    const days = Math.round((wall(at).setHours(0, 0, 0, 0) - wall(new Date()).setHours(0, 0, 0, 0)) / 86_400_000);
    const named = zone && wall(at).getTime() !== at.getTime() ? { timeZoneName: /** @type {const} */ ("short") } : {};
    const clock = { timeZone: zone, hour: /** @type {const} */ ("numeric"), minute: /** @type {const} */ ("2-digit"), ...named };
    const time = new Intl.DateTimeFormat(this.locale, clock).format(at);
    if (days === 0 || days === 1) {
      const day = new Intl.RelativeTimeFormat(this.locale, { numeric: "auto" }).format(days, "day");
      return this.t("day_time", { day, time });
    }
    const year = wall(at).getFullYear() === wall(new Date()).getFullYear() ? undefined : "numeric";
    const date = { weekday: "short", day: "numeric", month: "long", year, ...clock };
    return new Intl.DateTimeFormat(this.locale, /** @type {any} */ (date)).format(at);
  }

  /** The time until then: "in 3 hours". @param {number} seconds unix */
  until(seconds) {
    const left = seconds - Date.now() / 1000;
    const [value, unit] =
      left < 90 ? [left, "second"] : left < 5400 ? [left / 60, "minute"] : left < 129_600 ? [left / 3600, "hour"] : [left / 86_400, "day"];
    const format = new Intl.RelativeTimeFormat(this.locale, { numeric: "always" });
    return format.format(Math.max(1, Math.round(/** @type {number} */ (value))), /** @type {any} */ (unit));
  }
}
