// The entry form of a campaign without games, on the campaign's page: a button that opens it, and the panels of prizes,
// draws and the account.
import { Api } from "../widget/api.js";
import { h } from "../widget/dom.js";
import { loadModule } from "../widget/load_module.js";
import { Look } from "../widget/look.js";
import { openPanel } from "../widget/panels.js";
import { Round, rounds } from "../widget/play.js";
import { Identity } from "../widget/storage.js";
import { sheet } from "../widget/style.js";
import { Words, choose } from "../widget/words.js";

const OPEN = ["CAMPAIGN_STATE_RUNNING", "CAMPAIGN_STATE_SOLD_OUT"];

const place = /** @type {HTMLElement} */ (document.querySelector("[data-entry]"));
const { campaign: id = "", tenant = "" } = document.querySelector("main")?.dataset ?? {};
const identity = new Identity(`${location.origin}:${tenant}`);
const api = new Api(location.origin, identity, tenant);
api.renew = async (/** @type {import("../widget/api.js").Refused} */ why) => (await loadModule("./login.js")).renew(api, why);

/** The player's entry: null if there is none. */
const entryOf = async () => (identity.token ? api.get(`/campaigns/${encodeURIComponent(id)}/entry`).catch(() => null) : null);

const [campaign, words, entry] = await Promise.all([api.get(`/public/campaigns/${encodeURIComponent(id)}`), Words.load(choose([identity.login?.player.locale, ...navigator.languages])), entryOf()]);
await words.more();
// There is no game to ask about.
const round = Object.assign(new Round(api, ""), /** @type {any} */ ({ render: { campaign_id: id, prizes: [], ui: {} }, standing: { can_play: false }, look: update }));
rounds.add(round);
const said = h("p", { class: "left", role: "status" });
const button = h("button", { class: "main", type: "button", onclick: () => void openPanel(view, "entry") });
const tile = (/** @type {string} */ name, /** @type {string} */ picture) =>
  h("button", { class: "tile", type: "button", "data-panel": name, onclick: () => void openPanel(view, name) }, h("span", { class: "picture", "aria-hidden": "true" }, picture), words.t(name));
const tiles = [campaign.draws?.length && tile("draws", "🎫"), tile("rewards", "🎟️"), !identity.given && tile("login", "👤")];
const panels = h("nav", { class: "panels", "aria-label": words.t("panels") }, ...tiles);
const frame = h("div", { class: "frame", lang: words.locale, dir: words.direction }, said, button, panels);
const view = /** @type {any} */ ({ host: place, round, words, frame, left: said, say: (/** @type {string} */ text) => (said.textContent = text) });
new Look(campaign.settings ?? {}).dress(frame);
Object.assign(frame.style, { padding: "0", background: "none", overflow: "visible" }); // The page around it has the ground.
place.attachShadow({ mode: "open" }).adoptedStyleSheets = [sheet];
place.shadowRoot?.append(frame);
show(entry);

/** Shows whether the player is entered. Without an entry, a campaign that is not running offers none. @param {any} entry */
function show(entry) {
  const entered = Boolean(entry?.given);
  said.textContent = entered && !entry.missing.length ? words.t("entry_done") : "";
  button.textContent = entered ? (place.dataset.view ?? "") : words.t("entry");
  button.hidden = !entered && !OPEN.includes(campaign.state);
}

async function update() {
  show(await entryOf());
}
