// Times: unix seconds in the API, shown and entered in a campaign's zone, which is always named.
import { signal } from "./lib.js";
import { relative } from "./relative_time.js";
import { say } from "./words.js";

const KEPT = "tombola.times";

/** Whether exact times are shown instead of relative ones. */
export const exact = signal(localStorage.getItem(KEPT) === "exact");

export function switchTimes() {
  exact.value = !exact.value;
  localStorage.setItem(KEPT, exact.value ? "exact" : "ago");
}

/** The browser's time zones. */
export const ZONES = ["UTC", ...Intl.supportedValuesOf("timeZone").filter((zone) => zone !== "UTC")];

/**
 * Whether the browser supports this zone.
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
 * Date and time in the zone, without its name. 0: not set.
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
 * A period, with the zone named once.
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

/**
 * A time relative to now, in the zone's calendar days.
 * @param {number} seconds
 * @param {string} zone
 */
export const ago = (seconds, zone) => relative(seconds, Date.now() / 1000, known(zone)) || say("time.now");

/**
 * The value of an `<input type="datetime-local">` for a time; "" if not set.
 * @param {number} seconds
 * @param {string} zone
 */
export function toInput(seconds, zone) {
  return seconds ? new Date((seconds + offset(seconds, zone)) * 1000).toISOString().slice(0, 16) : "";
}

/**
 * The time of such an input in the zone; 0 if empty. An hour skipped by DST becomes the next one.
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
 * The zone's UTC offset at a time, in seconds.
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

/** The next day: 2026-10-26 for 2026-10-25. @param {string} day */
export const dayAfter = (day) => new Date(Date.parse(day) + 86_400_000).toISOString().slice(0, 10);

/** The start of a day in the address, or of the day after, in UTC, so that a shared link shows the same data. @param {string} day @param {number} [later] */
export function dayBegins(day, later = 0) {
  const at = Date.parse(day) / 1000 + later * 86_400;
  return at > 0 ? at : "";
}
