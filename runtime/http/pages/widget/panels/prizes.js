// The prizes on offer.

import { h, picture } from "../dom.js";
import { lookOf } from "../look.js";
import { chip } from "./parts.js";

/** @param {import("../types.js").Panel} panel */
export function open({ root, render, words }) {
  const items = render.prizes.map((prize) =>
    h(
      "li",
      { class: "prize-card", "data-gone": !prize.available },
      picture(lookOf(render.ui, prize)),
      h("strong", {}, prize.name),
      !prize.available && chip(words.t("prize_gone"), "bad"),
    ),
  );
  root.append(h("ul", { class: "grid" }, ...items));
}
