// Dialogs: a confirmation, and a modal for a form.
import { html, signal, useId, useLayoutEffect, useRef } from "../lib.js";
import { say } from "../words.js";
import { Act } from "./button.js";

/**
 * @typedef {object} Question
 * @property {string} title the action to confirm
 * @property {string} text what it will do, and to how many
 * @property {string[]} [items] the first of them by name
 * @property {string} word the button's: the verb itself
 * @property {boolean} [danger] it takes something away
 */

/** @type {import("@preact/signals").Signal<(Question & {answer: (yes: boolean) => void}) | null>} */
const asked = signal(null);

/**
 * Asks for confirmation; resolves to whether it was given.
 * @param {Question} question
 * @returns {Promise<boolean>}
 */
export function confirm(question) {
  asked.value?.answer(false);
  return new Promise((resolve) => {
    asked.value = {
      ...question,
      answer: (yes) => {
        asked.value = null;
        resolve(yes);
      },
    };
  });
}

/** Renders the open confirmation. */
export function Questions() {
  const one = asked.value;
  if (!one) {
    return null;
  }
  const { title, text, items = [], word, danger, answer } = one;
  return html`<${Dialog} title=${title} close=${() => answer(false)}>
    <p>${text}</p>
    ${items.length > 0 && html`<ul class="named">${items.map((item) => html`<li>${item}</li>`)}</ul>`}
    <footer>
      <button type="button" class="secondary outline" onClick=${() => answer(false)}>${say("cancel")}</button>
      <${Act} class=${danger ? "danger" : ""} act=${() => answer(true)}>${word}<//>
    </footer>
  <//>`;
}

/**
 * A modal dialog: Escape closes it and restores the focus.
 * The initial focus is on the form's first field; in a confirmation, on Cancel.
 * @param {{title: string, close: () => void, wide?: boolean, children?: any}} props
 */
export function Dialog({ title, close, wide = false, children }) {
  const id = useId();
  const own = useRef(/** @type {HTMLDialogElement | null} */ (null));
  // A layout effect: a plain effect would run after the dialog is removed, and keys pressed in between would be lost.
  useLayoutEffect(() => {
    const dialog = own.current;
    dialog?.showModal();
    const first = ["form :is(input, select, textarea)", "footer button", "header button"].map((one) => dialog?.querySelector(one));
    /** @type {HTMLElement | undefined} */ (first.find(Boolean))?.focus();
    return () => dialog?.close(); // Restores the focus; removing an open dialog does not.
  }, []);
  /** @param {Event} event */
  const cancel = (event) => {
    if (event.target !== own.current) {
      return; // A file picker's, which bubbles.
    }
    event.preventDefault();
    close();
  };
  return html`<dialog ref=${own} onCancel=${cancel} aria-labelledby=${id} class=${wide ? "wide" : ""}>
    <article>
      <header><h2 id=${id}>${title}</h2><button type="button" class="plain" aria-label=${say("close")} onClick=${close}>×</button></header>
      ${children}
    </article>
  </dialog>`;
}
