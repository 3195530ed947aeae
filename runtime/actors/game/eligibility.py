"""Who may do what in a game, and which prizes may be won: pure rules over the game's state.

A memory refuses nobody, and makes no prize unavailable: `require_fresh` is asked before either, and its StaleRead has
the batch read anew.

A player's time pays for one play only. Sessions may be open at once, and each has its own time since its start. Were a
play held to that alone, a player would open sixty, wait once, and be paid sixty times for the one wait. So a play takes
the time that it took up (as its validator says) from what earlier plays have left: `busy_until`, in unix milliseconds
of the database, is up to when the player's time is taken. It is kept with the count of plays, and moved by the same
guarded statement. A validator grants each play the network's slack beyond its time. That too is taken, so `busy_until`
may be ahead of the clock: by AHEAD_MS at most, after which even short plays wait.
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
from runtime.rules import NETWORK_SLACK_MS, UNTIMED_MS, Drop

AHEAD_MS: Final = 10 * NETWORK_SLACK_MS
"""The slack of so many plays, before the next one is held to the clock alone. A player who rests gets it back: so long
a time may be played in short plays at once and paid for, after which each takes the time that it says. Less would
refuse clients that round up, and send what they played in a row."""

CAP: Final = Status.FAILED_PRECONDITION


class Withheld(Enum):
    """Why a player may not take a prize now; the names are the reasons of refusals."""

    OUT_OF_STOCK = "out of stock"
    CAP_USER = "capped for the player"
    CAP_DAY = "capped for the day"


def require_fresh(state: GameState, seen: PlayerState | StockState) -> None:
    """To be called before anything is refused because of `seen`. Raises StaleRead unless this round read it."""
    if seen.read_in != state.round:
        raise StaleRead


def player_of(state: GameState, pending: PendingRequest) -> PlayerState:
    """What the player of a request is at, as this round has it."""
    if pending.newcomer:
        return PlayerState(pending.player_id, 0, 0, 0, False, {}, {}, {}, state.round)
    return state.players[pending.player_id]


# -- access ----------------------------------------------------------------------------------


def check_access(state: GameState, pending: PendingRequest) -> None:
    """Refuses what the request may not do, whatever the rules of the game say.

    NOT_FOUND UNKNOWN_GAME where the game is not shown; UNAUTHENTICATED TOKEN_MISSING for an anonymous request on a
    player's game, and for one with a player's session;
    PERMISSION_DENIED LOGIN_REQUIRED for a guest there, PLAYER_MERGED for a start of a guest that has logged in;
    FAILED_PRECONDITION SESSION_EXPIRED for a play that comes too late.
    """
    request, session = pending.request, pending.session
    if session is None and not state.snapshot.shown:
        _refuse_unshown(state, pending)
    if type(request) in READS:
        return
    if needs_token(state.snapshot, pending):
        raise Fault(Status.UNAUTHENTICATED, "TOKEN_MISSING", "this game needs a player: name one in player_id")
    if session is not None:
        refuse_guest(state, state.players[pending.player_id])
        if state.now - session.issued_ms / 1000 > state.session_seconds:
            raise Fault(CAP, "SESSION_EXPIRED", f"a session may be played for {state.session_seconds} seconds")
    elif type(request) is m.StartRequest:  # A redeem by a guest is first told whether it was granted before.
        refuse_starter(state, pending)


def refuse_starter(state: GameState, pending: PendingRequest) -> None:
    """PERMISSION_DENIED LOGIN_REQUIRED, PLAYER_MERGED of a start."""
    refuse_guest(state, player_of(state, pending))
    if pending.request.player_id and pending.request.player_id != pending.player_id:
        raise merged()


def _refuse_unshown(state: GameState, pending: PendingRequest) -> None:
    """NOT_FOUND UNKNOWN_GAME of a game that is not shown, just as of one that is not there.

    Plays are not asked: a session was opened while it was shown. Nor is a player who has played it, or was granted a
    rung, of what is the player's own there; but nobody begins anything new.
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
    """Whether the request must name a player and does not. Only a guest's session is enough, on a public game."""
    if not pending.anonymous:
        return False
    return snapshot.access != "public" or (pending.session is not None and not ids.is_guest(pending.session.player_id))


def makes_player(snapshot: GameSnapshot, pending: PendingRequest) -> bool:
    """Whether the request makes a row of a player who has none.

    Asking whether one may play does not, nor does a guest's start: sessions are anybody's to ask for, and a guest
    who plays nothing leaves nothing. Nor does anything of a guest's where no guest may play, nor what is asked of
    a game that is not shown.
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
    """PERMISSION_DENIED LOGIN_REQUIRED for a guest, where the game is for players."""
    if player.guest and state.snapshot.access != "public" and not state.snapshot.admits_guests:
        require_fresh(state, player)
        raise login_required()


def login_required() -> Fault:
    """The refusal of somebody who may play after a login."""
    return Fault(Status.PERMISSION_DENIED, "LOGIN_REQUIRED", "this game is for players who have logged in")


# -- plays -----------------------------------------------------------------------------------


def admit(state: GameState, player: PlayerState) -> Price:
    """What a play costs the player. Refuses with the cap that is reached, and when it resets."""
    snapshot = state.snapshot
    refuse_suspended(state, player)
    if snapshot.max_plays_per_user and player.plays >= snapshot.max_plays_per_user:
        require_fresh(state, player)
        limit = snapshot.max_plays_per_user
        raise Fault(CAP, "CAP_USER", f"{player.plays} of {limit} plays used", limit=limit, resets_at=0)
    day_used = bool(snapshot.max_plays_per_day) and player.day_plays >= snapshot.max_plays_per_day
    if not day_used and not snapshot.requires_turn:
        return Price.FREE
    if player.turns > 0 and not (day_used and snapshot.requires_turn):
        return Price.TURN
    require_fresh(state, player)
    if day_used:
        limit = snapshot.max_plays_per_day
        raise Fault(
            CAP, "CAP_DAY", f"{player.day_plays} of {limit} plays used today", limit=limit, resets_at=state.resets_at
        )
    raise Fault(CAP, "NO_TURNS", "a play of this game needs a turn, and there is none", resets_at=0)


def admits(state: GameState, player: PlayerState) -> bool:
    """Whether a play would be admitted, by what is remembered: a memory that would refuse is not read anew for it."""
    try:
        admit(state, player)
    except (Fault, StaleRead):
        return False
    return True


def admit_play(state: GameState, session: Session, player: PlayerState) -> Price:
    """What this play costs. Refuses as `admit` does, and where the session promised another play than this one.

    GAME_CHANGED for a session that promised something else than the game now is. SESSION_PLAYED where its plan
    is one before that of the player's next play, SESSION_EXPIRED where it is one after it.
    """
    snapshot = state.snapshot
    if session.revision != snapshot.revision_hash[:REVISION_CHARACTERS]:
        if not state.compared:
            raise StaleRead
        raise Fault(CAP, "GAME_CHANGED", "the game was changed after this session began; start another")
    if 0 <= session.ordinal != player.plays:
        require_fresh(state, player)
        if session.ordinal > player.plays:  # The play that this one was to follow was undone.
            raise Fault(CAP, "SESSION_EXPIRED", "the play before this session's was not kept; start another")
        raise Fault(Status.ALREADY_EXISTS, "SESSION_PLAYED", "this session's plan was played already")
    price = admit(state, player)
    if price is Price.TURN and not snapshot.requires_turn and any(player.player_id in who for who in state.under_way):
        raise StaleRead  # Where the play before this one is undone, a free one is left, and no turn is to be spent.
    return price


def check_payload(
    state: GameState, session: Session, player: PlayerState, payload: Mapping[str, Any], plan: tuple[Drop, ...]
) -> int:
    """Refuses what cannot have been played. Up to when the play takes the player's time; 0: it takes none.

    The clock decides only where the game says so (`verify_timing`).
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
    """From when on the player's time is this play's: its start, or the end of what earlier plays took up."""
    if busy_until > now_ms + AHEAD_MS + NETWORK_SLACK_MS:
        return issued_ms  # The clock was set back since: its players must not wait until it is there again.
    return max(issued_ms, busy_until)


def left_ms(begins: int, now_ms: int) -> int:
    """What is left for the play of the time since its start, as a validator is told; negative: too far ahead."""
    return min(max(0, now_ms - begins), now_ms + AHEAD_MS - NETWORK_SLACK_MS - begins)


# -- prizes ----------------------------------------------------------------------------------


def available(state: GameState, player: PlayerState, prize_id: str, quantity: int) -> bool:
    """Whether this player may take `quantity` of the prize now."""
    return withheld(state, player, state.snapshot.prizes.get(prize_id), quantity) is None


def sold_out(state: GameState) -> bool:
    """Whether no play wins anything until stock or codes are added. Daily caps are back tomorrow, so they do not count.

    By what is remembered of the stock: it refuses nothing.
    """
    rules, rule, terms = state.snapshot.rules, state.snapshot.game, state.snapshot.prizes
    drawn = {prize_id for _, prize_id in rules.reward_handler.prizes(rules.config)}
    if not drawn or any(rules.reward_handler.currencies(rules.config)):
        return False
    if rule.on_unavailable == "fallback":
        drawn.add(rule.fallback_prize_id)
    return not any(_in_stock(terms.get(prize_id), state.stock.get(prize_id), 1) for prize_id in drawn)


def _in_stock(prize: PrizeTerms | None, stock: StockState | None, quantity: int) -> bool:
    """Whether so many of the prize are there, with a code each where it takes one."""
    if prize is None or stock is None or not prize.active:
        return False
    short = stock.remaining is not None and stock.remaining < quantity and not prize.is_points
    return not short and not (prize.takes_code and stock.codes < quantity)


def withheld(
    state: GameState, player: PlayerState, prize: PrizeTerms | None, quantity: int, *, taken: int = 0
) -> Withheld | None:
    """Why this player may not take `quantity` of the prize now: the reason that stands longest. None: it may.

    taken: units that this decision gives already; the player has them, and the stock still has them too.
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
    else:
        return None
    require_fresh(state, stock)
    require_fresh(state, player)
    return reason
