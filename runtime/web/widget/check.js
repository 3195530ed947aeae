// Repeats a draw from the terms of the start and the revealed seed (docs/explanation/fairness.md). Loaded on demand. Uses a
// bundled SHA-256, because crypto.subtle is unavailable on plain HTTP.

import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, hexToBytes } from "@noble/hashes/utils.js";

/** @typedef {{key: string, values: Record<string, any>, fits: boolean | null}} Step `fits`: null where nothing can be said */

const utf8 = new TextEncoder();

/** SHA-256 of a text, in hex. @param {string} text */
export const hashText = (text) => bytesToHex(sha256(utf8.encode(text)));

/** SHA-256 of a seed, in hex. @param {string} seed hex */
export const hashSeed = (seed) => bytesToHex(sha256(hexToBytes(seed)));

/** Word `i` of a draw, in [0, 1]. @param {string} seed hex @param {string} clientSeed @param {number} i */
export function word(seed, clientSeed, i) {
  const digest = hmac(sha256, hexToBytes(seed), utf8.encode(`${clientSeed}:${i}`));
  // BigInt to Number rounds like Python's division; dividing by a power of two is exact.
  return Number(new DataView(digest.buffer, digest.byteOffset).getBigUint64(0)) / 2 ** 64;
}

/** Cumulative sums in list order, as in the draw. @param {number[]} weights */
export function runningSums(weights) {
  let sum = 0;
  return weights.map((weight) => (sum += weight));
}

/** The first index at which the running sum exceeds the word; -1: none. @param {number[]} sums @param {number} drawn */
export const pick = (sums, drawn) => sums.findIndex((sum) => sum > drawn);

/** The same for sums that end at 1, up to rounding. @param {number[]} sums @param {number} drawn */
export function pickCertain(sums, drawn) {
  const index = pick(sums, drawn);
  return index < 0 ? sums.indexOf(sums[sums.length - 1]) : index;
}

/** Each weight over the total. @param {number[]} weights */
export function scaled(weights) {
  const sums = runningSums(weights);
  return weights.map((weight) => weight / sums[sums.length - 1]);
}

/**
 * What a play's draw picks by its terms: a prize's id, a currency, "" for nothing; null where a draw has no part in it.
 * @param {any} terms @param {string} seed @param {string} clientSeed @param {any} metadata the play's
 * @returns {string | null}
 */
export function drawn(terms, seed, clientSeed, metadata) {
  const config = terms.handler_config;
  const first = word(seed, clientSeed, 0);
  if (terms.reward_handler === "lucky_item") {
    const sums = runningSums(scaled(config.items.map((/** @type {any} */ item) => item.weight)));
    return config.items[pickCertain(sums, first)].item;
  }
  let prizes = config.prizes;
  if (terms.reward_handler === "score_to_tier") prizes = config.prize_groups[metadata?.prize_group] ?? [];
  else if (terms.reward_handler !== "probability") return null;
  const index = pick(runningSums(prizes.map((/** @type {any} */ prize) => prize.probability)), first);
  return index < 0 ? "" : prizes[index].prize_id;
}

/**
 * Each step of the check, in its order, and whether all of them fit.
 * @param {import("./types.js").Result} result
 * @param {string} text the terms that were promised, letter for letter; "" where they are not published
 * @returns {{steps: Step[], good: boolean}}
 */
export function checkDraw(result, text) {
  const { session, seed, client_seed: clientSeed } = result;
  /** @type {Step[]} */
  const steps = [];
  const step = (/** @type {string} */ key, /** @type {boolean | null} */ fits, values = {}) => steps.push({ key, values, fits });
  step("fair_step_seed", hashSeed(seed) === session.seed_hash);
  // For an earlier play the page no longer has the commitment.
  if (session.commitment) step("fair_step_commitment", hashText(`${session.seed_hash}:${session.revision_hash}:${session.session_id}`) === session.commitment);
  if (!text) step("fair_step_no_terms", null);
  else {
    step("fair_step_terms", hashText(text) === session.revision_hash);
    decide(JSON.parse(text));
  }
  return { steps, good: steps.every((one) => one.fits !== false) };

  /** @param {any} terms */
  function decide(terms) {
    const expected = drawn(terms, seed, clientSeed, result.metadata);
    if (expected === null) return;
    const names = new Map(terms.prizes.map((/** @type {any[]} */ [id, name]) => [id, name]));
    const name = expected ? (names.get(expected) ?? expected) : "";
    step("fair_step_draw", true, { word: word(seed, clientSeed, 0).toFixed(6), drawn: name });
    const awarded = result.rewards.map((reward) => reward.prize_id || reward.name);
    const same = expected ? awarded.length === 1 && awarded[0] === expected : awarded.length === 0;
    if (same) step("fair_step_same", true);
    else if (expected && mayStandIn(terms, expected, awarded)) {
      // The sold-out state is the operator's claim: it cannot be verified here.
      step("fair_step_gone", null, { drawn: name, rule: terms.on_unavailable });
    } else step("fair_step_other", false);
  }
}

/** Whether these prizes are a valid replacement for a sold-out one. @param {any} terms @param {string} expected @param {string[]} awarded */
function mayStandIn(terms, expected, awarded) {
  if (awarded.length > 1 || terms.reward_handler === "lucky_item") return false;
  if (!awarded.length) return true; // Nothing else was available.
  if (terms.on_unavailable === "fallback") return awarded[0] === terms.fallback_prize_id;
  return terms.on_unavailable === "redraw" && awarded[0] !== expected && terms.prizes.some((/** @type {any[]} */ [id]) => id === awarded[0]);
}
