// The spin wheel: `ui.wheel.segments` as a disc, which turns to the segment of `metadata.slot_index`.

import { h, s, safe, still, text, wear } from "../dom.js";
import { css, ink, list, rgb } from "../look.js";

/** Degrees per second while waiting for the response. */
const SPEED = 540;
const LANDING_MS = 4_200;
const TURNS = 3;
const SEGMENTS_MAX = 64;
const NAMED_MAX = 12;
/** How far from the middle of its segment, of half its width, the wheel may stop. */
const STRAY = 0.55;

const sheet = new CSSStyleSheet();
sheet.replaceSync(`
.wheel { position: relative; width: 100%; aspect-ratio: 1; cursor: pointer; touch-action: manipulation; }
.wheel svg { position: absolute; inset: 0; width: 100%; height: 100%; overflow: visible; }
.wheel .shade { position: absolute; inset: 3%; border-radius: 50%; box-shadow: 0 1.4em 2.6em -.9em rgb(0 0 0 / .55); }
.wheel .disc { position: absolute; inset: 0; will-change: transform; }
.wheel .disc.dim { opacity: .45; transition: opacity .3s; }
.wheel .hit { opacity: 0; }
.wheel .hit.on { opacity: 1; animation: pulse .5s ease-in-out 4 alternate; }
@keyframes pulse { from { opacity: .25; } to { opacity: 1; } }
.wheel .pointer { transform-box: fill-box; transform-origin: 50% 12%; will-change: transform; }
`);

/** @param {number} degrees clockwise from the top @param {number} radius */
function at(degrees, radius) {
  const angle = ((degrees - 90) * Math.PI) / 180;
  return `${(Math.cos(angle) * radius).toFixed(2)} ${(Math.sin(angle) * radius).toFixed(2)}`;
}

/** @param {number} from @param {number} to @param {number} radius */
function slice(from, to, radius) {
  if (to - from >= 360) return `M ${at(0, radius)} A ${radius} ${radius} 0 1 1 ${at(180, radius)} A ${radius} ${radius} 0 1 1 ${at(0, radius)} Z`;
  return `M 0 0 L ${at(from, radius)} A ${radius} ${radius} 0 ${to - from > 180 ? 1 : 0} 1 ${at(to, radius)} Z`;
}

/** Words on at most two lines of so many characters. @param {string} label @param {number} most @returns {string[]} */
function lines(label, most) {
  const cut = (/** @type {string} */ line) => (line.length > most ? `${line.slice(0, Math.max(1, most - 1))}…` : line);
  if (label.length <= most) return [label];
  const words = label.split(/\s+/);
  let first = words.shift() ?? "";
  while (words.length && `${first} ${words[0]}`.length <= most) first += ` ${words.shift()}`;
  return words.length ? [cut(first), cut(words.join(" "))] : [cut(first)];
}

/** @param {import("../types.js").Stage} stage @returns {import("../types.js").Game} */
export function mount(stage) {
  wear(stage.root, sheet);
  const own = list(stage.ui.wheel?.segments).slice(0, SEGMENTS_MAX);
  // Without segments: one for each prize, and an empty one for losses.
  const segments = own.length ? own : [...stage.render.prizes.map((prize) => ({ label: prize.name, prize_id: prize.prize_id })), { label: "" }];
  const width = 360 / segments.length;
  const colours = stage.look.palette(segments.length);
  const hit = s("path", { class: "hit", d: slice(-width / 2, width / 2, 92), fill: "none", stroke: "#fff", "stroke-width": 4, "stroke-linejoin": "round" });
  const disc = h("div", { class: "disc" }, s("svg", { viewBox: "-110 -110 220 220", "aria-hidden": "true" }, ...segments.map(field), s("g", {}, hit)));
  const pointer = s("path", { class: "pointer", d: "M -9 -110 Q 0 -114 9 -110 L 1.6 -90 Q 0 -87 -1.6 -90 Z", fill: css(stage.look.accent), stroke: "#fff", "stroke-width": 2.5 });
  const labels = segments.map((segment) => text(segment?.label)).filter(Boolean);
  const wheel = h(
    "div",
    {
      class: "wheel",
      part: "wheel",
      role: "img",
      "aria-label": stage.words.t("wheel", { count: segments.length, fields: labels.join(", ") }),
      onclick: () => stage.press(),
    },
    h("div", { class: "shade" }),
    s("svg", { viewBox: "-110 -110 220 220", "aria-hidden": "true" }, rim()),
    disc,
    s("svg", { viewBox: "-110 -110 220 220", "aria-hidden": "true" }, hub(), pointer),
  );
  stage.root.append(wheel);

  /** @param {any} segment @param {number} i */
  function field(segment, i) {
    const colour = rgb(segment?.color) ?? colours[i];
    const group = s("g", { transform: `rotate(${(i * width).toFixed(3)})` }, s("path", { d: slice(-width / 2, width / 2, 94), fill: css(colour), stroke: "#fff", "stroke-width": 1.2 }));
    const roomy = segments.length <= NAMED_MAX;
    const size = Math.min(21, 8 + width / 3.4);
    const image = safe(segment?.image);
    if (image) group.append(s("image", { href: image, x: -size * 0.65, y: -85, width: size * 1.3, height: size * 1.3 }));
    else if (text(segment?.emoji)) group.append(s("text", { class: "picture", y: -66, "font-size": size, "text-anchor": "middle" }, text(segment.emoji)));
    const bare = !image && !text(segment?.emoji);
    if (roomy || bare) {
      // Between its edges, and within the rim.
      const room = Math.min(2 * 54 * Math.tan((Math.min(width, 150) * Math.PI) / 360) - 5, 92);
      const top = bare ? -66 : -54;
      lines(text(segment?.label), Math.max(3, Math.floor(room / 4.6))).forEach((line, row) => {
        group.append(s("text", { y: top + row * 8.6, "font-size": 7.6, "font-weight": 700, "text-anchor": "middle", fill: css(ink(colour)) }, line));
      });
    }
    return group;
  }

  function rim() {
    const lights = Array.from({ length: 24 }, (_, i) => {
      const [x, y] = at(i * 15, 101).split(" ");
      return s("circle", { cx: x, cy: y, r: 2.1, fill: i % 2 ? "#fff" : css(stage.look.accent) });
    });
    return s("g", {}, s("circle", { r: 108, fill: css(stage.look.primary) }), s("circle", { r: 106.5, fill: "none", stroke: "#fff", "stroke-opacity": 0.35, "stroke-width": 1 }), s("circle", { r: 96, fill: "#fff" }), ...lights);
  }

  function hub() {
    return s("g", {}, s("circle", { r: 17, fill: "#fff" }), s("circle", { r: 13.5, fill: css(stage.look.primary) }), s("path", { d: "M 0 -7.5 L 2 -2.3 L 7.4 -2.3 L 3 1.1 L 4.7 6.4 L 0 3.2 L -4.7 6.4 L -3 1.1 L -7.4 -2.3 L -2 -2.3 Z", fill: css(stage.look.accent) }));
  }

  let angle = 0;
  /** @type {Animation | null} */
  let spin = null;
  let from = 0;
  let distance = 0;
  let frames = 0;

  /** Where the disc stands, without asking for a layout. */
  const now = () => from + distance * (spin?.effect?.getComputedTiming().progress ?? 0) + distance * (distance === 360 ? spin?.effect?.getComputedTiming().currentIteration ?? 0 : 0);

  /** @param {number} start @param {number} length @param {KeyframeAnimationOptions} options */
  function turn(start, length, options) {
    spin?.cancel();
    from = start;
    distance = length;
    disc.style.transform = `rotate(${start + length}deg)`;
    const turning = disc.animate([{ transform: `rotate(${start}deg)` }, { transform: `rotate(${start + length}deg)` }], options);
    spin = turning;
    return turning;
  }

  /** The pointer is pushed by each edge that passes. */
  function follow() {
    cancelAnimationFrame(frames);
    let last = Math.floor(now() / width + 0.5);
    const step = () => {
      if (!spin || spin.playState !== "running") return;
      const passed = Math.floor(now() / width + 0.5);
      if (passed !== last) {
        last = passed;
        pointer.animate([{ transform: "rotate(-16deg)" }, { transform: "rotate(0)" }], { duration: 140, easing: "ease-out" });
        stage.tick();
      }
      frames = requestAnimationFrame(step);
    };
    frames = requestAnimationFrame(step);
  }

  function rest() {
    hit.classList.remove("on");
    disc.classList.remove("dim");
  }

  /** The segment of a result; -1: none shows it. @param {import("../types.js").Result} result */
  function slotOf({ metadata, rewards: [won] }) {
    if (own.length) return Number.isInteger(metadata?.slot_index) ? metadata.slot_index : -1;
    // `slot_index` counts in the odds, which are not known here and may name prizes in another order.
    return won ? segments.findIndex((segment) => segment.prize_id === won.prize_id) : segments.length - 1;
  }

  /** Stops the wheel on the segment, or on an edge if the result names none. @param {number} slot */
  function mark(slot) {
    const named = slot >= 0 && slot < segments.length;
    disc.classList.toggle("dim", !named);
    if (!named) return;
    hit.setAttribute("transform", `rotate(${(slot * width).toFixed(3)})`);
    hit.classList.add("on");
  }

  return {
    label: "spin",
    rest() {
      rest();
      if (spin?.playState === "running") {
        angle = now() % 360;
        spin.cancel();
        spin = null;
        disc.style.transform = `rotate(${angle}deg)`;
      }
    },
    wait() {
      rest();
      if (still()) return;
      turn(angle, 360, { duration: (360 / SPEED) * 1000, iterations: Infinity });
      follow();
    },
    async show(result) {
      const slot = slotOf(result);
      const named = slot >= 0 && slot < segments.length;
      // A play without a segment ends on an edge.
      const place = named ? slot * width + stray(result.seed) * (width / 2) * STRAY : width / 2;
      if (still()) {
        spin?.cancel();
        angle = (360 - place) % 360;
        disc.style.transform = `rotate(${angle}deg)`;
        mark(slot);
        return;
      }
      const start = spin ? now() : angle;
      const end = Math.ceil((start + TURNS * 360 + place) / 360) * 360 - place;
      // It goes on as fast as it went: the curve's slope at its beginning is the speed of before.
      const slope = (SPEED * (LANDING_MS / 1000)) / (end - start);
      const curve = `cubic-bezier(0.2, ${Math.min(1, 0.2 * slope).toFixed(3)}, 0.22, 1)`;
      const landing = turn(start, end - start, { duration: LANDING_MS, easing: curve });
      follow();
      await landing.finished.catch(() => {});
      angle = end % 360;
      disc.style.transform = `rotate(${angle}deg)`;
      spin = null;
      mark(slot);
    },
    stop() {
      cancelAnimationFrame(frames);
      spin?.cancel();
    },
  };
}

/** From -1 to 1, by the seed: the same play always stops at the same place. @param {string} seed */
const stray = (seed) => (parseInt(text(seed).slice(0, 4), 16) || 0) / 32767.5 - 1;
