// Checks the dossier of a campaign: node dossier.mjs [--key VERIFIER_KEY] FILE. Needs verify.mjs beside it, no packages.
// Exits with 1 if a check fails. It checks the file, the log, plays and their rewards; the last line names the rest.
// @ts-nocheck

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { isSigned, parse, verify } from "./verify.mjs";

const sha256 = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash("sha256")).digest();
const hex = (text) => sha256(text).toString("hex");
const printable = (text) => text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, "\ufffd");

/** The findings of a receipt that a play of a dossier has too: it is without its whole session and its words. */
const KEPT = /^(the terms|the session|the outcome|the rewards)/;
const COVERED = "head end verifier checkpoint stamp leaves mark terms play reward".split(" ");

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

/** The root of RFC 6962 over hashes added one by one. */
class Tree {
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

const [tree, leaves, digest, counts, terms] = [new Tree(), [], createHash("sha256"), {}, new Map()];
const [won, wrong, opened] = [new Map(), new Map(), new Map()];
let [end, note, mark] = [null, "", ""];
const fail = (text, id) => wrong.set(text, [...(wrong.get(text) ?? []), id]);

/** Rows without an entry: a row so much older than the log's last mark has one. */
const [unlogged, BACKDATED_SECONDS] = [[], 60];

/** Whether the line's entry has these facts, and is the leaf of its index. */
function isLogged({ entry, leaf_index: index }, at, own) {
  const facts = parse(entry);
  const isLeaf = leaves[index]?.equals(sha256("\x00", entry));
  return isLeaf && Math.floor(facts.at / 1e6) === at && Object.keys(own).every((name) => facts[name] === own[name]);
}

const READERS = {
  checkpoint: (text) => (note = text),
  mark: (text) => (mark = text),
  terms: (text) => terms.set(hex(text), text),

  leaves(tile) {
    const hashes = Buffer.from(tile, "base64");
    for (let at = 0; at < hashes.length; at += 32) leaves.push(hashes.subarray(at, at + 32));
    leaves.slice(tree.size).forEach((hash) => tree.add(hash));
  },

  async play(play) {
    const stored = parse(play.outcome);
    for (const one of stored.rewards) if (one.reward_id) won.set(one.reward_id, { ...one, play_id: play.id });
    for (const one of stored.milestones_granted) won.set(one.reward_id, { play_id: play.id, prize_id: one.prize_id });
    const { id, game_id, revision, revision_hash, seed, client_seed } = play;
    const own = { kind: "play", id, game_id, revision, revision_hash, seed, score: stored.decided.score, outcome: hex(play.outcome) };
    if (play.entry === undefined) unlogged.push([id, play.played_at]);
    else if (!isLogged(play, play.played_at, own)) fail("plays are those of the log", id);
    if (!terms.has(revision_hash)) return fail("plays have their terms", id);
    const receipt = {
      ...{ format: "tombola-receipt-1", play_id: id, game_id, session_id: play.session, played_at: play.played_at, revision },
      ...{ revision_hash, terms: terms.get(revision_hash), commitment: play.commitment, seed_hash: "", seed, client_seed },
      ...{ payload: parse(play.payload), words: [], outcome: stored.decided, rewards: stored.rewards, erased: play.erased },
    };
    for (const { text, ok } of await verify(JSON.stringify(receipt))) {
      if (ok === false && KEPT.test(text)) fail(`plays: ${text}`, id);
      if (ok === null && text.startsWith("the outcome")) opened.set(text, (opened.get(text) ?? 0) + 1);
    }
    if (play.erased) opened.set("plays were erased with their players", (opened.get("plays were erased with their players") ?? 0) + 1);
  },

  reward(reward) {
    const { id, play_id, prize_id, milestone_id, game_id, type, value, quantity, prize: name } = reward;
    const own = { kind: "reward", id, play_id, prize_id, milestone_id, game_id, type, quantity, name };
    const at = Date.parse(reward.won_at) / 1e3;
    if (reward.entry === undefined) unlogged.push([id, at]);
    else if (!isLogged(reward, at, own) || Number(parse(reward.entry).value) !== value) fail("rewards are those of the log", id);
    if (!play_id) return;
    const expected = { ...won.get(id) };
    const shown = { play_id, prize_id, name, type, value, quantity };
    if (!won.delete(id) || Object.keys(shown).some((key) => key in expected && expected[key] !== shown[key]))
      fail("rewards are those of their plays", id);
  },
};

async function read(path) {
  for await (const line of linesOf(path)) {
    if (end) throw new Error("there are lines after the end");
    const [[kind, value], ...more] = Object.entries(parse(line.toString()));
    if (more.length || (!counts.head && kind !== "head")) throw new Error("a line is malformed");
    counts[kind] = (counts[kind] ?? 0) + 1;
    if (kind === "end") end = value;
    else digest.update(line);
    await READERS[kind]?.(value);
  }
}

async function main([option, key, ...files]) {
  const path = option === "--key" ? files[0] : option;
  await read(path);
  const findings = [];
  const lines = Object.values(counts).reduce((sum, one) => sum + one, 0) - 1;
  findings.push(["the file has all of its lines", end !== null && end.lines === lines && end.sha256 === digest.digest("hex")]);
  const [, size, root] = note.split("\n");
  if (!note) findings.push(["the file has no log", option === "--key" ? false : null]);
  else {
    findings.push(["the leaves of the log have the root of the checkpoint", Number(size) === tree.size && root === tree.root().toString("base64")]);
    if (option === "--key") findings.push(["the checkpoint is signed by the key", await isSigned(note, key)]);
    else findings.push(["the checkpoint is signed: give the log's key to check it", null]);
    findings.push(["the log ends with a mark", !!mark && parse(mark).kind === "mark" && leaves.at(-1).equals(sha256("\x00", mark))]);
  }
  const logged = mark ? Number(parse(mark).id.split(" ")[0]) / 1e6 - BACKDATED_SECONDS : -Infinity;
  const waiting = unlogged.filter(([, at]) => !(at < logged));
  for (const [id, at] of unlogged) if (at < logged) fail("plays and rewards are in the log", id);
  if (waiting.length) findings.push([`${waiting.length} plays and rewards are not in the log yet: write the dossier again`, null]);
  for (const [id, one] of won) fail("rewards of plays are in the file", `${id} of ${one.play_id}`);
  for (const [text, ids] of wrong) findings.push([`${text}; not ${ids.slice(0, 5).join(", ")}, ${ids.length} in all`, false]);
  findings.push([`${counts.play ?? 0} plays and ${counts.reward ?? 0} rewards were read`, true]);
  for (const [text, count] of opened) findings.push([`${count} of the plays: ${text}`, null]);
  const others = Object.keys(counts).filter((kind) => !COVERED.includes(kind));
  findings.push([`not checked here, but by \`tombola verify\`: stamp, milestones, states; lines ${others.join(", ")}`, null]);
  for (const [text, ok] of findings) console.log(`${ok === null ? "open   " : ok ? "ok     " : "FAILED "}${printable(text)}`);
  if (findings.some(([, ok]) => ok === false)) process.exitCode = 1;
}

await main(process.argv.slice(2)).catch((error) => {
  console.log(`error  not the dossier of a campaign: ${printable(error.message)}`);
  process.exitCode = 2;
});
