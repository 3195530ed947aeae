// What panels are made of: cards, lists that go on, acts that are done once, refusals in words.

import { h, picture } from "../dom.js";
import { newKey, read, write } from "../storage.js";
import { withTabLock } from "../tab_lock.js";

/** @typedef {import("../types.js").Panel} Panel */

/** Refusals that say the same as another. @type {Record<string, string>} */
const MEANT = { TOKEN_MISSING: "LOGIN_REQUIRED", TOKEN_INVALID: "TOKEN_EXPIRED", PLAYER_MERGED: "TOKEN_EXPIRED", CAMPAIGN_CLOSED: "QUEST_CLOSED" };

/** Refusals that a login is the way out of. */
const LOGIN = ["LOGIN_REQUIRED", "TOKEN_EXPIRED"];

/** How long an action's idempotency key is reused: on another day it is a new action. */
const KEPT_MS = 600_000;

/** A card of a list. @param {{look?: any, title: string, lines?: any[], side?: any, attributes?: Record<string, any>}} card */
export function card({ look, title, lines = [], side, attributes = {} }) {
  const facts = h("div", { class: "facts" }, h("strong", {}, title), ...lines.filter(Boolean).map((line) => h("div", { class: "quiet" }, line)));
  return h("li", { class: "item", ...attributes }, look && picture(look), facts, side && h("div", { class: "side" }, ...[side].flat()));
}

/** What a prize says of itself: what it is, and its terms to be opened. @param {Panel} panel @param {any} prize */
export function content({ words }, prize) {
  const terms = prize?.terms && h("details", { class: "terms" }, h("summary", {}, words.t("terms")), h("p", {}, prize.terms));
  return [prize?.description && h("p", { class: "quiet about" }, prize.description), terms].filter(Boolean);
}

/** A word on its state. @param {string} said @param {string} [kind] good, bad or due */
export const chip = (said, kind = "") => h("span", { class: "chip", "data-kind": kind }, said);

/** An empty state, with the next step. @param {Panel} panel @param {string} emoji @param {string} said @param {...any} more */
export function blank({ words, round, close }, emoji, said, ...more) {
  const play = round.standing?.can_play !== false && h("button", { class: "small", type: "button", onclick: close }, words.t("play_now"));
  return h("div", { class: "blank" }, picture({ emoji }), h("p", {}, said), ...(more.length ? more : [play]));
}

/** Stands for cards that are on their way. @param {Panel} panel @param {number} [count] */
export function skeleton({ words }, count = 3) {
  return h("div", { class: "skeleton", role: "img", "aria-label": words.t("loading_panel") }, ...Array.from({ length: count }, () => h("div", {})));
}

/** What came in the way, in words, and the way on. @param {Panel} panel @param {any} error @param {string} [act] what was asked: its own words come first */
export function refusal(panel, error, act = "") {
  const { said, back, reason } = inWords(panel, error, act);
  const login = LOGIN.includes(reason) && !panel.api.identity.given;
  return h(
    "div",
    { class: "refusal", "data-reason": reason },
    h("p", {}, `${said} ${back}`.trim()),
    login && h("button", { class: "small", type: "button", onclick: () => panel.open("login") }, panel.words.t("login")),
    reason === "ENTRY_REQUIRED" && h("button", { class: "small", type: "button", onclick: () => panel.open("entry", { done: () => panel.open("rewards") }) }, panel.words.t("entry")),
  );
}

/** @param {Panel} panel @param {any} error @param {string} act */
function inWords({ words }, error, act) {
  const reason = MEANT[error.reason] ?? (!error.reason || error.http >= 500 ? "BROKEN" : error.reason);
  const key = [`${act}_${reason}`, `panel_${reason}`, reason].find((one) => words.has(one)) ?? "refused";
  const resets = Number(error.data?.resets_at ?? 0);
  const opens = Number(error.data?.opens_at ?? 0);
  const back = resets * 1000 > Date.now() ? words.t("again_at", { when: words.when(resets), until: words.until(resets) }) : opens * 1000 > Date.now() ? words.t("starts_at", { when: words.when(opens) }) : "";
  return { reason, said: words.t(key, error.data), back };
}

/**
 * A list that the API gives in parts, with a button for the next one.
 * @param {Panel} panel
 * @param {string} path
 * @param {(item: any, reply: any) => Node} draw
 * @param {{blank: () => Node, tag?: string, into?: HTMLElement, first?: (reply: any) => void}} parts
 */
export async function pages(panel, path, draw, { blank: none, tag = "ul", into = panel.root, first }) {
  const waiting = skeleton(panel);
  into.append(waiting);
  const list = h(tag, { class: "items" });
  const more = h("button", { class: "small more", type: "button", onclick: () => void next() }, panel.words.t("more"));
  let cursor = "";
  /** @type {Promise<any> | null} */
  let asked = null;
  try {
    const reply = await part();
    waiting.replaceWith(reply.items.length ? list : none());
    first?.(reply);
    if (cursor) list.after(more);
  } catch (error) {
    waiting.replaceWith(refusal(panel, error));
  }
  return list;

  async function part() {
    const reply = await panel.api.get(`${path}${path.includes("?") ? "&" : "?"}limit=20${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
    cursor = reply.pagination.has_more ? reply.pagination.next_cursor : "";
    list.append(...reply.items.map((/** @type {any} */ item) => draw(item, reply)));
    return reply;
  }

  async function next() {
    if (asked) return;
    const before = list.children.length;
    try {
      await (asked = part());
      panel.say(panel.words.t("more_shown", { count: list.children.length - before }));
      if (cursor) return;
      // The button goes: the focus with it, to what it brought.
      const came = /** @type {HTMLElement | undefined} */ (list.children[before]);
      came?.setAttribute("tabindex", "-1");
      came?.focus();
      more.remove();
    } catch (error) {
      more.replaceWith(refusal(panel, error));
    } finally {
      asked = null;
    }
  }
}

/**
 * A button for a one-time action: a double click, a lost response or a reload reuses its idempotency key.
 * ready: whether it can be sent; body: the request or a function for it; answer: what to add to the request to send it
 * again after a refusal, or null; refused: whether the caller shows the refusal; done: returns false if the button can be pressed again.
 * @param {Panel} panel
 * @param {{label: string, act: string, path: string, type?: string, body?: object | (() => object), before?: () => Promise<void>, ready?: () => boolean, answer?: (error: any) => Promise<object | null>, refused?: (error: any) => boolean, done: (reply: any) => void | boolean}} deed
 */
export function doer(panel, { label, act, path, type = "button", body = {}, before, ready, answer, refused, done }) {
  const button = h("button", { class: "small strong", type, "data-act": act, onclick: () => void press() }, label);
  const place = h("div", { class: "doer" }, button);
  return place;

  function free() {
    button.textContent = label;
    button.removeAttribute("aria-disabled");
  }

  async function press() {
    if (button.getAttribute("aria-disabled") === "true" || ready?.() === false) return;
    // Not `disabled`: that would take the focus away.
    button.setAttribute("aria-disabled", "true");
    button.textContent = panel.words.t("playing");
    try {
      await before?.();
      const asked = typeof body === "function" ? body() : body;
      const over = done(await once(panel, path, asked).catch(async (error) => {
        const more = await answer?.(error);
        if (!more) throw error;
        return once(panel, path, { ...asked, ...more }, asked);
      }));
      if (over === false) free();
      void panel.round.look();
      panel.round.dispatchEvent(new Event("had"));
    } catch (error) {
      const { reason, said, back } = inWords(panel, error, act);
      // A completed action is not offered again.
      place.replaceChildren(...(reason.startsWith("ALREADY_") ? [] : [button]), ...(refused?.(error) ? [] : [refusal(panel, error, act)]));
      free();
      panel.say(`${said} ${back}`);
      panel.tell("refused", { reason, message: String(/** @type {any} */ (error).message), resets_at: Number(/** @type {any} */ (error).data?.resets_at ?? 0) });
    }
  }
}

/** Pending actions by name: a reopened panel waits for the same one. @type {Map<string, Promise<any>>} */
const underWay = new Map();

/** What an act answers: asked for with one key until it is known what became of it. named: the body without what differs in a retry. @param {Panel} panel @param {string} path @param {object} body @param {object} [named] */
function once({ api }, path, body, named = body) {
  const name = `tombola.act:${api.base}:${api.tenant}:${path}:${digest(api.identity.player + JSON.stringify(named))}`;
  const running = underWay.get(name) ?? ask();
  underWay.set(name, running);
  return running;

  async function ask() {
    try {
      const { identity } = api;
      const sent = async () => {
        const reply = await api.post(path, body, kept(name));
        if (reply.guest_token) identity.guest = reply.guest_token;
        return reply;
      };
      // One guest is created at a time: a concurrent request uses it.
      const reply = await (identity.token ? sent() : withTabLock(`guest:${identity.name}`, sent));
      write("sessionStorage", name, null);
      return reply;
    } catch (error) {
      // Without a response the outcome is unknown: a retry uses the same key.
      if (!(/** @type {any} */ (error).passing)) write("sessionStorage", name, null);
      throw error;
    } finally {
      underWay.delete(name);
    }
  }
}

/** A hash of a text (FNV-1a): the text may be personal and is not stored. @param {string} text */
function digest(text) {
  let sum = 0x811c9dc5;
  for (const character of text) sum = Math.imul(sum ^ /** @type {number} */ (character.codePointAt(0)), 0x01000193);
  return (sum >>> 0).toString(36);
}

/** The key of an act: written down before it is asked for. @param {string} name */
function kept(name) {
  const found = read("sessionStorage", name);
  if (found?.until > Date.now()) return String(found.key);
  const key = newKey();
  write("sessionStorage", name, { key, until: Date.now() + KEPT_MS });
  return key;
}

/** How far something is, as a bar that is read as a number too. @param {number} share 0 to 1 @param {string} label */
export function bar(share, label) {
  const fill = h("div", {});
  const percent = Math.round(Math.min(1, Math.max(0, share)) * 100);
  fill.style.width = `${percent}%`;
  return h("div", { class: "bar", role: "progressbar", "aria-label": label, "aria-valuemin": "0", "aria-valuemax": "100", "aria-valuenow": String(percent) }, fill);
}

/** Whether a player is known whose data can be requested. @param {Panel} panel */
export const known = ({ api }) => Boolean(api.identity.token);

/** The name of a prize of this game; "" of others. @param {Panel} panel @param {string} id */
export const prizeName = ({ render }, id) => render.prizes.find((prize) => prize.prize_id === id)?.name ?? "";
