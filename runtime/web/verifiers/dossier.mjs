// Checks the dossier of a campaign: node dossier.mjs [--key VERIFIER_KEY] [--tsa ROOT.pem] FILE. Needs no packages, but the
// other programs of the file beside it. Exits with 1 if a check fails. `open` are checks that it cannot decide; the lines
// that begin with "not checked here" name what `tombola verify` checks in addition. Memory grows with the plays.
// @ts-nocheck

import { createHash } from "node:crypto";
import { createReadStream, readFileSync } from "node:fs";
import { Awards } from "./awards.mjs";
import { Draws, Tree } from "./draws.mjs";
import { Releases } from "./releases.mjs";
import { verifyStamp } from "./stamps.mjs";
import { isSameButPersons, Stock } from "./stock.mjs";
import { isSigned, parse, verify } from "./verify.mjs";

const sha256 = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash("sha256")).digest();
const hex = (text) => sha256(text).toString("hex");
const printable = (text) => text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, "\ufffd");
const base64 = (bytes) => Buffer.from(bytes).toString("base64");
const seconds = (iso) => Math.floor(Date.parse(iso) / 1e3);

/** The findings of a receipt that a play of a dossier has too: it is without its whole session and its words. */
const KEPT = /^(the terms|the session|the outcome|the rewards)/;
/** Rows without an entry: a row so much older than the log's last mark has one. */
const BACKDATED_SECONDS = 60;
const PROGRAMS = ["verify.mjs", "dossier.mjs", "awards.mjs", "draws.mjs", "stamps.mjs", "stock.mjs", "releases.mjs", "sha256.mjs"];

/** Kinds of lines that a file has once, or once for each id. */
const [ONCE, ONCE_EACH] = [["head", "checkpoint", "stamp", "mark"], ["play", "reward", "game", "board", "prize", "audit"]];

/** The lines with their ends. Not node:readline, which also splits at characters within texts. */
async function* linesOf(path) {
  let rest = Buffer.alloc(0);
  for await (const chunk of createReadStream(path)) {
    rest = Buffer.concat([rest, chunk]);
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      yield rest.subarray(0, end + 1);
      rest = rest.subarray(end + 1);
    }
  }
  if (rest.length) yield rest;
}

const [tree, leaves, roots, digest, counts, terms] = [new Tree(), [], new Map(), createHash("sha256"), {}, new Map()];
const [awards, draws, stock, releases] = [new Awards(), new Draws(), new Stock(), new Releases()];
const [plays, rewards, won, winners, wrong, opened] = [new Map(), new Map(), new Map(), [], new Map(), new Map()];
const [unlogged, seen] = [[], new Set()];
let moved = 0; // Rewards that another winner has, perhaps without a merge.
let [head, end, note, mark, stamp] = [null, null, "", "", null];
const fail = (text, ...ids) => wrong.set(text, [...(wrong.get(text) ?? []), ...ids]);
const count = (text) => opened.set(text, (opened.get(text) ?? 0) + 1);

/** Compares a line with its entry in the log. Returns the entry's time, or else the line's, in microseconds. */
function logged(kind, { entry, leaf_index: index }, at, own) {
  if (entry === undefined) {
    unlogged.push([own.id, at]);
    return at * 1e6;
  }
  const facts = parse(entry);
  const isFact = (name) => (name === "value" && kind === "rewards" ? Number(facts.value) : facts[name]) === own[name];
  const isLeaf = leaves[index]?.equals(sha256("\x00", entry));
  if (!isLeaf || Math.floor(facts.at / 1e6) !== at || !Object.keys(own).every(isFact)) fail(`${kind} are those of the log`, own.id);
  return facts.at;
}

const READERS = {
  head: (value) => (head = value),
  checkpoint: (text) => (note = text),
  stamp: (value) => (stamp = value),
  mark: (text) => (mark = text),
  opening: (text) => releases.opening(text),
  prize: (prize) => stock.prize(prize),
  stock_move: (move) => stock.move(move),
  winner: (winner) => winners.push(winner),
  verifier: ({ name, sha256: hashed, text }) => (hex(text) !== hashed || !PROGRAMS.includes(name)) && fail("programs have their hashes", name),

  terms(text) {
    terms.set(hex(text), text);
    releases.terms(hex(text), text);
  },

  game(game) {
    awards.game(game);
    stock.state("game", { ...game, isOwn: game.scope === head.campaign.id });
  },

  board(board) {
    awards.board(board);
    stock.state("board", board);
  },

  ledger(one) {
    const { id, scope_key, currency, amount, reference_id } = one;
    const own = { kind: "adjustment", id, scope_key, currency, amount, reference_id };
    if (one.reason === "adjustment" && one.entry !== undefined) logged("adjustments", one, seconds(one.created_at), own);
    awards.ledger(one);
  },

  leaves(tile) {
    const hashes = Buffer.from(tile, "base64");
    for (let at = 0; at < hashes.length; at += 32) {
      leaves.push(hashes.subarray(at, at + 32));
      tree.add(leaves.at(-1));
      if (stamp && tree.size === Number(stamp.checkpoint.split("\n")[1])) roots.set(tree.size, base64(tree.root()));
    }
  },

  async play(play) {
    const [stored, unnamed] = [parse(play.outcome), []]; // Of the latter: units without a reward of their own.
    for (const one of stored.rewards) {
      if (one.reward_id) won.set(one.reward_id, { ...one, play_id: play.id });
      else if (one.prize_id) stock.take(one, play.played_at);
      if (!one.reward_id && one.prize_id && one.type !== "points") unnamed.push([one.prize_id, one.quantity]);
    }
    releases.play(play, stored);
    const counted = awards.play(play, stored);
    const { id, game_id, revision, revision_hash, seed, client_seed } = play;
    const own = { kind: "play", id, game_id, revision, revision_hash, seed, ...counted, outcome: hex(play.outcome) };
    const micro = logged("plays", play, play.played_at, own);
    const high = play.entry === undefined ? micro + 999_999 : micro; // Without an entry it was in this second.
    plays.set(id, { id, player: play.player, game: game_id, at: play.played_at, micro, high, unnamed, ...counted });
    if (!terms.has(revision_hash)) return fail("plays have their terms", id);
    const receipt = {
      ...{ format: "tombola-receipt-1", play_id: id, game_id, session_id: play.session, played_at: play.played_at, revision },
      ...{ revision_hash, terms: terms.get(revision_hash), commitment: play.commitment, seed_hash: "", seed, client_seed },
      ...{ payload: parse(play.payload), words: [], outcome: stored.decided, rewards: stored.rewards, erased: play.erased },
    };
    for (const { text, ok } of await verify(JSON.stringify(receipt))) {
      if (ok === false && KEPT.test(text)) fail(`plays: ${text}`, id);
      if (ok === null && text.startsWith("the outcome")) count(text);
    }
    if (play.erased) count("plays were erased with their players");
  },

  reward(reward) {
    const { id, play_id, prize_id, milestone_id, game_id, type, value, quantity, prize: name } = reward;
    const at = seconds(reward.won_at);
    const micro = logged("rewards", reward, at, { kind: "reward", id, play_id, prize_id, milestone_id, game_id, type, value, quantity, name });
    rewards.set(id, { ...reward, at, micro });
    stock.take(reward, at);
    const expected = won.get(id);
    const shown = { play_id, prize_id, name, type, value, quantity };
    if (expected && Object.keys(shown).some((key) => expected[key] !== shown[key])) fail("rewards are those of their plays", id);
  },

  evidence(line) {
    const own = draws.read(line);
    if (own) logged("draws", line, line.drawn_at, own);
  },

  audit(entry) {
    const { id, action, line } = entry;
    const own = { kind: "audit", id, action };
    if (line === undefined) count("audit entries: only their action and time are compared with the log");
    else {
      const shown = ["subject_type", "subject_id", "before", "after", "trace_id", "merchant_id"].map((name) => entry[name]);
      own.row = isSameButPersons(JSON.parse(line), shown) ? hex(line) : "";
    }
    const micro = logged("audit entries", entry, seconds(entry.created_at), own);
    awards.audit(entry, micro);
    const isWhole = line !== undefined && entry.entry !== undefined;
    draws.audit(entry, isWhole ? micro : 0);
    stock.audit(entry, isWhole);
    releases.audit(entry);
  },
};

async function read(path) {
  for await (const line of linesOf(path)) {
    if (end) throw new Error("there are lines after the end");
    const [[kind, value], ...more] = Object.entries(parse(line.toString()));
    if (more.length || (!counts.head && kind !== "head")) throw new Error("a line is malformed");
    const name = ONCE_EACH.includes(kind) ? `${kind} ${value.id}` : kind;
    if (seen.has(name)) throw new Error(`there are two lines: ${name}`);
    if (ONCE.includes(kind) || name !== kind) seen.add(name);
    counts[kind] = (counts[kind] ?? 0) + 1;
    if (kind === "end") end = value;
    else digest.update(line);
    await READERS[kind]?.(value);
  }
}

/** The time before which every row is in the log. Without its last mark: that of the newest play, less the same margin. */
function loggedUntil() {
  const newest = [...plays.values()].reduce((last, one) => Math.max(last, one.micro), 0);
  return (mark ? Number(parse(mark).id.split(" ")[0]) : newest) / 1e6 - BACKDATED_SECONDS;
}

/** The findings about the log: its root, signature, last mark, stamp, and rows that are not in it. */
async function* ofLog(key, pem) {
  const [, size, root] = note.split("\n");
  if (!note) yield key ? ["the file contains the log of the key", false] : ["the file has no log", null];
  else {
    yield ["the leaves of the log have the root of the checkpoint", Number(size) === tree.size && root === base64(tree.root())];
    if (key) yield ["the checkpoint is signed by the key", await isSigned(note, key)];
    else yield ["the checkpoint is signed: give the log's key to check it", null];
    const isMark = !!mark && parse(mark).kind === "mark" && leaves.at(-1).equals(sha256("\x00", mark));
    yield ["the log ends with a mark", mark ? isMark : null];
  }
  if (stamp || pem) yield ofStamp(pem);
  const until = loggedUntil();
  const isLate = ([, at]) => !mark || at >= until;
  for (const [id] of unlogged.filter((one) => !isLate(one))) fail("rows are in the log", id);
  const waiting = unlogged.filter(isLate).length;
  if (waiting) yield [`${waiting} rows are not in the log yet: write the dossier again`, null];
}

function ofStamp(pem) {
  if (!stamp) return ["the file has a stamp of its log", false];
  const [, size, root] = stamp.checkpoint.split("\n");
  const text = `the log's first ${size} leaves were stamped`;
  if (!pem) return [`${text}: give the authority's root certificate (--tsa) to check it`, null];
  if (roots.get(Number(size)) !== root) return [`${text}: the stamp is of another log`, false];
  try {
    const at = verifyStamp(Buffer.from(stamp.stamp, "base64"), stamp.checkpoint, pem);
    return [`${text} by the authority at ${at.toISOString()}`, true];
  } catch (error) {
    return [`${text}: ${error.message}`, false];
  }
}

/** Rewards that belong to no play, milestone or rank, or to another player; and those that plays won but the file lacks. */
function ofRewards() {
  for (const [id, one] of won) if (!rewards.has(id)) fail("rewards of plays are in the file", `${id} of ${one.play_id}`);
  const ranks = new Map(winners.filter((one) => one.reward_id).map((one) => [one.reward_id, one]));
  const [holders, players] = [new Set(winners.map((one) => `${one.of} ${one.player}`)), new Set([...plays.values()].map((one) => one.player))];
  for (const { id, play_id, milestone_id, prize_id, player, status, entry } of rewards.values()) {
    const rank = ranks.get(id);
    const isFounded = milestone_id || (won.has(id) && won.get(id).play_id === play_id) || rank?.prize_id === prize_id;
    const isLate = entry === undefined && note; // The play or the rank may be later than its lines.
    if (!isFounded && !isLate) fail("rewards have a play, a milestone, or a rank of a draw or leaderboard", id);
    // A merged guest keeps its surplus, which is revoked; of two ranks it keeps one, without the reward.
    const isOfPlay = !plays.has(play_id) || plays.get(play_id).player === player;
    const isMoved = rank && rank.player !== player && !players.has(rank.player) && holders.has(`${rank.of} ${player}`);
    const isOfRank = !rank || rank.player === player || isMoved;
    // The rank's own player may have tickets or corrections without plays.
    const isShown = awards.boards.some((one) => one.id === rank?.of) && !awards.corrections.some((one) => one.player === rank.player);
    if (status !== "revoked" && isMoved && !isShown) moved += 1;
    if (status !== "revoked" && !(isOfPlay && isOfRank)) fail("rewards belong to the players of their plays and ranks", id);
  }
}

/** What this file cannot decide. */
function* left() {
  const [scopeless, proven] = [[...rewards.values()].filter((one) => one.milestone_id && awards.games.get(one.game_id) === ""), new Set(awards.boards.map((one) => one.id))];
  if (scopeless.length) yield `${scopeless.length} rewards are of milestones without balances in the file`;
  const unproven = winners.filter((one) => one.reward_id && !draws.results.has(one.of) && !proven.has(one.of)).length;
  if (unproven) yield `${unproven} rewards are of draws without evidence in the file`;
  if (moved) yield `${moved} rewards of ranks are those of other winners: a merge is not in the file`;
  const unaudited = stock.unaudited(awards.closings).length;
  if (unaudited) yield `${unaudited} games, boards and prizes have no audit entry in the file`;
  if (awards.unshown) yield `${awards.unshown} movements are of codes, merged guests, other campaigns, or later than the log: the file does not show what they follow from`;
  for (const [text, number] of opened) yield `${number} of the ${text.startsWith("audit") ? "" : "plays: "}${text}`;
  const others = Object.keys(counts).filter((kind) => !READERS[kind] && kind !== "end");
  yield ["not checked here: what a witness has seen of the log", ...others.map((kind) => `lines of the kind ${kind}`)].join(", ");
  yield "the operator wrote the file: compare plays with the receipts of their players";
}

async function main(words) {
  const options = {};
  while (words[0]?.startsWith("--")) options[words[0].slice(2)] = words.splice(0, 2)[1];
  await read(words[0]);
  const findings = [];
  const lines = Object.values(counts).reduce((sum, one) => sum + one, 0) - 1;
  findings.push(["the file has all of its lines", end !== null && end.lines === lines && end.sha256 === digest.digest("hex")]);
  for await (const one of ofLog(options.key, options.tsa && readFileSync(options.tsa, "utf8"))) findings.push(one);
  ofRewards();
  const all = { head, plays, rewards, winners, prizes: stock.prizes, stock, until: loggedUntil(), isLogged: !!note, changed: awards.changed };
  for (const [text, names, isOpen] of [...awards.problems(all), ...releases.problems(all), ...stock.problems(all), ...draws.problems(winners, rewards)]) {
    if (!isOpen && names.length) fail(text, ...names);
    else if (names.length) findings.push([`${text}; not ${names.slice(0, 5).join(", ")}, ${names.length} in all`, null]);
    else if (!isOpen) findings.push([text, true]);
  }
  for await (const one of draws.findings()) findings.push(one);
  for (const [text, ids] of wrong) findings.push([`${text}; not ${ids.slice(0, 5).join(", ")}, ${ids.length} in all`, false]);
  findings.push([`${counts.play ?? 0} plays and ${counts.reward ?? 0} rewards were read`, true], ...[...left()].map((text) => [text, null]));
  for (const [text, ok] of findings) console.log(`${ok === null ? "open   " : ok ? "ok     " : "FAILED "}${printable(text)}`);
  if (findings.some(([, ok]) => ok === false)) process.exitCode = 1;
}

await main(process.argv.slice(2)).catch((error) => {
  console.log(`error  not the dossier of a campaign: ${printable(error.message)}`);
  process.exitCode = 2;
});
