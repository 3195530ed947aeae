// Relative times: minutes and hours within a day, then calendar days in a zone.
const FORMAT = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const MINUTE = 60;
const HOUR = 3600;
const DAY = 86_400;

/**
 * A time relative to now: "in 5 minutes", "3 hours ago", "tomorrow". "" within a minute. At 22:00, 23:00 of the next day is
 * "tomorrow", and 01:00 of the day after it is "in 2 days".
 * @param {number} seconds unix
 * @param {number} now unix
 * @param {string} zone supported by the browser
 */
export function relative(seconds, now, zone) {
  const passed = seconds - now;
  const size = Math.abs(passed);
  if (size < MINUTE) {
    return "";
  }
  if (size < DAY) {
    const [unit, length] = size < HOUR ? /** @type {const} */ (["minute", MINUTE]) : /** @type {const} */ (["hour", HOUR]);
    return FORMAT.format(Math.trunc(passed / length), unit);
  }
  return FORMAT.format(dayOf(seconds, zone) - dayOf(now, zone), "day");
}

/** The number of the calendar day of a time in the zone. @param {number} seconds @param {string} zone */
function dayOf(seconds, zone) {
  const parts = new Intl.DateTimeFormat("en-US", { timeZone: zone, year: "numeric", month: "numeric", day: "numeric" }).formatToParts(seconds * 1000);
  const { year, month, day } = Object.fromEntries(parts.map(({ type, value }) => [type, Number(value)]));
  return Date.UTC(year, month - 1, day) / 1000 / DAY;
}
