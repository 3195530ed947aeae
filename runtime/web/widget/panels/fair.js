// Verifies a draw: the commitment before it against the values revealed after it.

import { h } from "../dom.js";
import { loadModule } from "../load_module.js";

/** @param {import("../types.js").Panel} panel */
export async function open({ root, api, words, round, given, say }) {
  const result = given ? earlier(given) : round.last;
  if (!result) {
    const hash = round.record.now.session?.seed_hash;
    root.append(h("p", {}, words.t("fair_none")));
    if (hash) root.append(h("dl", {}, h("dt", {}, words.t("fair_seed_hash")), h("dd", {}, hash)));
    return;
  }
  if (given) root.append(h("p", { class: "quiet" }, words.t("fair_earlier", { when: words.when(Number(given.played_at)) })));
  const facts = { fair_seed_hash: result.session.seed_hash, fair_seed: result.seed, fair_client_seed: result.client_seed };
  const steps = h("ol", { class: "steps" });
  const check = h("button", { class: "small", type: "button", onclick: verify }, words.t("fair_check"));
  const save = h("button", { class: "small", type: "button", onclick: download }, words.t("fair_download"));
  root.append(
    h("p", {}, words.t("fair_text")),
    h("dl", {}, ...Object.entries(facts).flatMap(([key, value]) => [h("dt", {}, words.t(key)), h("dd", {}, value)])),
    h("div", { class: "row" }, check, save),
    steps,
  );

  /** The rules that were promised, letter for letter; "" where the operator does not publish them. */
  async function terms() {
    try {
      return String((await api.get(`/revisions/${result?.session.revision_hash}`)).terms);
    } catch {
      return "";
    }
  }

  async function work() {
    /** @type {typeof import("../check.js")} */
    const { checkDraw } = await loadModule("./check.js");
    return checkDraw(/** @type {any} */ (result), await terms());
  }

  async function verify() {
    const { steps: found, good } = await work();
    const said = words.t(good ? "fair_good" : "fair_bad");
    const line = (/** @type {boolean | null} */ fits, /** @type {string} */ text) =>
      h("li", { "data-fits": String(fits) }, h("span", { "aria-hidden": "true" }, fits === null ? "ℹ️" : fits ? "✅" : "❌"), h("span", {}, text));
    steps.replaceChildren(...found.map((step) => line(step.fits, words.t(step.key, { ...step.values, drawn: step.values.drawn || words.t("fair_step_nothing") }))), line(good, said));
    say(said);
  }

  async function download() {
    const rules = await terms();
    const whole = { checked: (await work()).steps, result, terms: rules };
    const address = URL.createObjectURL(new Blob([JSON.stringify(whole, null, 2)], { type: "application/json" }));
    const link = h("a", { href: address, download: `draw-${result?.play_id}.json` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }
}

/** A play of the history as a result: its start's promise is no part of it. @param {any} play @returns {import("../types.js").Result} */
function earlier({ id, session_id, seed_hash, revision_hash, ...play }) {
  return { ...play, play_id: id, seed_hash, session: { session_id, seed_hash, revision_hash } };
}
