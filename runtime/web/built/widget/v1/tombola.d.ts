/**
 * What <tombola-game> and <tombola-calendar> offer the page that they stand on. Served at /widget/v1/tombola.d.ts.
 *
 *     import type { TombolaGame } from "./tombola.d.ts";
 *     const game = document.querySelector("tombola-game");
 *     game?.addEventListener("tombola:won", (event) => console.log(event.detail.rewards[0].name));
 *
 * Moments are unix seconds, 0 where there is none; a service may say them, and amounts, as a number or as text.
 */

export type Seconds = number | string;

/** A game as GET /games/{id}/render shows it. */
export interface Render {
  id: string;
  name: string;
  type: string;
  campaign_id: string;
  status: string;
  access: string;
  /** How it looks: the JSON Schema is at /api/v1/schemas/ui.json. */
  ui: any;
  rules: { max_plays_per_user: number; max_plays_per_day: number; requires_turn: boolean; admits_guests: boolean; verify_timing: boolean };
  prizes: { prize_id: string; name: string; type: string; value: number; available: boolean }[];
  /** NOT_STARTED, PAUSED or ENDED where nobody may play it, SOLD_OUT where no prize is left; else "". */
  reason: string;
  /** CAMPAIGN_STATE_ANNOUNCED, RUNNING, PAUSED, SOLD_OUT, CLAIMS_OPEN or ENDED: `reason` follows from it. */
  state: string;
  /** When the game begins and ends, until when winners can redeem after that, and the time zone that they are shown in. */
  starts_at: Seconds;
  ends_at: Seconds;
  claims_until: Seconds;
  timezone: string;
}

/** What a player may still play; -1: without limit. */
export interface Standing {
  can_play: boolean;
  /** Why not: CAP_DAY, NO_TURNS, LOGIN_REQUIRED, NOT_STARTED, PAUSED, ENDED and the like. SOLD_OUT beside can_play; else "". */
  reason: string;
  remaining_turns: number;
  free_plays_remaining: number;
  /** When plays come back. */
  resets_at: Seconds;
  /** When the campaign begins, where it has not. */
  starts_at: Seconds;
}

/** What a start answers: the hash that was fixed before the play. */
export interface Session {
  session_id: string;
  seed_hash: string;
  commitment: string;
  revision_hash: string;
  expires_at: Seconds;
  drop_plan?: { id: string; type: string; at_ms: number }[];
}

/** What a play, a rung or a wallet item gave. */
export interface Reward {
  prize_id: string;
  name: string;
  type: string;
  value: number;
  quantity: number;
  /** To its owner, once it was delivered. */
  code?: string;
  id?: string;
  status?: string;
}

/** What a play answered, and what it was asked with. */
export interface Result {
  rewards: Reward[];
  /** `slot_index` and what else the shape tells. */
  metadata: any;
  play_id: string;
  seed: string;
  seed_hash: string;
  balances: { currency: string; balance: Seconds }[];
  milestones_granted: object[];
  /** The session that was played. */
  session: Session;
  /** The one to play next, where there is one. */
  next?: Session;
  client_seed: string;
}

/** Why something was not done. `reason` is the service's (UPPER_SNAKE); NO_ANSWER where none came. */
export interface Refusal {
  reason: string;
  message: string;
  resets_at: number;
}

/** Event name -> its `detail`. They bubble, out of every shadow. */
export interface TombolaEvents {
  /** The game is there. */
  "tombola:ready": { game: Render; standing: Standing | null };
  /** A session was opened. */
  "tombola:started": Session;
  /** It was played; it is shown from now on. */
  "tombola:played": Result;
  /** What was won was shown. */
  "tombola:won": { rewards: Reward[]; play_id: string };
  /** A reward was claimed in the panel of rewards, or a rung redeemed. */
  "tombola:claimed": { reward: object; milestone?: object };
  /** The entry form was sent and is complete. */
  "tombola:entered": { campaign_id: string };
  /** The service refused, and nothing was used up. */
  "tombola:refused": Refusal;
  /** No answer, or a token that is not taken any more: give the attribute `token` another one. */
  "tombola:error": Refusal;
}

/** Attribute -> what it is. All are texts, and may be changed at any time. */
export interface TombolaAttributes {
  game: string;
  token?: string;
  tenant?: string;
  locale?: string;
  "client-seed"?: string;
  api?: string;
  render?: string;
  hosted?: string | boolean;
}

export class TombolaGame extends HTMLElement {
  static observedAttributes: string[];
  /** Opens a session without playing it; null where that was refused. */
  start(): Promise<Session | null>;
  /** Plays once, and resolves when it was seen; null where it was refused. While a play is under way it is that one. */
  play(): Promise<Result | null>;
  addEventListener<K extends keyof TombolaEvents>(
    type: K,
    listener: (this: TombolaGame, event: CustomEvent<TombolaEvents[K]>) => any,
    options?: boolean | AddEventListenerOptions,
  ): void;
  addEventListener(type: string, listener: EventListenerOrEventListenerObject, options?: boolean | AddEventListenerOptions): void;
}

/** The games of a campaign as the doors of a calendar. The events are those of its games. */
export interface TombolaCalendar extends HTMLElement {}

/** Attribute of <tombola-calendar> -> what it is. */
export interface TombolaCalendarAttributes {
  campaign: string;
  token?: string;
  tenant?: string;
  locale?: string;
  api?: string;
}

interface Usual {
  ref?: any;
  key?: any;
  id?: string;
  class?: string;
  className?: string;
  slot?: string;
  style?: any;
  children?: any;
}

/** What JSX takes on the elements: their attributes, and what any element has. */
export interface TombolaElements {
  "tombola-game": TombolaAttributes & Usual;
  "tombola-calendar": TombolaCalendarAttributes & Usual;
}

declare global {
  interface HTMLElementTagNameMap {
    "tombola-game": TombolaGame;
    "tombola-calendar": TombolaCalendar;
  }
  namespace JSX {
    interface IntrinsicElements extends TombolaElements {}
  }
}

// React 19 has no global JSX.
// @ts-ignore A page without React has no such module.
declare module "react" {
  namespace JSX {
    interface IntrinsicElements extends TombolaElements {}
  }
}
