// Checks the evidence file of a draw: node draws.mjs [--root ROOT] FILE... Needs no packages, but sha256.mjs and verify.mjs beside
// it. Exits with 1 if a check fails. The page /verify and dossier.mjs run the same code, line by line.
// @ts-nocheck

import { hex, hmac, sha256 } from "./sha256.mjs";
import { parse, same } from "./verify.mjs";

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

/** Bytes of a file that are read at once, and the part of the time that reading takes. */
const [CHUNK_BYTES, READ_SHARE] = [2 ** 20, 0.8];
/** Holders that are kept, or read again, together. */
const BLOCK_HOLDERS = 256;
/** Differences of a finding that are named. */
const NAMED_MAX = 3;
/** The time of drand's first round in unix seconds, and the seconds between rounds. */
const [GENESIS, PERIOD_SECONDS] = [1_692_803_367, 3];
const roundAt = (at) => Math.max(1, Math.ceil((at - GENESIS) / PERIOD_SECONDS) + 1);
const shown = (number) => number.toLocaleString("en-US");

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

/**
 * The evidence of one draw, line by line. reread: reads the lines between two places of the file again; without it, the holders
 * are kept.
 */
export class Draw {
  tree = new Tree();
  blocks = []; // Of holders, in their order: the first holder and its first ticket, and the lines or their place.
  holders = 0;
  tickets = 0;
  last = "";
  misplaced = []; // Holders that are out of order.
  end = null; // The line with the result.
  picks = []; // The ranks, drawn again.

  constructor(head, reread = null) {
    check(head, HEAD, "evidence");
    check(head.randomness, RANDOMNESS[head.randomness.kind], "evidence.randomness");
    Object.assign(this, { head, reread });
    this.tree.add(sha256("\0", termsOf(head)));
  }

  /** The next line, and its place in the file: where it begins and ends. */
  read(line, from, to) {
    if (this.end) throw new Error("there are lines after the result");
    check(line, line.holder === undefined ? END : TICKETS, "evidence");
    if (line.holder === undefined) {
      this.end = line;
      return;
    }
    const { holder, tickets } = line;
    if (holder <= this.last) this.misplaced.push(holder);
    this.last = holder;
    if (this.holders % BLOCK_HOLDERS === 0) this.blocks.push({ holder, first: this.tickets, from, lines: [] });
    const block = this.blocks.at(-1);
    if (this.reread) block.to = to;
    else block.lines.push(line);
    this.tree.add(sha256("\0", `${holder} ${tickets}`));
    this.holders += 1;
    this.tickets += tickets;
  }

  /** {holder, tickets, first} of the line that fits; first: the number of its first ticket. null: none does. */
  async find(block, fits) {
    let first = block?.first;
    for (const line of block ? (this.reread ? await this.reread(block.from, block.to) : block.lines) : []) {
      if (fits(line, first)) return { ...line, first };
      first += line.tickets;
    }
    return null;
  }

  ownerOf = (ticket) => this.find(this.blocks.findLast((block) => block.first <= ticket), ({ tickets }, first) => ticket < first + tickets);
  holding = (holder) => this.find(this.blocks.findLast((block) => block.holder <= holder), (line) => line.holder === holder);

  /**
   * The findings {text, ok, differences}, as `tombola draws verify` has them; a difference: {field, expected, found}. Draws the
   * ranks again. root: a copy of the published root, if any. progress: awaited, with the share of the ranks that are drawn.
   */
  async findings({ root = "", progress = null } = {}) {
    const { head, end } = this;
    if (!Number.isSafeInteger(this.tickets)) return [{ text: "not checked here: a draw of more tickets than JavaScript counts", ok: null, differences: [] }];
    const found = [];
    const find = (text, ok, field, expected, stated) => found.push({ text, ok, differences: ok === false ? [{ field, expected, found: stated }] : [] });
    /** fields: the expected value of each, and the stated one. */
    const compare = (text, fields) => {
      const differences = Object.entries(fields).filter(([, [expected, stated]]) => !same(expected, stated));
      found.push({ text, ok: !differences.length, differences: differences.slice(0, NAMED_MAX).map(([field, [expected, stated]]) => ({ field, expected, found: stated })) });
    };
    const { kind, at = 0, commitment, round, source } = head.randomness;
    const computed = hex(this.tree.root());
    if (this.misplaced.length) find("the holders are in order", false, "holder", "in the order of the holders' ids", this.misplaced[0]);
    compare(`${shown(this.holders)} holders with ${shown(this.tickets)} tickets, as stated`, {
      holder_count: [this.holders, head.holder_count],
      ticket_count: [this.tickets, head.ticket_count],
    });
    compare(`the Merkle root of terms and tickets is ${computed}`, { tickets_root: [computed, head.tickets_root] });
    if (root) compare("this root was published", { tickets_root: [root, computed] });
    else find("this root was published", null);
    if (kind !== "INTERNAL") {
      const isEarly = head.closed_at < at;
      find("the tickets were frozen before the value could be known", isEarly && !root ? null : isEarly, "closed_at", `before ${at}`, head.closed_at);
    }
    if (kind === "DRAND") compare(`round ${round} is the first of its time`, { "randomness.round": [roundAt(at), round] });
    if (!end) {
      find("the winners are not drawn yet", null);
      return found;
    }
    const { value, drawn_at: drawn, result } = end;
    const earliest = Math.max(at, head.closed_at);
    find("the winners were drawn after the close, when the value could be known", drawn >= earliest, "drawn_at", `${earliest} or later`, drawn);
    if (!FORMS[kind].test(value)) {
      if (kind === "DECLARED" && EARLIER.test(value)) find(`the value has a notation of earlier versions, in which each notation gives other winners: '${value}': compare it with '${source}'`, null);
      else find("the value has the form of its kind", false, "value", `like ${FORMS[kind].source}`, value);
    } else if (kind === "INTERNAL") compare("the seed matches its published hash", { "randomness.commitment": [hex(sha256(value)), commitment] });
    else if (kind === "DRAND") find("not checked here: the signature of the drand value", null);
    else find(`the value, in digits without zeros, is '${value}': compare it with '${source}'`, null);
    await this.draw(value, progress);
    const ranks = { "result.length": [this.picks.length, result.length] };
    this.picks.forEach(({ ticket, holder }, rank) => {
      ranks[`result[${rank}].ticket`] = [ticket, result[rank]?.ticket];
      ranks[`result[${rank}].holder`] = [holder, result[rank]?.holder];
    });
    compare(`${shown(this.picks.length)} ranks follow from the tickets and the value`, ranks);
    const lines = this.picks.map(({ ticket, holder }, rank) => `${rank + 1} ${ticket} ${holder}\n`);
    compare("the hash of the result matches", { result_hash: [hex(sha256(...lines)), end.result_hash] });
    return found;
  }

  /** Word i picks one of the tickets that no earlier winner holds. */
  async draw(value, progress) {
    const { prizes, alternates, id, tickets_root: root } = this.head;
    const seed = sha256([FORMAT, id, root, value].join("\n"));
    const ranks = prizes.reduce((sum, one) => sum + one.count, alternates);
    const [picks, removed] = [[], []];
    for (let left = this.tickets; picks.length < ranks && left; ) {
      const word = hex(hmac(seed, String(picks.length)));
      let ticket = Number((BigInt(`0x${word}`) * BigInt(left)) >> 256n);
      for (const [first, count] of removed) {
        if (ticket < first) break;
        ticket += count;
      }
      const { holder, tickets, first } = await this.ownerOf(ticket);
      removed.splice(removed.filter(([earlier]) => earlier < first).length, 0, [first, tickets]);
      left -= tickets;
      picks.push({ ticket, holder });
      await progress?.(picks.length / ranks);
    }
    this.picks = picks;
  }
}

/** The lines of a file (a Blob) as bytes, and where they begin and end. */
async function* linesOf(file) {
  let [rest, from] = [new Uint8Array(), 0];
  for (let at = 0; at < file.size; at += CHUNK_BYTES) {
    const chunk = new Uint8Array(await file.slice(at, at + CHUNK_BYTES).arrayBuffer());
    const bytes = new Uint8Array(rest.length + chunk.length);
    bytes.set(rest);
    bytes.set(chunk, rest.length);
    let start = 0;
    for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, start)) {
      yield [bytes.subarray(start, end), from + start, from + end + 1];
      start = end + 1;
    }
    rest = bytes.subarray(start);
    from += start;
  }
  if (rest.length) yield [rest, from, file.size];
}

/**
 * The draw of an evidence file (a Blob), and its findings; null: the file is no such one. Throws an error that names the line
 * and the field with a wrong type. The file is read twice, and not kept. progress: awaited, with the share that is done.
 */
export async function verifyDraw(file, { root = "", progress = async (_share) => {} } = {}) {
  const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const reread = async (from, to) => (await file.slice(from, to).text()).trimEnd().split("\n").map((line) => JSON.parse(line));
  let [draw, number] = [null, 0];
  for await (const [bytes, from, to] of linesOf(file)) {
    number += 1;
    try {
      const line = parse(text.decode(bytes));
      if (draw) draw.read(line, from, to);
      else if (line.format === FORMAT) draw = new Draw(line, reread);
    } catch (error) {
      if (draw || !(error instanceof SyntaxError)) throw new Error(`line ${number}: ${error.message.replace(/^evidence\./, "")}`, { cause: error });
    }
    if (!draw) return null;
    if (number % BLOCK_HOLDERS === 0) await progress((to / file.size) * READ_SHARE);
  }
  if (!draw) return null;
  const findings = await draw.findings({ root, progress: (share) => progress(READ_SHARE + share * (1 - READ_SHARE)) });
  return { draw, findings };
}

/** Reads the evidence lines of all draws. results: contest -> its ranks, each with its holder and its prize, if any. */
export class Draws {
  results = new Map();
  all = [];
  closings = new Map(); // Draw -> the entries of its close.
  replacements = [];
  unlogged = new Set(); // Drawn draws that are not in the log.

  /** Returns the facts that the log has of a drawn draw; else null. */
  read(line) {
    if (line.format !== undefined) {
      this.all.push(new Draw(line));
      return null;
    }
    const draw = this.all.at(-1);
    if (!draw) throw new Error("the evidence of a draw has no first line");
    draw.read(line);
    if (draw.end === line) {
      const { head } = draw;
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

  /** [text, ok] of the checks of all draws. */
  async *findings() {
    for (const draw of this.all) {
      const { id, tickets_root: root, holder_count: holders, ticket_count: tickets, randomness } = draw.head;
      const closings = this.closings.get(id) ?? []; // What the log's entry of the close says, and its time.
      const found = await draw.findings({ root: closings.length ? root : "" });
      const isClosing = ([one, micro]) => one.tickets_root === root && one.ticket_count === tickets && one.holder_count === holders && (!randomness.at || micro < randomness.at * 1e6);
      found.push({ text: "the log has this close, before the value could be known", ok: closings.every(isClosing) });
      const wrong = found.filter((one) => one.ok === false);
      yield [`draw ${id} follows from its evidence${wrong.map((one) => `; not: ${one.text}`).join("")}`, !wrong.length];
      const open = found.filter((one) => one.ok === null);
      for (const { text } of open) yield [text.startsWith("not checked here: ") ? `${text} (draw ${id})` : `draw ${id}: ${text}`, null];
    }
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

// ---- node draws.mjs FILE... -------------------------------------------------------------------
if (globalThis.process?.argv?.[1]?.endsWith("draws.mjs")) {
  const { readFileSync } = process.getBuiltinModule("node:fs");
  const [given, options] = [process.argv.slice(2), {}];
  const printable = (text) => text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, "\ufffd"); // A file could otherwise print lines.
  while (given[0]?.startsWith("--")) options[given[0].slice(2)] = given.splice(0, 2)[1];
  if (!given.length) process.exitCode = 2;
  for (const path of given) {
    if (given.length > 1) console.log(path);
    try {
      const found = await verifyDraw(new Blob([readFileSync(path)]), options);
      if (!found) throw new Error("not an evidence file of a draw");
      for (const { text, ok } of found.findings) {
        console.log(`${ok === null ? "open   " : ok ? "ok     " : "FAILED "}${printable(text)}`);
        if (ok === false) process.exitCode ||= 1;
      }
    } catch (error) {
      console.log(`error  ${printable(error.message)}`);
      process.exitCode = 2;
    }
  }
}
