// A campaign without games, on its page: the button that opens the entry form, and the panels of its draws, the player's
// rewards and the account.
import { Api } from "../widget/api.js";
import { h } from "../widget/dom.js";
import { loadModule } from "../widget/load_module.js";
import { Look } from "../widget/look.js";
import { openPanel } from "../widget/panels.js";
import { Round, rounds } from "../widget/play.js";
import { Identity } from "../widget/storage.js";
import { sheet } from "../widget/style.js";
import { Words, choose } from "../widget/words.js";

const place = /** @type {HTMLElement} */ (document.querySelector("[data-entry]"));
/** @type {{ form: boolean, open: boolean, offers: string[], looks: any, view: string }} */
const facts = JSON.parse(place.dataset.entry ?? "");
const { campaign: id = "", tenant = "" } = document.querySelector("main")?.dataset ?? {};
const identity = new Identity(`${location.origin}:${tenant}`);
const api = new Api(location.origin, identity, tenant);
api.renew = async (/** @type {import("../widget/api.js").Refused} */ why) => (await loadModule("./login.js")).renew(api, why);

/** The player's entry: null if there is none. @type {any} */
let entry = null;
const words = await Words.load(choose([identity.login?.player.locale, ...navigator.languages])).catch(() => new Words("en", {}));
await words.more().catch(() => {});
// The panels expect a round of a game. This one can never be played.
const render = { campaign_id: id, prizes: [], ui: {}, offers: facts.offers };
const round = Object.assign(new Round(api, ""), /** @type {any} */ ({ render, standing: { can_play: false }, look: update }));
rounds.add(round);
if (identity.aside.length) void loadModule("./login.js").then((file) => file.recall(api));
const said = h("p", { class: "left", role: "status" });
const button = h("button", { class: "main", type: "button", hidden: true, onclick: () => void openPanel(view, "entry") });
const tile = (/** @type {string} */ name, /** @type {string} */ picture) =>
  h("button", { class: "tile", type: "button", "data-panel": name, onclick: () => void openPanel(view, name) }, h("span", { class: "picture", "aria-hidden": "true" }, picture), words.t(name));
const account = tile("login", "👤");
const panels = h("nav", { class: "panels", "aria-label": words.t("panels") }, facts.offers.includes("draws") && tile("draws", "🎫"), tile("rewards", "🎟️"), account);
const frame = h("div", { class: "frame", lang: words.locale, dir: words.direction }, said, button, panels);
const view = /** @type {any} */ ({ host: place, round, words, frame, left: said, say: (/** @type {string} */ text) => (said.textContent = text) });
new Look(facts.looks).dress(frame);
Object.assign(frame.style, { padding: "0", background: "none", overflow: "visible" }); // The page around it has the ground.
place.attachShadow({ mode: "open" }).adoptedStyleSheets = [sheet];
place.shadowRoot?.append(frame);
await update();

/** Reads the entry. What was shown stays if the service cannot be reached. */
async function update() {
  const path = `/campaigns/${encodeURIComponent(id)}/entry`;
  const keeps = (/** @type {any} */ error) => ([401, 403, 404].includes(error.http) ? null : entry);
  entry = facts.form && identity.token ? await api.get(path).catch(keeps) : null;
  const entered = Boolean(entry?.given);
  said.textContent = entered && !entry.missing.length ? words.t("entry_done") : "";
  button.textContent = entered ? facts.view : words.t("entry");
  // Without an entry, a campaign that is not running offers none.
  button.hidden = !facts.form || (!entered && !facts.open);
  /** @type {ChildNode} */ (account.lastChild).textContent = words.t(identity.isGuest ? "login" : "signed_in", { name: identity.who });
}
