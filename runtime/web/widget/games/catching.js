// The field and basket that both catching games use.

import { h, picture, s, safe, text, wear } from "../dom.js";
import { lookOf } from "../look.js";

/**
 * What falls. `from`: when it shows, `ms`: how long it falls, both of the time that was played; `x`, `y` of 100.
 * @typedef {{thing: any, from: number, ms: number, x: number, y?: number, node?: HTMLElement, id?: string}} Falling
 */

/**
 * How a game is played: `next` has what falls next, or nothing yet; `ends` says whether it is over.
 * @typedef {object} Rules
 * @property {(time: number) => Falling | undefined} next
 * @property {(item: Falling) => void} caught
 * @property {(item: Falling) => void} missed
 * @property {(time: number, falling: number) => boolean} ends
 */

/** The longest counted frame, so that a hidden tab or slow device misses no item. */
const FRAME_MS = 100;
/** Where the basket's opening is, and how far below it still catches, of 100. */
const TOP = 80;
const DEPTH = 9;
/** How far a thing may be from the basket's middle, of 100. */
const REACH = 12;
/** The distance of the keys per second, or per press with reduced motion. */
const SPEED = 125;
const LANES = 5;
/** With reduced motion, items step through this many rows. */
const ROWS = 6;

const sheet = new CSSStyleSheet();
sheet.replaceSync(`
.catch { display: grid; gap: .5em; width: 100%; }
.tally { display: flex; justify-content: space-between; min-height: 1.9em; font-weight: 750; font-variant-numeric: tabular-nums; }
.tally span { padding: .1em .9em; border: 1px solid var(--t-line); border-radius: 9em; background: var(--t-surface); }
.tally :empty { visibility: hidden; }
.field {
  position: relative; aspect-ratio: 1 / 1.06; container-type: size; overflow: hidden; border: .35em solid var(--t-accent); border-radius: 1.4em;
  cursor: pointer; touch-action: manipulation; user-select: none; box-shadow: 0 1.4em 2.6em -1.2em rgb(0 0 0 / .55);
  background: radial-gradient(75% 24% at 18% 103%, var(--t-accent-soft) 98%, transparent), radial-gradient(80% 18% at 84% 101%, color-mix(in srgb, var(--t-primary) 34%, var(--t-ground)) 98%, transparent),
    radial-gradient(circle at 78% 34%, color-mix(in srgb, var(--t-accent) 45%, #fff) 9%, transparent 9.4%), linear-gradient(var(--t-glow), var(--t-surface) 70%);
}
.field.on { cursor: none; touch-action: none; }
.field::before {
  content: ""; position: absolute; z-index: 1; inset: 0 0 auto; height: 12cqh; background: linear-gradient(rgb(0 0 0 / .18), transparent 60%), repeating-linear-gradient(90deg, var(--t-primary) 0 12.5cqw, #fff 0 25cqw);
  mask: linear-gradient(#000 0 0) top / 100% 55% no-repeat, radial-gradient(50% 100% at 50% 0, #000 97%, transparent) bottom / 12.5cqw 46% repeat-x;
}
.field > * { position: absolute; left: 0; top: 0; }
.falls { display: grid; place-items: center; width: 14cqw; height: 14cqw; margin: -7cqw; font-size: 11cqw; line-height: 1; will-change: transform; filter: drop-shadow(0 .8cqw .6cqw rgb(0 0 0 / .28)); }
.egg { width: .8em; height: 1em; border-radius: 50% / 60% 60% 40% 40%; background: radial-gradient(circle at 34% 28%, rgb(255 255 255 / .85), transparent 38%), repeating-linear-gradient(transparent 0 .3em, rgb(255 255 255 / .6) 0 .38em), currentColor; box-shadow: inset -.1em -.12em .2em rgb(0 0 0 / .28); }
.basket { width: 26cqw; height: 18cqw; margin-left: -13cqw; display: grid; place-items: center; font-size: 17cqw; line-height: 1; will-change: transform; filter: drop-shadow(0 1.2cqw 1cqw rgb(0 0 0 / .35)); }
.basket svg { width: 100%; height: 100%; overflow: visible; }
.calm .basket { width: 34cqw; height: 20cqw; margin-left: -17cqw; }
.plus { margin: -1em; color: var(--t-strong); font-weight: 850; font-size: 8cqw; line-height: 1; text-shadow: 0 0 .2em var(--t-surface), 0 0 .1em var(--t-surface); }
.field > .over {
  inset: 0; z-index: 2; display: flex; flex-direction: column; align-items: center; justify-content: safe center; gap: .6em; padding: 1em; overflow: auto; text-align: center; font-weight: 650; line-height: 1.3; overflow-wrap: anywhere;
  background: color-mix(in srgb, var(--t-surface) 82%, transparent); animation: rise .45s both;
}
.field > .over[hidden] { display: none; }
.over > .picture { font-size: min(22cqw, 30cqh); line-height: 1; }
.over .row { display: flex; gap: .5em; font-size: 12cqw; line-height: 1; }
.over .big { font-size: 1.5em; font-weight: 800; color: var(--t-strong); }
`);

/** The operator's picture of an item; undefined if none. @param {any} thing */
export const shown = (thing) => (safe(thing?.image) || text(thing?.emoji) ? picture(thing) : undefined);

/**
 * @param {import("../types.js").Stage} stage
 * @param {string} how the key of the instructions
 */
export function field(stage, how) {
  const { root, words, ui } = stage;
  const shadow = /** @type {ShadowRoot} */ (root.getRootNode());
  wear(root, sheet);
  const points = h("span");
  const lives = h("span", { dir: "ltr" });
  const over = h("div", { class: "over" });
  const basket = h("div", { class: "basket" }, shown(ui.catcher) ?? woven());
  const ground = h("div", { class: "field", part: "field", role: "group", "aria-label": words.t(how) }, basket, over);
  const whole = h("div", { class: "catch" }, h("div", { class: "tally" }, points, lives), ground);
  root.append(whole);
  const calm = h("button", { class: "small", type: "button", onclick: () => be(!self.calm) }, words.t("calm"));

  let x = 50;
  let at = 50;
  let target = 50;
  let towards = 0;
  let paused = false;
  let frames = 0;
  /** Ends the running game. @type {() => void} */
  let leave = () => {};

  let said = "";
  /** Whether a play is running, so that announcements are about it and not about one before a reload. */
  let played = false;

  const self = {
    /** Whether things stand still, one place after the other, and for longer. */
    calm: false,
    /** Announces the progress: the score and what remains. @param {string} reached @param {string} left */
    tell(reached, left) {
      points.textContent = said = reached;
      lives.textContent = left;
    },
    /** Shows a text over the field; without one, uncovers it. @param {...any} shown */
    say(...shown) {
      over.replaceChildren(...shown.filter(Boolean));
      over.hidden = !shown.length;
    },
    /** As it is before a game. @param {...any} shown */
    rest(...shown) {
      leave();
      played = false;
      place((at = target = 50));
      self.say(...shown, h("span", {}, words.t(how)), calm);
    },
    /** Shared by both games. @type {Pick<import("../types.js").Game, "wait" | "show" | "stop">} */
    game: {
      wait: () => self.say(h("span", { class: "big" }, played ? said : words.t("playing"))),
      async show({ rewards }) {
        const names = rewards.map((reward) => reward.name).join(", ");
        const more = played ? said : "";
        played = false;
        self.say(picture(names ? lookOf(ui, rewards[0]) : null, "🍃"), h("span", { class: "big" }, names || more || words.t("lost")), names && h("span", {}, more));
      },
      /** Abandons the running game without reporting it. */
      stop: () => leave(),
    },
    /** The position of the next item (0 to 100), always within reach. */
    across() {
      const [low, high] = [Math.max(9, x - 46), Math.min(91, x + 46)];
      x = low + Math.random() * (high - low);
      if (self.calm) x = ((Math.floor((x * LANES) / 100) + 0.5) * 100) / LANES;
      return x;
    },
    /** The game is on: a touch of the field does not begin it any more. */
    take: () => (played = true),
    run,
  };
  be(stage.still());

  /** @param {boolean} isCalm */
  function be(isCalm) {
    self.calm = isCalm;
    calm.setAttribute("aria-pressed", String(isCalm));
    whole.classList.toggle("calm", isCalm);
  }

  /** A basket in the brand's colours. */
  function woven() {
    const weave = [28, 40, 52].map((y) => s("path", { d: `M${y / 4 + 7} ${y} H ${93 - y / 4}`, stroke: "#fff", "stroke-opacity": 0.4, "stroke-width": 5, "stroke-dasharray": "9 7", "stroke-dashoffset": y }));
    return s("svg", { viewBox: "0 0 100 66", "aria-hidden": "true" }, s("path", { d: "M7 16 H 93 L 82 60 Q 80 66 74 66 H 26 Q 20 66 18 60 Z", fill: "var(--t-primary)" }), ...weave, s("rect", { y: 8, width: 100, height: 14, rx: 7, fill: "var(--t-accent)", stroke: "#fff", "stroke-width": 2.5 }));
  }

  /** @param {HTMLElement} node @param {number} x @param {number} y */
  const put = (node, x, y, more = "") => (node.style.transform = `translate(${x.toFixed(2)}cqw, ${y.toFixed(2)}cqh)${more}`);

  /** @param {number} x */
  const place = (x) => put(basket, x, TOP - 1);

  /** A text that rises and fades. @param {Falling} item @param {string} said */
  function rise(item, said) {
    if (self.calm) return;
    const plus = h("div", { class: "plus", "aria-hidden": "true" }, said);
    ground.append(plus);
    const from = `translate(${item.x}cqw, ${TOP - 2}cqh)`;
    void plus.animate([{ transform: from }, { transform: `translate(${item.x}cqw, ${TOP - 22}cqh)`, opacity: 0 }], { duration: 700, easing: "ease-out" }).finished.then(() => plus.remove(), () => plus.remove());
    basket.firstElementChild?.animate([{ transform: "scale(1.12, .86)" }, { transform: "none" }], { duration: 220, easing: "ease-out" });
  }

  /** @param {KeyboardEvent} event */
  function key(event) {
    const way = { ArrowLeft: -1, KeyA: -1, ArrowRight: 1, KeyD: 1 }[event.code] ?? 0;
    const on = /** @type {Element} */ (event.target);
    if (!way || event.ctrlKey || event.metaKey || event.altKey || on.getRootNode() !== shadow || on.closest("dialog")) return;
    event.preventDefault();
    if (event.type === "keyup") towards = towards === way ? 0 : towards;
    else if (!self.calm) towards = way;
    else if (!event.repeat) aim(target + (way * 100) / LANES);
  }

  /** @param {number} x */
  function aim(x) {
    const held = Math.min(100, Math.max(0, x));
    target = self.calm ? ((Math.min(LANES - 1, Math.floor((held * LANES) / 100)) + 0.5) * 100) / LANES : held;
  }

  /** @param {PointerEvent} event */
  function point(event) {
    const { left, width } = ground.getBoundingClientRect();
    towards = 0;
    aim(((event.clientX - left) * 100) / width);
  }

  ground.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
    // Where there are things to press, a captured pointer would take their clicks.
    if (!ground.classList.contains("on")) return;
    ground.setPointerCapture(event.pointerId);
    point(event);
  });
  ground.addEventListener("pointermove", point);
  ground.addEventListener("click", (/** @type {Event} */ event) => !played && event.target !== calm && stage.press());

  /** Plays until it is over; how long it took, in milliseconds. @param {Rules} rules @returns {Promise<number>} */
  function run(rules) {
    return new Promise((resolve) => {
      /** @type {Falling[]} */
      let falling = [];
      let time = 0;
      let last = 0;
      let undo = stage.button(words.t("pause"), rests);
      const hides = () => document.hidden && !paused && rests();
      const reach = REACH * (self.calm ? 1.4 : 1);

      function rests() {
        paused = !paused;
        self.say(...(paused ? [h("span", {}, words.t(how))] : []));
        undo();
        undo = stage.button(words.t(paused ? "go_on" : "pause"), rests);
      }

      /** @param {number} now */
      function frame(now) {
        frames = requestAnimationFrame(frame);
        if (!paused && shadow.querySelector("dialog")) rests();
        const passed = paused ? 0 : Math.min(FRAME_MS, now - (last || now));
        last = now;
        time += passed;
        target = Math.min(100, Math.max(0, target + (towards * SPEED * passed) / 1000));
        at = self.calm || towards ? target : at + (target - at) * (1 - Math.exp(-passed / 35));
        place(at);
        for (let item; !paused && (item = rules.next(time)); ) {
          item.node = h("div", { class: "falls", "aria-hidden": "true" }, item.thing);
          ground.prepend(/** @type {HTMLElement} */ (item.node));
          falling.push(item);
        }
        falling = falling.filter((item) => falls(item));
        if (rules.ends(time, falling.length)) leave();
      }

      /** Whether it still falls. @param {Falling} item */
      function falls(item) {
        const share = (time - item.from) / item.ms;
        const y = 4 + 100 * share * (0.55 + 0.45 * share);
        const node = /** @type {HTMLElement} */ (item.node);
        // Anywhere on its path since the last frame.
        const passes = y > TOP && (item.y ?? 0) < TOP + DEPTH;
        item.y = y;
        if (passes && Math.abs(at - item.x) < reach) {
          node.remove();
          stage.tick();
          rules.caught(item);
          rise(item, "+1");
          return false;
        }
        if (y > 99) {
          node.remove();
          rules.missed(item);
          return false;
        }
        put(node, item.x, self.calm ? (Math.floor((y * ROWS) / 100) * 100) / ROWS + 4 : y, self.calm ? "" : ` rotate(${((item.x * 7 + share * 160) % 360) - 180}deg)`);
        return true;
      }

      leave = () => {
        leave = () => {};
        cancelAnimationFrame(frames);
        for (const item of falling) item.node?.remove();
        for (const type of KEYS) shadow.removeEventListener(type, /** @type {any} */ (key));
        document.removeEventListener("visibilitychange", hides);
        ground.classList.remove("on");
        ground.setAttribute("role", "group");
        undo();
        paused = false;
        towards = 0;
        if (shadow.activeElement === ground) /** @type {HTMLElement | null} */ (shadow.querySelector(".main"))?.focus({ preventScroll: true });
        ground.removeAttribute("tabindex");
        resolve(Math.max(1, Math.floor(time)));
      };
      for (const type of KEYS) shadow.addEventListener(type, /** @type {any} */ (key));
      document.addEventListener("visibilitychange", hides);
      self.say();
      self.take();
      ground.classList.add("on");
      // The game uses the arrow keys, also with a screen reader.
      ground.setAttribute("role", "application");
      ground.setAttribute("tabindex", "0");
      ground.focus({ preventScroll: true });
      ground.scrollIntoView({ block: "nearest" });
      frames = requestAnimationFrame(frame);
    });
  }

  return self;
}

const KEYS = ["keydown", "keyup"];
