// The page that checks the receipt of a play. The file stays in the browser: nothing is sent.

import { verify } from "../verifiers/verify.mjs";

const MARKS = { true: "✅", false: "❌", null: "ℹ️" };
const main = /** @type {HTMLElement} */ (document.querySelector("main.verify"));
const input = /** @type {HTMLInputElement} */ (main.querySelector("input"));
const [said, list] = [/** @type {HTMLElement} */ (main.querySelector("[role=status]")), /** @type {HTMLElement} */ (main.querySelector("ul"))];

/** The findings of a file. @param {File | undefined} file */
async function check(file) {
  if (!file) return;
  list.replaceChildren();
  // Browsers offer hashes only to pages over HTTPS.
  if (!globalThis.crypto?.subtle) return say("insecure");
  try {
    const found = await verify(await file.text());
    list.replaceChildren(...found.map(line));
    say(found.some(({ ok }) => ok === false) ? "bad" : "good");
  } catch {
    say("unreadable");
  }
}

/** @param {string} outcome */
function say(outcome) {
  main.dataset.outcome = outcome;
  said.textContent = main.getAttribute(`data-${outcome}`);
}

/** @param {{text: string, ok: boolean | null}} finding */
function line({ text, ok }) {
  const [item, mark, words] = ["li", "span", "span"].map((name) => document.createElement(name));
  mark.textContent = MARKS[/** @type {"true" | "false" | "null"} */ (String(ok))];
  mark.setAttribute("aria-hidden", "true");
  words.textContent = ok === false ? `FAILED: ${text}` : ok === null ? `Open: ${text}` : text;
  item.dataset.ok = String(ok);
  item.append(mark, words);
  return item;
}

input.addEventListener("change", () => void check(input.files?.[0]));
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => {
  event.preventDefault();
  void check(event.dataTransfer?.files[0]);
});
