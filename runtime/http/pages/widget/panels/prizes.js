// The prizes on offer.

import { h, picture } from "../dom.js";
import { lookOf } from "../look.js";

/** @param {import("../types.js").Panel} panel */
export function open({ root, render, words }) {
  const items = render.prizes.map((prize) =>
    h("li", {}, picture(lookOf(render.ui, prize)), h("span", {}, prize.name, !prize.available && h("span", { class: "quiet" }, ` – ${words.t("prize_gone")}`))),
  );
  root.append(h("ul", {}, ...items));
}
