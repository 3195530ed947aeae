// The page that checks the receipt of a play or the file of a prize draw. The file stays in the browser: nothing is sent.

import { verifyDraw } from "../verifiers/draws.mjs";
import { verify } from "../verifiers/verify.mjs";
import { line, showDraw } from "./verify_draw.js";
import { WORDS } from "./verify_words.js";

/** The page shows the progress, and answers, this often. */
const PAUSE_MS = 50;

const words = WORDS[document.documentElement.lang] ?? WORDS.en;
const main = /** @type {HTMLElement} */ (document.querySelector("main.verify"));
const input = /** @type {HTMLInputElement} */ (main.querySelector("input"));
const [said, bar, list, place] = ["[role=status]", "progress", "ul", ".draw"].map((selector) => /** @type {HTMLElement} */ (main.querySelector(selector)));
bar.setAttribute("aria-label", words.checking);
/** The files chosen so far: only the last one is shown. */
let chosen = 0;

/** The findings of a file. @param {File | undefined} file */
async function check(file) {
  if (!file) return;
  const turn = (chosen += 1);
  delete main.dataset.outcome;
  said.textContent = words.checking;
  list.replaceChildren();
  place.replaceChildren();
  bar.hidden = false;
  const [outcome, text] = await findings(file, turn).catch((error) => (turn === chosen ? unreadable(error) : []));
  if (turn !== chosen || !outcome) return;
  bar.hidden = true;
  main.dataset.outcome = outcome;
  said.textContent = text ?? main.getAttribute(`data-${outcome}`);
}

/** Shows the findings. Returns the outcome, and its text if it is not that of a receipt. @param {File} file @param {number} turn */
async function findings(file, turn) {
  const draw = await verifyDraw(file, { progress: pacer(turn) });
  if (turn !== chosen) return [];
  if (draw) {
    const outcome = showDraw(draw, list, place, words);
    const text = outcome === "undrawn" ? `${main.dataset.good} ${words.undrawn}` : words[outcome];
    return [outcome === "bad" ? "bad" : "good", text];
  }
  // Browsers offer the signatures and hashes of a receipt only to pages over HTTPS.
  if (!globalThis.crypto?.subtle) return ["insecure"];
  const found = await verify(await file.text()).catch(() => null);
  if (!found) return ["unreadable"];
  list.replaceChildren(...found.map((one) => line(one)));
  return [found.some(({ ok }) => ok === false) ? "bad" : "good"];
}

/** A file of a draw whose line has a wrong type, or that the browser cannot read. @param {Error} error */
function unreadable({ message }) {
  list.replaceChildren(line({ text: message, ok: false }));
  return ["bad", words.bad];
}

/** Shows the progress. Throws if another file was chosen meanwhile, and lets the page answer. @param {number} turn */
function pacer(turn) {
  let paused = 0;
  return async (/** @type {number} */ share) => {
    if (performance.now() - paused < PAUSE_MS) return;
    /** @type {HTMLProgressElement} */ (bar).value = share;
    await new Promise((done) => setTimeout(done));
    paused = performance.now();
    if (turn !== chosen) throw new Error("another file was chosen");
  };
}

input.addEventListener("change", () => void check(input.files?.[0]));
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => {
  event.preventDefault();
  void check(event.dataTransfer?.files[0]);
});
