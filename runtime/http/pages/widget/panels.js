// What opens beside a game, each from a file of its own in `panels/`, loaded when it is asked for.

import { h } from "./dom.js";

/** By name (the key of its words, and its file): whether there is anything to show in it. @type {Record<string, (round: import("./play.js").Round) => boolean>} */
const PANELS = {
  prizes: (round) => Boolean(round.render?.prizes.length),
  fair: () => true,
  login: () => true,
};

/** @param {import("./play.js").Round} round */
export const panelsOf = (round) => Object.keys(PANELS).filter((name) => PANELS[name](round));

/** @param {import("./view.js").View} view @param {string} name */
export async function openPanel(view, name) {
  const { words, round } = view;
  const root = h("div", { class: "panel", part: "panel" });
  const shut = h("button", { class: "small", type: "button", autofocus: true, onclick: () => dialog.close() }, words.t("close"));
  const title = h("h2", { id: "panel-title" }, words.t(name));
  const dialog = h("dialog", { part: "dialog", "aria-labelledby": "panel-title", onclose: () => dialog.remove() }, h("header", {}, title, shut), root);
  // The space around it closes it too.
  dialog.addEventListener("click", (/** @type {Event} */ event) => event.target === dialog && dialog.close());
  view.frame.append(dialog);
  dialog.showModal();
  root.append(h("div", { class: "busy" }));
  /** @type {import("./types.js").Panel} */
  const panel = {
    root,
    api: round.api,
    render: /** @type {import("./types.js").Render} */ (round.render),
    words,
    round,
    tell: (event, detail) => view.host.dispatchEvent(new CustomEvent(`tombola:${event}`, { detail, bubbles: true, composed: true })),
    say: (said) => view.say(said),
    close: () => dialog.close(),
  };
  try {
    const [file] = await Promise.all([import(`./panels/${name}.js`), words.more()]);
    root.replaceChildren();
    await file.open(panel);
  } catch (error) {
    root.replaceChildren(h("p", {}, words.t(words.has(/** @type {any} */ (error).reason) ? /** @type {any} */ (error).reason : "refused")));
  }
}
