// Checks the receipt of a play: node verify.mjs [--commitment HASH] [--key VERIFIER_KEY] FILE...
// Needs no server, no secret and no packages. Exits with 1 if a check fails. The page /verify runs the same code.
// @ts-nocheck

const FORMAT = "tombola-receipt-1";
const [TEXT, NUMBER, AWARD] = ["", 0, { prize_id: "", quantity: 0 }]; // Each field with a value of its type.
const SHAPE = {
  ...{ format: TEXT, play_id: TEXT, game_id: TEXT, session_id: TEXT, played_at: NUMBER, revision: NUMBER, revision_hash: TEXT },
  ...{ terms: TEXT, commitment: TEXT, seed_hash: TEXT, seed: TEXT, client_seed: TEXT, payload: {}, erased: true },
  words: [{ index: NUMBER, bytes: TEXT, value: NUMBER }],
  outcome: { awards: [AWARD], credits: [{ item: TEXT, quantity: NUMBER }], metadata: {}, score: NUMBER, path: [] },
  rewards: [{ ...AWARD, reward_id: TEXT, name: TEXT, type: TEXT, value: NUMBER }],
};
const LOG = { entry: TEXT, index: NUMBER, proof: [TEXT], checkpoint: TEXT, salt: TEXT, payload: TEXT, outcome: TEXT };

const utf8 = new TextEncoder();
const hex = (bytes) => Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
const unhex = (text) => {
  if (!/^([0-9a-f]{2})*$/.test(text)) throw new Error("not in hex");
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
};
const sha256 = async (bytes) => hex(await crypto.subtle.digest("SHA-256", bytes));
const hashText = (text) => sha256(utf8.encode(text));

async function hmac(key, text) {
  const imported = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, utf8.encode(text)));
}

/** Word `index`: the first 8 bytes of the HMAC, and their value over 2^64. */
async function wordOf(key, clientSeed, index) {
  const bytes = hex((await hmac(key, `${clientSeed}:${index}`)).slice(0, 8));
  return { index, bytes, value: Number(BigInt(`0x${bytes}`)) / 2 ** 64 };
}

const isObject = (value) => value !== null && typeof value === "object";

/** JSON without two fields of one name, of which two readers could take different ones. */
export function parse(text) {
  const found = JSON.parse(text);
  const names = [...text.matchAll(/"(?:[^"\\]|\\.)*"(\s*:)?/g)].filter((match) => match[1]).length;
  const ownNames = (value) => (Array.isArray(value) ? 0 : Object.keys(value).length);
  const count = (value) => (isObject(value) ? Object.values(value).reduce((sum, one) => sum + count(one), ownNames(value)) : 0);
  if (count(found) !== names) throw new Error("two fields have one name");
  if (!isObject(found) || Array.isArray(found)) throw new Error("it is not an object");
  return found;
}

function fits(value, shape) {
  if (Array.isArray(shape)) return Array.isArray(value) && (!shape.length || value.every((one) => fits(one, shape[0])));
  if (typeof shape !== "object" || Array.isArray(value)) return typeof value === typeof shape && !Array.isArray(value);
  return isObject(value) && Object.keys(shape).every((name) => fits(value[name], shape[name]));
}

/** The steps of this kind. A plugin's own steps are any JSON values. */
const stepsOf = (path, kind) => path.filter((step) => Array.isArray(step) && step[0] === kind);

/** Whether two JSON values are equal, whatever the order of their fields. */
export function same(one, other) {
  if (!isObject(one) || !isObject(other)) return one === other;
  const names = Object.keys(one);
  if (Array.isArray(one) !== Array.isArray(other) || names.length !== Object.keys(other).length) return false;
  return names.every((name) => Object.hasOwn(other, name) && same(one[name], other[name]));
}

// ---- the draw: running sums of IEEE doubles in list order ------------------------------------
const runningSums = (weights, sum = 0) => weights.map((weight) => (sum += weight));
/** The first index at which the sum exceeds the word; -1: none. */
const pick = (sums, word) => sums.findIndex((sum) => sum > word);
/** The same for sums that end at 1, up to rounding: past them all, the last weight above 0. */
const pickCertain = (sums, word) => (pick(sums, word) < 0 ? sums.indexOf(sums.at(-1)) : pick(sums, word));
const scaled = (weights) => weights.map((weight) => weight / runningSums(weights).at(-1));

/** What a decision uses: words, and the recorded answers about stock. It records the path that it takes. */
class Trail {
  constructor(seed, clientSeed, recorded) {
    Object.assign(this, { seed, clientSeed, path: [] });
    this.answers = stepsOf(recorded, "available");
  }

  async word(index) {
    const { value } = await wordOf(this.seed, this.clientSeed, index);
    this.path.push(["word", index, value]);
    return value;
  }

  /** Whether so many units may be given. The answer is the operator's; the question must be the recorded one. */
  available(prizeId, quantity) {
    const [, id, asked, answer] = this.answers.shift() ?? [];
    if (id !== prizeId || asked !== quantity) throw new Refuted();
    this.path.push(["available", prizeId, quantity, answer]);
    return answer;
  }
}

class Refuted extends Error {}
const fallBack = ({ on_unavailable: rule, fallback_prize_id: id }, trail) => (rule === "fallback" && id && trail.available(id, 1) ? id : "");

/** Word 0 picks the prize; the rest of the range is a loss. Then the rule for unavailable prizes. */
async function drawPrize(prizes, terms, trail) {
  const index = pick(runningSums(prizes.map((one) => one.probability)), await trail.word(0));
  if (index < 0) return "";
  const drawn = prizes[index].prize_id;
  if (trail.available(drawn, 1)) return drawn;
  if (terms.on_unavailable !== "redraw") return fallBack(terms, trail);
  const answers = new Map([[drawn, false]]);
  const left = prizes.filter(({ prize_id: id, probability }) => {
    if (probability !== 0 && !answers.has(id)) answers.set(id, trail.available(id, 1));
    return probability !== 0 && answers.get(id);
  });
  if (!left.length) return "";
  return left[pickCertain(runningSums(scaled(left.map((one) => one.probability))), await trail.word(1))].prize_id;
}

const awarded = (prizeId) => (prizeId ? [{ prize_id: prizeId, quantity: 1 }] : []);
const isEmpty = (payload) => same(payload, {});
const isWhole = (number, least) => Number.isSafeInteger(number) && number >= least;

/** Handler -> its decision. A false payload check refutes the receipt. */
const HANDLERS = {
  async probability(terms, trail, payload) {
    if (!isEmpty(payload)) throw new Refuted();
    return { awards: awarded(await drawPrize(terms.handler_config.prizes, terms, trail)), credits: [], metadata: {}, score: 0 };
  },

  async lucky_item(terms, trail, payload) {
    if (!isEmpty(payload)) throw new Refuted();
    const items = terms.handler_config.items;
    const { item, quantity, slot_index } = items[pickCertain(runningSums(scaled(items.map((one) => one.weight))), await trail.word(0))];
    return { awards: [], credits: [{ item, quantity }], metadata: { item, quantity, slot_index }, score: 0 };
  },

  async score_to_tier(terms, trail, payload) {
    const { score, duration_ms: duration, ...more } = payload;
    if (!isWhole(score, 0) || !isWhole(duration, 1) || !isEmpty(more)) throw new Refuted();
    const { tiers, prize_groups: groups, max_score: most, max_score_per_second: rate } = terms.handler_config;
    if ((most && score > most) || (rate && score * 1000 > rate * duration)) throw new Refuted();
    const tier = tiers.findIndex(({ min, max }) => min <= score && score <= max);
    const group = tiers[tier]?.prize_group ?? "";
    const awards = tier < 0 ? [] : awarded(await drawPrize(groups[group], terms, trail));
    return { awards, credits: [], metadata: { tier, prize_group: group }, score };
  },

  async moments(terms, trail, payload) {
    if (!isEmpty(payload)) throw new Refuted();
    const won = terms.handler_config.prizes.find((one) => trail.available(one.prize_id, 1));
    return { awards: awarded(won ? won.prize_id : fallBack(terms, trail)), credits: [], metadata: {}, score: 0 };
  },
};
const KNOWN = [["none"], Object.keys(HANDLERS), ["basic"]];

// ---- the log: RFC 6962, and signed notes of C2SP ----------------------------------------------
const unbase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
const digest = async (...parts) =>
  new Uint8Array(await crypto.subtle.digest("SHA-256", Uint8Array.from(parts.flatMap((part) => [...part]))));

/** Whether the entry is the leaf of this index in the checkpoint's tree (RFC 9162, 2.1.3.2). */
async function isIncluded({ entry, index, proof, checkpoint }) {
  const [, size, root] = checkpoint.split("\n");
  let [node, at, last] = [await digest([0], utf8.encode(entry)), index, Number(size) - 1];
  if (!isWhole(index, 0) || !isWhole(last, index) || String(last + 1) !== size) return false;
  for (const part of proof) {
    if (last === 0) return false;
    const isRight = at % 2 === 1 || at === last;
    node = isRight ? await digest([1], unhex(part), node) : await digest([1], node, unhex(part));
    while (isRight && at % 2 === 0 && at) [at, last] = [at / 2, Math.floor(last / 2)];
    [at, last] = [Math.floor(at / 2), Math.floor(last / 2)];
  }
  return last === 0 && hex(node) === hex(unbase64(root));
}

/** Whether the key "<name>+<id>+<base64>" signed the note of its log by Ed25519. */
export async function isSigned(note, key) {
  const [, name, id, encoded] = /^(.+?)\+([0-9a-f]{8})\+(.+)$/.exec(key) ?? [];
  if (!name) throw new Error("not a verifier key");
  const end = note.lastIndexOf("\n\n") + 1;
  const lines = note.slice(end + 1).split("\n").filter((line) => line.startsWith(`\u2014 ${name} `));
  const signatures = lines.map((line) => unbase64(line.split(" ")[2])).filter((bytes) => hex(bytes.slice(0, 4)) === id);
  const imported = await crypto.subtle.importKey("raw", unbase64(encoded).slice(1), "Ed25519", false, ["verify"]);
  return signatures.length === 1 && note.startsWith(`${name}\n`) && crypto.subtle.verify("Ed25519", imported, signatures[0].slice(4), utf8.encode(note.slice(0, end)));
}

/** Whether the log's entry has the facts of the receipt. */
async function isOf(receipt, { entry, salt, payload, outcome }) {
  const [facts, stored] = [parse(entry), parse(outcome)];
  const { play_id: id, game_id, revision, revision_hash, seed, client_seed: clientSeed, played_at: playedAt } = receipt;
  const hashes = { session: await hashText(receipt.session_id), outcome: await hashText(outcome) };
  const own = { kind: "play", id, game_id, revision, revision_hash, seed, score: receipt.outcome.score, ...hashes };
  const sent = hex(await digest(unhex(salt), await digest(utf8.encode(clientSeed)), await digest(utf8.encode(payload))));
  if (!receipt.erased && facts.sent !== (clientSeed || payload !== "{}" ? sent : undefined)) return false;
  if (Math.floor(facts.at / 1e6) !== playedAt || !Object.keys(own).every((name) => facts[name] === own[name])) return false;
  return same(stored.decided, receipt.outcome) && same(stored.rewards, receipt.rewards) && same(parse(payload), receipt.payload);
}

// ---- the receipt ------------------------------------------------------------------------------
/** The findings {text, ok} of a receipt's text; ok is null for what it cannot decide. Throws if it is no receipt. */
export async function verify(text, { commitment = "", key = "" } = {}) {
  const whole = parse(text);
  const receipt = isObject(whole.data) ? whole.data : whole;
  if (receipt.format !== FORMAT) throw new Error("not the receipt of a play");
  const isLog = !receipt.log || (isObject(receipt.log) && (receipt.log.pending === true || fits(receipt.log, LOG)));
  const wrong = isLog ? Object.keys(SHAPE).find((name) => !fits(receipt[name], SHAPE[name])) : "log";
  if (wrong) throw new Error(`not the receipt of a play: ${wrong} is missing or has a wrong type`);
  const { terms: promised, revision_hash: hash, session_id: session, outcome } = receipt;
  const found = [];
  const find = (said, ok) => found.push({ text: said, ok });
  const terms = promised ? parse(promised) : null;
  const seed = unhex(receipt.seed);
  if (terms === null) find("the terms are not in the receipt: the outcome is not checked", null);
  else {
    find("the terms have their hash", (await hashText(promised)) === hash);
    find("the terms are those of the game", terms.game_id === receipt.game_id);
  }
  find("the seed has its hash", (await sha256(seed)) === receipt.seed_hash);
  find("the commitment binds seed, terms and session", (await hashText(`${receipt.seed_hash}:${hash}:${session}`)) === receipt.commitment);
  if (commitment) find("the start returned this commitment", commitment === receipt.commitment);
  else find("the start returned this commitment: compare it with your copy", null);
  const [head, , revision] = session.split(".");
  const names = `play_${head.slice(5, 31)}` === receipt.play_id && revision.split("-")[0] === hash.slice(0, 32);
  find("the session is that of the play and the terms", names);
  if (receipt.erased) find("the player's data was erased: words and outcome cannot be checked", null);
  else {
    const words = await Promise.all(stepsOf(outcome.path, "word").map((step) => wordOf(seed, receipt.client_seed, step[1])));
    find("the words follow from the seeds", same(receipt.words, words));
    if (terms !== null) await decide();
  }
  const withheld = new Set(stepsOf(outcome.path, "available").filter((step) => !step[3]).map((step) => step[1]));
  if (withheld.size) find(`unavailable, as the operator states: ${[...withheld].join(", ")}`, null);
  if (receipt.log && !receipt.log.pending) {
    find("the log's entry is that of the play", await isOf(receipt, receipt.log));
    find("the entry is in the log of the checkpoint", await isIncluded(receipt.log));
    if (key) find("the checkpoint is signed by the key", await isSigned(receipt.log.checkpoint, key));
    else find("the checkpoint is signed: give the log's key to check it", null);
  } else {
    if (receipt.log) find("pending: the play is not in the log yet", key && !(Math.abs(Date.now() / 1e3 - receipt.played_at) < 600) ? false : null);
    else if (key) find("the receipt contains the log of the key", false);
    const free = {
      client_seed: !receipt.words.length,
      duration_ms: Object.hasOwn(receipt.payload, "duration_ms"),
      reward_id: receipt.rewards.some((one) => one.prize_id),
      slot_index: Object.hasOwn(outcome.metadata, "slot_index") && terms?.reward_handler !== "lucky_item",
    };
    const notFixed = ["played_at", "revision", ...Object.keys(free).filter((name) => free[name])];
    find(`not fixed by the start: ${notFixed.join(", ")}`, null);
  }
  const unknown = Object.keys(receipt).filter((name) => name !== "log" && !Object.hasOwn(SHAPE, name));
  if (unknown.length) find(`unknown, not checked: ${unknown.sort().join(", ")}`, null);
  return found;

  /** Decides the play again, and compares outcome and rewards. */
  async function decide() {
    const others = [terms.seed_generator, terms.reward_handler, terms.validator].filter((name, i) => !KNOWN[i].includes(name));
    if (others.length) find(`the outcome is not decided again here: ${others.join(", ")}`, null);
    else {
      // The terms do not say where a wheel stops, except for lucky_item.
      const { slot_index: slot, ...metadata } = outcome.metadata;
      const recorded = terms.reward_handler === "lucky_item" ? { ...metadata, slot_index: slot } : metadata;
      find("the outcome follows from terms and words", same(await again(), { ...outcome, metadata: recorded }));
    }
    const units = {};
    const add = (id, name, quantity) => (units[JSON.stringify([id, name])] = (units[JSON.stringify([id, name])] ?? 0) + quantity);
    for (const one of receipt.rewards) add(one.prize_id, one.prize_id ? 0 : one.name, one.quantity);
    for (const one of outcome.awards) add(one.prize_id, 0, -one.quantity);
    for (const one of outcome.credits) add("", one.item, -one.quantity);
    find("the rewards are those of the outcome", Object.values(units).every((quantity) => quantity === 0));
    const isDescribed = ({ prize_id: id, name, type, value, reward_id: reward }) =>
      id ? terms.prizes.some((one) => same([id, name, type, value], one)) : type === "item" && value === 0 && !reward;
    find("the rewards are described as in the terms", receipt.rewards.every(isDescribed));
  }

  async function again() {
    const trail = new Trail(seed, receipt.client_seed, outcome.path);
    const decided = HANDLERS[terms.reward_handler](terms, trail, receipt.payload).catch((error) => {
      if (!(error instanceof Refuted)) throw error;
    });
    return (await decided) ? { ...(await decided), path: trail.path } : null;
  }
}

// ---- node verify.mjs FILE... ------------------------------------------------------------------
if (globalThis.process?.argv?.[1]?.endsWith("verify.mjs")) {
  const { readFileSync } = process.getBuiltinModule("node:fs");
  const [given, options] = [process.argv.slice(2), {}];
  const printable = (text) => text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, "\ufffd"); // A file could print lines of its own.
  while (given[0]?.startsWith("--")) options[given[0].slice(2)] = given.splice(0, 2)[1];
  if (!given.length) process.exitCode = 2;
  for (const file of given) {
    if (given.length > 1) console.log(file);
    try {
      for (const { text, ok } of await verify(readFileSync(file, "utf8"), options)) {
        console.log(`${ok === null ? "open   " : ok ? "ok     " : "FAILED "}${printable(text)}`);
        if (ok === false) process.exitCode ||= 1;
      }
    } catch (error) {
      console.log(`error  ${printable(error.message)}`);
      process.exitCode = 2;
    }
  }
}
