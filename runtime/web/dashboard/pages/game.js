// One game: design, preview, test plays and revisions.
import { api } from "../api.js";
import { changes, currenciesOf, editable, schemaOf } from "../designer/definition.js";
import { alike, Differences, differences } from "../designer/differences.js";
import { Forecast } from "../designer/forecast.js";
import { Choice, Colour, Contrasts, dressed, ofCampaign, Preset, Unused } from "../designer/look.js";
import { Odds, Percent } from "../designer/odds.js";
import { Preview } from "../designer/preview.js";
import { Revisions } from "../designer/revisions.js";
import { Trials } from "../designer/trials.js";
import { Removed, Wheel } from "../designer/wheel.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib.js";
import { Act } from "../parts/button.js";
import { Embed } from "../parts/embed.js";
import { Form, isObject } from "../parts/form.js";
import { Head, Section } from "../parts/layout.js";
import { Font, Picture } from "../parts/picture.js";
import { useData } from "../parts/requests.js";
import { Loading, Problem } from "../parts/states.js";
import { complain, tell } from "../parts/toast.js";
import { useUnsaved } from "../parts/unsaved.js";
import { Id } from "../parts/values.js";
import { addressOf } from "../prizes/definition.js";
import { address, askBeforeLeaving } from "../router.js";
import { can } from "../session.js";
import { useTitle } from "../title.js";
import { label, say } from "../words.js";
import { moveGame, verbOf } from "./game_moves.js";

const PRIZES_MAX = 500;
const COLOURS = ["primary", "accent", "color"];
const PICTURES = ["image", "logo"];
const ENUMS = ["on_unavailable", "access", "wallet_scope", "mode"];

/** @param {{id: string}} props */
export default function Game({ id }) {
  const { data, error, again, set } = useData((signal) => everything(id, signal), [id]);
  useTitle(data?.game.name ?? "");
  useEffect(() => {
    // Reloads prizes when the tab regains focus, since one may have been created in another tab.
    const back = () => data && usable(data.game).then((prizes) => prizes.length !== data.prizes.length && set({ ...data, prizes })).catch(() => {});
    addEventListener("focus", back);
    return () => removeEventListener("focus", back);
  }, [data]);
  if (!data) {
    return error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} />`;
  }
  const { game, campaign } = data;
  const changed = (/** @type {any} */ now) => set({ ...data, game: now });
  const move = async () => {
    try {
      changed((await moveGame(game)) ?? game);
    } catch (refused) {
      complain(refused); // The input is kept: a conflict is only shown on save.
    }
  };
  return html`<${Head} title=${game.name} status=${game.status} back=${{ href: address(`/campaigns/${encodeURIComponent(campaign.id)}`), text: campaign.name }}>
      ${can("UpdateGame") && campaign.status !== "CAMPAIGN_STATUS_ENDED" && verbOf(game) && html`<${Act} class=${verbOf(game) === "pause" ? "secondary outline" : ""} act=${move}>${say(`game.${verbOf(game)}`)}<//>`}
    <//>
    <p class="under">${label(game.type)} · <code>${game.reward_handler}</code> · ${say("game.at", { revision: game.revision })} · <${Id} value=${game.id} /></p>
    <${Designer} key=${`${id}:${data.begun}`} data=${data} saved=${(/** @type {any} */ now, /** @type {boolean} */ mixed) => set({ ...data, game: now, begun: data.begun + Number(mixed) })} />
    ${game.status !== "GAME_STATUS_ARCHIVED" && html`<${Embed} kind="p" of=${game} games=${[game.id]} origins=${campaign.origins}
      note=${campaign.status === "CAMPAIGN_STATUS_DRAFT" || game.status === "GAME_STATUS_DRAFT" ? say("embed.draft") : ""} />`}
    ${can("ForecastGame") && html`<${Forecast} key=${`${id}:${game.revision}`} game=${game} />`}
    ${can("ListTestPlays") && html`<${Trials} key=${id} game=${game} />`}
    ${can("ListGameRevisions") && html`<${Revisions} game=${game} zone=${campaign.timezone} restored=${(/** @type {any} */ now) => set({ ...data, game: now, begun: data.begun + 1 })} />`}`;
}

/** @param {string} id @param {AbortSignal} signal */
async function everything(id, signal) {
  const asked = api.get("/admin/games/{id}", { path: { id }, signal });
  // Loads in parallel to the game: hundreds of prizes take several sequential pages.
  const inCampaign = async (/** @type {string} */ path, /** @type {string} */ needs) =>
    (can(needs) ? (await api.get(path, { query: { campaign_id: (await asked).campaign_id, limit: 100 }, signal })).items : []);
  const [game, campaign, config, themes, prizes, games, packs] = await Promise.all([
    asked,
    asked.then((game) => api.get("/admin/campaigns/{id}", { path: { id: game.campaign_id }, signal })),
    asked.then((game) => api.get("/schemas/games/{name}.json", { path: { name: game.reward_handler }, signal })),
    api.get("/themes.json", { signal }),
    usable(asked, signal),
    inCampaign("/admin/games", "ListGames"),
    inCampaign("/admin/packs", "ListPacks"),
  ]);
  return { game, campaign, config, themes, prizes, packs, others: games.filter((/** @type {any} */ one) => one.id !== id), begun: 0 };
}

/** The prizes that a game can award: of its campaign, or of all campaigns. @param {any} game or the promise of it @param {AbortSignal} [signal] */
async function usable(game, signal) {
  /** @type {any[]} */
  const found = [];
  for (let cursor = "", more = can("ListPrizes"); more && found.length < PRIZES_MAX; ) {
    const [{ items, pagination }, { campaign_id: own }] = await Promise.all([api.get("/admin/prizes", { query: { limit: 100, cursor }, signal }), game]);
    found.push(...items.filter((/** @type {any} */ one) => !one.campaign_id || one.campaign_id === own));
    cursor = pagination.next_cursor;
    more = pagination.has_more;
  }
  return found;
}

/** The form, with odds, contrast and preview. @param {{data: any, saved: (game: any, mixed: boolean) => void}} props */
function Designer({ data: { game, campaign, config, themes, prizes, others, packs }, saved }) {
  // The form's initial value. Only the fields that differ are sent, with its revision.
  const begun = useRef({ game, fields: editable(game) });
  if (game.status !== begun.current.game.status && game.revision === begun.current.game.revision + 1) {
    begun.current = { ...begun.current, game }; // A status change on this page advances the base revision.
  }
  const [value, setValue] = useState(begun.current.fields);
  const [theirs, setTheirs] = useState(/** @type {any} */ (null));
  const [unused, setUnused] = useState(/** @type {{field: string, description: string}[]} */ ([]));
  const mixed = useRef(false); // The saved game contains concurrent changes that the form does not show.
  const segmented = game.type === "spin_wheel" || game.type === "scratch_card";
  const currencies = currenciesOf({ ...game, ...value }, others, packs, prizes);
  const schema = schemaOf(config, segmented, currencies, value.milestones.rungs ?? []);
  const widgets = useMemo(() => widgetsOf(prizes, themes, game.campaign_id), [prizes, themes, game.campaign_id]);
  const ui = dressed(ofCampaign(value.ui, campaign.settings), themes);
  const may = can("UpdateGame") && game.status !== "GAME_STATUS_ARCHIVED";
  const save = async (/** @type {any} */ typed) => {
    const changed = changes(begun.current.fields, typed);
    try {
      const now = await api.put("/admin/games/{id}", { path: { id: game.id }, body: { ...changed, revision: begun.current.game.revision } });
      begun.current = { game: now, fields: { ...typed, revision: now.revision } };
      setTheirs(null);
      setUnused(now.warnings ?? []);
      // New milestones got their ids: without them, a later change would make others.
      saved(now, mixed.current || (typed.milestones?.rungs ?? []).some((/** @type {any} */ one) => !one.id));
      tell(say("saved"));
    } catch (refused) {
      if (/** @type {any} */ (refused).reason === "STALE_REVISION") {
        setTheirs(await api.get("/admin/games/{id}", { path: { id: game.id } }));
      }
      if (/** @type {any} */ (refused).reason === "APPROVAL_NEEDED") {
        askBeforeLeaving(""); // The changes are sent: a second person decides on them.
      }
      throw refused;
    }
  };
  const unsaved = Object.keys(changes(begun.current.fields, value));
  useUnsaved(may && unsaved.length);
  const over = () => {
    mixed.current = true;
    begun.current = { ...begun.current, game: theirs };
    setTheirs(null);
  };
  return html`<div class="designer">
    <div>
      <${Section} title=${say("designer.title")}>
        ${may ? html`<div class="sheet"><${Form} schema=${schema} value=${begun.current.fields} save=${save} typed=${setValue} word=${say("save")} zone=${campaign.timezone} widget=${widgets}>
          ${(/** @type {any} */ now, /** @type {any} */ change) => html`
            ${segmented && html`<${Wheel} handler=${game.reward_handler} value=${now} prizes=${prizes} change=${change} whole=${game.type === "spin_wheel"} />`}
            <${Removed} game=${begun.current.game} value=${now} prizes=${prizes} />
            <${Unused} items=${unused} />
            ${theirs && html`<${Conflict} begun=${begun.current} theirs=${theirs} typed=${value} over=${over} />`}`}
        <//></div>` : html`<p class="quiet">${say("designer.read_only")}</p>`}
      <//>
    </div>
    <div class="aside">
      ${can("MakeTestPlays") && html`<${Preview} game=${game} ui=${ui} prizes=${prizes} unsaved=${unsaved} />`}
      <${Odds} handler=${game.reward_handler} config=${value.handler_config ?? {}} prizes=${prizes} zone=${campaign.timezone} />
      <${Section} title=${say("contrast.title")}><${Contrasts} ui=${value.ui} themes=${themes} /><//>
    </div>
  </div>`;
}

/** A conflict: the changes that another person saved. @param {{begun: any, theirs: any, typed: any, over: () => void}} props */
function Conflict({ begun, theirs, typed, over }) {
  const now = editable(theirs);
  const own = Object.keys(changes(begun.fields, typed));
  const found = differences(editable(begun.game), now);
  const both = own.filter((name) => !alike(editable(begun.game)[name], now[name]));
  return html`<div class="problem conflict" role="alert">
    <p>${say("conflict.title", { revision: theirs.revision })}</p>
    <${Differences} caption=${say("conflict.caption")} items=${found} left=${say("revisions.then", { revision: begun.game.revision })} right=${say("revisions.now", { revision: theirs.revision })} />
    <p>${both.length ? say("conflict.both", { fields: both.map(label).join(", ") }) : say("conflict.apart")}</p>
    <button type="button" class="secondary outline" onClick=${over}>${say("conflict.over")}</button>
  </div>`;
}

/** Custom controls of a game's fields. @param {any[]} prizes @param {any} themes @param {string} campaign */
function widgetsOf(prizes, themes, campaign) {
  /** @param {any} props */
  const Prize = ({ value, change, named }) => html`<select ...${named} value=${value ?? ""} onChange=${(/** @type {any} */ event) => change(event.target.value)}>
    <option value="">${say("form.none")}</option>
    ${prizes.map((one) => html`<option key=${one.prize_id} value=${one.prize_id}>${one.name}</option>`)}
    ${value && !prizes.some(({ prize_id }) => prize_id === value) && html`<option value=${value}>${value}</option>`}
  </select>${value && can("GetPrize") && html`<a class="small" href=${addressOf(value)} target="_blank" rel="opener">${say("prizes.open")}</a>`}
  ${!value && can("CreatePrize") && html`<a class="small" href=${address("/prizes/new", { campaign_id: campaign })} target="_blank" rel="opener">${say("prizes.new")}</a>`}`;
  /** The picture of a game, which may be stored with an emoji. @param {any} props */
  const Cover = ({ value, change, ...rest }) => html`<${Picture} ...${rest} value=${isObject(value) ? value.image ?? "" : value}
    change=${(/** @type {string} */ image) => change(isObject(value) ? { ...value, image } : image)} />`;
  /** @param {any} props */
  const Theme = (props) => html`<${Preset} ...${props} themes=${themes} />`;
  return (/** @type {string} */ name) =>
    name === "prize_id" || name === "fallback_prize_id" ? Prize : ENUMS.includes(name) ? Choice : COLOURS.includes(name) ? Colour : name === "picture" ? Cover : PICTURES.includes(name) ? Picture : name === "font_file" ? Font : name === "probability" ? Percent : name === "preset" ? Theme : null;
}
