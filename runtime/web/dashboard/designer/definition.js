// A game's definition: conversion between the form's value and the API's.
import { isObject } from "../parts/form.js";
import { say } from "../words.js";
import { alike } from "./differences.js";

/** The types of a new game, with their handlers. */
export const SHAPES = /** @type {Record<string, Record<string, string>>} */ ({
  spin_wheel: { reward_handler: "probability", seed_generator: "none", validator: "basic" },
  scratch_card: { reward_handler: "probability", seed_generator: "none", validator: "basic" },
  instant_win: { reward_handler: "moments", seed_generator: "none", validator: "basic" },
  egg_catcher: { reward_handler: "score_to_tier", seed_generator: "none", validator: "basic" },
  gift_catcher: { reward_handler: "collect_items", seed_generator: "drop_sequence", validator: "drop_plan" },
  collection: { reward_handler: "lucky_item", seed_generator: "none", validator: "basic" },
});

const FIELDS = ["name", "handler_config", "on_unavailable", "fallback_prize_id", "rules", "access", "wallet_scope", "start_date", "end_date", "milestones", "ui"];

/** The form's initial value. @param {any} game @returns {Record<string, any>} */
export function editable(game) {
  const ui = game.ui ?? {};
  const milestones = game.milestones ?? { mode: "MILESTONE_MODE_CUMULATIVE_UNLOCK", auto_grant: false, rungs: [] };
  return { ...Object.fromEntries(FIELDS.map((name) => [name, game[name]])), ui: { ...ui, theme: copied(ui.theme), background: copied(ui.background) }, milestones };
}

/** A part of a ui, which is free-form. @param {any} value */
const copied = (value) => (isObject(value) ? { ...value } : value ?? {});

/** The request body: empty values are omitted. @param {any} value */
function plain(value) {
  const { theme, background, wheel, picture, ...rest } = value.ui ?? {};
  const named = Array.isArray(wheel?.segments) ? (wheel.segments.length ? { ...wheel, segments: wheel.segments.map(pruned) } : {}) : wheel;
  const ui = { ...rest, ...part("theme", pruned(theme)), ...part("background", pruned(background)), ...part("wheel", named), ...part("picture", picture === "" ? undefined : pruned(picture)) };
  return { ...value, ui };
}

/** @param {string} name @param {any} value */
const part = (name, value) => (value === undefined || (isObject(value) && !Object.keys(value).length) ? {} : { [name]: value });
/** @param {any} value */
const pruned = (value) => (!isObject(value) ? value : Object.fromEntries(Object.entries(value).filter(([, one]) => one !== "" && one !== undefined && one !== null)));

/**
 * Only the changed fields, so that concurrent changes to other fields are kept.
 * @param {any} before what the form began with @param {any} value
 */
export function changes(before, value) {
  const [from, to] = [plain(before), plain(value)];
  return Object.fromEntries(FIELDS.filter((name) => !alike(from[name], to[name])).map((name) => [name, to[name]]));
}

/** All fields, to restore a revision. @param {any} game */
export const whole = (game) => ({ ...Object.fromEntries([...FIELDS, "type", "reward_handler", "seed_generator", "validator"].map((name) => [name, game[name]])), milestones: game.milestones ?? { rungs: [] } });

const count = { type: "integer", minimum: 0 };
const text = { type: "string" };

/** The ids of the prizes that a game, or the form's value of it, can award. @param {any} game @returns {string[]} */
export function awarded({ handler_config, milestones, fallback_prize_id }) {
  /** @type {Set<string>} */
  const found = new Set(fallback_prize_id ? [fallback_prize_id] : []);
  JSON.stringify([handler_config, milestones], (name, value) => {
    if (name === "prize_id" && value) {
      found.add(value);
    }
    return value;
  });
  return [...found];
}

/** @typedef {{currency: string, title: string}} Currency of a wallet */

/** The currencies that plays of a game credit. @param {any} game @param {any[]} prizes @returns {string[]} */
function creditedBy(game, prizes) {
  const items = game.reward_handler === "lucky_item" ? (game.handler_config?.items ?? []).map((/** @type {any} */ one) => one.item).filter(Boolean) : [];
  const named = awarded({ ...game, milestones: null });
  return [...items, ...(prizes.some(({ type, prize_id }) => type === "points" && named.includes(prize_id)) ? ["points"] : [])];
}

/**
 * The currencies of a rung: first those that the game credits, then the others of its campaign.
 * @param {any} game as edited @param {any[]} others the campaign's other games @param {any[]} packs @param {any[]} prizes
 * @returns {Currency[]}
 */
export function currenciesOf(game, others, packs, prizes) {
  const title = (/** @type {string} */ currency) => (currency === "points" ? say("currency.points") : currency);
  const own = creditedBy(game, prizes).map((currency) => ({ currency, title: title(currency) }));
  const of = (/** @type {string} */ currency, /** @type {string} */ name) => ({ currency, title: say("currency.of", { currency: title(currency), name }) });
  const found = [
    ...own, ...others.flatMap((one) => creditedBy(one, prizes).map((currency) => of(currency, one.name))),
    ...packs.flatMap(({ name, gives }) => (gives?.currency ? [of(gives.currency, name)] : [])),
  ];
  return found.length ? [...new Map(found.toReversed().map((one) => [one.currency, one])).values()].toReversed() : [{ currency: "points", title: title("points") }];
}

/** The currency of a rung: not asked for where there is one only. @param {Currency[]} currencies @param {any[]} rungs @returns {any} */
function currencyField(currencies, rungs) {
  const [first] = currencies;
  const unknown = [...new Set(rungs.map(({ currency }) => currency))].filter((one) => one && !currencies.some(({ currency }) => currency === one));
  if (currencies.length + unknown.length === 1) {
    return { const: first.currency };
  }
  const titles = [...currencies.map(({ currency, title }) => [currency, title]), ...unknown.map((one) => [one, say("currency.unknown", { currency: one })])];
  return { type: "string", enum: titles.map(([currency]) => currency), titles: Object.fromEntries(titles), default: first.currency };
}

/**
 * The form's schema: the handler's own within the game's. config: the handler's; wheel: whether it has fields to name.
 * @param {any} config @param {boolean} wheel @param {Currency[]} currencies @param {any[]} rungs as edited
 */
export function schemaOf(config, wheel, currencies, rungs) {
  const { $defs } = config;
  const own = { ...config, $defs: undefined };
  /** @param {Record<string, any>} properties @param {string[]} [required] */
  const object = (properties, required = []) => ({ type: "object", properties, required });
  return {
    $defs,
    ...object({
      name: { type: "string", minLength: 1, maxLength: 200 },
      handler_config: own,
      on_unavailable: { type: "string", enum: ["ON_UNAVAILABLE_LOSE", "ON_UNAVAILABLE_REDRAW", "ON_UNAVAILABLE_FALLBACK"] },
      fallback_prize_id: text,
      rules: object({
        max_plays_per_user: { ...count, help: say("help.unlimited") }, max_plays_per_day: { ...count, help: say("help.unlimited_days") },
        requires_turn: { type: "boolean" }, admits_guests: { type: "boolean" }, verify_timing: { type: "boolean", help: say("help.verify_timing") },
      }),
      access: { type: "string", enum: ["GAME_ACCESS_PLAYER", "GAME_ACCESS_PUBLIC"] },
      wallet_scope: { type: "string", enum: ["WALLET_SCOPE_CAMPAIGN", "WALLET_SCOPE_MERCHANT", "WALLET_SCOPE_TENANT"] },
      start_date: { type: "integer", format: "unix-time", help: say("help.own_dates") },
      end_date: { type: "integer", format: "unix-time" },
      milestones: object({
        mode: { type: "string", enum: ["MILESTONE_MODE_CUMULATIVE_UNLOCK", "MILESTONE_MODE_SPEND_EXCHANGE"] },
        auto_grant: { type: "boolean" },
        rungs: { type: "array", items: object({ name: text, currency: currencyField(currencies, rungs), threshold: { type: "integer", minimum: 1 }, prize_id: text }, ["currency", "threshold", "prize_id"]) },
      }),
      ui: object({
        picture: { ...text, label: say("field.image_url"), help: say("help.game_picture") },
        theme: object({ preset: text, mode: { type: "string", enum: ["", "auto", "light", "dark"] }, primary: text, accent: text, font: text, font_file: text, logo: text, logo_alt: text, radius: text }),
        background: object({ color: text, emoji: text, image: text }),
        ...(wheel ? { wheel: object({ segments: { type: "array", items: object({ label: text, emoji: text, image: text, color: text, prize_id: text }) } }) } : {}),
      }),
    }, ["name"]),
  };
}
