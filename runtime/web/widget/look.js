// The brand's look: `ui.theme` and `ui.background` become CSS custom properties, with contrast worked out.

import { ASSET, h, safe, text } from "./dom.js";

/** @typedef {[number, number, number]} Rgb */

/** The family of an uploaded font. */
const OWN_FONT = "Brand";
const DEFAULTS = { primary: "#5b3df5", accent: "#ffb703", background: "#f5f3ff" };
const BLACK = /** @type {Rgb} */ ([16, 17, 26]);
const WHITE = /** @type {Rgb} */ ([255, 255, 255]);
/** WCAG's 4.5, with a margin for rounded colors. */
const READABLE = 4.55;

/** A CSS color as red, green and blue; null if invalid. @param {unknown} value @returns {Rgb | null} */
export function rgb(value) {
  if (!value || !CSS.supports("color", text(value))) return null;
  const context = /** @type {CanvasRenderingContext2D} */ (
    Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true })
  );
  context.fillStyle = text(value);
  context.fillRect(0, 0, 1, 1);
  const [red, green, blue, alpha] = context.getImageData(0, 0, 1, 1).data;
  return alpha === 255 ? [red, green, blue] : null;
}

/** @param {Rgb} colour */
export const css = (colour) => `rgb(${colour.map(Math.round).join(" ")})`;

/** @param {Rgb} one @param {Rgb} other @param {number} share of the other @returns {Rgb} */
export const mix = (one, other, share) => /** @type {Rgb} */ (one.map((value, i) => value + (other[i] - value) * share));

/** Relative luminance (WCAG 2.2). @param {Rgb} colour */
function luminance(colour) {
  const [red, green, blue] = colour.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** @param {Rgb} one @param {Rgb} other */
export function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

/** White or near-black, whichever has more contrast; full black on a mid gray. @param {Rgb} ground @returns {Rgb} */
export const ink = (ground) => [WHITE, BLACK].find((colour) => contrast(colour, ground) >= READABLE) ?? [0, 0, 0];

/** The color, moved toward `end` just enough for contrast on each of `grounds`. @param {Rgb} colour @param {Rgb[]} grounds @param {Rgb} end */
function readable(colour, grounds, end) {
  for (let share = 0; share < 1; share += 0.05) {
    const tried = mix(colour, end, share);
    if (grounds.every((ground) => contrast(tried, ground) >= READABLE)) return tried;
  }
  return end;
}

export class Look {
  /**
   * @param {any} ui a game's
   * @param {Record<string, string>} own what the embedding page set by CSS, by name
   */
  constructor(ui, own = {}) {
    const theme = ui.theme && typeof ui.theme === "object" ? ui.theme : {};
    const background = ui.background && typeof ui.background === "object" ? ui.background : {};
    /** @param {string} name @param {unknown} given @param {string} other */
    const colour = (name, given, other) => rgb(own[name]) ?? rgb(given) ?? /** @type {Rgb} */ (rgb(other));
    const mode = own.mode || text(theme.mode);
    this.dark = mode === "dark" || (mode !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
    this.primary = colour("primary", theme.primary, DEFAULTS.primary);
    this.accent = colour("accent", theme.accent, DEFAULTS.accent);
    const ground = colour("background", background.color, DEFAULTS.background);
    const isDark = luminance(ground) < 0.18;
    this.ground = this.dark === isDark ? ground : mix(ground, this.dark ? [13, 13, 22] : WHITE, 0.9);
    // Text is shown on each of these: colors that need another ink are left out.
    const end = ink(this.ground);
    const [surface, glow] = [mix(this.ground, WHITE, this.dark ? 0.08 : 0.75), mix(this.primary, this.ground, 0.78)].map((over) =>
      contrast(end, over) >= READABLE ? over : this.ground,
    );
    const grounds = [this.ground, surface, glow];
    this.surface = surface;
    this.glow = glow;
    this.text = this.dark || isDark ? mix(this.ground, WHITE, 0.93) : mix(this.primary, BLACK, 0.85);
    if (grounds.some((ground) => contrast(this.text, ground) < 7)) this.text = end;
    this.quiet = readable(mix(this.text, this.ground, 0.3), grounds, end);
    this.strong = readable(this.primary, grounds, end);
    this.radius = /^\d{1,2}(px|em|rem)$/.test(text(theme.radius)) ? text(theme.radius) : "";
    const font = text(theme.font);
    this.font = !/[;{}()<>\\@:/*]/.test(font) && CSS.supports("font-family", font) ? font : "";
    this.image = safe(background.image);
    this.logo = safe(theme.logo);
    this.logoAlt = text(theme.logo_alt);
    this.fontFile = ASSET.test(text(theme.font_file)) ? text(theme.font_file) : "";
    this.emoji = text(background.emoji);
  }

  /** Colours for the fields of a wheel and the like, none beside its equal. @param {number} count @returns {Rgb[]} */
  palette(count) {
    const light = mix(this.accent, WHITE, 0.8);
    const base = [this.primary, light, this.accent, mix(this.primary, BLACK, 0.25), light, mix(this.accent, this.primary, 0.45)];
    const found = Array.from({ length: count }, (_, i) => base[i % base.length]);
    if (count > 1 && css(found[count - 1]) === css(found[0])) found[count - 1] = this.accent;
    return found;
  }

  /** Puts the custom properties on the frame. By CSSOM, which a policy without inline styles allows. @param {HTMLElement} frame */
  dress(frame) {
    const values = {
      primary: css(this.primary),
      "primary-deep": css(mix(this.primary, BLACK, 0.22)),
      "on-primary": css(ink(this.primary)),
      accent: css(this.accent),
      "accent-soft": css(mix(this.accent, this.ground, 0.72)),
      "on-accent": css(ink(this.accent)),
      ground: css(this.ground),
      surface: css(this.surface),
      line: css(mix(this.ground, this.text, 0.16)),
      text: css(this.text),
      quiet: css(this.quiet),
      strong: css(this.strong),
      glow: css(this.glow),
    };
    for (const [name, value] of Object.entries(values)) frame.style.setProperty(`--t-${name}`, value);
    if (this.fontFile) document.fonts.add(new FontFace(OWN_FONT, `url("${this.fontFile}")`, { display: "swap" }));
    const fonts = [this.fontFile && OWN_FONT, this.font].filter(Boolean).join(", ");
    if (fonts) frame.style.setProperty("--t-font", fonts);
    if (this.radius) frame.style.setProperty("--t-radius", this.radius);
    frame.style.setProperty("color-scheme", this.dark ? "dark" : "light");
    frame.style.setProperty("--t-image", this.image ? `url("${this.image.replaceAll(/["\\\n]/g, encodeURIComponent)}")` : "none");
    frame.toggleAttribute("data-image", Boolean(this.image));
  }

  /** What floats behind the game: the background's emoji, a few times. */
  backdrop() {
    const places = [6, 17, 29, 41, 58, 70, 83, 92];
    const shown = this.emoji && !this.image ? places : [];
    return h(
      "div",
      { class: "backdrop", "aria-hidden": "true" },
      ...shown.map((left, i) => {
        const leaf = h("span", {}, this.emoji);
        leaf.style.setProperty("left", `${left}%`);
        leaf.style.setProperty("top", `${(i * 37 + 8) % 90}%`);
        leaf.style.setProperty("animation-delay", `${-i * 2.3}s`);
        leaf.style.setProperty("font-size", `${1.4 + ((i * 7) % 5) * 0.35}em`);
        return leaf;
      }),
    );
  }
}

/** A prize's picture: its own from the ui, else the default of its type. @param {any} ui @param {any} reward */
export function lookOf(ui, reward) {
  const parts = [...list(ui.prizes), ...list(ui.wheel?.segments), ...list(ui.items)];
  const own = parts.find((part) => part && part.prize_id === reward.prize_id && reward.prize_id);
  const item = parts.find((part) => part && part.item && part.item === reward.name);
  const usual = { goods: "🎁", voucher: "🎟️", points: "⭐", turns: "🎟️", item: "🍀" };
  return { emoji: /** @type {Record<string, string>} */ (usual)[reward.type] ?? "🎁", ...(own ?? item) };
}

/** How a prize looks: as the game has it, else by its own picture. @param {any} look @param {any} prize */
export const pictured = (look, prize) => (look?.image || !prize?.image_url ? look : { ...look, image: prize.image_url });

/** A list out of a list, or of an object's values; [] of anything else. @param {unknown} value @returns {any[]} */
export const list = (value) => (Array.isArray(value) ? value : value && typeof value === "object" ? Object.values(value) : []);
