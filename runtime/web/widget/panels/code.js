// A code that was won: as text with a button to copy it, and as a QR picture for a till to scan.

import { h, s } from "../dom.js";

/** Modules of white around it, which readers need (ISO/IEC 18004, 9.1). */
const QUIET = 4;

/** @param {import("../types.js").Panel} panel @param {string} text */
export function code(panel, text) {
  const { words } = panel;
  const shown = h("code", { dir: "ltr" }, text);
  const copy = h("button", { class: "small", type: "button", onclick: () => void copied() }, words.t("copy"));
  const scan = h("button", { class: "small", type: "button", "aria-expanded": "false", onclick: () => void toggle() }, words.t("show_qr"));
  const place = h("div", { class: "qr", hidden: true });
  return h("div", { class: "won-code" }, shown, h("div", { class: "row" }, copy, scan), place);

  async function copied() {
    if (!(await toClipboard(text, shown))) return;
    copy.textContent = words.t("copied");
    panel.say(words.t("copied"));
  }

  async function toggle() {
    if (!place.firstChild) place.append(await qr(text, words.t("qr_of", { code: text })));
    place.hidden = !place.hidden;
    scan.setAttribute("aria-expanded", String(!place.hidden));
  }
}

/** Whether it was copied. On plain HTTP there is no clipboard API: the selection is copied. @param {string} text @param {Node} shown */
async function toClipboard(text, shown) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection()?.selectAllChildren(shown);
    return document.execCommand("copy");
  }
}

/** The text as a QR code, always black on white for scanners. @param {string} text @param {string} label */
export async function qr(text, label) {
  const { encodeQR } = await import("qr");
  const modules = encodeQR(text, "raw", { border: QUIET, ecc: "medium" });
  // One path of runs: neighbours that were drawn one by one would show seams.
  const runs = modules.flatMap((line, y) => {
    const found = [];
    for (let x = 0, from = -1; x <= line.length; x++) {
      if (line[x] && from < 0) from = x;
      else if (!line[x] && from >= 0) {
        found.push(`M${from} ${y}h${x - from}v1H${from}z`);
        from = -1;
      }
    }
    return found;
  });
  const size = modules.length;
  const attributes = { viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": label, "shape-rendering": "crispEdges" };
  return s("svg", attributes, s("rect", { width: size, height: size, fill: "#fff" }), s("path", { d: runs.join(""), fill: "#000" }));
}
