// Asks before a page with unsaved changes is left.
import { useEffect } from "../lib.js";
import { askBeforeLeaving } from "../router.js";
import { say } from "../words.js";

/** @param {any} unsaved whether the page has unsaved changes, or how many */
export function useUnsaved(unsaved) {
  useEffect(() => {
    askBeforeLeaving(unsaved ? say("designer.leave") : "");
    return () => askBeforeLeaving("");
  }, [unsaved]);
}
