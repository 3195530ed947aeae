// Compares a game with its odds before it is saved: prizes without a segment, segments whose prize has no odds, and prizes
// taken off that still have stock.
import { html } from "../lib.js";
import { number, say } from "../words.js";
import { awarded } from "./definition.js";
import { groupsOf } from "./odds.js";

/** @typedef {{label?: string, emoji?: string, prize_id?: string}} Segment */

/**
 * Mismatches, each with its fix. The launch check reports the same for a saved game.
 * @param {{handler: string, value: any, prizes: any[], change: (value: any) => void, whole?: boolean}} props value: the form's; whole: whether each prize needs a segment, as on a wheel
 */
export function Wheel({ handler, value, prizes, change, whole = true }) {
  const held = value.ui?.wheel?.segments;
  const segments = /** @type {Segment[]} */ (Array.isArray(held) ? held.map((one) => one ?? {}) : []);
  const named = new Set(segments.map((one) => one.prize_id).filter(Boolean));
  if (!named.size) {
    return null; // Segments without a prize match the prizes by position.
  }
  const rows = (groupsOf(handler, value.handler_config ?? {}) ?? []).flatMap((one) => one.rows);
  const won = new Set(rows.filter(({ chance }) => chance > 0).map(({ prize_id }) => prize_id).filter(Boolean));
  if (value.on_unavailable === "ON_UNAVAILABLE_FALLBACK" && value.fallback_prize_id) {
    won.add(value.fallback_prize_id);
  }
  const name = (/** @type {string} */ id) => prizes.find((one) => one.prize_id === id)?.name ?? id;
  const put = (/** @type {Segment[]} */ next) => change({ ...value, ui: { ...value.ui, wheel: { ...value.ui.wheel, segments: next } } });
  const missing = (whole ? [...won] : []).filter((id) => !named.has(id)).map((id) => ({
    text: say("wheel.missing", { name: name(id) }), word: say("wheel.add"), act: () => put([...segments, { label: name(id), prize_id: id }]),
  }));
  const idle = segments.flatMap(({ prize_id }, i) => (!prize_id || won.has(prize_id) ? [] : [{
    text: say("wheel.idle", { number: i + 1, name: name(prize_id) }), word: say("wheel.remove"), act: () => put(segments.toSpliced(i, 1)),
  }]));
  const found = [...missing, ...idle];
  return found.length > 0 && html`<ul class="checks wheel" aria-label=${say("wheel.title")}>${found.map(({ text, word, act }) => html`<li key=${text} data-tone="bad">
    <span class="mark" aria-hidden="true"></span><span>${text}</span> <button type="button" class="secondary outline small" aria-label=${`${word}: ${text}`} onClick=${act}>${word}</button></li>`)}</ul>`;
}

/** Prizes that the saved game awards and the edited one does not, although units are left. @param {{game: any, value: any, prizes: any[]}} props */
export function Removed({ game, value, prizes }) {
  const now = awarded(value);
  const removed = awarded(game).filter((id) => !now.includes(id)).flatMap((id) => prizes.find((one) => one.prize_id === id) ?? [])
    .filter(({ type, stock }) => type !== "points" && (!stock.total || stock.remaining > 0));
  return removed.length > 0 && html`<ul class="checks wheel" role="status">${removed.map(({ prize_id, name, stock }) => html`<li key=${prize_id} data-tone="warn">
    <span class="mark" aria-hidden="true"></span><span>${say(stock.total ? "wheel.removed" : "wheel.removed_unlimited", { name, left: number(stock.remaining) })}</span></li>`)}</ul>`;
}
