"""What a decision goes by: a game's terms, and what its players and prizes are at. Plain data: no store, no engine."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import Enum
from typing import Any, Final

from runtime import messages as m
from runtime.errors import Fault, Status, suspended
from runtime.events import Event, EventData, event_of
from runtime.rules import GameRule, Rules
from runtime.settings import Key
from runtime.stores.clock import Days

POINTS: Final = "points"
"""The prize type that credits this currency instead of being taken from stock (design.md, section 3)."""
TURNS: Final = "turns"
"""The prize type that gives turns of the campaign it is won in, as a reward that is delivered by the win's commit."""


@dataclass(slots=True)
class PrizeTerms:
    """A prize as a decision sees it.

    points, turns: what one unit credits, 0 for a prize of another type. takes_code: a unit needs a voucher code, which
    is taken at the win, whenever it is shown. due_at_win: the delivery of a reward falls due as it is won.
    delivered_at_win: the commit of the win delivers it. content: of a rung's prize, what
    players read of it. These follow from the rest, and are asked in each play.
    """

    prize_id: str
    name: str
    type: str
    value: float
    max_per_user: int
    max_per_day: int
    redemption_mode: str
    channel: str
    instant: bool
    expires_after_days: int
    active: bool
    content: m.PrizeContent | None = None
    is_points: bool = field(init=False)
    points: int = field(init=False)
    turns: int = field(init=False)
    takes_code: bool = field(init=False)
    due_at_win: bool = field(init=False)
    delivered_at_win: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_points = self.type == POINTS
        self.points = int(self.value) if self.is_points else 0
        self.turns = int(self.value) if self.type == TURNS else 0
        self.takes_code = self.channel == "voucher_code" and not self.is_points
        self.due_at_win = self.redemption_mode == "on_win"
        self.delivered_at_win = self.instant and self.due_at_win


@dataclass(frozen=True, slots=True)
class RungTerms:
    """One rung of the milestones block, as a decision sees it."""

    id: str
    name: str
    currency: str
    threshold: int
    prize_id: str


@dataclass(slots=True)
class GameSnapshot:
    """A game as it was at one version of the catalogue: its rules, prizes and campaign, ready to decide by.

    revision_hash: of its terms (terms.py). shows_plan: whether a start shows what a play depends on.
    played: whether it is known to have a history, so that whose wallets it moves stays as it is.
    """

    tenant_id: str
    game_id: str
    version: int
    revision: int
    revision_hash: str
    shows_plan: bool
    status: str
    access: str
    campaign_id: str
    merchant_id: str
    suspended: str
    campaign_status: str
    start_date: int
    end_date: int
    redeem_until: int
    days: Days
    rules: Rules
    game: GameRule
    max_plays_per_user: int
    max_plays_per_day: int
    requires_turn: bool
    admits_guests: bool
    verify_timing: bool
    scope_key: str
    spends: bool
    auto_grant: bool
    rungs: tuple[RungTerms, ...]
    prizes: dict[str, PrizeTerms]
    played: bool

    @property
    def shown(self) -> bool:
        """Whether the public knows of the game, as games.sql's `on_show` has it (contract.md, "Campaign life")."""
        return self.status in ("active", "paused") and self.campaign_status != "draft"

    def refuse_unless_open(self, now: float) -> None:
        """PERMISSION_DENIED SUSPENDED; FAILED_PRECONDITION GAME_INACTIVE or CAMPAIGN_CLOSED."""
        self._refuse_unless_active()
        if self.campaign_status != "active":
            raise Fault(Status.FAILED_PRECONDITION, "CAMPAIGN_CLOSED", "the campaign is not active")
        if now < self.start_date:
            raise Fault(
                Status.FAILED_PRECONDITION, "CAMPAIGN_CLOSED", "the campaign has not begun", opens_at=self.start_date
            )
        if self.end_date and now >= self.end_date:
            raise Fault(
                Status.FAILED_PRECONDITION, "CAMPAIGN_CLOSED", "the campaign has ended", closed_at=self.end_date
            )

    def refuse_unless_redeemable(self, now: float) -> None:
        """As `refuse_unless_open`; but after the campaign's end, what was earned is redeemed until `redeem_until`."""
        if not _has_ended(self.campaign_status, self.end_date, now):
            self.refuse_unless_open(now)
            return
        self._refuse_unless_active()
        if now >= self.redeem_until:
            # By the hand of staff it may have ended before its date: when, nothing says.
            dated = self.redeem_until or (self.end_date if now >= self.end_date else 0)
            when = f" at {datetime.fromtimestamp(dated, UTC).isoformat()}" if dated else ", with the campaign"
            facts = {"closed_at": dated} if dated else {}
            raise Fault(Status.FAILED_PRECONDITION, "CAMPAIGN_CLOSED", f"redeeming has ended{when}", **facts)

    def _refuse_unless_active(self) -> None:
        if self.suspended:
            raise suspended(self.suspended)
        if self.status != "active":
            what = "paused" if self.status == "paused" else "closed"  # What staff make of it is no player's business.
            raise Fault(Status.FAILED_PRECONDITION, "GAME_INACTIVE", f"this game is {what}")

    def closed_reason(self, now: float) -> str:
        """See `closed_reason`."""
        return closed_reason(self.status, self.campaign_status, self.start_date, self.end_date, now)

    def today(self, now: float) -> tuple[date, int]:
        """The campaign's local day, and the unix seconds at which it ends."""
        return self.days.at(now)


def closed_reason(status: str, campaign_status: str, start_date: int, end_date: int, now: float) -> str:
    """The reason why a game is closed: ENDED, PAUSED or NOT_STARTED. Empty: it is open."""
    if _has_ended(campaign_status, end_date, now):
        return "ENDED"
    if (status, campaign_status) != ("active", "active"):
        return "PAUSED"
    return "NOT_STARTED" if now < start_date else ""


def _has_ended(campaign_status: str, end_date: int, now: float) -> bool:
    """As schema.sql's campaign_status() has it."""
    dated = campaign_status in ("active", "paused") and 0 < end_date <= now
    return dated or campaign_status == "ended"


# -- what is remembered, and read anew ---------------------------------------------------------


@dataclass(slots=True)
class PlayerState:
    """What a player is at, in one game, today. balances: of the game's wallet scope. grants: rung -> when.

    guest: has not logged in yet. What is decided of a guest holds as long as it is one (`Changes.hold_guest`).
    busy_until: up to when the player's time is taken (eligibility.py).
    read_in: the round in which it was read; in any later one it is a memory.
    """

    player_id: str
    plays: int
    day_plays: int
    turns: int
    suspended: bool
    prizes: dict[str, int]
    balances: dict[str, int]
    grants: dict[str, int]
    read_in: int
    guest: bool = False
    busy_until: int = 0


@dataclass(slots=True)
class StockState:
    """What is left of a prize: units (None: unlimited), codes in the pool, and how many went out today."""

    remaining: int | None
    day_awarded: int
    codes: int
    read_in: int


class Price(Enum):
    """What a play that is admitted costs its player."""

    FREE = "free"
    TURN = "turn"


class StaleRead(Exception):
    """A memory would refuse this: the actor must read it again, and decide again."""


@dataclass(slots=True)
class GameState:
    """A game as one round of its actor decides by it. Decisions read it; only `record` (awards.py) moves it on.

    day, resets_at: the campaign's local day, and the unix seconds at which it ends. now: the database's time.
    round: what was read in an earlier one is a memory. compared: this round compared the snapshot with the database.
    under_way: of each commit under way, whose plays are in it, where that says what the next play is.
    keys: to sign sessions and cursors with; the first one signs. session_seconds: how long a session may be played.
    """

    snapshot: GameSnapshot
    day: date
    resets_at: int
    now: float
    round: int
    compared: bool
    players: dict[str, PlayerState]
    stock: dict[str, StockState]
    under_way: Collection[frozenset[str]]
    keys: Sequence[Key]
    session_seconds: int

    def event(self, data: EventData, trace_id: str, *, nth: int = 0) -> Event:
        """An event of this game, in the trace of the request that caused it. nth: of a play's prizes."""
        snapshot = self.snapshot
        return event_of(
            data,
            occurred_at=self.now,
            tenant_id=snapshot.tenant_id,
            merchant_id=snapshot.merchant_id,
            campaign_id=snapshot.campaign_id,
            trace_id=trace_id,
            nth=nth,
        )

    def look_of(self, player: PlayerState) -> Any:
        """All that a decision about this player goes by. Two looks that are equal would be decided alike."""
        stock = {prize_id: (own.remaining, own.day_awarded, own.codes) for prize_id, own in self.stock.items()}
        held = map(dict, (player.prizes, player.balances, player.grants))
        own = (player.plays, player.day_plays, player.turns, player.busy_until, *held)
        return self.snapshot.version, self.day, own, stock
