// Times: unix seconds as the API has them, shown and asked for in a campaign's zone, which is always named.
import { signal } from "./lib.js";
import { say } from "./words.js";

const KEPT = "tombola.times";

/** Whether times are shown in full, rather than how long ago they are. */
export const exact = signal(localStorage.getItem(KEPT) === "exact");

export function switchTimes() {
  exact.value = !exact.value;
  localStorage.setItem(KEPT, exact.value ? "exact" : "ago");
}

/** The zones that the browser knows. */
export const ZONES = ["UTC", ...Intl.supportedValuesOf("timeZone").filter((zone) => zone !== "UTC")];

/**
 * Whether the browser knows a zone of this name.
 * @param {string} zone
 */
export function isZone(zone) {
  try {
    return Boolean(zone && new Intl.DateTimeFormat("en", { timeZone: zone }));
  } catch {
    return false;
  }
}

/** @param {string} zone */
const known = (zone) => (isZone(zone) ? zone : "UTC");

/**
 * The time of day and the day, in the zone, without its name. 0 is no time.
 * @param {number} seconds
 * @param {string} [zone]
 */
export function when(seconds, zone = "UTC") {
  if (!seconds) {
    return say("time.unset");
  }
  const options = /** @type {const} */ ({ day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" });
  return new Intl.DateTimeFormat("en-GB", { ...options, timeZone: known(zone) }).format(seconds * 1000);
}

/**
 * The same with the zone named.
 * @param {number} seconds
 * @param {string} [zone]
 */
export const whenNamed = (seconds, zone = "UTC") => (seconds ? `${when(seconds, zone)} ${known(zone)}` : when(0));

/**
 * From when to when, with the zone named once.
 * @param {number} from
 * @param {number} to
 * @param {string} zone
 */
export function period(from, to, zone) {
  if (!from && !to) {
    return say("time.always");
  }
  const parts = { from: when(from, zone), to: when(to, zone) };
  return `${say(from && to ? "time.period" : from ? "time.from" : "time.until", parts)} ${known(zone)}`;
}

const AGO = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const UNITS = /** @type {const} */ ([["day", 86400], ["hour", 3600], ["minute", 60]]);

/**
 * How long ago, or in how long.
 * @param {number} seconds
 */
export function ago(seconds) {
  const passed = seconds - Date.now() / 1000;
  for (const [unit, length] of UNITS) {
    if (Math.abs(passed) >= length) {
      return AGO.format(Math.round(passed / length), unit);
    }
  }
  return say("time.now");
}

/**
 * What an `<input type="datetime-local">` holds for a time; "" for none.
 * @param {number} seconds
 * @param {string} zone
 */
export function toInput(seconds, zone) {
  return seconds ? new Date((seconds + offset(seconds, zone)) * 1000).toISOString().slice(0, 16) : "";
}

/**
 * The time that such an input means in the zone; 0 for none. Of an hour that a zone skips, the one after it.
 * @param {string} text
 * @param {string} zone
 */
export function fromInput(text, zone) {
  const local = text ? Date.parse(`${text.slice(0, 16)}:00Z`) / 1000 : NaN;
  if (!Number.isFinite(local)) {
    return 0;
  }
  const first = local - offset(local, zone);
  return local - offset(first, zone);
}

/**
 * How far the zone's clocks are ahead of UTC's at a time, in seconds.
 * @param {number} seconds
 * @param {string} zone
 */
function offset(seconds, zone) {
  const format = new Intl.DateTimeFormat("en-US", {
    timeZone: known(zone), hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric",
    hour: "numeric", minute: "numeric", second: "numeric",
  });
  const parts = Object.fromEntries(format.formatToParts(seconds * 1000).map(({ type, value }) => [type, Number(value)]));
  const local = Date.UTC(parts.year, parts.month - 1, parts.day, parts.hour, parts.minute, parts.second) / 1000;
  return local - Math.floor(seconds);
}

/** The day after a day: such as 2026-10-26, of 2026-10-25. @param {string} day */
export const dayAfter = (day) => new Date(Date.parse(day) + 86_400_000).toISOString().slice(0, 10);

/** When a day of the address begins, or the one after it, in UTC: whoever is sent it sees the same. @param {string} day @param {number} [later] */
export function dayBegins(day, later = 0) {
  const at = Date.parse(day) / 1000 + later * 86_400;
  return at > 0 ? at : "";
}
