// The dialog that panels open in: one at a time, modal, so that the keyboard stays in it. Loaded with the first of them.

import { h } from "../dom.js";
import { loadModule } from "../load_module.js";
import { refusal } from "./parts.js";
import { sheet } from "./style.js";

/** The dialog that a view has open. @type {WeakMap<import("../view.js").View, (name: string, given?: any) => Promise<void>>} */
const open = new WeakMap();

/** Opens a panel, in the dialog that is open where there is one. @param {import("../view.js").View} view @param {string} name @param {any} [given] */
export function openDialog(view, name, given) {
  return (open.get(view) ?? make(view))(name, given);
}

/** @param {import("../view.js").View} view */
function make(view) {
  const { words, round } = view;
  const shadow = /** @type {ShadowRoot} */ (view.host.shadowRoot);
  if (!shadow.adoptedStyleSheets.includes(sheet)) shadow.adoptedStyleSheets.push(sheet);
  /** What was shown before, for the way back. @type {[string, any][]} */
  const path = [];
  const title = h("h2", { id: "panel-title", tabindex: "-1" });
  const back = h("button", { class: "round", type: "button", onclick: () => (path.pop(), void show(.../** @type {[string, any]} */ (path.pop()))) }, h("span", { "aria-hidden": "true" }, words.direction === "rtl" ? "→" : "←"));
  const shut = h("button", { class: "round", type: "button", autofocus: true, "aria-label": words.t("close"), onclick: () => dialog.close() }, h("span", { "aria-hidden": "true" }, "✕"));
  const body = h("div", { class: "body" });
  // Content behind a modal dialog is not announced, so the dialog has its own live region.
  const listener = h("div", { class: "listen", role: "status", "aria-live": "polite" });
  const dialog = h("dialog", { part: "dialog", "aria-labelledby": "panel-title", onclose: closed }, h("header", {}, back, title, shut), body, listener);
  // The space around it closes it too.
  dialog.addEventListener("click", (/** @type {Event} */ event) => event.target === dialog && dialog.close());
  open.set(view, show);
  round.addEventListener("signed", again);
  return show;

  /** The player changed: shows their data. A sign-in here is still confirmed. */
  function again() {
    if (path[path.length - 1][0] !== "login") void show(.../** @type {[string, any]} */ (path.pop()));
  }

  function closed() {
    round.removeEventListener("signed", again);
    open.delete(view);
    dialog.remove();
  }

  /** @param {string} name @param {any} [given] */
  async function show(name, given) {
    path.push([name, given]);
    const root = h("div", { class: "panel", part: "panel", "data-name": name }, h("div", { class: "busy" }));
    body.replaceChildren(root);
    title.textContent = words.t(name);
    back.setAttribute("aria-label", words.t("back"));
    back.hidden = path.length < 2;
    if (!dialog.isConnected) {
      view.frame.append(dialog);
      dialog.showModal();
    } else title.focus();
    dialog.scrollTop = 0;
    const panel = panelOf(name, root, given);
    try {
      const [file] = await Promise.all([loadModule(`./panels/${name}.js`), words.more()]);
      root.replaceChildren();
      await file.open(panel);
    } catch (error) {
      root.replaceChildren(refusal(panel, error));
    }
  }

  /** @param {string} name @param {HTMLElement} root @param {any} given @returns {import("../types.js").Panel} */
  function panelOf(name, root, given) {
    return {
      root,
      given,
      api: round.api,
      render: /** @type {import("../types.js").Render} */ (round.render),
      words,
      round,
      tell: (event, detail) => view.host.dispatchEvent(new CustomEvent(`tombola:${event}`, { detail, bubbles: true, composed: true })),
      say: (said) => (listener.textContent = said),
      open: (other, what) => void show(other, what),
      close: () => dialog.close(),
    };
  }
}
