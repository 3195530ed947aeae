// The result of a draw's check: what failed, the draw, a holder's tickets, the winners, and what to check elsewhere.

/** @typedef {Record<string, string>} Words */
/** @typedef {{ text: string, ok: boolean | null, differences?: { field: string, expected: unknown, found: unknown }[] }} Finding */

const MARKS = { true: "✅", false: "❌", null: "ℹ️" };
const DRAND = "https://api.drand.sh/v2/beacons/quicknet/rounds/";
const { lang } = document.documentElement;
const time = new Intl.DateTimeFormat(lang, { dateStyle: "long", timeStyle: "short" });
const when = (/** @type {number} */ seconds) => time.format(seconds * 1000);
const number = (/** @type {number} */ one) => one.toLocaleString(lang);

/** An element. @param {string} tag @param {Record<string, string>} attributes @param {(Node | string)[]} children */
function h(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Ids and hashes: of either direction, and broken anywhere. @param {unknown} text */
const code = (text) => h("bdi", { class: "code" }, String(text));

/** A text with its values, each an element or a text. @param {string} text @param {Record<string, Node | string>} values */
const filled = (text, values) => text.split(/\{(\w+)\}/).map((part, at) => (at % 2 ? values[part] : part));

/** A finding. @param {Finding} finding @param {Words} [words] of the differences */
export function line({ text, ok, differences = [] }, words) {
  const said = ok === false ? `FAILED: ${text}` : ok === null ? `Open: ${text}` : text;
  const mark = MARKS[/** @type {"true" | "false" | "null"} */ (String(ok))];
  const facts = words ? differences.map((one) => difference(one, words)) : [];
  return h("li", { "data-ok": String(ok) }, h("span", { "aria-hidden": "true" }, mark), h("div", {}, h("span", {}, said), ...facts));
}

/** @param {{ field: string, expected: unknown, found: unknown }} one @param {Words} words */
function difference({ field, expected, found }, words) {
  const rows = [[words.field, field], [words.expected, expected ?? "–"], [words.found, found ?? "–"]];
  return h("dl", { lang, dir: document.documentElement.dir }, ...rows.flatMap(([name, value]) => [h("dt", {}, String(name)), h("dd", {}, code(value))]));
}

/**
 * Shows the result. Returns the text of the outcome: good, bad or undrawn. list: what failed; place: the rest.
 * @param {{ draw: any, findings: Finding[] }} checked @param {HTMLElement} list @param {HTMLElement} place @param {Words} words
 */
export function showDraw({ draw, findings }, list, place, words) {
  const failed = findings.filter(({ ok }) => ok === false);
  list.replaceChildren(...failed.map((one) => line(one, words)));
  const ranks = draw.picks.map((/** @type {any} */ pick, /** @type {number} */ at) => ({ ...pick, rank: at + 1, ...placeOf(draw.head, at) }));
  place.replaceChildren(
    h("h2", {}, draw.head.name),
    facts(draw, words),
    search(draw, ranks, failed.length > 0, words),
    ...(ranks.length ? winners(ranks, words) : []),
    h("h3", {}, words.elsewhere),
    h("ul", { class: "elsewhere" }, ...elsewhere(draw, words).map((parts) => h("li", {}, ...parts))),
    h("details", {}, h("summary", {}, words.all), h("ul", { lang: "en", dir: "ltr" }, ...findings.map((one) => line(one)))),
  );
  return failed.length ? "bad" : draw.end ? "good" : "undrawn";
}

/** The prize of a rank, or the number of the alternate. @param {any} head @param {number} at */
function placeOf({ prizes }, at) {
  let end = 0;
  for (const { prize_id: prize, count } of prizes) if (at < (end += count)) return { prize, nth: 0 };
  return { prize: "", nth: at - end + 1 };
}

/** @param {any} draw @param {Words} words */
function facts({ head, end, tickets, holders }, words) {
  const { kind, at, round, source } = head.randomness;
  const sources = {
    DRAND: () => filled(words.drand, { round: String(round), at: when(at) }),
    DECLARED: () => filled(words.declared, { source: h("bdi", {}, source), at: when(at) }),
    INTERNAL: () => [words.internal],
  };
  const rows = [
    [words.tickets, [number(tickets)]],
    [words.holders, [number(holders)]],
    [words.closed, [when(head.closed_at)]],
    ...(end ? [[words.drawn, [when(end.drawn_at)]]] : []),
    [words.source, sources[/** @type {keyof typeof sources} */ (kind)]()],
    ...(end ? [[words.value, [code(end.value)]]] : []),
  ];
  return h("dl", {}, ...rows.flatMap(([name, value]) => [h("dt", {}, String(name)), h("dd", {}, .../** @type {Node[]} */ (value))]));
}

/** The form that finds a holder's tickets. The widget's panel adds the id to the page's address. @param {any} draw @param {any[]} ranks @param {boolean} isDoubtful @param {Words} words */
function search(draw, ranks, isDoubtful, words) {
  const input = /** @type {HTMLInputElement} */ (h("input", { id: "holder", autocomplete: "off", spellcheck: "false", "aria-describedby": "hint" }));
  const answer = h("p", { role: "status", id: "found" });
  const form = h(
    "form", {},
    h("label", { for: "holder" }, words.id),
    h("p", { id: "hint" }, words.hint),
    h("div", { class: "row" }, input, h("button", {}, words.find)),
    answer,
  );
  const find = async () => {
    const holder = input.value.trim();
    if (!holder) return answer.replaceChildren();
    const own = await draw.holding(holder);
    const parts = own ? holding(own, ranks, draw.end, words) : [words.none];
    answer.replaceChildren(...(isDoubtful ? [...parts, " ", words.doubt] : parts));
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void find();
  });
  input.value = decodeURIComponent(location.hash.slice(1));
  if (input.value) void find();
  return form;
}

/** What a holder has, and won. @param {any} own @param {any[]} ranks @param {unknown} end @param {Words} words */
function holding({ holder, tickets, first }, ranks, end, words) {
  const numbers = tickets > 1 ? `${number(first)}–${number(first + tickets - 1)}` : number(first);
  const parts = filled(words.own, { count: number(tickets), numbers: h("bdi", {}, numbers) });
  const won = ranks.find((one) => one.holder === holder);
  if (!won) return [...parts, " ", end ? words.lost : words.undrawn];
  const { rank, prize, nth } = won;
  return [...parts, " ", ...filled(nth ? words.spare : words.won, { rank: number(rank), nth: number(nth), prize: code(prize) })];
}

/** @param {any[]} ranks @param {Words} words */
function winners(ranks, words) {
  const row = (/** @type {any} */ { rank, prize, nth, ticket, holder }) => [
    number(rank), nth ? filled(words.alternate, { nth: number(nth) }).join("") : code(prize), code(holder), number(ticket),
  ];
  const head = [words.rank, words.prize, words.holder, words.ticket].map((name) => h("th", { scope: "col" }, name));
  const rows = ranks.map((one) => h("tr", {}, ...row(one).map((cell) => h("td", {}, cell))));
  const table = h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows));
  return [h("h3", {}, words.winners), h("p", {}, words.later), h("div", { class: "ranks", tabindex: "0", role: "region", "aria-label": words.winners }, table)];
}

/** What the file cannot show. @param {any} draw @param {Words} words @returns {(Node | string)[][]} */
function elsewhere({ head }, words) {
  const { kind, round, source } = head.randomness;
  const address = `${DRAND}${round}`;
  const link = h("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, h("bdi", {}, address));
  const ways = {
    DRAND: () => filled(words.drand_how, { round: String(round), address: link }),
    DECLARED: () => filled(words.declared_how, { source: h("bdi", {}, source) }),
    INTERNAL: () => [words.internal_how],
  };
  return [ways[/** @type {keyof typeof ways} */ (kind)](), filled(words.root, { root: code(head.tickets_root) }), [words.own_how]];
}
