// When units of prizes were free: for plays that won them, and for plays that drew them and did not get them. A prize's
// release frees units over time; the terms of a play have its commitment, and the opening in the dossier the schedule.
// @ts-nocheck

import { createHash, createHmac } from "node:crypto";
import { parse } from "./verify.mjs";

const [SECOND, MOMENT] = [1_000_000, 999_999]; // Microseconds.
const SLOW = 10 * SECOND; // Other transactions than plays may take units so long after their rows' time.
const [UNITS, SECONDS] = [10_000, 2 * 366 * 86_400]; // The most of a schedule.
const push = (map, key, one) => (map.has(key) ? map.get(key).push(one) : map.set(key, [one]));

/** The number of elements up to a value, in a sorted list. */
function upTo(sorted, value) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The sum of the units of all [time, units] up to a time. */
function counter(moments) {
  const ordered = moments.sort((a, b) => a[0] - b[0]);
  const times = ordered.map(([at]) => at);
  let sum = 0;
  const sums = [0, ...ordered.map(([, units]) => (sum += units))];
  return (at) => sums[upTo(times, at)];
}

// ---- schedules: runtime/rules/release.py, in JavaScript -----------------------------------------
/** The seconds that a zone is ahead of UTC at an instant. */
function zoneOf(name) {
  const parts = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" };
  const format = new Intl.DateTimeFormat("en-US", { timeZone: name, hourCycle: "h23", ...parts });
  return (at) => {
    const found = Object.fromEntries(format.formatToParts(at * 1e3).map((one) => [one.type, Number(one.value)]));
    return Date.UTC(found.year, found.month - 1, found.day, found.hour, found.minute, found.second) / 1e3 - Math.floor(at);
  };
}

/** The instant of a local time, given as if it were UTC. Of two, the first; a skipped one is counted as before the change. */
function instantOf(local, ahead) {
  const [before, after] = [ahead(local - 86_400), ahead(local + 86_400)];
  return ahead(local - before) !== before && ahead(local - after) === after ? local - after : local - before;
}

/** The open spans in order, with gaps between them. */
function openSpans({ starts_at: starts, ends_at: ends, hours, timezone }) {
  if (!hours?.length) return [[starts, ends]];
  const [ahead, spans] = [zoneOf(timezone), []];
  const midnight = (at) => Math.floor((at + ahead(at)) / 86_400) * 86_400; // Of the local day.
  for (let day = midnight(starts); day <= midnight(ends); day += 86_400) {
    const weekday = ((day / 86_400 + 3) % 7) + 1;
    const open = hours.filter(([weekdays]) => weekdays.includes(weekday)).sort((a, b) => a[1] - b[1] || a[2] - b[2]);
    for (const [, first, end] of open) {
      const start = Math.max(instantOf(day + 3600 * first, ahead), starts, spans.at(-1)?.[1] ?? starts);
      const until = Math.min(instantOf(day + 3600 * end, ahead), ends);
      if (start < until) spans.push([start === spans.at(-1)?.[1] ? spans.pop()[0] : start, until]);
    }
  }
  return spans;
}

/** How many units become free after a time, in microseconds. */
export function scheduleOf(terms, seed) {
  const { kind, units, times, starts_at: starts, ends_at: ends } = terms;
  if (kind === "TIMES") {
    const [freed, all] = [counter(times.map(([at, count]) => [at, count])), times.reduce((sum, one) => sum + one[1], 0)];
    return (micro) => all - freed(micro / SECOND);
  }
  if (!(ends - starts > 0 && ends - starts <= SECONDS) || (kind === "SEALED" && !(units > 0 && units <= UNITS))) throw new Error("too long");
  const spans = openSpans(terms);
  const [opens, before] = [spans.map(([start]) => start), [0]];
  for (const [start, end] of spans) before.push(before.at(-1) + (end - start));
  const total = before.at(-1);
  if (!total) throw new Error("never open");
  if (kind === "SEALED") {
    const key = Buffer.from(seed, "hex");
    const instant = (_, i) => {
      const word = Number(createHmac("sha256", key).update(`:${i}`).digest().readBigUInt64BE()) / 2 ** 64;
      const elapsed = word * total;
      const index = Math.min(upTo(before, elapsed) - 1, opens.length - 1);
      return [Math.trunc(1000 * (opens[index] + elapsed - before[index])) / 1000, 1];
    };
    const freed = counter(Array.from({ length: units }, instant));
    return (micro) => units - freed(micro / SECOND);
  }
  if (kind !== "EVEN") throw new Error("unknown kind");
  const elapsed = (now) => {
    const index = upTo(opens, now) - 1;
    return index < 0 ? 0 : before[index] + Math.min(now, spans[index][1]) - opens[index];
  };
  return (micro) => units - Math.trunc((units * elapsed(micro / SECOND)) / total + 0.5);
}

export class Releases {
  promised = new Map(); // Terms -> the commitments of their releases, by prize.
  openings = new Map(); // Commitment -> text.
  schedules = new Map(); // Commitment -> how many units become free after a time.
  retaken = new Set(); // Rewards that took their unit again after they had returned it.
  denied = []; // What plays drew and did not get.
  won = []; // What plays won.

  terms(hash, text) {
    this.promised.set(hash, parse(text).releases ?? {});
  }

  opening(text) {
    const hash = createHash("sha256").update(text).digest("hex");
    if (this.openings.has(hash)) throw new Error("there are two lines of one opening");
    this.openings.set(hash, text);
  }

  play({ id, revision_hash: revision }, stored) {
    const isDenied = (step) => Array.isArray(step) && step[0] === "available" && step[3] === false;
    for (const [, prize, quantity] of stored.decided.path.filter(isDenied)) this.denied.push({ id, prize, quantity, revision });
    const units = new Map();
    for (const one of stored.rewards.filter(({ type }) => type !== "points")) units.set(one.prize_id, (units.get(one.prize_id) ?? 0) + one.quantity);
    for (const [prize, quantity] of units) if (this.hashOf({ prize, revision })) this.won.push({ id, prize, quantity, revision });
  }

  audit({ action, subject_id: subject }) {
    if (action === "reward.retake") this.retaken.add(subject);
  }

  hashOf({ prize, revision }) {
    const releases = this.promised.get(revision) ?? {};
    return Object.hasOwn(releases, prize) ? releases[prize] : undefined;
  }

  /** The units that became free after this time; NaN: their release is not opened. */
  heldBack(hash, micro) {
    return hash === undefined ? 0 : (this.schedules.get(hash)?.(micro) ?? NaN);
  }

  /** Reads the openings. Returns the prizes of those that are not as promised. */
  open() {
    const wrong = [];
    for (const [hash, text] of this.openings) {
      const { prize_id: prize, release, seed } = parse(text);
      const prizes = new Set([...this.promised.values()].flatMap((one) => Object.keys(one).filter((id) => one[id] === hash)));
      try {
        if (prizes.size !== 1 || !prizes.has(prize)) throw new Error("not promised");
        this.schedules.set(hash, scheduleOf(release, seed));
      } catch {
        wrong.push(`${prize}`); // Or the operator committed to something that is no schedule.
      }
    }
    return wrong;
  }

  /** [text, names of wrong rows, whether they are open rather than wrong] */
  *problems({ head, plays, rewards, prizes, stock, changed }) {
    yield ["openings are those that the terms promise", this.open()];
    const promised = new Map([...this.promised.values()].flatMap((one) => Object.entries(one)).map(([prize, hash]) => [hash, prize]));
    const unopened = [...promised].filter(([hash]) => !this.schedules.has(hash)).map(([, prize]) => prize);
    yield ["release schedules are opened in the file: the others end later, or an earlier version wrote it", unopened.sort(), true];
    this.count(plays, rewards);
    const all = new Map([...prizes].map(([id, prize]) => [id, stock.periods(prize)]));
    const isEarly = (one) => this.early(one, plays.get(one.id), all.get(one.prize) ?? []);
    yield ["prizes were won after their release had freed a unit", this.won.filter(isEarly).map((one) => one.id)];
    const found = { withheld: new Set(), open: new Set() };
    for (const one of this.denied) {
      const prize = prizes.get(one.prize);
      const isKnown = prize?.campaign_id === head.campaign.id && !changed.has(one.prize) && stock.isCounted(prize);
      found[this.fate(one, plays.get(one.id), all.get(one.prize) ?? [], isKnown && prize.limits.join(" "))]?.add(one.id);
    }
    yield ["plays got the prizes that had a free unit", [...found.withheld]];
    const open = [...found.open].filter((id) => !found.withheld.has(id));
    yield ["plays got the prizes that they drew: these may have been unavailable, as the operator states", open, true];
  }

  /** Counts the units of each prize: those that may have been taken by a time, and those that were taken by then and kept. */
  count(plays, rewards) {
    const [taken, kept, own] = [new Map(), new Map(), new Map()];
    const take = (prize, quantity, low, high, isKept, play) => {
      push(taken, prize, [low, quantity]);
      if (isKept) push(kept, prize, [high, quantity]);
      if (isKept && play && high <= play.micro) own.set(`${play.id} ${prize}`, (own.get(`${play.id} ${prize}`) ?? 0) + quantity);
    };
    for (const { id, prize_id: prize, type, quantity, status, play_id, entry, micro } of rewards.values()) {
      const isKept = !["revoked", "expired", "failed"].includes(status) && !this.retaken.has(id);
      const high = micro + (entry === undefined ? MOMENT : 0) + (play_id ? 0 : SLOW);
      if (type !== "points") take(prize, quantity, micro, high, isKept, plays.get(play_id));
    }
    for (const play of plays.values()) for (const [prize, quantity] of play.unnamed) take(prize, quantity, play.micro, play.high, true, play);
    const counters = (map) => new Map([...map].map(([prize, moments]) => [prize, counter(moments)]));
    [this.taken, this.kept, this.own] = [counters(taken), counters(kept), own];
  }

  /** The units of others that a play found taken and that were kept. */
  keptBefore({ id, prize }, { micro }) {
    return (this.kept.get(prize)?.(micro) ?? 0) - (this.own.get(`${id} ${prize}`) ?? 0);
  }

  /** Whether a unit was won over a second before it became free. */
  early(one, play, periods) {
    return this.keptBefore(one, play) + one.quantity > most(periods, play) - this.heldBack(this.hashOf(one), play.high + SECOND);
  }

  /** Whether a play was denied a unit that had been free for ten seconds. limits: of the prize; false: not known. */
  fate(one, play, periods, limits) {
    const hash = this.hashOf(one);
    const [least, taken] = [Math.min(...periods.map(({ total }) => total)), this.taken.get(one.prize)?.(play.high) ?? 0];
    const isLimited = limits !== (hash === undefined ? "" : "release");
    if (!isLimited && least - taken - this.heldBack(hash, play.micro - SLOW) >= one.quantity) return "withheld";
    return most(periods, play) - this.keptBefore(one, play) - (this.heldBack(hash, play.high) || 0) < one.quantity ? "unavailable" : "open";
  }
}

/** The largest total of a prize's stock at the time of a play; NaN: the prize is not in the file. */
function most(periods, { micro, high }) {
  const during = ({ since, until }) => until >= Math.floor(micro / SECOND) - 1 && since <= Math.floor(high / SECOND) + 1;
  return periods.length ? Math.max(...periods.filter(during).map(({ total }) => total)) : NaN;
}
