// The prizes on offer.

import { h, picture } from "../dom.js";
import { lookOf, pictured } from "../look.js";
import { chip, content } from "./parts.js";

/** @param {import("../types.js").Panel} panel */
export function open(panel) {
  const { root, render, words } = panel;
  const items = render.prizes.map((prize) =>
    h(
      "li",
      { class: "prize-card", "data-gone": !prize.available },
      picture(pictured(lookOf(render.ui, prize), prize)),
      h("strong", {}, prize.name),
      ...content(panel, prize),
      !prize.available && chip(words.t("prize_gone"), "bad"),
    ),
  );
  root.append(h("ul", { class: "grid" }, ...items));
}
