// Shared type definitions.

/**
 * A game as GET /games/{id}/render shows it.
 * @typedef {object} Render
 * @property {string} id
 * @property {string} name
 * @property {string} type
 * @property {string} campaign_id
 * @property {string} status
 * @property {string} access
 * @property {any} ui
 * @property {{max_plays_per_user: number, max_plays_per_day: number, requires_turn: boolean, admits_guests: boolean, verify_timing: boolean}} rules
 * @property {{prize_id: string, name: string, type: string, value: number, available: boolean, needs_claim: boolean, gives_code: boolean}[]} prizes
 * @property {string} reward_handler
 * @property {{mode: string, rungs: any[]} | null} [milestones]
 * @property {string} scope_key where the balances of its players are
 * @property {string[]} offers which of quests, referrals, leaderboards, codes, draws and messages its campaign has
 * @property {string} reason NOT_STARTED, PAUSED, ENDED or SOLD_OUT; "" where it is open
 * @property {string} state CAMPAIGN_STATE_RUNNING and the like
 * @property {string} claims_until
 * @property {string} [on_unavailable]
 * @property {string} starts_at
 * @property {string} ends_at
 * @property {string} timezone of the campaign's dates
 */

/**
 * The response of a start, and the `next` of a play. Times are unix seconds, as text.
 * @typedef {object} Session
 * @property {string} session_id
 * @property {string} seed_hash
 * @property {string} commitment
 * @property {string} revision_hash
 * @property {string} expires_at
 * @property {{id: string, type: string, at_ms: number}[]} [drop_plan]
 */

/**
 * The response of a play, with its request.
 * @typedef {object} Result
 * @property {{prize_id: string, name: string, type: string, value: number, quantity: number, reward_id?: string}[]} rewards `reward_id` of what a reward is kept of
 * @property {any} metadata `slot_index` and further data of the handler
 * @property {string} play_id
 * @property {string} seed
 * @property {string} seed_hash
 * @property {{currency: string, balance: string}[]} balances
 * @property {object[]} milestones_granted
 * @property {Session} [next]
 * @property {Session} session the one that was played
 * @property {string} client_seed
 */

/**
 * A player's remaining plays; -1: unlimited.
 * @typedef {object} Standing
 * @property {boolean} can_play
 * @property {string} reason
 * @property {number} remaining_turns
 * @property {number} free_plays_remaining
 * @property {string} resets_at
 * @property {string} starts_at of a campaign that has not begun
 */

/**
 * The response of players/auth/verify and refresh.
 * @typedef {object} Login
 * @property {string} token
 * @property {string} refresh_token good for one use
 * @property {number} expires_at unix seconds, of the token
 * @property {{id: string, display_name: string, locale: string, contacts: {type: string, value: string}[]}} player
 */

/**
 * The context of a game: `games/*.js` export `mount(stage)`.
 * @typedef {object} Stage
 * @property {HTMLElement} root where it draws
 * @property {import("./api.js").Api} api
 * @property {Render} render
 * @property {any} ui of `render`, an object always
 * @property {import("./words.js").Words} words
 * @property {import("./look.js").Look} look
 * @property {() => boolean} still whether the player prefers reduced motion
 * @property {() => void} tick makes a short sound, if sound is on
 * @property {(panel: string, given?: any) => void} open opens a panel
 * @property {() => void} press what the button does: for games that can be touched to begin
 * @property {(label: string, act: () => void) => () => void} button gives the button another label and act; undo it with what it answers
 * @property {(text: string) => void} say to who listens (a polite live region)
 */

/**
 * @typedef {object} Game
 * @property {string} [label] the key of the button's words; `play` where left out
 * @property {(session: Session) => Promise<object>} [take] what the player does between start and play; the payload
 * @property {() => void} [wait] the play was asked for, and nothing of it is known
 * @property {(result: Result) => Promise<void>} show shows what was decided, and nothing else; ends when it is seen
 * @property {() => void} [rest] back to what it was before: refused, or the next one
 * @property {() => Promise<void>} [look] who plays is another, or has other things: what is shown of them is asked for anew
 * @property {() => void} [stop] taken off the page
 */

/**
 * The context of a panel: `panels/*.js` export `open(panel)`.
 * @typedef {object} Panel
 * @property {HTMLElement} root where it draws, empty
 * @property {import("./api.js").Api} api
 * @property {Render} render
 * @property {import("./words.js").Words} words
 * @property {import("./play.js").Round} round the play: its `last` result, its `standing`
 * @property {any} given what it was opened for, where another panel opened it
 * @property {(name: string, detail: object) => void} tell dispatches `tombola:{name}` on the element
 * @property {(text: string) => void} say
 * @property {(name: string, given?: any) => void} open another panel in its place, with a way back
 * @property {() => void} close
 */

export {};
