// Campaigns over time: a bar from start to end each, and a line for now. Visual only:
// the table below has the same data for screen readers.
import { html } from "../lib.js";
import { period } from "../times.js";
import { say, state } from "../words.js";

const DAY = 86_400;
const FAR_DAYS = 550;
const TICKS_MAX = 9;
const STEPS = [1, 2, 3, 6, 12, 24];

/** @param {{items: any[], addressOf: (id: string) => string}} props */
export function Timeline({ items, addressOf }) {
  const now = Date.now() / 1000;
  const [from, to] = extent(items, now);
  const at = (/** @type {number} */ time) => Math.min(Math.max((time - from) / (to - from), 0), 1) * 100;
  return html`<div class="timeline" aria-hidden="true">
    <div class="axis"><span></span><div>${ticks(from, to).map(({ time, text }) => html`<span key=${time} style=${{ left: `${at(time)}%` }}>${text}</span>`)}</div></div>
    <ul>${items.map((one) => {
      const left = one.start_date ? at(one.start_date) : 0;
      const right = one.end_date ? at(one.end_date) : 100;
      const open = [!one.start_date && "from", !one.end_date && "to"].filter(Boolean).join(" ");
      return html`<li key=${one.id}><span class="wrapped">${one.name}</span><div>
        <a href=${addressOf(one.id)} tabindex="-1" data-status=${one.status.replace("CAMPAIGN_STATUS_", "")} data-open=${open}
          title=${`${one.name}: ${state(one.status)}, ${period(one.start_date, one.end_date, one.timezone)}`}
          style=${{ left: `${left}%`, width: `${Math.max(right - left, 0)}%` }}></a>
        <i style=${{ left: `${at(now)}%` }}></i></div></li>`;
    })}</ul>
    <p class="quiet">${say("timeline.note")}</p>
  </div>`;
}

/** The visible range: the campaigns near today, with a margin. @param {any[]} items @param {number} now @returns {[number, number]} */
export function extent(items, now) {
  const near = (/** @type {number} */ time) => Math.abs(time - now) <= FAR_DAYS * DAY;
  const times = items.flatMap((one) => [one.start_date, one.end_date]).filter((time) => time && near(time));
  const first = Math.min(now - 7 * DAY, ...times);
  const last = Math.max(now + 7 * DAY, ...times);
  const room = (last - first) * 0.03;
  return [first - room, last + room];
}

/** Ticks: the first of every nth month, or Mondays for a range under two months. @param {number} from @param {number} to */
export function ticks(from, to) {
  const days = (to - from) / DAY;
  const found = [];
  const begun = new Date(from * 1000);
  if (days < 60) {
    const monday = Date.UTC(begun.getUTCFullYear(), begun.getUTCMonth(), begun.getUTCDate() + ((8 - begun.getUTCDay()) % 7)) / 1000;
    for (let time = monday; time < to; time += 7 * DAY) {
      found.push({ time, text: shown(time, { day: "numeric", month: "short" }) });
    }
    return found;
  }
  const step = STEPS.find((one) => days / 30 / one <= TICKS_MAX) ?? STEPS[STEPS.length - 1];
  for (let month = Math.ceil((begun.getUTCMonth() + 1) / step) * step; ; month += step) {
    const time = Date.UTC(begun.getUTCFullYear(), month, 1) / 1000;
    if (time >= to) {
      return found;
    }
    found.push({ time, text: shown(time, { month: "short", year: "numeric" }) });
  }
}

/** @param {number} time @param {Intl.DateTimeFormatOptions} options */
const shown = (time, options) => new Intl.DateTimeFormat("en-GB", { ...options, timeZone: "UTC" }).format(time * 1000);
