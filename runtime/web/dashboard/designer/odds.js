// The odds being edited: their sum, the cost of a play, and when stock runs out.
import { api } from "../api.js";
import { html, useState } from "../lib.js";
import { Numeral } from "../parts/form.js";
import { Section } from "../parts/layout.js";
import { useData } from "../parts/requests.js";
import { can } from "../session.js";
import { when } from "../times.js";
import { moneys, number, percent, say } from "../words.js";

const ALMOST = 1e-9;
/** A tolerance: shares are typed in percent, and three thirds do not sum to 100. */
const SLACK = 5e-3;
const DAY = 86_400;

/** @typedef {{id: string, prize_id: string, name: string, chance: number, units: number}} Row */
/** @typedef {{title: string, rows: Row[], sum: number, adds: boolean}} Group adds: whether its chances should come to 1 */

/** Rounds away floating-point errors. @param {number} value */
const exact = (value) => Number(value.toPrecision(12));

/** A probability in percent. The API uses a fraction. @param {any} props */
export const Percent = ({ value, change, named }) => html`<${Numeral} ...${named} min="0" max="100" step="any" value=${value === undefined ? value : exact(value * 100)}
  change=${(/** @type {number | undefined} */ next) => change(next === undefined ? next : exact(next / 100))} />`;

/**
 * The possible outcomes of a configuration, by score group. null: cannot be shown as a table.
 * @param {string} handler @param {any} config @returns {Group[] | null}
 */
export function groupsOf(handler, config) {
  /** @param {string} title @param {any[]} prizes */
  const drawn = (title, prizes = []) => made(title, prizes.map(({ prize_id, probability }) => [prize_id ?? "", "", Number(probability) || 0, 1]), true);
  if (handler === "probability") {
    return [drawn("", config.prizes)];
  }
  if (handler === "score_to_tier") {
    return Object.entries(config.prize_groups ?? {}).map(([name, prizes]) => drawn(name, /** @type {any[]} */ (prizes)));
  }
  if (handler === "lucky_item") {
    return [made("", shares(config.items, "weight").map(([one, chance]) => ["", one.item ?? "", chance, Number(one.quantity) || 0]), false)];
  }
  if (handler === "collect_items") {
    const drops = Number(config.total_items) || 0;
    // Assumes that every item is caught: the items of a type, up to its limit.
    return [made("", shares(config.drops, "frequency").map(([one, chance]) => [one.prize_id ?? "", one.type ?? "", chance, Math.min(Number(one.max_catchable) || 0, chance * drops) / (chance || 1)]), false)];
  }
  return null;
}

/** @param {any[]} items @param {string} name @returns {[any, number][]} */
function shares(items = [], name) {
  const total = items.reduce((sum, one) => sum + (Number(one[name]) || 0), 0);
  return items.map((one) => [one, total ? (Number(one[name]) || 0) / total : 0]);
}

/** @param {string} title @param {any[][]} rows @param {boolean} adds @returns {Group} */
function made(title, rows, adds) {
  return { title, adds, sum: rows.reduce((sum, [, , chance]) => sum + chance, 0), rows: rows.map(([prize_id, name, chance, units], i) => ({ id: `${i}`, prize_id, name, chance, units })) };
}

/** The verdict on a sum of probabilities. @param {number} sum @returns {["good" | "warn" | "bad", string]} */
function verdict(sum) {
  if (sum > 1 + ALMOST) {
    return ["bad", say("odds.over", { over: percent(sum - 1) })];
  }
  return sum < 1 - ALMOST ? ["warn", say("odds.under", { left: percent(1 - sum) })] : ["good", say("odds.whole")];
}

/** @param {{handler: string, config: any, prizes: any[], zone: string}} props */
export function Odds({ handler, config, prizes, zone }) {
  const [plays, setPlays] = useState(/** @type {number | undefined} */ (1000));
  const rate = plays ?? 0;
  // The share of plays that reaches each score group is unknown before launch, so it is assumed.
  const [typed, setTyped] = useState(/** @type {Record<string, number | undefined>} */ ({}));
  const groups = groupsOf(handler, config);
  const named = new Set(groups?.flatMap((one) => one.rows.map((row) => row.prize_id)));
  const pools = usePools(prizes.filter((one) => named.has(one.prize_id) && one.fulfillment?.channel === "voucher_code").map((one) => one.prize_id));
  if (!groups) {
    return null;
  }
  const known = new Map(prizes.map((one) => [one.prize_id, { ...one, codes: pools.get(one.prize_id) }]));
  const tiers = handler === "score_to_tier";
  const assumed = (/** @type {string} */ title) => (Object.hasOwn(typed, title) ? typed[title] : Math.round(1000 / groups.length) / 10);
  const share = (/** @type {Group} */ { title }) => (tiers ? assumed(title) ?? 0 : 100) / 100;
  const daily = /** @type {Map<string, number>} */ (new Map());
  const whole = /** @type {Costs} */ (new Map());
  for (const group of groups) {
    for (const { prize_id, chance, units } of group.rows) {
      daily.set(prize_id, (daily.get(prize_id) ?? 0) + share(group) * chance * units * rate);
    }
    costsOf(group, known).forEach((cost, currency) => whole.set(currency, (whole.get(currency) ?? 0) + share(group) * cost));
  }
  const shared = groups.reduce((sum, one) => sum + share(one), 0);
  return html`<${Section} title=${say("odds.title")} note=${[handler === "collect_items" && say("odds.all_caught"), say("time.in_zone", { zone })].filter(Boolean).join(" · ")}>
    <label class="rate">${say("odds.rate")}<${Numeral} min="1" value=${plays} change=${setPlays} /></label>
    ${groups.map((one) => html`<${Group} key=${one.title} group=${one} known=${known} rate=${rate * share(one)} daily=${daily} zone=${zone}>
      ${tiers && html`<label class="rate">${say("odds.share", { name: one.title })}<${Numeral} min="0" max="100" step="any" value=${assumed(one.title)}
        change=${(/** @type {number | undefined} */ next) => setTyped({ ...typed, [one.title]: next })} /></label>`}
    <//>`)}
    ${tiers && html`<h3>${say("odds.together")}</h3><ul class="checks">
      <li data-tone=${shared > 1 + SLACK ? "bad" : "good"} class="sum"><span class="mark" aria-hidden="true"></span>${shared > 1 + SLACK
        ? say("odds.shares_over", { sum: percent(shared) }) : say("odds.shares", { sum: percent(shared), left: percent(Math.max(0, 1 - shared)) })}</li>
      <li class="quiet together">${say("odds.expected", { cost: money(whole), day: money(times(whole, rate)) })}</li></ul>`}
  <//>`;
}

/** The number of available codes per prize, once loaded. @param {string[]} ids @returns {Map<string, number | undefined>} */
function usePools(ids) {
  const { data } = useData((signal) => Promise.all((can("ListCodes") ? ids : []).map(async (id) => {
    // Without a readable code pool, the remaining number is unknown.
    const found = await api.get("/admin/prizes/{id}/codes", { path: { id }, query: { limit: 1 }, signal }).catch(() => null);
    return /** @type {[string, number | undefined]} */ ([id, found?.totals.free]);
  })), [ids.join()]);
  return new Map(data ?? []);
}

/** @typedef {Map<string, number>} Costs by currency; "" where a prize has none */

/** The cost of a play that reaches the group. @param {Group} group @param {Map<string, any>} known @returns {Costs} */
function costsOf(group, known) {
  const found = /** @type {Costs} */ (new Map());
  for (const { prize_id, chance, units } of group.rows) {
    const { value = 0, currency = "" } = known.get(prize_id) ?? {};
    found.set(currency, (found.get(currency) ?? 0) + chance * units * value);
  }
  return found;
}

/** @param {{group: Group, known: Map<string, any>, rate: number, daily: Map<string, number>, zone: string, children?: any}} props */
function Group({ group, known, rate, daily, zone, children }) {
  let sum = 0;
  const cost = costsOf(group, known);
  const rows = group.rows.map((row) => {
    const prize = known.get(row.prize_id);
    const each = new Map([[prize?.currency ?? "", row.chance * row.units * (prize?.value ?? 0)]]);
    return { ...row, sum: (sum += row.chance), each, prize, out: runsOut(prize, daily.get(row.prize_id) ?? 0, zone) };
  });
  const [tone, said] = verdict(group.sum);
  return html`${group.title && html`<h3>${say("odds.group", { name: group.title })}</h3>`}${children}
    <div class="table" role="region" aria-label=${group.title || say("odds.title")} tabindex="0"><table class="odds">
      <thead><tr><th scope="col">${say("field.prize_id")}</th>${["chance", "sum", "cost", "out"].map((name) => html`<th scope="col" class="number">${say(`odds.${name}`)}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<tr key=${row.id}>
        <td data-title=""><span class="name">${row.prize?.name ?? (row.name || row.prize_id || say("none"))}</span></td>
        <td class="number" data-title=${say("odds.chance")}>${percent(row.chance)}</td><td class="number" data-title=${say("odds.sum")}>${percent(row.sum)}</td>
        <td class="number" data-title=${say("odds.cost")}>${money(row.each)}</td><td class="number" data-title=${say("odds.out")}>${row.out}</td>
      </tr>`)}</tbody>
    </table></div>
    <ul class="checks">
      ${group.adds && html`<li data-tone=${tone} class="sum"><span class="mark" aria-hidden="true"></span>${say("odds.adds", { sum: percent(group.sum) })} ${said}</li>`}
      <li class="quiet">${say("odds.expected", { cost: money(cost), day: money(times(cost, rate)) })}</li>
    </ul>`;
}

/** @param {Costs} costs @param {number} count @returns {Costs} */
const times = (costs, count) => new Map([...costs].map(([currency, cost]) => [currency, cost * count]));

/** An amount to the hundredth of a cent. @param {number} amount @param {string} [currency] */
const fine = (amount, currency = "") => `${number(Math.round(amount * 1e4) / 1e4)} ${currency}`.trim();

/** @param {Costs} costs */
const money = (costs) => moneys([...costs].filter(([, cost]) => cost).map(([currency, amount]) => ({ currency, amount })), fine);

/** When stock runs out at this daily rate. @param {any} prize @param {number} daily @param {string} zone */
function runsOut(prize, daily, zone) {
  const counted = prize?.type !== "points" && prize?.stock?.total > 0;
  const coded = prize?.fulfillment?.channel === "voucher_code";
  if (!prize || (!counted && prize.codes === undefined)) {
    return prize ? say(coded ? "none" : "unlimited") : "";
  }
  const left = Math.min(counted ? prize.stock.remaining : Infinity, prize.codes ?? Infinity);
  if (!left) {
    return say("odds.gone");
  }
  return daily > 0 ? when(Math.floor(Date.now() / 1000 + (left / daily) * DAY), zone) : say("odds.never");
}
