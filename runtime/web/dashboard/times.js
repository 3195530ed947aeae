// Times: unix seconds in the API, shown and entered in a campaign's zone, which is always named.
import { signal } from "./lib.js";
import { known } from "./local_times.js";
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

/** The next day: 2026-10-26 for 2026-10-25. @param {string} day */
export const dayAfter = (day) => new Date(Date.parse(day) + 86_400_000).toISOString().slice(0, 10);

/** The start of a day in the address, or of the day after, in UTC, so that a shared link shows the same data. @param {string} day @param {number} [later] */
export function dayBegins(day, later = 0) {
  const at = Date.parse(day) / 1000 + later * 86_400;
  return at > 0 ? at : "";
}
