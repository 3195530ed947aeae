// The look and texts of a campaign's page, edited beside a preview.
import { api, Refused } from "../api.js";
import { Choice, Colour, Contrasts, dressed, ofCampaign, ownTheme, Preset, Unused } from "../designer/look.js";
import { Preview } from "../designer/preview.js";
import { html, useMemo, useRef, useState } from "../lib.js";
import { differing } from "../parts/compared.js";
import { Form, isObject } from "../parts/form.js";
import { Head, Section } from "../parts/layout.js";
import { Font, Picture } from "../parts/picture.js";
import { loadById, useData } from "../parts/requests.js";
import { Empty, Loading, Problem } from "../parts/states.js";
import { tell } from "../parts/toast.js";
import { useUnsaved } from "../parts/unsaved.js";
import { address } from "../router.js";
import { can } from "../session.js";
import { useTitle } from "../title.js";
import { has, say, state } from "../words.js";

const SHORT = ["title", "intro", "how", "win", "lose", "thanks"];
const LEGAL = ["terms", "privacy", "imprint"];
const STATES = ["announced", "running", "paused", "sold_out", "claims_open", "ended"];
const PICTURES = ["image", "logo", "preview"];
/** Of the widget, offered in this order. */
export const LANGUAGES = ["en", "de", "fr", "es", "it", "pt", "nl", "pl", "tr", "ar", "ja", "zh"];
const COLOURS = ["primary", "accent", "color"];

/** @param {Record<string, any>} properties */
const object = (properties) => ({ type: "object", properties });
const text = { type: "string" };
/** A text by language. @param {string} name */
const byLanguage = (name) => ({
  type: "object", label: say(`page.${name}`), names: LANGUAGES, help: has(`page.help_${name}`) ? say(`page.help_${name}`) : undefined,
  additionalProperties: { type: "string", format: name === "title" || name === "label" ? undefined : "lines", maxLength: 20000, label: say("page.text") },
});

const SCHEMA = object({
  theme: object({
    preset: text, mode: { type: "string", enum: ["", "auto", "light", "dark"] }, primary: text, accent: text, font: text,
    font_file: { ...text, help: say("page.help_font_file") }, logo: text, logo_alt: { ...text, maxLength: 200, help: say("page.help_logo_alt") }, radius: text,
  }),
  background: object({ color: text, emoji: text, image: text }),
  preview: { ...text, help: say("page.help_preview") },
  texts: object(Object.fromEntries([...SHORT, ...LEGAL].map((name) => [name, byLanguage(name)]))),
  after: object({
    label: byLanguage("label"), url: { type: "string", maxLength: 2048, help: say("page.help_url") },
    redirect_seconds: { type: "integer", minimum: 0, maximum: 600, help: say("page.help_redirect") }, share: { type: "boolean" },
  }),
  states: { ...object(Object.fromEntries(STATES.map((name) => [name, { ...object({ text: byLanguage("text"), image: text }), label: state(name) }]))), label: say("page.part_states"), help: say("page.help_states") },
  layout: { type: "string", enum: ["", "calendar"], titles: { "": say("page.layout_list"), calendar: say("page.layout_calendar") }, help: say("page.help_layout") },
  css: { type: "string", format: "lines", maxLength: 20000, help: say("page.help_css") },
});

/** @param {any} value */
const languagesOf = (value) => (typeof value === "string" ? { en: value } : { en: "", ...(isObject(value) ? value : {}) });
/** @param {any} value */
const partOf = (value) => (isObject(value) ? value : {});

/** The form's value. @param {any} campaign @returns {Record<string, any>} */
function editable({ settings }) {
  const { theme, background, preview, page, css } = settings ?? {};
  const texts = partOf(page?.texts);
  const after = partOf(page?.after);
  const states = partOf(page?.states);
  return {
    theme: { ...partOf(theme) }, background: { ...partOf(background) }, preview: typeof preview === "string" ? preview : "", css: typeof css === "string" ? css : "",
    texts: Object.fromEntries([...SHORT, ...LEGAL].map((name) => [name, languagesOf(texts[name])])),
    states: Object.fromEntries(STATES.map((name) => [name, { ...partOf(states[name]), text: languagesOf(partOf(states[name]).text) }])),
    layout: page?.layout === "calendar" ? "calendar" : "",
    after: { ...after, label: languagesOf(after.label), url: after.url ?? "", redirect_seconds: after.redirect_seconds ?? 0, share: after.share === true },
  };
}

/** Without empty values. @param {any} value @returns {any} */
function pruned(value) {
  if (!isObject(value)) {
    return value;
  }
  const left = Object.entries(value).map(([name, one]) => [name, pruned(one)]).filter(([, one]) => one !== undefined && one !== null && one !== "" && one !== false && one !== 0);
  return left.length ? Object.fromEntries(left) : undefined;
}

/** The campaign's settings with the form's. @param {any} campaign @param {any} value */
function settingsOf({ settings }, { theme, background, preview, texts, after, states, layout, css }) {
  const kept = Object.entries(settings ?? {}).filter(([name]) => !["theme", "background", "preview", "page", "css"].includes(name));
  return { ...Object.fromEntries(kept), ...pruned({ theme, background, preview, css, page: { texts, after, states, layout } }) };
}

/** @param {{id: string}} props */
export default function CampaignPage({ id }) {
  const { data, error, again } = useData((signal) => everything(id, signal), [id]);
  useTitle(data?.campaign.name ?? "");
  if (!data) {
    return error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} />`;
  }
  const { campaign } = data;
  return html`<${Head} title=${say("page.title_of")} status=${campaign.status} back=${{ href: address(`/campaigns/${encodeURIComponent(id)}`), text: campaign.name }} />
    <${Designer} key=${id} ...${data} />`;
}

/** @param {string} id @param {AbortSignal} signal */
async function everything(id, signal) {
  const [campaign, games, themes, prizes] = await Promise.all([
    api.get("/admin/campaigns/{id}", { path: { id }, signal }),
    can("ListGames") ? api.get("/admin/games", { query: { campaign_id: id, limit: 100 }, signal }) : { items: [] },
    api.get("/themes.json", { signal }),
    can("ListPrizes") ? loadById("/admin/prizes", signal) : new Map(),
  ]);
  return { campaign, games: games.items, themes, prizes: [...prizes.values()] };
}

/** @param {{campaign: any, games: any[], themes: any, prizes: any[]}} props */
function Designer({ campaign, games, themes, prizes }) {
  const begun = useRef(campaign);
  const filled = useRef(editable(campaign));
  const [value, setValue] = useState(filled.current);
  const [unused, setUnused] = useState(/** @type {{field: string, description: string}[]} */ ([]));
  const [language, setLanguage] = useState("en");
  const [shown, setShown] = useState(games[0]?.id ?? "");
  const [phase, setPhase] = useState("running");
  const widget = useMemo(() => widgetsOf(themes), [themes]);
  const settings = settingsOf(begun.current, value);
  const unsaved = JSON.stringify(settings) !== JSON.stringify(settingsOf(begun.current, filled.current));
  useUnsaved(unsaved);
  const save = async (/** @type {any} */ typed) => {
    const path = { id: campaign.id };
    try {
      const saved = await api.put("/admin/campaigns/{id}", { path, body: { settings: settingsOf(begun.current, typed), revision: begun.current.revision } });
      begun.current = saved;
      filled.current = typed;
      setUnused(saved.warnings ?? []);
      setValue({ ...typed });
      tell(say("saved"));
    } catch (refused) {
      if (/** @type {any} */ (refused).reason !== "STALE_REVISION") {
        throw refused;
      }
      const now = await api.get("/admin/campaigns/{id}", { path });
      const theirs = differing(editable(begun.current), editable(now));
      begun.current = now;
      throw new Refused(409, { message: say("campaign.stale", { what: theirs.map((key) => say(`page.part_${key}`)).join(", ") || say("campaign.stale_other") }) });
    }
  };
  const game = games.find((/** @type {any} */ one) => one.id === shown);
  const texts = [...Object.values(value.texts ?? {}), ...Object.values(value.states ?? {}).map((/** @type {any} */ one) => one?.text)];
  const languages = [...new Set(["en", ...texts.flatMap((/** @type {any} */ one) => Object.keys(one ?? {}))])];
  const ui = game && dressed(ofCampaign(game.ui, settings), themes);
  return html`<div class="designer">
    <div><${Section} title=${say("page.edit")}>
      <div class="sheet"><${Form} schema=${SCHEMA} value=${filled.current} save=${save} typed=${setValue} word=${say("save")} widget=${widget}>
        <${Unused} items=${unused} />
      <//></div>
    <//></div>
    <div class="aside">
      ${game && can("MakeTestPlays") ? html`<div class="choices">
          ${games.length > 1 && html`<${Among} name=${say("page.game")} value=${shown} change=${setShown} items=${games.map((/** @type {any} */ one) => [one.id, one.name])} />`}
          ${languages.length > 1 && html`<${Among} name=${say("page.language")} value=${language} change=${setLanguage} items=${languages.map((one) => [one, one])} />`}
          <${Among} name=${say("page.state")} value=${phase} change=${setPhase} items=${STATES.map((one) => [one, state(one)])} />
        </div>
        <${Preview} game=${game} ui=${ui} prizes=${prizes} unsaved=${unsaved ? ["ui"] : []} locale=${language} phase=${phase} />` : html`<${Empty} title=${say("page.no_game")} text=${say("page.no_game_text")} />`}
      ${game && ownTheme(game.ui) && html`<p class="quiet">${say("page.own_theme", { name: game.name })} <a href=${address(`/games/${encodeURIComponent(game.id)}`, { field: "ui.theme.preset" })}>${say("check.open")}</a></p>`}
      <${Section} title=${say("contrast.title")}><${Contrasts} ui=${value} themes=${themes} /><//>
    </div>
  </div>`;
}

/** @param {{name: string, value: string, change: (value: string) => void, items: string[][]}} props */
const Among = ({ name, value, change, items }) => html`<label>${name}<select value=${value} onChange=${(/** @type {any} */ event) => change(event.target.value)}>
  ${items.map(([one, shown]) => html`<option key=${one} value=${one}>${shown}</option>`)}</select></label>`;

/** Custom controls. @param {any} themes */
function widgetsOf(themes) {
  /** @param {any} props */
  const Theme = (props) => html`<${Preset} ...${props} themes=${themes} />`;
  return (/** @type {string} */ name) =>
    PICTURES.includes(name) ? Picture : name === "font_file" ? Font : COLOURS.includes(name) ? Colour : name === "preset" ? Theme : name === "mode" ? Choice : null;
}
