// The page's name, in the tab and to who hears it.
import { useEffect } from "./lib.js";
import { say } from "./words.js";

/** @param {string} title "": the product's name alone */
export function useTitle(title) {
  useEffect(() => {
    document.title = title ? `${title} · ${say("product")}` : say("product");
  }, [title]);
}
