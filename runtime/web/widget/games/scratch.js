// The scratch card: the result lies under a foil, which is scratched off by pointer, or by the button.

import { h, picture, still, wear } from "../dom.js";
import { css, list, lookOf, mix } from "../look.js";

/** How much must be off before the rest goes by itself, of 1. */
const ENOUGH = 0.5;
/** The foil is measured by so many cells. */
const ACROSS = 24;
const DOWN = 15;
/** How wide a stroke is, of the card's width. */
const STROKE = 0.14;
/** How often the button is pressed until the card is open. */
const PRESSES = 4;

const sheet = new CSSStyleSheet();
sheet.replaceSync(`
.scratch { position: relative; width: 100%; aspect-ratio: 8 / 5; border-radius: 1.4em; overflow: hidden; background: var(--t-surface); border: .35em solid var(--t-accent); box-shadow: 0 1.4em 2.6em -1.2em rgb(0 0 0 / .55); }
.scratch .under { position: absolute; inset: 0; display: flex; flex-direction: column; align-items: center; justify-content: center; gap: .3em; padding: .8em; text-align: center; font-weight: 700; font-size: 1.15em; line-height: 1.2; overflow-wrap: anywhere; }
.scratch .under .picture { font-size: 3em; line-height: 1; }
.scratch canvas { position: absolute; inset: 0; width: 100%; height: 100%; cursor: grab; touch-action: none; transition: opacity .5s; }
.scratch canvas.off { opacity: 0; pointer-events: none; }
`);

/** @param {import("../types.js").Stage} stage @returns {import("../types.js").Game} */
export function mount(stage) {
  wear(stage.root, sheet);
  const { words, look } = stage;
  const under = h("div", { class: "under" });
  const foil = h("canvas", { "aria-hidden": "true" });
  const card = h("div", { class: "scratch", part: "scratch" }, under, foil);
  stage.root.append(card);
  const context = /** @type {CanvasRenderingContext2D} */ (foil.getContext("2d"));
  /** Lines of [x, y, x, y], of 1. @type {number[][]} */
  let strokes = [];
  let cells = new Uint8Array(ACROSS * DOWN);
  /** The result is under the foil, so it may be scratched. */
  let open = false;
  /** @type {() => void} */
  let seen = () => {};
  /** @type {[number, number] | null} */
  let last = null;
  let announced = 0;

  const sizes = new ResizeObserver(draw);
  sizes.observe(card);

  function draw() {
    const ratio = Math.min(3, devicePixelRatio || 1);
    const { width, height } = card.getBoundingClientRect();
    if (!width) return;
    foil.width = width * ratio;
    foil.height = height * ratio;
    context.globalCompositeOperation = "source-over";
    const shine = context.createLinearGradient(0, 0, foil.width, foil.height);
    const base = mix(look.primary, [200, 200, 214], 0.35);
    [0, 0.3, 0.5, 0.7, 1].forEach((stop, i) => shine.addColorStop(stop, css(mix(base, [255, 255, 255], i % 2 ? 0.34 : 0.04))));
    context.fillStyle = shine;
    context.fillRect(0, 0, foil.width, foil.height);
    pattern();
    hint();
    context.globalCompositeOperation = "destination-out";
    if (open) strokes.forEach(rub);
  }

  function pattern() {
    const items = list(stage.ui.items).map((item) => item?.emoji).filter((emoji) => typeof emoji === "string");
    const size = foil.width / 13;
    context.font = `${size}px sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.globalAlpha = 0.28;
    for (let row = 0; row < 5; row++) {
      for (let column = 0; column < 7; column++) {
        const mark = items.length ? items[(row * 3 + column) % items.length] : "★";
        context.fillStyle = "#fff";
        context.fillText(mark, ((column + (row % 2 ? 0.5 : 0)) * foil.width) / 6.5, ((row + 0.5) * foil.height) / 5);
      }
    }
    context.globalAlpha = 1;
  }

  function hint() {
    const said = words.t("scratch_hint");
    let size = foil.width / 13;
    context.font = `800 ${size}px system-ui, sans-serif`;
    const wide = context.measureText(said).width;
    if (wide > foil.width * 0.72) size *= (foil.width * 0.72) / wide;
    context.font = `800 ${size}px system-ui, sans-serif`;
    const width = context.measureText(said).width + size * 1.6;
    context.fillStyle = "rgb(255 255 255 / .92)";
    context.beginPath();
    context.roundRect((foil.width - width) / 2, foil.height / 2 - size, width, size * 2, size);
    context.fill();
    context.fillStyle = "#23202e";
    context.fillText(said, foil.width / 2, foil.height / 2 + size * 0.05);
  }

  /** Takes a line off the foil. @param {number[]} stroke */
  function rub([x, y, toX, toY]) {
    context.lineWidth = foil.width * STROKE;
    context.lineCap = "round";
    context.beginPath();
    context.moveTo(x * foil.width, y * foil.height);
    context.lineTo(toX * foil.width + 0.1, toY * foil.height);
    context.stroke();
    const steps = Math.ceil(Math.hypot(toX - x, toY - y) * ACROSS) + 1;
    for (let step = 0; step <= steps; step++) {
      clear(x + ((toX - x) * step) / steps, y + ((toY - y) * step) / steps);
    }
  }

  /** Counts the cells around a point as clear. @param {number} x @param {number} y */
  function clear(x, y) {
    const reach = STROKE / 2;
    for (let row = 0; row < DOWN; row++) {
      for (let column = 0; column < ACROSS; column++) {
        const [across, down] = [(column + 0.5) / ACROSS - x, (((row + 0.5) / DOWN - y) * DOWN) / ACROSS];
        if (Math.hypot(across, down) < reach) cells[row * ACROSS + column] = 1;
      }
    }
  }

  /** @param {number[]} stroke */
  function scratch(stroke) {
    strokes.push(stroke);
    if (!open) return;
    rub(stroke);
    stage.tick();
    measure();
  }

  /** Announces the progress, and ends once enough is scratched. */
  function measure() {
    const share = cells.reduce((sum, cell) => sum + cell, 0) / cells.length;
    if (share >= ENOUGH) return seen();
    const percent = Math.floor((share * 100) / 20) * 20;
    if (percent > announced) stage.say(words.t("scratched", { count: (announced = percent) }));
  }

  /** @param {PointerEvent} event @returns {[number, number]} */
  function place(event) {
    const { left, top, width, height } = foil.getBoundingClientRect();
    return [(event.clientX - left) / width, (event.clientY - top) / height];
  }

  foil.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
    foil.setPointerCapture(event.pointerId);
    last = place(event);
    if (!open) stage.press();
    scratch([...last, ...last]);
  });
  foil.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    if (!last) return;
    const next = place(event);
    scratch([...last, ...next]);
    last = next;
  });
  for (const end of ["pointerup", "pointercancel"]) foil.addEventListener(end, () => (last = null));

  function cover() {
    open = false;
    announced = 0;
    strokes = [];
    cells = new Uint8Array(ACROSS * DOWN);
    under.replaceChildren();
    foil.classList.remove("off");
    draw();
  }

  return {
    label: "take_card",
    rest: () => {
      // Strokes before the response count once it arrives.
      const [kept, held] = [strokes, last];
      cover();
      if (held) [strokes, last] = [kept, held];
    },
    // While nothing moves: what writes numbers takes longer to be made than a stroke may.
    wait: () => void words.number(0),
    async show(result) {
      const [won] = result.rewards;
      under.append(
        picture(won ? lookOf(stage.ui, won) : null, "🍃"),
        h("span", {}, won ? result.rewards.map((reward) => reward.name).join(", ") : words.t("lost")),
      );
      under.setAttribute("aria-hidden", "true"); // Announced once it is visible.
      open = true;
      if (still()) {
        foil.classList.add("off");
        return;
      }
      stage.say(words.t("scratch_how"));
      let presses = 0;
      const undo = stage.button(words.t("scratch"), () => {
        const y = (presses++ + 0.5) / PRESSES;
        scratch([0, y - 0.05, 1, y + 0.05]);
        if (presses >= PRESSES) seen();
      });
      await new Promise((resolve) => {
        seen = () => resolve(undefined);
        strokes.forEach(rub);
        measure();
      });
      seen = () => {};
      undo();
      last = null;
      foil.classList.add("off");
    },
    stop: () => sizes.disconnect(),
  };
}
