// The draws of a dossier: each evidence file is read line by line, and its winners are drawn again.
// @ts-nocheck

import { createHash, createHmac } from "node:crypto";

const FORMAT = "tombola-draw-1";
const FORMS = { DRAND: /^[0-9a-f]{96}$/, DECLARED: /^([1-9]+|0)$/, INTERNAL: /^[0-9a-f]{64}$/ };
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
    this.head = head;
    this.expect(head.format === FORMAT, "the format is known");
    this.tree.add(sha256("\0", termsOf(head)));
  }

  expect(isTrue, text) {
    if (!isTrue) this.wrong.push(text);
  }

  holder({ holder, tickets }) {
    this.expect(!(this.holders.at(-1) >= holder) && tickets > 0, "the holders are in order, with tickets");
    this.tree.add(sha256("\0", `${holder} ${tickets}`));
    this.holders.push(holder);
    this.firsts.push(this.tickets);
    this.tickets += tickets;
  }

  end({ value, result, result_hash: stated }) {
    const { head } = this;
    this.expect(head.holder_count === this.holders.length && head.ticket_count === this.tickets, "the holders are as stated");
    this.expect(head.tickets_root === this.tree.root().toString("hex"), "the Merkle root is that of terms and tickets");
    const { at, kind, commitment } = head.randomness;
    if (at) this.expect(head.closed_at < at, "the tickets were frozen before the value could be known");
    this.expect(FORMS[kind].test(value), "the value has the form of its kind");
    if (kind === "INTERNAL") this.expect(sha256(value).toString("hex") === commitment, "the seed matches its published hash");
    const picks = this.draw(value);
    const isSame = picks.length === result.length && picks.every(([ticket, holder], at) => result[at].ticket === ticket && result[at].holder === holder);
    this.expect(isSame, "the ranks follow from the tickets and the value");
    const lines = picks.map(([ticket, holder], at) => `${at + 1} ${ticket} ${holder}\n`).join("");
    this.expect(sha256(lines).toString("hex") === stated, "the hash of the result matches");
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

/** Reads the evidence lines of all draws. results: contest -> the holders of its ranks. */
export class Draws {
  results = new Map();
  found = [];

  /** Returns the facts that the log has of a drawn draw, and its time; else null. */
  read(line) {
    if (line.format) this.now = new Draw(line);
    else if (line.holder !== undefined) this.now.holder(line);
    else {
      const { head, wrong } = this.now;
      this.now.end(line);
      this.results.set(head.id, line.result.map((one) => one.holder));
      this.found.push([`draw ${head.id} follows from its evidence${wrong.map((one) => `; not: ${one}`).join("")}`, !wrong.length]);
      if (head.randomness.kind === "DRAND") this.found.push([`not checked here: the signature of the drand value of draw ${head.id}`, null]);
      const { id, campaign_id, tickets_root, ticket_count } = head;
      return { kind: "draw", id, campaign_id, tickets_root, ticket_count, value: line.value, result_hash: line.result_hash };
    }
    return null;
  }

  /** The ranks whose winner is not that of the evidence. */
  wrongWinners(winners) {
    return winners
      .filter(({ of, rank, holder }) => this.results.has(of) && this.results.get(of)[rank - 1] !== holder)
      .map(({ of, rank }) => `${of} rank ${rank}`);
  }
}
