"""Eligibility: who may do what in a game, and which prizes are available. Pure rules over the game's state.

Cached data never refuses a request or withholds a prize: call `require_fresh` before either. Its StaleRead makes the
batch read again.

Each span of a player's time pays for one play only. Sessions may be open in parallel, each with its own start. If only
that start counted, a player could open sixty, wait once, and be paid sixty times for one wait. So a play uses up the
time that its validator reports, after the time of earlier plays. `busy_until` (unix milliseconds of the database)
is the end of the time used so far. It is stored with the play count and updated by the same guarded statement. A
validator adds the network's slack to each play's time. `busy_until` includes that slack, so it may run ahead of the
clock, by at most AHEAD_MS; beyond that even short plays must wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from runtime import ids
from runtime import messages as m
from runtime.actors.game.pending import READS, PendingRequest
from runtime.actors.game.sessions import REVISION_CHARACTERS, Session
from runtime.actors.game.state import GameSnapshot, GameState, PlayerState, Price, PrizeTerms, StaleRead, StockState
from runtime.errors import Fault, Status, merged, suspended, unknown
from runtime.rules import NETWORK_SLACK_MS, UNTIMED_MS, Drop, winnable

AHEAD_MS: Final = 10 * NETWORK_SLACK_MS
"""How far a player may run ahead of the clock: the slack of ten plays, regained by pausing. Within it, short plays in
a row are paid at once; beyond it, each needs the time it reports. A smaller allowance would refuse clients that round
up times or send several plays in a row."""


class Withheld(Enum):
    """Why a player cannot get a prize now. The names are the `reason` codes of the refusals."""

    OUT_OF_STOCK = "out of stock"
    CAP_USER = "capped for the player"
    CAP_DAY = "capped for the day"
    NOT_RELEASED = "not free yet"


def require_fresh(state: GameState, seen: PlayerState | StockState) -> None:
    """Raises StaleRead unless this round read `seen`. Call before refusing anything because of it."""
    if seen.read_in != state.round:
        raise StaleRead


def player_of(state: GameState, pending: PendingRequest) -> PlayerState:
    """The state of the request's player in this round."""
    if pending.newcomer:
        return PlayerState(pending.player_id, 0, 0, 0, False, {}, {}, {}, state.round)
    return state.players[pending.player_id]


# -- access ----------------------------------------------------------------------------------


def check_access(state: GameState, pending: PendingRequest) -> None:
    """Refuses requests without access, independent of the game's play limits.

    NOT_FOUND UNKNOWN_GAME if the game is not public; UNAUTHENTICATED TOKEN_MISSING for an anonymous request to a
    players-only game or with a player's session; PERMISSION_DENIED LOGIN_REQUIRED for a guest in a players-only game,
    PLAYER_MERGED for a start by a guest that has logged in; FAILED_PRECONDITION SESSION_EXPIRED for a play that is too
    late.
    """
    request, session = pending.request, pending.session
    if session is None and not state.snapshot.shown:
        _refuse_unshown(state, pending)
    if type(request) in READS:
        return
    if needs_token(state.snapshot, pending):
        raise Fault(Status.UNAUTHENTICATED, "TOKEN_MISSING", "this game requires a player; set player_id")
    if session is not None:
        refuse_guest(state, state.players[pending.player_id])
        if state.now - session.issued_ms / 1000 > state.session_seconds:
            raise Fault(
                Status.FAILED_PRECONDITION,
                "SESSION_EXPIRED",
                f"the session has expired after {state.session_seconds} seconds",
            )
    elif type(request) is m.StartRequest:  # For a redeem by a guest, ALREADY_GRANTED comes first.
        refuse_starter(state, pending)


def refuse_starter(state: GameState, pending: PendingRequest) -> None:
    """PERMISSION_DENIED LOGIN_REQUIRED or PLAYER_MERGED for a start."""
    refuse_guest(state, player_of(state, pending))
    if pending.request.player_id and pending.request.player_id != pending.player_id:
        raise merged()


def _refuse_unshown(state: GameState, pending: PendingRequest) -> None:
    """NOT_FOUND UNKNOWN_GAME for a game that is not public, the same as for a missing game.

    Plays are exempt: their session was opened while the game was public. Players who have played it or hold a grant may
    still list and redeem their milestones. Nothing new can be started.
    """
    if not state.compared:
        raise StaleRead
    if type(pending.request) in (m.ListMilestonesRequest, m.RedeemRequest):
        player = player_of(state, pending)
        if player.plays or player.grants:
            return
        require_fresh(state, player)
    raise unknown("game", state.snapshot.game_id)


def needs_token(snapshot: GameSnapshot, pending: PendingRequest) -> bool:
    """Whether the request must name a player but does not. On a public game, a guest's session is enough."""
    if not pending.anonymous:
        return False
    return snapshot.access != "public" or (pending.session is not None and not ids.is_guest(pending.session.player_id))


def makes_player(snapshot: GameSnapshot, pending: PendingRequest) -> bool:
    """Whether the request creates a row for a player that has none.

    Eligibility checks and guests' starts create none: anyone can request them, and a guest without plays needs no row.
    Neither do guests' requests where guests may not play, nor requests to a game that is not public.
    """
    if pending.session is None and not snapshot.shown:
        return False
    if type(pending.request) in READS or needs_token(snapshot, pending):
        return False
    if not ids.is_guest(pending.player_id):
        return True
    return type(pending.request) is not m.StartRequest and (snapshot.access == "public" or snapshot.admits_guests)


def refuse_suspended(state: GameState, player: PlayerState) -> None:
    """PERMISSION_DENIED SUSPENDED."""
    if player.suspended:
        require_fresh(state, player)
        raise suspended("player")


def refuse_guest(state: GameState, player: PlayerState) -> None:
    """PERMISSION_DENIED LOGIN_REQUIRED for a guest in a players-only game."""
    if player.guest and state.snapshot.access != "public" and not state.snapshot.admits_guests:
        require_fresh(state, player)
        raise login_required()


def refuse_without_entry(state: GameState, player: PlayerState) -> None:
    """FAILED_PRECONDITION ENTRY_REQUIRED with `missing`; PERMISSION_DENIED NOT_ELIGIBLE with `why`."""
    terms = state.snapshot.entry
    given = None if player.entry is None else player.entry[1]
    fault = None if terms is None else terms.refusal(given)
    if fault is not None:
        require_fresh(state, player)
        raise fault


def login_required(kind: str = "game") -> Fault:
    """The refusal of a guest who may act after logging in."""
    return Fault(Status.PERMISSION_DENIED, "LOGIN_REQUIRED", f"this {kind} requires a login")


# -- plays -----------------------------------------------------------------------------------


def admit(state: GameState, player: PlayerState) -> Price:
    """What a play costs the player. Raises StaleRead before refusing by cached data.

    PERMISSION_DENIED SUSPENDED, NOT_ELIGIBLE; FAILED_PRECONDITION ENTRY_REQUIRED, and CAP_USER, CAP_DAY, NO_TURNS with
    `resets_at` (unix seconds; 0: never).
    """
    snapshot = state.snapshot
    refuse_suspended(state, player)
    refuse_without_entry(state, player)
    if snapshot.max_plays_per_user and player.plays >= snapshot.max_plays_per_user:
        require_fresh(state, player)
        limit = snapshot.max_plays_per_user
        raise Fault(
            Status.FAILED_PRECONDITION, "CAP_USER", f"{player.plays} of {limit} plays used", limit=limit, resets_at=0
        )
    day_used = bool(snapshot.max_plays_per_day) and player.day_plays >= snapshot.max_plays_per_day
    if not day_used and not snapshot.requires_turn:
        return Price.FREE
    if player.turns > 0 and not (day_used and snapshot.requires_turn):
        return Price.TURN
    require_fresh(state, player)
    if day_used:
        limit = snapshot.max_plays_per_day
        raise Fault(
            Status.FAILED_PRECONDITION,
            "CAP_DAY",
            f"{player.day_plays} of {limit} plays used today",
            limit=limit,
            resets_at=state.resets_at,
        )
    raise Fault(
        Status.FAILED_PRECONDITION, "NO_TURNS", "this game requires a turn, and the player has none", resets_at=0
    )


def admits(state: GameState, player: PlayerState) -> bool:
    """Whether a play would be admitted, by cached data: it is not read again for this."""
    try:
        admit(state, player)
    except (Fault, StaleRead):
        return False
    return True


def admit_play(state: GameState, session: Session, player: PlayerState) -> Price:
    """What this play costs. Refuses as `admit` does, or if the session was opened for a different play.

    GAME_CHANGED if the game has changed since the session began. SESSION_PLAYED if the session's plan precedes the
    player's next play, SESSION_EXPIRED if it follows it, or if a guest opened it and the player had played already.
    """
    snapshot = state.snapshot
    if session.revision != snapshot.revision_hash[:REVISION_CHARACTERS]:
        if not state.compared:
            raise StaleRead
        raise Fault(
            Status.FAILED_PRECONDITION, "GAME_CHANGED", "the game has changed since this session began; start another"
        )
    if 0 <= session.ordinal != player.plays:
        require_fresh(state, player)
        if session.player_id != player.player_id:
            raise Fault(
                Status.FAILED_PRECONDITION, "SESSION_EXPIRED", "this session was opened before the login; start another"
            )
        if session.ordinal > player.plays:  # The previous play was rolled back.
            raise Fault(
                Status.FAILED_PRECONDITION,
                "SESSION_EXPIRED",
                "the play before this session was rolled back; start another",
            )
        raise Fault(Status.ALREADY_EXISTS, "SESSION_PLAYED", "this session's plan has already been played")
    price = admit(state, player)
    if (
        price is Price.TURN
        and not snapshot.requires_turn
        and any(player.player_id in players for players in state.under_way)
    ):
        raise StaleRead  # If the pending play is rolled back, a free play remains and no turn is spent.
    return price


def check_payload(
    state: GameState, session: Session, player: PlayerState, payload: Mapping[str, Any], plan: tuple[Drop, ...]
) -> int:
    """Refuses impossible payloads. Returns the new `busy_until`, or 0 if the play uses no time.

    The clock counts only if the game sets `verify_timing`.
    """
    rules, now_ms = state.snapshot.rules, int(state.now * 1000)
    if not state.snapshot.verify_timing:
        rules.validator.check(rules.reward_handler, rules.config, payload, plan, UNTIMED_MS)
        return 0
    begins = begins_ms(player.busy_until, session.issued_ms, now_ms)
    try:
        took_ms = rules.validator.check(rules.reward_handler, rules.config, payload, plan, left_ms(begins, now_ms))
    except Fault:
        if begins > session.issued_ms:
            require_fresh(state, player)
        raise
    return begins + took_ms if took_ms else 0


def begins_ms(busy_until: int, issued_ms: int, now_ms: int) -> int:
    """When the play's time begins (unix ms): at its session's start or at `busy_until`, whichever is later."""
    if busy_until > now_ms + AHEAD_MS + NETWORK_SLACK_MS:
        return issued_ms  # The clock was set back: do not make players wait until it catches up.
    return max(issued_ms, busy_until)


def left_ms(begins: int, now_ms: int) -> int:
    """The time available to the play, as passed to the validator. Negative: too far ahead of the clock."""
    return min(max(0, now_ms - begins), now_ms + AHEAD_MS - NETWORK_SLACK_MS - begins)


# -- prizes ----------------------------------------------------------------------------------


def available(state: GameState, player: PlayerState, prize_id: str, quantity: int) -> bool:
    """Whether this player can get `quantity` units now. StaleRead if cached stock or player data would deny it."""
    return withheld(state, player, state.snapshot.prizes.get(prize_id), quantity) is None


def sold_out(state: GameState) -> bool:
    """Whether no play can win anything but the consolation (the fallback prize) until stock or codes are added. Daily
    caps reset and releases follow, so neither counts.

    Uses the cached stock: the result refuses nothing.
    """
    rules, rule, terms = state.snapshot.rules, state.snapshot.game, state.snapshot.prizes
    drawn = winnable(rules.reward_handler, rules.config)
    if rule.on_unavailable == "fallback":
        drawn.discard(rule.fallback_prize_id)
    if not drawn or any(rules.reward_handler.currencies(rules.config)):
        return False
    return not any(_in_stock(terms.get(prize_id), state.stock.get(prize_id), 1) for prize_id in drawn)


def _in_stock(prize: PrizeTerms | None, stock: StockState | None, quantity: int) -> bool:
    """Whether `quantity` units are in stock, each with a code if the prize needs one."""
    if prize is None or stock is None or not prize.active:
        return False
    short = stock.remaining is not None and stock.remaining < quantity and not prize.is_points
    return not short and not (prize.takes_code and stock.codes < quantity)


def withheld(
    state: GameState, player: PlayerState, prize: PrizeTerms | None, quantity: int, *, taken: int = 0
) -> Withheld | None:
    """Why this player cannot get `quantity` units now: the longest-lasting reason. None: available.

    StaleRead if cached stock or player data would withhold the prize. taken: units that this decision already awards;
    they count for the player but are still in the stock.
    """
    stock = None if prize is None else state.stock.get(prize.prize_id)
    if prize is None or stock is None or not prize.active:
        return Withheld.OUT_OF_STOCK
    from_stock = quantity + taken
    if prize.max_per_user and player.prizes.get(prize.prize_id, 0) + quantity > prize.max_per_user:
        reason = Withheld.CAP_USER
    elif not _in_stock(prize, stock, from_stock):
        reason = Withheld.OUT_OF_STOCK
    elif prize.max_per_day and stock.day_awarded + from_stock > prize.max_per_day:
        reason = Withheld.CAP_DAY
    elif (
        prize.release is not None
        and stock.remaining is not None
        and stock.remaining - from_stock < prize.held_back(state.now)
    ):
        reason = Withheld.NOT_RELEASED
    else:
        return None
    require_fresh(state, stock)
    require_fresh(state, player)
    return reason
