// The page's title, in the tab and announced to screen readers.
import { useEffect } from "./lib.js";
import { say } from "./words.js";

/** @param {string} title "": the product's name alone */
export function useTitle(title) {
  useEffect(() => {
    document.title = title ? `${title} · ${say("product")}` : say("product");
  }, [title]);
}
