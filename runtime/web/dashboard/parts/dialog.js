// Dialogs: one that asks before something is done, and one that holds a form.
import { html, signal, useLayoutEffect, useRef } from "../lib.js";
import { say } from "../words.js";
import { Act } from "./button.js";

/**
 * @typedef {object} Question
 * @property {string} title what is about to be done
 * @property {string} text what it will do, and to how many
 * @property {string[]} [items] the first of them by name
 * @property {string} word the button's: the verb itself
 * @property {boolean} [danger] it takes something away
 */

/** @type {import("@preact/signals").Signal<(Question & {answer: (yes: boolean) => void}) | null>} */
const asked = signal(null);

/**
 * Whether somebody wants what the question says to be done.
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

/** Where questions are shown. */
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
 * A modal dialog: the page behind it is out of reach, Escape closes it, and the focus goes back to where it was.
 * At first it is in the form's first field; of a question, on the button that does nothing.
 * @param {{title: string, close: () => void, wide?: boolean, children?: any}} props
 */
export function Dialog({ title, close, wide = false, children }) {
  const own = useRef(/** @type {HTMLDialogElement | null} */ (null));
  // Not a plain effect: that would end a moment after the dialog is gone, and keys pressed in between went nowhere.
  useLayoutEffect(() => {
    const dialog = own.current;
    dialog?.showModal();
    const first = ["form :is(input, select, textarea)", "footer button", "header button"].map((one) => dialog?.querySelector(one));
    /** @type {HTMLElement | undefined} */ (first.find(Boolean))?.focus();
    return () => dialog?.close(); // Which gives the focus back, as removing an open one does not.
  }, []);
  /** @param {Event} event */
  const cancel = (event) => {
    event.preventDefault();
    close();
  };
  return html`<dialog ref=${own} onCancel=${cancel} aria-labelledby="dialog-title" class=${wide ? "wide" : ""}>
    <article>
      <header><h2 id="dialog-title">${title}</h2><button type="button" class="plain" aria-label=${say("close")} onClick=${close}>×</button></header>
      ${children}
    </article>
  </dialog>`;
}
