// The fallback for game types without a file: a button, and the result as text.

import { h, picture } from "../dom.js";
import { lookOf } from "../look.js";

/** @param {import("../types.js").Stage} stage @returns {import("../types.js").Game} */
export function mount(stage) {
  const shown = h("div", { class: "plain" }, picture(stage.ui.picture, "🎁"));
  stage.root.append(shown);
  return {
    rest: () => shown.replaceChildren(picture(stage.ui.picture, "🎁")),
    async show(result) {
      shown.replaceChildren(picture(result.rewards.length ? lookOf(stage.ui, result.rewards[0]) : null, "🍃"));
    },
  };
}
