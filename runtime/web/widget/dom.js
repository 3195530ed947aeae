// Elements made of text and attributes. Nothing that comes from outside ever goes through a parser of HTML.

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element. `on*` attributes are listeners, true and false put an attribute or leave it out.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Node | string | number | false | null | undefined)} children
 * @returns {any}
 */
export function h(tag, attributes, ...children) {
  return put(document.createElement(tag), attributes, children);
}

/** The same in SVG. @param {string} tag @param {Record<string, any>} [attributes] @param {...any} children @returns {any} */
export function s(tag, attributes, ...children) {
  return put(document.createElementNS(SVG, tag), attributes, children);
}

/** @param {Element} element @param {Record<string, any>} [attributes] @param {any[]} [children] */
function put(element, attributes = {}, children = []) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value == null) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child != null && child !== false).map(String_));
  return element;
}

/** @param {any} child */
const String_ = (child) => (child instanceof Node ? child : String(child));

/**
 * The address of a picture, or "" where it is none that may be loaded: https and data:image alone.
 * @param {unknown} address
 */
export function safe(address) {
  if (typeof address !== "string") return "";
  if (/^data:image\/(png|jpeg|gif|webp|avif|svg\+xml)[;,]/i.test(address)) return address;
  try {
    const url = new URL(address);
    return url.protocol === "https:" ? url.href : "";
  } catch {
    return "";
  }
}

/** The text of a value that an operator may have made of anything. @param {unknown} value */
export const text = (value) => (typeof value === "string" || typeof value === "number" ? String(value) : "");

/**
 * What stands for a thing: its image, else its emoji, else `other`.
 * @param {any} thing @param {string} [other]
 */
export function picture(thing, other = "") {
  const address = safe(thing?.image);
  if (address) return h("img", { class: "picture", src: address, alt: "", draggable: "false" });
  return h("span", { class: "picture", "aria-hidden": "true" }, text(thing?.emoji) || other);
}

/** Gives the shadow that an element stands in a style, once. @param {Element} element @param {CSSStyleSheet} sheet */
export function wear(element, sheet) {
  const worn = /** @type {ShadowRoot} */ (element.getRootNode()).adoptedStyleSheets;
  if (!worn.includes(sheet)) worn.push(sheet);
}

/** Whether the player wants things to stay still. */
export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** @param {number} ms */
export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
