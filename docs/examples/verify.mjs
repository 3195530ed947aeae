// Checks the receipt of a play: node verify.mjs [--commitment HASH] FILE...
// Needs no server, no secret and no packages. Exits with 1 if a check fails. The page /verify runs the same code.
// @ts-nocheck

const FORMAT = "tombola-receipt-1";
const FIELDS =
  "format play_id game_id session_id played_at revision revision_hash terms commitment seed_hash seed client_seed payload words outcome rewards erased";

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

/** JSON without two fields of one name, of which two readers could take different ones. */
function parse(text) {
  const found = JSON.parse(text);
  const names = [...text.matchAll(/"(?:[^"\\]|\\.)*"(\s*:)?/g)].filter((match) => match[1]).length;
  const count = (value) =>
    value && typeof value === "object"
      ? Object.values(value).reduce((sum, one) => sum + count(one), Array.isArray(value) ? 0 : Object.keys(value).length)
      : 0;
  if (count(found) !== names) throw new Error("two fields have one name");
  if (!found || typeof found !== "object" || Array.isArray(found)) throw new Error("it is not an object");
  return found;
}

/** Whether two JSON values are equal, whatever the order of their fields. */
function same(one, other) {
  if (!one || !other || typeof one !== "object" || typeof other !== "object") return one === other;
  const names = Object.keys(one);
  if (Array.isArray(one) !== Array.isArray(other) || names.length !== Object.keys(other).length) return false;
  return names.every((name) => Object.hasOwn(other, name) && same(one[name], other[name]));
}

// ---- the draw: running sums of IEEE doubles in list order ------------------------------------

function runningSums(weights) {
  let sum = 0;
  return weights.map((weight) => (sum += weight));
}

/** The first index whose sum exceeds the word; -1 past them all. */
const pick = (sums, word) => sums.findIndex((sum) => sum > word);

/** The same for sums that end at 1, up to rounding: past them all, the last weight above 0. */
function pickCertain(sums, word) {
  const index = pick(sums, word);
  return index < 0 ? sums.indexOf(sums.at(-1)) : index;
}

const scaled = (weights) => weights.map((weight) => weight / runningSums(weights).at(-1));

/** What a decision uses: words, and the recorded answers about stock. It records the path that it takes. */
class Trail {
  constructor(seed, clientSeed, recorded) {
    Object.assign(this, { seed, clientSeed, path: [] });
    this.answers = recorded.filter((step) => step[0] === "available");
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

  /** The most units that may be given, by bisection. `known` of them may. */
  most(prizeId, quantity, known = 0) {
    if (quantity === known || this.available(prizeId, quantity)) return quantity;
    let [least, most] = [known, quantity - 1];
    while (least < most) {
      const middle = Math.floor((least + most + 1) / 2);
      if (this.available(prizeId, middle)) least = middle;
      else most = middle - 1;
    }
    return least;
  }
}

class Refuted extends Error {}

const fallBack = (terms, trail) =>
  terms.on_unavailable === "fallback" && terms.fallback_prize_id && trail.available(terms.fallback_prize_id, 1)
    ? terms.fallback_prize_id
    : "";

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

  async collect_items(terms, trail, payload) {
    const { caught_items: caught, ...more } = payload;
    if (!Array.isArray(caught) || !isEmpty(more)) throw new Refuted();
    const { drops, total_items: total } = terms.handler_config;
    const frequencies = runningSums(drops.map((one) => one.frequency));
    const sums = frequencies.map((sum) => sum / frequencies.at(-1));
    const key = await hmac(trail.seed, "plan");
    const plan = new Map();
    for (let j = 0; j < total; j++) plan.set(`item_${j}`, drops[pickCertain(sums, (await wordOf(key, "", j)).value)]);
    if (new Set(caught).size < caught.length || !caught.every((id) => plan.has(id))) throw new Refuted();
    const counted = new Map();
    for (const id of caught) {
      const { type, max_catchable: most } = plan.get(id);
      if ((counted.get(type) ?? 0) < most) counted.set(type, (counted.get(type) ?? 0) + 1);
    }
    const wanted = new Map();
    for (const [type, quantity] of counted) {
      const { prize_id: id } = drops.find((one) => one.type === type);
      if (id) wanted.set(id, (wanted.get(id) ?? 0) + quantity);
    }
    const granted = new Map([...wanted].map(([id, quantity]) => [id, trail.most(id, quantity)]));
    const spare = terms.fallback_prize_id;
    const missing = [...wanted].reduce((sum, [id, quantity]) => sum + (id === spare ? 0 : quantity - granted.get(id)), 0);
    if (terms.on_unavailable === "fallback" && spare && missing) {
      const own = granted.get(spare) ?? 0;
      granted.set(spare, trail.most(spare, own + missing, own));
    }
    const awards = [...granted].filter(([, quantity]) => quantity).map(([id, quantity]) => ({ prize_id: id, quantity }));
    const score = [...counted.values()].reduce((sum, quantity) => sum + quantity, 0);
    return { awards, credits: [], metadata: { counted_items: Object.fromEntries(counted) }, score };
  },
};

const KNOWN = [["none", "drop_sequence"], Object.keys(HANDLERS), ["basic", "drop_plan"]];

// ---- the receipt ------------------------------------------------------------------------------

/** The findings {text, ok} of a receipt's text; ok is null for what it cannot decide. Throws if it is no receipt. */
export async function verify(text, { commitment = "" } = {}) {
  const whole = parse(text);
  const receipt = whole.data && typeof whole.data === "object" ? whole.data : whole;
  if (receipt.format !== FORMAT) throw new Error("not the receipt of a play");
  for (const name of FIELDS.split(" ")) if (!Object.hasOwn(receipt, name)) throw new Error(`${name} is missing`);
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
    const used = outcome.path.filter((step) => step[0] === "word");
    const words = await Promise.all(used.map((step) => wordOf(seed, receipt.client_seed, step[1])));
    find("the words follow from the seeds", same(receipt.words, words));
    if (terms !== null) await decide();
  }
  const withheld = new Set(outcome.path.filter((step) => step[0] === "available" && !step[3]).map((step) => step[1]));
  if (withheld.size) find(`unavailable, as the operator states: ${[...withheld].join(", ")}`, null);
  const free = {
    client_seed: !receipt.words.length,
    duration_ms: Object.hasOwn(receipt.payload, "duration_ms"),
    reward_id: receipt.rewards.some((one) => one.prize_id),
    slot_index: Object.hasOwn(outcome.metadata, "slot_index") && terms?.reward_handler !== "lucky_item",
  };
  const notFixed = ["played_at", "revision", ...Object.keys(free).filter((name) => free[name])];
  find(`not fixed by the start: ${notFixed.join(", ")}`, null);
  const unknown = Object.keys(receipt).filter((name) => !FIELDS.split(" ").includes(name));
  if (unknown.length) find(`unknown, not checked: ${unknown.sort().join(", ")}`, null);
  return found;

  /** Decides the play again, and compares outcome and rewards. */
  async function decide() {
    const parts = [terms.seed_generator, terms.reward_handler, terms.validator];
    const plugins = parts.filter((name, i) => !KNOWN[i].includes(name));
    if (plugins.length) find(`the outcome is decided by plugins, not checked here: ${plugins.join(", ")}`, null);
    else {
      const decided = await again();
      // The terms do not say where a wheel stops, except for lucky_item.
      const { slot_index: slot, ...metadata } = outcome.metadata;
      const recorded = terms.reward_handler === "lucky_item" ? { ...metadata, slot_index: slot } : metadata;
      find("the outcome follows from terms and words", same(decided, { ...outcome, metadata: recorded }));
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
    try {
      return { ...(await HANDLERS[terms.reward_handler](terms, trail, receipt.payload)), path: trail.path };
    } catch (error) {
      if (error instanceof Refuted) return null;
      throw error;
    }
  }
}

// ---- node verify.mjs FILE... ------------------------------------------------------------------

/** @param {string[]} given */
export async function main(given, readFile) {
  const commitment = given[0] === "--commitment" ? given.splice(0, 2)[1] : "";
  let status = given.length ? 0 : 2;
  for (const file of given) {
    if (given.length > 1) console.log(file);
    try {
      for (const { text, ok } of await verify(readFile(file, "utf8"), { commitment })) {
        console.log(`${ok === null ? "open   " : ok ? "ok     " : "FAILED "}${text}`);
        if (ok === false) status ||= 1;
      }
    } catch (error) {
      console.log(`error  ${error.message}`);
      status = 2;
    }
  }
  return status;
}

if (globalThis.process?.argv?.[1]?.endsWith("verify.mjs")) {
  process.exitCode = await main(process.argv.slice(2), process.getBuiltinModule("node:fs").readFileSync);
}
