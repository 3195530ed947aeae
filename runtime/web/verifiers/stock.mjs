// Games, boards, prizes, stock and states of a dossier, compared with its audit entries; and what their hash is of.
// @ts-nocheck

const PERSON = /person:[0-9a-f]{64}/g;
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
const MOVED = ["total_before", "total_after", "remaining_before", "remaining_after"];

const last = (text) => text.split("_").at(-1).toLowerCase();
/** Replaces what an earlier entry said. */
const put = (map, key, audit, value) => (map.get(key)?.audit > audit ? map : map.set(key, { audit, value }));

/** What the checks use of a line about a game, board or prize. */
const FACTS = {
  game({ milestones: block, isOwn }) {
    const rungs = (block?.rungs ?? []).map((one) => [one.id, one.currency, one.threshold, one.prize_id]);
    return [isOwn, rungs, rungs.length && [/spend_exchange$/i.test(block.mode), block.auto_grant]];
  },
  board({ metric, mode, game_id, start_date, end_date, prizes }) {
    return [last(metric), last(mode), game_id, start_date, end_date, prizes.map((one) => [one.from_rank, one.to_rank, one.prize_id])];
  },
  prize: ({ campaign_id, limits }) => [campaign_id, [...limits].sort()],
};

/** The same from an audit entry; undefined: it says nothing about them. */
function audited(kind, after) {
  if (kind === "game" && after?.definition) return FACTS.game({ ...after.definition, isOwn: !["merchant", "tenant"].includes(after.definition.wallet_scope) });
  if (kind === "leaderboard" && after?.metric) return FACTS.board(after);
  if (kind !== "prize" || !after?.channel) return undefined;
  const limits = ["max_per_user", "max_per_day", "release"].filter((name) => after[name]);
  if (after.status !== "active") limits.push("status");
  if (after.channel === "voucher_code") limits.push("codes");
  return FACTS.prize({ ...after, limits });
}

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

  stated = new Map(); // Game, board or prize -> its kind and facts.
  entries = new Map(); // The same -> what audit entries say.

  prize(prize) {
    this.prizes.set(prize.id, prize);
    this.state("prize", prize);
  }

  state(kind, one) {
    this.stated.set(one.id, { kind, facts: JSON.stringify(FACTS[kind](one)) });
  }

  move(move) {
    this.moves.set(move.prize_id, [...(this.moves.get(move.prize_id) ?? []), move]);
  }

  /** Units of a prize that were won. Points take no stock. */
  take({ prize_id: prizeId, type, quantity, status = "" }, at) {
    if (type === "points") return;
    if (!this.taken.has(prizeId)) this.taken.set(prizeId, []);
    this.taken.get(prizeId).push({ quantity, at, isBack: ["revoked", "expired", "failed"].includes(status) });
  }

  /** isWhole: the log has all of the entry. */
  audit({ id: audit, action, subject_type: type, subject_id: subject, after }, isWhole) {
    const facts = JSON.stringify(audited(type, after));
    if (facts) this.entries.set(subject, [...(this.entries.get(subject) ?? []), { audit, facts, isWhole }]);
    if (action === "player.merge_surplus") for (const id of after.rewards) put(this.states, id, audit, "revoked");
    if (type === "reward" && after?.status !== undefined) put(this.states, subject, audit, after.status);
    if (action === "prize.move_stock") this.audited.push({ ...after, prize_id: subject });
    const total = action === "prize.move_stock" ? after.total_after : type === "prize" ? after?.total : undefined;
    if (total !== undefined) put(this.totals, subject, audit, total);
  }

  /** Whether a line differs from the last entry that the log has whole, and from those after it. */
  isMisstated([id, { facts }]) {
    const entries = this.entries.get(id) ?? [];
    const whole = entries.some((one) => one.isWhole) ? entries.filter((one) => one.isWhole) : entries;
    const newest = whole.map((one) => one.audit).sort().at(-1);
    return entries.length > 0 && !entries.some((one) => one.audit >= newest && one.facts === facts);
  }

  /** The games, boards and prizes that no audit entry is about. */
  unaudited(closings) {
    return [...this.stated].filter(([id, { kind }]) => !this.entries.has(id) || (kind === "board" && !closings.has(id)));
  }

  /** The units of a prize that the file has. */
  counted(id) {
    if (!this.units.has(id)) this.units.set(id, (this.taken.get(id) ?? []).reduce((sum, one) => sum + one.quantity, 0));
    return this.units.get(id);
  }

  /** Whether the file has all units of a prize: none went to another campaign. */
  isCounted({ id, stock: { awarded } }) {
    return awarded <= (this.taken.get(id) ?? []).reduce((sum, one) => sum + (one.isBack ? 0 : one.quantity), 0);
  }

  /** The totals of a prize's stock, and when each was in force. */
  periods(prize) {
    const moves = [...(this.moves.get(prize.id) ?? [])].sort((a, b) => a.created_at - b.created_at);
    const totals = [...moves.map((one) => [one.total_before, one.created_at]), [prize.stock.total, Infinity]];
    return totals.map(([total, until], at) => ({ total: total || Infinity, since: at ? totals[at - 1][1] : 0, until }));
  }

  /** The units of a prize that were free all the time; none if a limit or another campaign can have denied them. */
  free(prize) {
    if (prize.limits.length || !this.isCounted(prize)) return 0;
    return Math.min(...this.periods(prize).map(({ total }) => total)) - this.counted(prize.id);
  }

  /** [text, names of wrong rows] */
  *problems({ rewards }) {
    const isMisstated = ({ id, status }) => {
      const stated = this.states.get(id)?.value;
      return (status === "revoked") !== (stated === "revoked") || (stated === "fulfilled" && status !== "fulfilled");
    };
    yield ["rewards have the state that the audit log says", [...rewards.values()].filter(isMisstated).map((one) => one.id)];
    const isMoved = (one) => this.moves.get(one.prize_id)?.some((move) => Number(move.id) === Number(one.id) && MOVED.every((name) => move[name] === one[name]));
    yield ["stock moves are those of the audit log", this.audited.filter((one) => !isMoved(one)).map((one) => one.prize_id)];
    for (const kind of Object.keys(FACTS)) {
      const wrong = [...this.stated].filter((one) => one[1].kind === kind && this.isMisstated(one));
      yield [`${kind}s are those of the audit log`, wrong.map(([id]) => id)];
    }
    const isMiscounted = ([id, { value: total }]) => this.prizes.has(id) && this.prizes.get(id).stock.total !== total;
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
