// The gallery of themes: each on a real widget, whose plays are made up here. Nothing is asked but the list.

import { h } from "../dom.js";
import { Look } from "../look.js";
import { sheet } from "../style.js";
import { View } from "../view.js";
import { Words } from "../words.js";

/** @typedef {{title: string, theme: Record<string, string>, background: Record<string, string>}} Theme */

const GAMES = /** @type {Record<string, string>} */ ({ wheel: "Spin wheel", scratch: "Scratch card" });

const PRIZES = [
  { prize_id: "coffee", name: "Coffee", type: "voucher", value: 3, available: true, emoji: "☕" },
  { prize_id: "mug", name: "Mug", type: "goods", value: 9, available: true, emoji: "🏺" },
  { prize_id: "cake", name: "Piece of cake", type: "voucher", value: 4, available: true, emoji: "🍰" },
];
const SEGMENTS = PRIZES.flatMap(({ prize_id, name, emoji }) => [{ prize_id, label: name, emoji }, { label: "Next time", emoji: "🍀" }]);

/** What a View reads of a Round, with plays that are made up. */
class Shown extends EventTarget {
  state = "ready";
  standing = null;
  refusal = null;
  last = /** @type {any} */ (null);
  resumes = false;
  api = { identity: { given: "nobody", isGuest: false, who: "" } };

  /** @param {Theme} theme */
  constructor({ title, theme, background }) {
    super();
    const ui = { theme, background, wheel: { segments: SEGMENTS }, items: PRIZES };
    this.render = { id: "", name: `${title} fair`, type: "", campaign_id: "", prizes: PRIZES, ui, rules: {}, access: "", status: "" };
  }

  /** @param {string} state */
  become(state) {
    this.state = state;
    this.dispatchEvent(new Event("change"));
  }

  /** Every second field is a prize; the first play wins. */
  next() {
    const slot = this.last ? Math.floor(Math.random() * SEGMENTS.length) : 0;
    const prize = PRIZES.find((one) => one.prize_id === SEGMENTS[slot].prize_id);
    return { rewards: prize ? [{ ...prize, quantity: 1 }] : [], metadata: { slot_index: slot }, balances: [] };
  }
}

/** A widget of the theme. @param {Theme} theme @param {string} name of a game's file */
async function shown(theme, name) {
  const host = h("div", { class: "game" });
  host.attachShadow({ mode: "open" }).adoptedStyleSheets = [sheet];
  const round = /** @type {any} */ (new Shown(theme));
  const view = new View(host, round, new Words("en", {}), new Look(round.render.ui));
  view.panels.remove(); // There is nothing to ask about.
  const file = await import(`../games/${name}.js`);
  /** @type {import("../types.js").Game} */
  const game = file.mount(view.stage(() => void play()));
  view.label = game.label ?? "play";
  view.paint();
  return host;

  async function play() {
    if (round.state === "playing") return;
    game.rest?.();
    round.become("playing");
    game.wait?.();
    const result = round.next();
    await game.show(result);
    round.last = result;
    round.become(result.rewards.length ? "won" : "lost");
    view.celebrate(result, false);
  }
}

/** @param {string} name @param {Theme} theme @param {string} game */
async function section(name, theme, game) {
  const written = h("code", { class: "name" }, `"preset": "${name}"`);
  const copy = h("button", { type: "button", "aria-label": `Copy the name ${name}`, onclick: copied }, "Copy");
  return h("section", { class: "look", "data-theme": name }, h("header", {}, h("h2", {}, theme.title), written, copy), await shown(theme, game));

  async function copied() {
    try {
      await navigator.clipboard.writeText(name);
      copy.textContent = "Copied";
    } catch {
      getSelection()?.selectAllChildren(written); // No clipboard on plain HTTP: it is chosen, to be copied by hand.
    }
  }
}

const themes = /** @type {Record<string, Theme>} */ (await (await fetch("/api/v1/themes.json")).json());
const looks = h("div", { class: "looks" });
const buttons = Object.entries(GAMES).map(([game, title]) => h("button", { type: "button", "data-game": game, onclick: () => void show(game) }, title));
document.querySelector("main.themes")?.append(h("div", { class: "choice", role: "group", "aria-label": "Game" }, ...buttons), looks);
await show("wheel");

/** @param {string} game */
async function show(game) {
  for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.game === game));
  looks.replaceChildren(...(await Promise.all(Object.entries(themes).map(([name, theme]) => section(name, theme, game)))));
  looks.setAttribute("data-shown", game);
}
