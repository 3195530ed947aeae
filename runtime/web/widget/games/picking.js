// The calm version of the gift-catcher: what would fall lies there to be picked, a few at a time, for as long as it takes.

import { h, pause, picture, text, wear } from "../dom.js";

/** So many at a time. */
const TURN = 6;

const sheet = new CSSStyleSheet();
sheet.replaceSync(`
.picks { display: flex; flex-wrap: wrap; justify-content: center; gap: 3cqw; width: 79cqw; }
.picks button { width: 24cqw; aspect-ratio: 1; padding: 0; border: .05em solid var(--t-line); border-radius: .35em; box-shadow: 0 .08em .16em -.06em rgb(0 0 0 / .4); background: var(--t-surface); font-size: 11cqw; line-height: 1; }
.picks [aria-pressed=true] { border-color: var(--t-primary); box-shadow: 0 0 0 .05em var(--t-primary); background: var(--t-accent-soft); }
.picks [aria-pressed=true]::after { content: "✓"; position: absolute; margin: -.2em 0 0 -.1em; width: 1.15em; height: 1.15em; border-radius: 50%; font-size: 5cqw; line-height: 1.15em; font-weight: 800; color: var(--t-on-primary); background: var(--t-primary); }
`);

/**
 * Which of the plan's things were picked. Each turn has those that would have fallen by then, so none is picked sooner.
 * @param {{id: string, type: string, at_ms: number}[]} plan
 * @param {{stage: import("../types.js").Stage, ground: any, lookOf: (type: string) => any, tell: (caught: number, gone: number, all: number) => void}} game
 * @returns {Promise<string[]>}
 */
export async function pick(plan, { stage, ground, lookOf, tell }) {
  const { words } = stage;
  wear(stage.root, sheet);
  const began = performance.now();
  ground.take();
  /** @type {Set<string>} */
  const picked = new Set();
  for (let from = 0; from < plan.length; from += TURN) {
    const turn = plan.slice(from, from + TURN);
    const gone = from + turn.length;
    await pause(Math.max(0, turn[turn.length - 1].at_ms - (performance.now() - began)));
    const buttons = turn.map((drop) => {
      const thing = lookOf(drop.type);
      const button = h("button", { type: "button", "aria-pressed": "false", "aria-label": text(thing.label) || drop.type }, picture(thing, "🎁"));
      button.addEventListener("click", () => {
        if (!picked.delete(drop.id)) picked.add(drop.id);
        button.setAttribute("aria-pressed", String(picked.has(drop.id)));
        tell(picked.size, gone, plan.length);
      });
      return button;
    });
    tell(picked.size, gone, plan.length);
    ground.say(h("span", {}, words.t("pick")), h("div", { class: "picks" }, ...buttons));
    stage.say(`${words.t("pick")} ${gone} / ${plan.length}`);
    await new Promise((resolve) => {
      const undo = stage.button(words.t("go_on"), () => {
        undo();
        resolve(undefined);
      });
    });
  }
  return [...picked];
}
