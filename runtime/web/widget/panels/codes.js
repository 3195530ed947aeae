// A code from a product or receipt: typed, or scanned where the browser reads barcodes.

import { h } from "../dom.js";
import { chip, doer } from "./parts.js";

/** Characters that the service accepts in a code. */
const CODE_MAX = 256;
const LOOK_MS = 250;

const sheet = new CSSStyleSheet();
sheet.replaceSync(`
.codes { display: grid; gap: .9em; }
.codes label { display: grid; gap: .4em; font-weight: 650; }
.codes input { width: 100%; min-height: 3em; padding: .5em .9em; font: inherit; font-family: ui-monospace, monospace; letter-spacing: .08em; text-transform: uppercase; color: var(--t-text); background: var(--t-surface); border: 1px solid var(--t-quiet); border-radius: .9em; }
.codes input:focus-visible { outline: .2em solid var(--t-text); outline-offset: .1em; }
.codes video { width: 100%; max-height: 50vh; border-radius: 1em; background: #000; object-fit: cover; }
.codes .acts { display: flex; flex-wrap: wrap; align-items: start; justify-content: space-between; gap: .7em; }
`);

/** @param {import("../types.js").Panel} panel */
export function open(panel) {
  const { root, words, round, render, say } = panel;
  const shadow = /** @type {ShadowRoot} */ (root.getRootNode());
  if (!shadow.adoptedStyleSheets.includes(sheet)) shadow.adoptedStyleSheets.push(sheet);
  const input = h("input", { type: "text", name: "code", maxlength: CODE_MAX, autocomplete: "off", autocapitalize: "characters", spellcheck: "false", dir: "ltr", enterkeyhint: "done" });
  const given = h("p", { role: "status" });
  const send = doer(panel, {
    label: words.t("codes_send"), act: "codes", path: "/codes/redeem", type: "submit",
    body: () => ({ campaign_id: render.campaign_id, code: input.value }),
    ready: () => {
      if (input.value.trim()) return true;
      input.focus();
      return false;
    },
    done: ({ gave }) => {
      const count = Number(gave.turns || gave.amount);
      const said = gave.turns ? words.t("quest_done", { count }) : words.t("codes_given", { count, name: gave.currency });
      given.replaceChildren(chip(said, "good"));
      say(said);
      const button = /** @type {HTMLElement} */ (send.querySelector("button"));
      send.replaceChildren(button);
      button.textContent = words.t("codes_send");
      button.removeAttribute("aria-disabled");
      input.value = "";
      input.focus();
      if (round.state === "refused") round.rest(); // It may be played again.
    },
  });
  const form = h("form", { class: "codes", novalidate: true, onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
    h("p", {}, words.t("codes_about")), h("label", {}, words.t("login_code"), input), h("div", { class: "acts" }, scanner(panel, (code) => {
      input.value = code.slice(0, CODE_MAX);
      /** @type {HTMLElement} */ (send.querySelector("button")).focus();
    }), send), given);
  root.append(form);
  input.focus();
}

/**
 * A button that reads a code with the camera; nothing where the browser cannot.
 * @param {import("../types.js").Panel} panel
 * @param {(code: string) => void} found
 */
function scanner({ words, say }, found) {
  const Detector = /** @type {any} */ (globalThis).BarcodeDetector;
  if (!Detector || !navigator.mediaDevices?.getUserMedia) return h("span", {});
  /** @type {MediaStream | null} */
  let stream = null;
  let opening = false;
  const video = h("video", { muted: true, playsinline: true, "aria-label": words.t("codes_scan") });
  const button = h("button", { class: "small", type: "button", "data-act": "scan", onclick: () => (stream ? stop() : void scan()) }, words.t("codes_scan"));
  const place = h("div", {}, button);
  return place;

  function stop() {
    for (const track of stream?.getTracks() ?? []) track.stop();
    stream = null;
    video.remove();
    button.textContent = words.t("codes_scan");
  }

  async function scan() {
    if (opening) return;
    opening = true;
    try {
      const detector = new Detector();
      stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } }).finally(() => (opening = false));
      place.prepend(video);
      button.textContent = words.t("codes_stop");
      video.srcObject = stream;
      await video.play();
      // A closed panel ends the scan: the camera must not stay on.
      while (stream && video.isConnected) {
        const [read] = await detector.detect(video);
        if (read?.rawValue) {
          found(codeIn(read.rawValue));
          break;
        }
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      }
      stop();
    } catch {
      // No permission, no camera, or no reader.
      stop();
      say((place.title = words.t("codes_no_camera")));
      place.replaceChildren(h("p", { class: "quiet" }, words.t("codes_no_camera")));
    }
  }
}

/** The code in what was read: of an address its parameter `code`, else all of it. @param {string} text */
function codeIn(text) {
  try {
    return new URL(text).searchParams.get("code") ?? text;
  } catch {
    return text;
  }
}
