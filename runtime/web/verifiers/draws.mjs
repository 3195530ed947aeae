// The draws of a dossier: each evidence file is read line by line, and its winners are drawn again.
// @ts-nocheck

import { createHash, createHmac } from "node:crypto";

const FORMAT = "tombola-draw-1";
const FORMS = { DRAND: /^[0-9a-f]{96}$/, DECLARED: /^([1-9]+|0)$/, INTERNAL: /^[0-9a-f]{64}$/ };
/** A declared value of earlier versions: numbers without leading zeros and words in capitals, with single spaces. */
const EARLIER = /^([1-9][0-9]*|0|[A-Z]+)( ([1-9][0-9]*|0|[A-Z]+))*$/;
/** The last second of the year 9999 in every time zone. */
const TIME_MAX = 253402214399;
const whole = (least) => [`a whole number from ${least} to ${2n ** 63n - 1n}`, (value) => Number.isInteger(value) && value >= least && value < 2 ** 63];
const TEXT = ["a text", (value) => typeof value === "string"];
const HOLDER = ["a pseudonym", (value) => typeof value === "string" && /^\p{ASCII}*$/u.test(value)];
const TIME = ["a time in whole unix seconds, at most in the year 9999", (value) => Number.isInteger(value) && value > 0 && value <= TIME_MAX];
/** The fields of each kind of line, with what they must be. */
const HEAD = {
  ...{ id: TEXT, campaign_id: TEXT, name: TEXT, tickets: {}, prizes: { each: { prize_id: TEXT, count: whole(1) } }, alternates: whole(0) },
  ...{ tickets_root: TEXT, ticket_count: whole(0), holder_count: whole(0), closed_at: TIME },
  randomness: { kind: [`one of ${Object.keys(FORMS).join(", ")}`, (value) => Object.hasOwn(FORMS, value)] },
};
const RANDOMNESS = {
  DRAND: { at: TIME, round: whole(1) },
  DECLARED: { at: TIME, source: TEXT },
  INTERNAL: { commitment: TEXT, at: [TIME[0], (value) => value === undefined || TIME[1](value)] },
};
const TICKETS = { holder: HOLDER, tickets: whole(1) };
const END = { value: TEXT, result: { each: { ticket: whole(0), holder: HOLDER } }, result_hash: TEXT, drawn_at: TIME };

/** Throws an error that names the first field that is missing or wrong. */
function check(value, shape, name) {
  if (Array.isArray(shape)) {
    if (!shape[1](value)) throw new Error(`${name} must be ${shape[0]}`);
  } else if (shape.each) {
    if (!Array.isArray(value)) throw new Error(`${name} must be a list`);
    value.forEach((one, at) => check(one, shape.each, `${name}[${at}]`));
  } else {
    if (!value || typeof value !== "object" || Array.isArray(value)) throw new Error(`${name} must be an object`);
    for (const [field, part] of Object.entries(shape)) check(Object.hasOwn(value, field) ? value[field] : undefined, part, `${name}.${field}`);
  }
}

const sha256 = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash("sha256")).digest();

/** The root of RFC 6962 over hashes added one by one. */
export class Tree {
  size = 0;
  peaks = [];

  add(hash) {
    this.size += 1;
    this.peaks.push(hash);
    for (let size = this.size; size % 2 === 0; size /= 2) this.peaks.push(sha256("\x01", ...this.peaks.splice(-2)));
  }

  root() {
    return this.peaks.length ? this.peaks.reduceRight((right, left) => sha256("\x01", left, right)) : sha256("");
  }
}

/** JSON with sorted names and without spaces. */
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (!value || typeof value !== "object") return JSON.stringify(value);
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
}

/** What the first leaf fixes together with the tickets. */
function termsOf({ id, campaign_id, name, tickets, prizes, alternates, randomness }) {
  const shown = Object.entries(randomness).filter(([key, value]) => !["value", "key_id"].includes(key) && isSet(value));
  return canonical({ id, campaign_id, name, tickets, prizes, alternates, randomness: Object.fromEntries(shown) });
}
const isSet = (value) => (value && typeof value === "object" ? Object.keys(value).length > 0 : !!value);

class Draw {
  tree = new Tree();
  holders = [];
  firsts = []; // The number of each holder's first ticket.
  tickets = 0;
  wrong = [];

  constructor(head) {
    check(head, HEAD, "evidence");
    check(head.randomness, RANDOMNESS[head.randomness.kind], "evidence.randomness");
    this.head = head;
    this.expect(head.format === FORMAT, "the format is known");
    this.tree.add(sha256("\0", termsOf(head)));
  }

  expect(isTrue, text) {
    if (!isTrue) this.wrong.push(text);
  }

  holder({ holder, tickets }) {
    this.expect(!(this.holders.at(-1) >= holder), "the holders are in order");
    this.tree.add(sha256("\0", `${holder} ${tickets}`));
    this.holders.push(holder);
    this.firsts.push(this.tickets);
    this.tickets += tickets;
  }

  end({ value, result, result_hash: stated, drawn_at: drawn }) {
    const { at = 0, kind, commitment } = this.head.randomness;
    this.value = value;
    this.expect(drawn >= Math.max(at, this.head.closed_at), "the winners were drawn after the close, when the value could be known");
    this.expect(FORMS[kind].test(value) || (kind === "DECLARED" && EARLIER.test(value)), "the value has the form of its kind");
    if (kind === "INTERNAL") this.expect(sha256(value).toString("hex") === commitment, "the seed matches its published hash");
    const picks = this.draw(value);
    const isSame = picks.length === result.length && picks.every(([ticket, holder], at) => result[at].ticket === ticket && result[at].holder === holder);
    this.expect(isSame, "the ranks follow from the tickets and the value");
    const lines = picks.map(([ticket, holder], at) => `${at + 1} ${ticket} ${holder}\n`).join("");
    this.expect(sha256(lines).toString("hex") === stated, "the hash of the result matches");
  }

  /** [text, ok] of the checks. closings: [what the log's entry of the close says, its time]. */
  *findings(closings) {
    const { id, tickets_root: root, holder_count: holders, ticket_count: tickets, closed_at: closed } = this.head;
    const { kind, at = 0, source } = this.head.randomness;
    if (!Number.isSafeInteger(this.tickets)) return yield [`not checked here: draw ${id}, of more tickets than JavaScript counts`, null];
    this.expect(holders === this.holders.length && tickets === this.tickets, "the holders are as stated");
    this.expect(root === this.tree.root().toString("hex"), "the Merkle root is that of terms and tickets");
    if (kind !== "INTERNAL") this.expect(closed < at, "the tickets were frozen before the value could be known");
    const isClosing = ([one, micro]) => one.tickets_root === root && one.ticket_count === tickets && one.holder_count === holders && (!at || micro < at * 1e6);
    this.expect(closings.every(isClosing), "the log has this close, before the value could be known");
    yield [`draw ${id} follows from its evidence${this.wrong.map((one) => `; not: ${one}`).join("")}`, !this.wrong.length];
    if (!closings.length) yield [`draw ${id}: this root was published`, null];
    if (this.value === undefined) yield [`draw ${id}: the winners are not drawn yet`, null];
    else if (kind === "DRAND") yield [`not checked here: the signature of the drand value of draw ${id}`, null];
    else if (kind === "DECLARED" && !FORMS[kind].test(this.value)) yield [`draw ${id}: the value has a notation of earlier versions, in which each notation gives other winners: '${this.value}': compare it with '${source}'`, null];
    else if (kind === "DECLARED") yield [`draw ${id}: the value, in digits without zeros, is '${this.value}': compare it with '${source}'`, null];
  }

  /** Word i picks one of the tickets that no earlier winner holds. */
  draw(value) {
    const { prizes, alternates, id, tickets_root: root } = this.head;
    const seed = sha256([FORMAT, id, root, value].join("\n"));
    const ranks = prizes.reduce((sum, one) => sum + one.count, alternates);
    const [picks, removed] = [[], []];
    for (let left = this.tickets; picks.length < ranks && left; ) {
      const word = createHmac("sha256", seed).update(String(picks.length)).digest("hex");
      let ticket = Number((BigInt(`0x${word}`) * BigInt(left)) >> 256n);
      for (const [first, count] of removed) {
        if (ticket < first) break;
        ticket += count;
      }
      const at = this.ownerOf(ticket);
      const count = (this.firsts[at + 1] ?? this.tickets) - this.firsts[at];
      removed.splice(removed.filter(([first]) => first < this.firsts[at]).length, 0, [this.firsts[at], count]);
      left -= count;
      picks.push([ticket, this.holders[at]]);
    }
    return picks;
  }

  ownerOf(ticket) {
    let [low, high] = [0, this.firsts.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (this.firsts[middle] <= ticket) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

/** Reads the evidence lines of all draws. results: contest -> its ranks, each with its holder and its prize, if any. */
export class Draws {
  results = new Map();
  all = [];
  closings = new Map(); // Draw -> the entries of its close.
  replacements = [];
  unlogged = new Set(); // Drawn draws that are not in the log.

  /** Returns the facts that the log has of a drawn draw, and its time; else null. */
  read(line) {
    if (line.format !== undefined) {
      this.all.push(new Draw(line));
      return null;
    }
    const draw = this.all.at(-1);
    if (!draw) throw new Error("the evidence of a draw has no first line");
    check(line, line.holder === undefined ? END : TICKETS, "evidence");
    if (line.holder !== undefined) draw.holder(line);
    else {
      const { head } = draw;
      draw.end(line);
      this.results.set(head.id, line.result.map(({ holder }) => ({ holder, prize: "", isReplaced: false })));
      if (line.entry === undefined) this.unlogged.add(head.id);
      let rank = 0;
      for (const { prize_id, count } of head.prizes) for (const one of this.results.get(head.id).slice(rank, (rank += count))) one.prize = prize_id;
      const { id, campaign_id, tickets_root, ticket_count } = head;
      return { kind: "draw", id, campaign_id, tickets_root, ticket_count, value: line.value, result_hash: line.result_hash };
    }
    return null;
  }

  /** An audit entry. micro: its time, if the log has the whole of it. */
  audit({ id: audit, action, subject_id: id, after, entry }, micro) {
    if (action === "draw.replace") this.replacements.push({ ...after, audit, of: id, isLogged: entry !== undefined });
    if (action === "draw.close" && micro) this.closings.set(id, [...(this.closings.get(id) ?? []), [after, micro]]);
  }

  findings() {
    return this.all.flatMap((draw) => [...draw.findings(this.closings.get(draw.head.id) ?? [])]);
  }

  /** Moves each replaced rank's prize to its alternate. Returns the ranks for which an entry does not fit, and those passed over. */
  replace() {
    const [wrong, passedOver] = [[], []];
    for (const { of, rank, alternate } of this.replacements.sort((a, b) => (a.audit < b.audit ? -1 : 1))) {
      const ranks = this.results.get(of) ?? [];
      const [from, to] = [ranks[rank - 1], ranks[alternate - 1]];
      if (!ranks.length) continue;
      if (!from?.prize || from.isReplaced || to?.prize !== "") wrong.push(`${of} rank ${rank}`);
      else {
        ranks.forEach((one, at) => at + 1 < alternate && !one.prize && passedOver.push(`${of} rank ${at + 1}`));
        Object.assign(to, { prize: from.prize });
        Object.assign(from, { isReplaced: true });
      }
    }
    return [wrong, passedOver];
  }

  /** Drops what came after the winners were read. Returns the names of its ranks. */
  dropLater(winners) {
    const isOpen = (of, rank) => winners.some((one) => one.of === of && one.rank === rank && one.reason !== "REPLACED");
    const replaced = this.replacements.filter(({ isLogged, of, rank }) => !isLogged && isOpen(of, rank));
    this.replacements = this.replacements.filter((one) => !replaced.includes(one));
    const drawn = [...this.unlogged].filter((id) => !winners.some(({ of }) => of === id));
    const names = drawn.flatMap((of) => this.results.get(of).map((_, at) => `${of} rank ${at + 1}`));
    for (const id of drawn) this.results.delete(id);
    return [...names, ...replaced.flatMap(({ of, rank, alternate }) => [`${of} rank ${rank}`, `${of} rank ${alternate}`])];
  }

  /** [text, names of wrong rows, whether they are open rather than wrong] */
  *problems(winners, rewards) {
    const later = this.dropLater(winners);
    const [[wrong, passedOver], waiting, stated] = [this.replace(), [], new Map()];
    for (const one of winners.filter(({ of }) => this.results.has(of))) {
      const name = `${one.of} rank ${one.rank}`;
      if (stated.has(name)) wrong.push(name);
      stated.set(name, one);
      if (one.prize_id && !["", "REPLACED"].includes(one.reason)) waiting.push(`${name} (${one.reason})`);
    }
    for (const [of, ranks] of this.results)
      for (const [at, { holder, prize, isReplaced }] of ranks.entries()) {
        const name = `${of} rank ${at + 1}`;
        const { reason, reward_id: id, ...one } = stated.get(name) ?? {};
        const status = rewards.get(id)?.status; // An awarded rank has a reward and an empty reason.
        const isAwarded = isReplaced ? [undefined, "revoked", "expired"].includes(status) : reason !== "" || status;
        if (one.holder !== holder || one.prize_id !== prize || (reason === "REPLACED") !== isReplaced || !isAwarded) wrong.push(name);
        stated.delete(name);
      }
    yield ["winners are those of the evidence", [...wrong, ...stated.keys()].filter((name) => !later.includes(name))];
    yield ["winners are those of the evidence: the others were drawn or replaced later", later, true];
    yield ["alternates were called in order: the skipped ones may be suspended or erased, which only the operator knows", passedOver, true];
    yield ["drawn ranks have their reward: the others have none, as the operator states", waiting, true];
  }
}
