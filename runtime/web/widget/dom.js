// Creates elements from text and attributes. External values never go through an HTML parser.

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

/** The URL of an uploaded picture or font, on the edge. */
export const ASSET = /^(https?:\/\/[^\s"'<>\\]+)?\/assets\/[\w.-]{1,128}\/asset_[0-9a-f]{64}$/;

/**
 * The URL of a picture; "" unless it is https, data:image or an uploaded one.
 * @param {unknown} address
 */
export function safe(address) {
  if (typeof address !== "string") return "";
  if (ASSET.test(address)) return address;
  if (/^data:image\/(png|jpeg|gif|webp|avif|svg\+xml)[;,]/i.test(address)) return address;
  try {
    const url = new URL(address);
    return url.protocol === "https:" ? url.href : "";
  } catch {
    return "";
  }
}

/** The text of a free-form value. @param {unknown} value */
export const text = (value) => (typeof value === "string" || typeof value === "number" ? String(value) : "");

/**
 * A thing's picture: its image, its emoji, or `other`.
 * @param {any} thing @param {string} [other]
 */
export function picture(thing, other = "") {
  const address = safe(thing?.image);
  if (address) return h("img", { class: "picture", src: address, alt: "", draggable: "false" });
  return h("span", { class: "picture", "aria-hidden": "true" }, text(thing?.emoji) || other);
}

/** Adds a style to an element's shadow root, once. An element that was removed meanwhile has none. @param {Element} element @param {CSSStyleSheet} sheet */
export function wear(element, sheet) {
  const worn = /** @type {Partial<ShadowRoot>} */ (element.getRootNode()).adoptedStyleSheets;
  if (worn && !worn.includes(sheet)) worn.push(sheet);
}

/** Whether the player prefers reduced motion. */
export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** @param {number} ms */
export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
