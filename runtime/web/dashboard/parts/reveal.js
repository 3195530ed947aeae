// Brings the field that the address names into view: `?field=rules.verify_timing`, as in the links of the launch check.
import { useEffect } from "../lib.js";
import { place } from "../router.js";

const CONTROLS = "input, select, textarea, button";

/** The field that the address names; "" for none. */
export const wanted = () => place.value.query.field ?? "";

/**
 * The element of a field, or of the group that contains it.
 * @param {HTMLElement} within @param {string} field
 * @returns {HTMLElement | null}
 */
function elementOf(within, field) {
  const name = CSS.escape(field);
  const found = within.querySelector(`[name="${name}"], [data-path="${name}"]`);
  return /** @type {HTMLElement | null} */ (found ?? (field.includes(".") ? elementOf(within, field.slice(0, field.lastIndexOf("."))) : null));
}

/** Focuses the named field once it is there. @param {{current: HTMLElement | null}} own the form or section that may have it */
export function useReveal(own) {
  const field = wanted();
  useEffect(() => {
    // After a dialog has opened, which focuses its first control.
    const later = setTimeout(() => {
      const found = field && own.current && elementOf(own.current, field);
      if (found) {
        found.scrollIntoView({ block: "center" });
        /** @type {HTMLElement | null} */ (found.matches(CONTROLS) ? found : found.querySelector(CONTROLS))?.focus({ preventScroll: true });
      }
    });
    return () => clearTimeout(later);
  }, [field]);
}
