// The stock and the states of a dossier, compared with its audit entries; and what an audit entry's hash is of.
// @ts-nocheck

const PERSON = /person:[0-9a-f]{64}/g;
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
const MOVED = ["total_before", "total_after", "remaining_before", "remaining_after"];

/** Whether two JSON values are equal but for persons: masked in one, pseudonyms in the other, one for each person. */
export function isSameButPersons(masked, shown, names = new Map()) {
  if (typeof masked === "string" && typeof shown === "string") {
    const found = new RegExp(`^${masked.split(PERSON).map(escaped).join("([0-9a-f]{32})")}$`).exec(shown);
    const isKnown = (person, at) => (names.has(person) ? names.get(person) === found[at + 1] : names.set(person, found[at + 1]));
    return !!found && (masked.match(PERSON) ?? []).every(isKnown);
  }
  if (!masked || !shown || typeof masked !== "object" || typeof shown !== "object") return masked === shown;
  const fields = Object.keys(masked);
  if (Array.isArray(masked) !== Array.isArray(shown) || fields.length !== Object.keys(shown).length) return false;
  return fields.every((name) => Object.hasOwn(shown, name) && isSameButPersons(masked[name], shown[name], names));
}

export class Stock {
  prizes = new Map();
  moves = new Map();
  taken = new Map(); // Prize -> its units, with their times.
  units = new Map(); // Prize -> the sum of its units.
  states = new Map(); // Reward -> the last state that an audit entry says.
  audited = []; // Moves of the audit log.
  totals = new Map(); // Prize -> the last total of the audit log.

  prize(prize) {
    this.prizes.set(prize.id, prize);
  }

  move(move) {
    this.moves.set(move.prize_id, [...(this.moves.get(move.prize_id) ?? []), move]);
  }

  /** Units of a prize that were won. */
  take(prizeId, quantity, at, status = "") {
    if (!this.taken.has(prizeId)) this.taken.set(prizeId, []);
    this.taken.get(prizeId).push({ quantity, at, isBack: ["revoked", "expired"].includes(status) });
  }

  audit({ action, subject_type: type, subject_id: subject, after }) {
    if (action === "player.merge_surplus") for (const id of after.rewards) this.states.set(id, "revoked");
    if (type === "reward" && after?.status !== undefined) this.states.set(subject, after.status);
    if (action === "prize.move_stock") this.audited.push({ ...after, prize_id: subject });
    const total = action === "prize.move_stock" ? after.total_after : type === "prize" ? after?.total : undefined;
    if (total !== undefined) this.totals.set(subject, total);
  }

  /** The units of a prize that were free all the time; none if a limit or another campaign can have denied them. */
  free({ id, limits, stock: { total, awarded } }) {
    if (!this.units.has(id)) this.units.set(id, (this.taken.get(id) ?? []).reduce((sum, one) => sum + one.quantity, 0));
    const units = this.units.get(id);
    const totals = [total, ...(this.moves.get(id) ?? []).map((one) => one.total_before)];
    return limits.length || awarded > units ? 0 : Math.min(...totals.map((one) => one || Infinity)) - units;
  }

  /** [text, names of wrong rows] */
  *problems({ rewards }) {
    const isMisstated = ({ id, status }) => {
      const stated = this.states.get(id);
      return (status === "revoked") !== (stated === "revoked") || (stated === "fulfilled" && status !== "fulfilled");
    };
    yield ["rewards have the state that the audit log says", [...rewards.values()].filter(isMisstated).map((one) => one.id)];
    const isMoved = (one) => this.moves.get(one.prize_id)?.some((move) => Number(move.id) === Number(one.id) && MOVED.every((name) => move[name] === one[name]));
    yield ["stock moves are those of the audit log", this.audited.filter((one) => !isMoved(one)).map((one) => one.prize_id)];
    const isMiscounted = ([id, total]) => this.prizes.has(id) && this.prizes.get(id).stock.total !== total;
    yield ["totals of stock are those of the audit log", [...this.totals].filter(isMiscounted).map(([id]) => id)];
    const prizes = [...this.prizes.values()];
    yield ["stock moves continue each other", prizes.filter((one) => !this.continues(one)).map((one) => one.id)];
    yield ["prizes were never given beyond their stock", prizes.filter((one) => this.isOverdrawn(one)).map((one) => one.id)];
  }

  continues({ id, stock }) {
    const moves = (this.moves.get(id) ?? []).sort((a, b) => Number(a.id) - Number(b.id));
    const isNext = (one, at) => one.remaining_before >= 0 && one.remaining_after >= 0 && (!at || moves[at - 1].total_after === one.total_before);
    return moves.every(isNext) && (!moves.length || moves.at(-1).total_after === stock.total);
  }

  /** Whether more units were taken until a total ended. Returned units do not count, so it is a lower bound. */
  isOverdrawn({ id, stock }) {
    const totals = [...(this.moves.get(id) ?? []).map((one) => [one.total_before, one.created_at]), [stock.total, Infinity]];
    const units = (this.taken.get(id) ?? []).filter((one) => !one.isBack);
    const until = (end) => units.reduce((sum, one) => sum + (one.at < end ? one.quantity : 0), 0);
    return totals.some(([total, end]) => total > 0 && total < until(end));
  }
}
