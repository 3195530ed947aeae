// The gift-catcher: the session's drop plan falls on time, and what was caught is reported.

import { h, picture } from "../dom.js";
import { list } from "../look.js";
import { field } from "./catching.js";

const FALL_MS = 2_600;
/** Things that are planned closer than this come one after the other all the same: later than planned, never sooner. */
const APART_MS = 150;
/** A session ends by itself; a plan that is longer is played as far as this. */
const LONGEST_MS = 600_000;
const USUAL = ["🎁", "⭐", "🍬", "🎈", "💎", "🍀"];

/** @typedef {{id: string, type: string, at_ms: number}} Drop */

/** @param {import("../types.js").Stage} stage @returns {import("../types.js").Game} */
export function mount(stage) {
  const { words, ui } = stage;
  const ground = field(stage, "gifts_how");
  /** Types in the order in which they came, for those that have no look of their own. @type {string[]} */
  const types = [];
  /** @param {string} type */
  function lookOf(type) {
    if (!types.includes(type)) types.push(type);
    const named = Array.isArray(ui.items) ? null : Object.entries(ui.items ?? {}).find(([name]) => name === type)?.[1];
    return named ?? list(ui.items).find((item) => item?.type === type) ?? { emoji: USUAL[types.indexOf(type) % USUAL.length] };
  }

  function rest() {
    tell(0, 0, 0);
    const shown = list(ui.items).slice(0, 3);
    ground.rest(h("div", { class: "row", "aria-hidden": "true" }, ...(shown.length ? shown : [null]).map((item) => picture(item, "🎁"))));
  }
  rest();

  /** @param {number} caught @param {number} gone @param {number} all */
  function tell(caught, gone, all) {
    const said = words.t("caught", { count: caught });
    ground.tell(said, all ? `${words.number(gone)} / ${words.number(all)}` : "");
    return said;
  }

  /** @param {Drop[]} plan */
  async function fall(plan) {
    /** @type {string[]} */
    const caught = [];
    let next = 0;
    tell(0, 0, plan.length);
    await ground.run({
      next(time) {
        const drop = plan[next];
        const from = Math.max(drop?.at_ms, next * APART_MS);
        if (!drop || time < from) return;
        tell(caught.length, ++next, plan.length);
        return { thing: picture(lookOf(drop.type), "🎁"), from: time, ms: FALL_MS, x: ground.across(), id: drop.id };
      },
      caught(item) {
        caught.push(item.id ?? "");
        const said = tell(caught.length, next, plan.length);
        if (caught.length % 5 === 0) stage.say(said);
      },
      missed() {},
      ends: (time, falling) => time > LONGEST_MS || (next >= plan.length && !falling),
    });
    return caught;
  }

  return {
    ...ground.game,
    rest,
    async take(session) {
      const plan = session.drop_plan ?? [];
      const { pick } = ground.calm ? await import("./picking.js") : { pick: fall };
      return { caught_items: await pick(plan, { stage, ground, lookOf, tell }) };
    },
  };
}
