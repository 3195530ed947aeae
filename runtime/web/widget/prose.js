// The limited Markdown of a campaign's texts: paragraphs, lists, bold, italics and https links. It makes nodes, so tags in
// a text stay text. The service renders the same on its pages (runtime/rules/ui/markdown.py).

import { h } from "./dom.js";

const ITEM = /^ {0,3}(?:([-*+])|(\d{1,9})[.)])\s+(\S.*)$/;
/** In this order: an escaped character, a line break, a link, bold, italics. */
const INLINE = /\\([!-/:-@[-`{-~])|(\n)|\[([^\][]+)\]\((https:\/\/[^\s"'<>\\^`{|}()]+)\)|(?:\*\*(?=\S)(.*?\S)\*\*(?!\*)|(?<![\p{L}\p{N}_])__(?=\S)(.*?\S)__(?![\p{L}\p{N}_]))|(?:\*(?=[^\s*])(.*?[^\s*])\*(?!\*)|(?<![\p{L}\p{N}_])_(?=[^\s_])(.*?[^\s_])_(?![\p{L}\p{N}_]))/su;
const DEPTH_MAX = 8;

/** The elements of a text. @param {string} source @returns {HTMLElement[]} */
export function prose(source) {
  /** @type {HTMLElement[]} */
  const blocks = [];
  /** The lines of the block that is read. @type {string[]} */
  const lines = [];
  /** @type {HTMLElement | null} */
  let list = null;
  const end = () => {
    const read = lines.splice(0).join("\n");
    if (read) (list ?? { append: (/** @type {Node} */ one) => blocks.push(/** @type {HTMLElement} */ (one)) }).append(h(list ? "li" : "p", {}, ...inline(read)));
  };
  for (const line of source.split(/\r?\n/)) {
    const [, bullet, number, words] = ITEM.exec(line) ?? [];
    if (words !== undefined && (list || bullet || !lines.length || number === "1")) {
      end();
      const tag = bullet ? "UL" : "OL";
      if (list?.tagName !== tag) blocks.push((list = h(tag, number > "1" ? { start: Number(number) } : {})));
      lines.push(words);
    } else if (line.trim()) {
      if (list && !lines.length) list = null; // A paragraph after the list.
      lines.push(line.trim());
    } else end();
  }
  end();
  return blocks;
}

/** The nodes of a block. @param {string} source @param {number} [depth] @returns {(Node | string)[]} */
function inline(source, depth = 0) {
  /** @type {(Node | string)[]} */
  const nodes = [];
  for (let rest = source; rest; ) {
    const found = depth < DEPTH_MAX ? INLINE.exec(rest) : null;
    if (!found) {
      nodes.push(rest);
      break;
    }
    const [all, escaped, line, words, address, bold, bold2, slanted, slanted2] = found;
    if (found.index) nodes.push(rest.slice(0, found.index));
    if (escaped) nodes.push(escaped);
    else if (line) nodes.push(h("br", {}));
    else if (address) nodes.push(h("a", { href: address, target: "_blank", rel: "noopener" }, ...inline(words, depth + 1)));
    else if (bold ?? bold2) nodes.push(h("strong", {}, ...inline(bold ?? bold2, depth + 1)));
    else nodes.push(h("em", {}, ...inline(slanted ?? slanted2, depth + 1)));
    rest = rest.slice(found.index + all.length);
  }
  return nodes;
}
