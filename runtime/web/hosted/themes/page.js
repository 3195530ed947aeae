// The gallery of themes: each on a real widget with mocked plays. Only the list is requested.

import { h } from "../../widget/dom.js";
import { mountGame } from "../../widget/games.js";
import { Look } from "../../widget/look.js";
import { sheet } from "../../widget/style.js";
import { View } from "../../widget/view.js";
import { Words } from "../../widget/words.js";
import { WORDS } from "./words.js";

/** @typedef {{title: string, theme: Record<string, string>, background: Record<string, string>}} Theme */

const { lang: LANGUAGE } = document.documentElement;
const words = await Words.load(LANGUAGE);
Object.assign(words.words, WORDS[LANGUAGE]);

/** Every game, by its file. */
const GAMES = ["wheel", "scratch", "eggs", "gifts", "collection"];

/** The sample prizes: `type` names a falling item, `item` a collected one. */
const PRIZES = Object.entries({ coffee: "☕", mug: "🏺", cake: "🍰" }).map(([id, emoji]) => {
  const name = words.t(id);
  return { prize_id: id, name, label: name, emoji, type: id, item: id, value: 3, available: true };
});
const SEGMENTS = PRIZES.flatMap(({ prize_id, name, emoji }) => [{ prize_id, label: name, emoji }, { label: words.t("next"), emoji: "🍀" }]);
const RUNGS = [{ id: "three", name: "", currency: "coffee", threshold: 3, prize_id: "cake" }];
const DROPS = 10;
const DROP_MS = 500;

/** What a View reads of a Round, with plays that are made up. */
class Shown extends EventTarget {
  state = "ready";
  standing = null;
  refusal = null;
  last = /** @type {any} */ (null);
  resumes = false;
  unclaimed = 0;
  nextOf = () => null;
  api = { identity: { given: "nobody", isGuest: false, who: "" } };
  /** How many there are of each in the album. @type {Map<string, number>} */
  counts = new Map();

  /** @param {Theme} theme @param {string} game */
  constructor({ theme, background }, game) {
    super();
    const ui = { theme, background, wheel: { segments: SEGMENTS }, items: PRIZES, catcher: { most: DROPS, lives: 3 } };
    const milestones = { mode: "MILESTONE_MODE_CUMULATIVE_UNLOCK", rungs: RUNGS };
    this.game = game;
    this.render = { id: "", name: words.t(`game_${game}`), type: "", campaign_id: "", prizes: PRIZES, ui, milestones, rules: {}, access: "", status: "" };
  }

  /** @param {string} state */
  become(state) {
    this.state = state;
    this.dispatchEvent(new Event("change"));
  }

  /** @returns {any} */
  session() {
    return { drop_plan: Array.from({ length: DROPS }, (_, i) => ({ id: `${PRIZES[i % 3].type} ${i}`, type: PRIZES[i % 3].type, at_ms: i * DROP_MS })) };
  }

  /** What comes of a play; the first of those that are drawn wins. @param {any} payload what the player did */
  next(payload) {
    if (this.game === "eggs") return won(payload.score > 0 ? [0] : []);
    if (this.game === "gifts") return won(payload.caught_items.map((/** @type {string} */ id) => PRIZES.findIndex(({ type }) => id.startsWith(type))));
    const slot = this.last ? Math.floor(Math.random() * SEGMENTS.length) : 0;
    if (this.game !== "collection") return { ...won(slot % 2 ? [] : [slot / 2]), metadata: { slot_index: slot } };
    const prize = PRIZES[slot >> 1];
    this.counts.set(prize.item, (this.counts.get(prize.item) ?? 0) + 1);
    const balances = [...this.counts].map(([currency, balance]) => ({ currency, balance }));
    return { ...won([slot >> 1]), metadata: { item: prize.item, quantity: 1 }, balances };
  }
}

/** A result with each of these prizes as often as it is named. @param {number[]} indexes */
function won(indexes) {
  const rewards = PRIZES.map((prize, i) => ({ ...prize, quantity: indexes.filter((one) => one === i).length }));
  return { rewards: rewards.filter(({ quantity }) => quantity), metadata: {}, balances: [] };
}

/** Those on the page that may be under way. @type {import("../../widget/types.js").Game[]} */
const games = [];

/** A widget of the theme. @param {Theme} theme @param {string} name of a game's file */
async function shown(theme, name) {
  const host = h("div", { class: "game" });
  host.attachShadow({ mode: "open" }).adoptedStyleSheets = [sheet];
  const round = /** @type {any} */ (new Shown(theme, name));
  const view = new View(host, round, words, new Look(round.render.ui));
  view.panels.remove(); // There is nothing to ask about.
  const game = await mountGame(name, view.stage(() => void play()));
  games.push(game);
  view.label = game.label ?? "play";
  view.paint();
  return host;

  async function play() {
    if (["started", "playing"].includes(round.state)) return;
    round.become("started");
    game.rest?.();
    const payload = await game.take?.(round.session());
    round.become("playing");
    game.wait?.();
    const result = round.next(payload);
    await game.show(result);
    round.last = result;
    round.become(result.rewards.length ? "won" : "lost");
    view.celebrate(result, false);
  }
}

/** @param {string} name @param {Theme} theme @param {string} game */
async function section(name, theme, game) {
  const written = h("code", { class: "name", dir: "ltr" }, `"preset": "${name}"`);
  const copy = h("button", { type: "button", "aria-label": words.t("copy_name", { name }), onclick: copied }, words.t("copy"));
  return h("section", { class: "look", "data-theme": name }, h("header", {}, h("h2", { lang: "en", dir: "auto" }, theme.title), written, copy), await shown(theme, game));

  async function copied() {
    try {
      await navigator.clipboard.writeText(name);
      copy.textContent = words.t("copied");
    } catch {
      getSelection()?.selectAllChildren(written); // No clipboard on plain HTTP: it is chosen, to be copied by hand.
    }
  }
}

const themes = /** @type {Record<string, Theme>} */ (await (await fetch("/api/v1/themes.json")).json());
const looks = h("div", { class: "looks" });
const buttons = GAMES.map((game) => h("button", { type: "button", "data-game": game, onclick: () => void show(game) }, words.t(`game_${game}`)));
document.querySelector("main.themes")?.append(h("div", { class: "choice", role: "group", "aria-label": words.t("game") }, ...buttons), looks);
await show("wheel");

/** @param {string} game */
async function show(game) {
  for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.game === game));
  for (const one of games.splice(0)) one.stop?.();
  looks.replaceChildren(...(await Promise.all(Object.entries(themes).map(([name, theme]) => section(name, theme, game)))));
  looks.setAttribute("data-shown", game);
}
