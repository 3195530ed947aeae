// A button with a menu of links. Escape, a click elsewhere or leaving it closes the menu.
import { html, useEffect, useRef } from "../lib.js";

/** @param {{text: string, items: {text: string, href: string}[]}} props */
export function Menu({ text, items }) {
  const own = useRef(/** @type {HTMLDetailsElement | null} */ (null));
  const close = () => own.current?.removeAttribute("open");
  /** @param {FocusEvent} event */
  const left = ({ relatedTarget: next }) => next instanceof Node && !own.current?.contains(next) && close();
  /** @param {KeyboardEvent} event */
  const pressed = ({ key }) => {
    if (key === "Escape" && own.current?.open) {
      close();
      own.current.querySelector("summary")?.focus();
    }
  };
  useEffect(() => {
    const elsewhere = (/** @type {Event} */ { target }) => target instanceof Node && !own.current?.contains(target) && close();
    document.addEventListener("click", elsewhere);
    return () => document.removeEventListener("click", elsewhere);
  }, []);
  return items.length > 0 && html`<details class="dropdown" ref=${own} onFocusOut=${left} onKeyDown=${pressed}>
    <summary role="button">${text}</summary>
    <ul>${items.map((one) => html`<li key=${one.href}><a href=${one.href}>${one.text}</a></li>`)}</ul>
  </details>`;
}
