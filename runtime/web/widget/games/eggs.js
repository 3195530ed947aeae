// The egg-catcher: eggs fall faster and faster, the basket catches them, and each that is missed takes a life.

import { h } from "../dom.js";
import { css } from "../look.js";
import { field, shown } from "./catching.js";

/** Between two eggs and for a fall, in milliseconds: at first, less with each egg, and at least. */
const GAP = { first: 1_150, less: 15, least: 480 };
const FALL = { first: 2_900, less: 32, least: 1_250 };
const LIVES = 3;
const MOST = 100;
const SLOWER = 2;

/** @param {typeof GAP} pace @param {number} count */
const after = (pace, count) => Math.max(pace.least, pace.first - pace.less * count);

/** A whole number of an operator's, else ours. @param {unknown} value @param {number} most @param {number} other */
const whole = (value, most, other) => (Number.isInteger(value) && Number(value) > 0 ? Math.min(most, Number(value)) : other);

/** @param {import("../types.js").Stage} stage @returns {import("../types.js").Game} */
export function mount(stage) {
  const { words, ui, look } = stage;
  const ground = field(stage, "eggs_how");
  const most = whole(ui.catcher?.most, 1_000_000, MOST);
  const lives = whole(ui.catcher?.lives, 9, LIVES);
  const colours = look.palette(4).map(css);
  /** @param {number} count */
  function egg(count) {
    const own = shown(ui.egg);
    if (own) return own;
    const painted = h("span", { class: "egg" });
    painted.style.color = colours[count % 4];
    return painted;
  }

  /** @param {number} score @param {number} left */
  function tell(score, left) {
    const said = words.t("score", { count: score });
    ground.tell(said, "❤️".repeat(left) + "🤍".repeat(lives - left));
    return said;
  }

  function rest() {
    tell(0, lives);
    ground.rest(h("div", { class: "row", "aria-hidden": "true" }, egg(0), egg(1), egg(2)));
  }
  rest();

  return {
    ...ground.game,
    rest,
    async take() {
      let [score, left, count, due] = [0, lives, 0, 300];
      const slower = ground.calm ? SLOWER : 1;
      tell(score, left);
      const duration_ms = await ground.run({
        next(time) {
          if (time < due) return;
          due = time + after(GAP, count) * slower;
          return { thing: egg(count), from: time, ms: after(FALL, count++) * slower, x: ground.across() };
        },
        caught() {
          const said = tell(++score, left);
          if (score % 10 === 0) stage.say(said);
        },
        missed() {
          const said = tell(score, --left);
          stage.say(`${words.t("lives", { count: left })} ${said}`);
        },
        ends: () => left <= 0 || score >= most,
      });
      return { score, duration_ms };
    },
  };
}
