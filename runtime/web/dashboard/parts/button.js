// A button for asynchronous actions.
import { html, useState } from "../lib.js";

/**
 * A button for an asynchronous action: it is disabled until the action ends.
 * @param {{act: () => any, class?: string, disabled?: boolean, children?: any}} props
 */
export function Act({ act, children, ...rest }) {
  const [busy, setBusy] = useState(false);
  const press = async () => {
    if (!busy) {
      setBusy(true);
      try {
        await act();
      } finally {
        setBusy(false);
      }
    }
  };
  return html`<button type="button" aria-busy=${busy} onClick=${press} ...${rest}>${children}</button>`;
}
