// Local times of a zone, as the inputs of a browser show them.

/** The zone, or UTC if the browser does not support it. @param {string} zone */
export function known(zone) {
  try {
    return zone && Intl.DateTimeFormat("en", { timeZone: zone }) ? zone : "UTC";
  } catch {
    return "UTC";
  }
}

/**
 * The value of an `<input type="datetime-local">` for a time; "" if not set.
 * @param {number} seconds
 * @param {string} zone
 */
export function toInput(seconds, zone) {
  return seconds ? new Date((seconds + offset(seconds, zone)) * 1000).toISOString().slice(0, 16) : "";
}

/**
 * The time of such an input in the zone; 0 if empty. As in Python (PEP 495): an hour skipped by DST becomes the next one,
 * and a repeated hour means the first one.
 * @param {string} text
 * @param {string} zone
 */
export function fromInput(text, zone) {
  const local = text ? Date.parse(`${text.slice(0, 16)}:00Z`) / 1000 : NaN;
  if (!Number.isFinite(local)) {
    return 0;
  }
  const fits = (/** @type {number} */ at) => at + offset(at, zone) === local;
  const [before, after] = [-86_400, 86_400].map((near) => local - offset(local + near, zone));
  return !fits(before) && fits(after) ? after : before;
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
