// The look of a game: its theme, and the contrast of its colors (WCAG 2.2).
import { html } from "../lib.js";
import { isObject } from "../parts/form.js";
import { say, state } from "../words.js";

/** The WCAG minimum contrast of text (1.4.3) and of graphics such as a button's edge (1.4.11). */
const WORDS = 4.5;
const DRAWN = 3;
const DEFAULTS = { primary: "#5b3df5", accent: "#ffb703", background: "#f5f3ff" };

/** A CSS color as red, green and blue; null if invalid. @param {string} value @returns {number[] | null} */
function rgb(value) {
  const context = document.createElement("canvas").getContext("2d");
  if (!value || !context || !CSS.supports("color", value)) {
    return null;
  }
  context.fillStyle = value;
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
}

/** Relative luminance. @param {number[]} colour */
function luminance(colour) {
  const [red, green, blue] = colour.map((value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** @param {number[]} one @param {number[]} other */
export function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

const PARTS = ["theme", "background"];

/** Whether a game has its own theme, not its campaign's. @param {any} ui */
export const ownTheme = (ui) => (isObject(ui?.theme) ? Object.values(ui.theme).some((one) => one !== "" && one !== null && one !== undefined) : Boolean(ui?.theme));

/** A ui with what it takes from its campaign's settings (rules/ui `shown`). @param {any} ui @param {any} settings */
export function ofCampaign(ui, settings) {
  const { theme, ...own } = ui ?? {};
  const given = Object.fromEntries(PARTS.filter((name) => isObject(settings?.[name])).map((name) => [name, settings[name]]));
  const { logo, logo_alt } = given.theme ?? {};
  const made = ownTheme(ui) ? { ...own, theme: { ...(logo ? { logo, logo_alt } : {}), ...theme } } : { ...given, ...(isEmpty(own.background) ? { ...own, background: given.background ?? own.background } : own) };
  const page = { texts: { ...settings?.page?.texts, ...ui?.page?.texts }, after: { ...settings?.page?.after, ...ui?.page?.after } };
  const names = Object.keys({ ...settings?.page?.states, ...ui?.page?.states });
  const states = Object.fromEntries(names.map((name) => [name, { ...settings?.page?.states?.[name], ...ui?.page?.states?.[name] }]));
  const legal = ["terms", "privacy", "imprint"].filter((name) => !isEmpty(page.texts[name]));
  return isEmpty(page.texts) && isEmpty(page.after) && isEmpty(states) ? made : { ...made, page: { ...page, states, legal } };
}

/** @param {any} value */
const isEmpty = (value) => !value || (isObject(value) && Object.values(value).every(isEmpty));

/** The effective theme and background, with the preset's values filled in. @param {any} ui @param {any} themes */
export function dressed(ui, themes) {
  const preset = themes?.[ui?.theme?.preset];
  /** @param {any} own */
  const said = (own) => Object.fromEntries(Object.entries(own ?? {}).filter(([, value]) => value !== "" && value !== undefined && value !== null));
  return { ...ui, theme: { ...preset?.theme, ...said(ui?.theme) }, background: { ...preset?.background, ...said(ui?.background) } };
}

/** The contrasts of a look, each with its required minimum. @param {{ui: any, themes: any}} props */
export function Contrasts({ ui, themes }) {
  const { theme, background } = dressed(ui, themes);
  const [primary, accent, ground] = [theme.primary, theme.accent, background.color].map((value, i) => rgb(value) ?? /** @type {number[]} */ (rgb(Object.values(DEFAULTS)[i])));
  /** The better contrast of white and black. @param {number[]} on */
  const ink = (on) => Math.max(contrast([255, 255, 255], on), contrast([0, 0, 0], on));
  const pairs = /** @type {[string, number, number][]} */ ([
    ["contrast.heading", contrast(primary, ground), WORDS],
    ["contrast.button", ink(primary), WORDS],
    ["contrast.edge", contrast(primary, ground), DRAWN],
    ["contrast.accent", ink(accent), WORDS],
    ["contrast.text", ink(ground), WORDS],
  ]);
  return html`<ul class="checks contrasts" aria-label=${say("contrast.title")}>${pairs.map(([key, ratio, least]) => html`<li data-tone=${ratio >= least ? "good" : "warn"}>
    <span class="mark" aria-hidden="true"></span><span>${say(key)}</span> <b>${(Math.floor(ratio * 100) / 100).toFixed(2)} : 1</b>
    <span class="quiet">${say(ratio >= least ? "contrast.passes" : "contrast.fails", { least: String(least) })}</span></li>`)}
    <li class="quiet">${say("contrast.note")}</li></ul>`;
}

/** The select of a preset theme. @param {{value: string, change: (value: string) => void, named: any, themes: any}} props */
export function Preset({ value, change, named, themes }) {
  return html`<select ...${named} value=${value ?? ""} onChange=${(/** @type {any} */ event) => change(event.target.value)}>
    <option value="">${say("look.no_preset")}</option>
    ${Object.entries(themes ?? {}).map(([name, one]) => html`<option value=${name}>${one.title}</option>`)}
  </select>`;
}

/** The select of an enum; empty: of the theme. @param {any} props */
export const Choice = ({ schema, value, change, named }) => html`<select ...${named} value=${value ?? ""} onChange=${(/** @type {any} */ event) => change(event.target.value)}>
  ${schema.enum.map((/** @type {string} */ one) => html`<option value=${one}>${one ? state(one.replace(/^ON_UNAVAILABLE_/, "")) : say("look.of_theme")}</option>`)}
</select>`;

/** Saved values that are invalid and therefore ignored. @param {{items: {field: string, description: string}[]}} props */
export const Unused = ({ items }) => items.length > 0 && html`<div role="status"><p>${say("designer.unused")}</p>
  <ul class="checks">${items.map(({ field, description }) => html`<li key=${field} data-tone="warn"><span class="mark" aria-hidden="true"></span><span><code>${field}</code> ${description}</span></li>`)}</ul></div>`;

/** A color input: CSS text or a color picker. @param {{value: string, change: (value: string) => void, named: any}} props */
export function Colour({ value, change, named }) {
  const known = rgb(value);
  const hex = known ? `#${known.map((one) => one.toString(16).padStart(2, "0")).join("")}` : "#888888";
  /** @param {any} event */
  const typed = (event) => change(event.target.value);
  return html`<div class="colour"><input ...${named} maxLength="64" value=${value ?? ""} onInput=${typed} />
    <input type="color" aria-label=${say("look.pick")} value=${hex} onInput=${typed} /></div>`;
}
