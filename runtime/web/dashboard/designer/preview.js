// The player's widget in test mode: this module replaces the consumer edge, and its plays are test plays.
import { api } from "../api.js";
import { html, useEffect, useRef, useState } from "../lib.js";
import { Section } from "../parts/layout.js";
import { say } from "../words.js";

const ENTRY = "/widget/v1/tombola.js";
const KEPT = "tombola.play:preview:";
const PAUSE_MS = 350;
const LASTS_SECONDS = 3600;
const SOON = Math.floor(Date.now() / 1000) + 3 * 86_400;

/** The reason and the state of the public view, by the state that is previewed. @type {Record<string, string>} */
const REASONS = { announced: "NOT_STARTED", paused: "PAUSED", sold_out: "SOLD_OUT", claims_open: "ENDED", ended: "ENDED" };

/** Answers the widget's requests (`TombolaGame.api`). Only starts and plays reach the service, as test plays. */
class TestPlays {
  isPreview = true; // The widget does not leave the page.
  base = `preview:${Math.random()}`;
  tenant = "";
  identity = { token: "staff", given: "staff", guest: "", login: null, isGuest: false, who: "" };
  waiting = () => {};
  renew = async () => false;

  /** @param {any} render @param {any} Refused the widget's own, which it knows */
  constructor(render, Refused) {
    this.render = render;
    this.Refused = Refused;
  }

  /** @param {string} path */
  async get(path) {
    if (path.endsWith("/render")) {
      return this.render;
    }
    const { reason, starts_at } = this.render;
    return path.endsWith("/eligibility")
      ? { can_play: ["", "SOLD_OUT"].includes(reason), reason, starts_at, remaining_turns: 0, free_plays_remaining: -1, resets_at: "0" }
      : { items: [], pagination: { next_cursor: "", has_more: false } };
  }

  /** @param {string} path @param {any} body */
  async post(path, body = {}) {
    const started = path.endsWith("/start");
    const { session_id: seed, payload, client_seed } = body;
    try {
      const { plays } = await api.post("/admin/games/{id}/test-plays", {
        path: { id: this.render.id },
        body: started ? { start: true } : { seed, payload, client_seed },
      });
      const [play] = plays;
      return started
        ? { session_id: play.seed, seed_hash: play.seed_hash, commitment: "", revision_hash: "", drop_plan: play.drop_plan, expires_at: String(Math.floor(Date.now() / 1000) + LASTS_SECONDS) }
        : { ...play, play_id: play.id, balances: [], milestones_granted: [] };
    } catch (error) {
      const { status, reason, message, data } = /** @type {any} */ (error);
      throw new this.Refused(status ?? 0, reason ?? "", message, data);
    }
  }

  /** @param {string} path @param {any} body */
  once(path, body) {
    return this.post(path, body);
  }
}

/**
 * The widget, redrawn when the look changes. It plays the saved game.
 * @param {{game: any, ui: any, prizes: any[], unsaved: string[], locale?: string, phase?: string}} props ui: as it is shown; unsaved: fields that were typed and not saved; phase: the campaign's state that is shown
 */
export function Preview({ game, ui, prizes, unsaved, locale = "en", phase = "running" }) {
  const own = useRef(/** @type {HTMLElement | null} */ (null));
  const [failed, setFailed] = useState(false);
  const { id, name, type, campaign_id, status, reward_handler, rules, milestones } = game;
  // As on the public page: the prizes that the game can award.
  const named = JSON.stringify([game.handler_config, game.fallback_prize_id, milestones]);
  const shown = prizes.filter(({ prize_id }) => named.includes(`"${prize_id}"`)).map(({ prize_id, name: called, type: kind, value }) => ({ prize_id, name: called, type: kind, value, available: true }));
  const render = {
    id, name, type, campaign_id, status, reward_handler, rules: { ...rules, requires_turn: false }, milestones, ui: local(ui),
    access: "GAME_ACCESS_PUBLIC", on_unavailable: game.on_unavailable, prizes: shown, scope_key: "", offers: [],
    state: `CAMPAIGN_STATE_${phase.toUpperCase()}`, reason: REASONS[phase] ?? "", starts_at: phase === "announced" ? String(SOON) : "0", claims_until: phase === "claims_open" ? String(SOON) : "0",
  };
  const serialized = JSON.stringify(render);
  useEffect(() => {
    let over = false;
    /** @type {any} */
    let element = null;
    const later = setTimeout(async () => {
      try {
        const widget = await import(ENTRY);
        if (over || !own.current) {
          return;
        }
        element = document.createElement("tombola-game");
        element.api = new TestPlays(render, widget.Refused ?? Error);
        element.setAttribute("game", id);
        element.setAttribute("locale", locale);
        element.addEventListener("tombola:ready", () => element.shadowRoot.querySelector(".panels")?.remove());
        own.current.replaceChildren(element);
      } catch {
        setFailed(true);
      }
    }, own.current?.firstChild ? PAUSE_MS : 0);
    return () => {
      over = true;
      clearTimeout(later);
      for (const key of Object.keys(sessionStorage).filter((one) => one.startsWith(KEPT))) {
        sessionStorage.removeItem(key); // A play of an earlier preview is not resumed.
      }
    };
  }, [serialized, locale]);
  const plays = unsaved.some((name) => name !== "ui");
  return html`<${Section} title=${say("preview.title")} note=${say(plays ? "preview.plays_saved" : "preview.note", { revision: game.revision })}
    acts=${unsaved.length > 0 && html`<span class="status" data-tone="warn">${say("preview.unsaved")}</span>`}>
    ${failed && html`<p class="quiet">${say("preview.failed")}</p>`}
    <div class="preview" ref=${own}></div>
  <//>`;
}

/** Removes pictures of other hosts, which the dashboard's policy blocks. Players see them. @param {any} value @returns {any} */
function local(value) {
  if (Array.isArray(value)) {
    return value.map(local);
  }
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, local(one)]));
  }
  return typeof value === "string" && /^https?:/i.test(value) ? "" : value;
}
