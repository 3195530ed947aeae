// The collection: a card is drawn and turned over, an album counts what there is of each, and rungs show how far it is.

import { h, pause, picture, still, text, wear } from "../dom.js";
import { list, lookOf } from "../look.js";

const TURN_MS = 750;

const sheet = new CSSStyleSheet();
sheet.replaceSync(`
.album { display: grid; gap: 1em; width: 100%; }
.deck { justify-self: center; position: relative; width: min(75%, 8.4em); aspect-ratio: 5 / 6.6; perspective: 40em; cursor: pointer; }
.deck::before, .deck::after { content: ""; position: absolute; inset: 0; border-radius: 1.1em; background: var(--t-primary-deep); border: .25em solid var(--t-surface); transform: rotate(-7deg) translate(-.3em, .1em); }
.deck::after { z-index: -1; transform: rotate(8deg) translate(.35em, .2em); }
.leaf { position: absolute; inset: 0; z-index: 1; transform-style: preserve-3d; will-change: transform; transition: transform ${TURN_MS}ms cubic-bezier(.3, 1.35, .5, 1); }
.leaf.open { transform: rotateY(180deg); }
.leaf.waits { animation: waits .5s ease-in-out infinite alternate; }
@keyframes waits { from { transform: rotate(-3deg); } to { transform: translateY(-.5em) rotate(3deg); } }
.leaf > * { position: absolute; inset: 0; display: grid; place-content: center; justify-items: center; gap: .3em; border-radius: 1.1em; backface-visibility: hidden; text-align: center; font-weight: 750; line-height: 1.15; overflow: hidden; overflow-wrap: anywhere; box-shadow: 0 .6em 1.4em -.4em rgb(0 0 0 / .5); }
.leaf .back { color: var(--t-on-primary); border: .3em solid var(--t-surface); background: radial-gradient(circle at 50% 50%, transparent 31%, rgb(255 255 255 / .3) 31.5% 33%, transparent 33.5%), repeating-linear-gradient(45deg, rgb(255 255 255 / .11) 0 .45em, transparent 0 .9em), var(--t-primary); font-size: 2.6em; border-width: .12em; border-radius: .42em; box-shadow: 0 .25em .55em -.15em rgb(0 0 0 / .5); }
.leaf .face { padding: .5em; transform: rotateY(180deg); border: .3em solid var(--t-accent); background: radial-gradient(circle at 50% 38%, var(--t-accent-soft), var(--t-surface) 72%); }
.leaf .face .picture { font-size: 3.6em; line-height: 1; }
.slots { display: flex; flex-wrap: wrap; justify-content: center; gap: .7em; margin: 0; padding: 0; list-style: none; }
.slots li { width: 6em; position: relative; display: grid; justify-items: center; align-content: center; gap: .2em; min-height: 6em; padding: .6em .3em .5em; border: 1px solid var(--t-line); border-radius: 1.1em; background: var(--t-surface); box-shadow: 0 .7em 1.3em -1em rgb(0 0 0 / .5); font-size: .95em; text-align: center; line-height: 1.15; overflow-wrap: anywhere; }
.slots .picture { font-size: 2.5em; line-height: 1.1; }
.slots .none { border-style: dashed; box-shadow: none; color: var(--t-quiet); }
.slots .none .picture { filter: grayscale(.8); opacity: .5; }
.slots b { position: absolute; top: -.45em; inset-inline-end: -.3em; min-width: 1.75em; padding: .12em .45em; border-radius: 9em; color: var(--t-on-primary); background: var(--t-primary); font-variant-numeric: tabular-nums; }
.slots .none b { visibility: hidden; }
.slots .new { animation: stamp .55s cubic-bezier(.2, 1.6, .4, 1); border-color: var(--t-accent); box-shadow: 0 0 0 .15em var(--t-accent); }
@keyframes stamp { from { transform: scale(1.35) rotate(-5deg); } }
.rungs { display: grid; gap: .6em; margin: 0; padding: 0; list-style: none; }
.rungs li { display: grid; grid-template-columns: auto 1fr auto; align-items: center; gap: .25em .7em; padding: .6em .9em; border: 1px solid var(--t-line); border-radius: 1em; background: var(--t-surface); overflow-wrap: anywhere; }
.rungs .picture { grid-row: span 2; font-size: 1.8em; }
.rungs .far { font-variant-numeric: tabular-nums; color: var(--t-quiet); white-space: nowrap; }
.rungs .there .far { color: var(--t-strong); font-weight: 750; }
.bar { grid-column: 2 / -1; height: .6em; border-radius: 1em; overflow: hidden; background: var(--t-line); }
.bar i { display: block; height: 100%; border-radius: 1em; background: linear-gradient(90deg, var(--t-primary), var(--t-strong)); transform-origin: 0 0; transition: transform .8s; }
[dir=rtl] .bar i { transform-origin: 100% 0; }
`);

/** @param {import("../types.js").Stage} stage @returns {import("../types.js").Game} */
export function mount(stage) {
  const { api, render, ui, words } = stage;
  wear(stage.root, sheet);
  /** @type {any[]} */
  const rungs = list(render.milestones?.rungs);
  /** How many there are of each. @type {Map<string, number>} */
  const counts = new Map();
  /** Ids of milestones whose prize was granted. @type {Set<string>} */
  const given = new Set();
  let fresh = "";
  const face = h("div", { class: "face" });
  const leaf = h("div", { class: "leaf" }, h("div", { class: "back" }, "?"), face);
  const slots = h("ul", { class: "slots" });
  const ladder = h("ul", { class: "rungs" });
  stage.root.append(h("div", { class: "album", part: "album" }, h("div", { class: "deck", "aria-hidden": "true", onclick: () => stage.press() }, leaf), slots, ladder));
  /** @param {string} item */
  const lookOfItem = (item) => lookOf(ui, { type: "item", name: item });
  /** @param {string} item */
  const nameOf = (item) => text(lookOfItem(item).label) || item;

  /** Every item that the operator shows, that counts for a rung, or that the player has; points are none. */
  function items() {
    const shown = list(ui.items).map((item) => text(item?.item)).filter(Boolean);
    return [...new Set([...shown, ...rungs.map((rung) => rung.currency), ...counts.keys()])].filter((item) => item !== "points" || shown.includes(item));
  }

  function paint() {
    slots.replaceChildren(
      ...items().map((item) => {
        const count = counts.get(item) ?? 0;
        return h("li", { class: `${count ? "" : "none"} ${item === fresh ? "new" : ""}` }, picture(lookOfItem(item)), h("span", {}, nameOf(item)), h("b", {}, words.number(count)));
      }),
    );
    ladder.replaceChildren(...rungs.map(rungOf));
  }

  /** @param {any} rung */
  function rungOf(rung) {
    const [has, all] = [counts.get(rung.currency) ?? 0, Number(rung.threshold) || 1];
    const isThere = given.has(rung.id) || has >= all;
    // Leads to the milestone to redeem; prizes granted by the play need no redemption.
    const isDue = isThere && !given.has(rung.id);
    const prize = render.prizes.find((one) => one.prize_id === rung.prize_id);
    const bar = h("i");
    bar.style.transform = `scaleX(${isThere ? 1 : has / all})`;
    return h(
      "li",
      { class: isDue ? "there due" : isThere ? "there" : "" },
      picture(lookOf(ui, prize ?? {})),
      h("span", {}, text(rung.name) || prize?.name || nameOf(rung.currency)),
      isDue ? h("button", { class: "small strong", type: "button", "data-redeem": rung.id, onclick: () => stage.open("milestones") }, words.t("redeem")) : h("span", { class: "far" }, isThere ? `✓ ${words.t("reached")}` : `${words.number(Math.max(0, has))} / ${words.number(all)}`),
      h("div", { class: "bar", "aria-hidden": "true" }, bar),
    );
  }

  /** Counts requests and draws: older responses are dropped. */
  let asked = 0;

  /** The player's items. No request before the first play. */
  async function look() {
    const ask = ++asked;
    const none = { items: [] };
    const [ladder, wallet] = await Promise.all([
      rungs.length && api.identity.token ? api.get(`/games/${encodeURIComponent(render.id)}/milestones?limit=100`) : none,
      api.identity.token ? api.get(`/wallet?limit=100&scope_key=${encodeURIComponent(render.scope_key)}`) : none,
    ]).catch(() => []);
    if (ask !== asked || !wallet) return;
    counts.clear();
    given.clear();
    for (const one of wallet.items) counts.set(one.currency, Number(one.balance));
    for (const one of ladder.items) if (one.status === "MILESTONE_STATUS_GRANTED") given.add(one.id);
    paint();
  }

  paint();
  void look();

  return {
    label: "draw",
    look,
    rest() {
      leaf.classList.remove("open", "waits");
      fresh = "";
      paint();
    },
    wait() {
      leaf.classList.remove("open");
      leaf.classList.add("waits");
    },
    async show(result) {
      asked++;
      const [won] = result.rewards;
      const item = text(result.metadata?.item);
      leaf.classList.remove("waits");
      face.replaceChildren(picture(item ? lookOfItem(item) : won ? lookOf(ui, won) : null, "🍃"), h("span", {}, item ? words.t("credited", { count: Number(result.metadata.quantity), name: nameOf(item) }) : (won?.name ?? words.t("lost"))));
      void leaf.offsetWidth;
      leaf.classList.add("open");
      stage.tick();
      if (!still()) await pause(TURN_MS);
      for (const one of result.balances ?? []) counts.set(one.currency, Number(one.balance));
      for (const one of /** @type {any[]} */ (result.milestones_granted ?? [])) given.add(one.id ?? one.milestone?.id);
      fresh = item;
      paint();
    },
  };
}
