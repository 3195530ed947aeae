"""The input of a decision: a game's terms and the state of its players and prizes. Plain data, no I/O."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import Enum
from typing import Any, Final

import msgspec

from runtime import messages as m
from runtime.errors import Fault, Status, suspended
from runtime.events import Event, EventData, event_of
from runtime.rules import GameRule, Rules
from runtime.rules.campaign_state import REASONS, Dates, has_ended, state_of
from runtime.rules.entry import EntryTerms
from runtime.rules.release import Schedule
from runtime.settings import Key
from runtime.stores.clock import Days

POINTS: Final = "points"
"""The prize type that credits this currency and takes nothing from stock."""
TURNS: Final = "turns"
"""The prize type that grants turns in its campaign, as a reward delivered by the win's commit."""


@dataclass(slots=True)
class PrizeTerms:
    """A prize as a decision sees it.

    points, turns: what one unit credits; 0 for other prize types. takes_code: a unit needs a voucher code, which is
    taken at the win, whenever it is shown. due_at_win: delivery is due at the win. delivered_at_win: the win's commit
    delivers it. content: the public content of a rung's prize. release: when units become free; release_hash: its
    commitment. Derived fields are precomputed: every play reads them.
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
    release: Schedule | None = None
    release_hash: str = ""
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

    def held_back(self, now: float) -> int:
        """The units of the stock that become free later."""
        return 0 if self.release is None else self.release.held_back(now)


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
    """A game at one version of the catalogue: its rules, prizes and campaign.

    revision_hash: of its terms (terms.py). shows_plan: whether a start shows the play's plan.
    played: whether the game is known to have plays; its wallet scope is then fixed.
    entry: what a player's entry must have before a play or redeem; None: no entry is needed.
    opens_at, closes_at: the game's own dates, within those of its campaign; 0: none.
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
    entry: EntryTerms | None = None
    opens_at: int = 0
    closes_at: int = 0

    @property
    def shown(self) -> bool:
        """Whether the game is public; the same rule as `on_show` in games.sql."""
        return self.status in ("active", "paused") and self.campaign_status != "draft"

    def refuse_unless_open(self, now: float) -> None:
        """PERMISSION_DENIED SUSPENDED; FAILED_PRECONDITION GAME_INACTIVE or CAMPAIGN_CLOSED."""
        self._refuse_unless_running(now)
        if now < self.opens_at:
            raise Fault(Status.FAILED_PRECONDITION, "GAME_INACTIVE", "this game has not begun", opens_at=self.opens_at)
        if self.closes_at and now >= self.closes_at:
            raise Fault(Status.FAILED_PRECONDITION, "GAME_INACTIVE", "this game has ended", closed_at=self.closes_at)

    def _refuse_unless_running(self, now: float) -> None:
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
        """As `refuse_unless_open`, but earned rungs can be redeemed outside the game's own dates, and after the
        campaign's end until `redeem_until`.
        """
        if not has_ended(self.campaign_status, self.end_date, now):
            self._refuse_unless_running(now)
            return
        self._refuse_unless_active()
        if now >= self.redeem_until:
            # Staff may have ended the campaign before its date; that time is not recorded.
            dated = self.redeem_until or (self.end_date if now >= self.end_date else 0)
            when = f" at {datetime.fromtimestamp(dated, UTC).isoformat()}" if dated else ", with the campaign"
            facts = {"closed_at": dated} if dated else {}
            raise Fault(Status.FAILED_PRECONDITION, "CAMPAIGN_CLOSED", f"redeeming has ended{when}", **facts)

    def _refuse_unless_active(self) -> None:
        if self.suspended:
            raise suspended(self.suspended)
        if self.status != "active":
            # Do not reveal "draft" or "archived" to players.
            what = "paused" if self.status == "paused" else "closed"
            raise Fault(Status.FAILED_PRECONDITION, "GAME_INACTIVE", f"this game is {what}")

    @property
    def dates(self) -> Dates:
        """The dates between which the game can be played."""
        return Dates(self.start_date, self.end_date, self.redeem_until).within(self.opens_at, self.closes_at)

    def closed_reason(self, now: float) -> str:
        """Why the game is closed: ENDED, PAUSED or NOT_STARTED. Empty if it is open."""
        return REASONS[state_of(self.status, self.campaign_status, self.dates, now)]

    def today(self, now: float) -> tuple[date, int]:
        """The campaign's local day, and when it ends (unix seconds)."""
        return self.days.at(now)


# -- cached state -----------------------------------------------------------------------------


class PlayerState(msgspec.Struct):
    """A player's state in one game, today. balances: of the game's wallet scope. grants: rung -> time of the grant.

    guest: has not logged in yet. A decision for a guest is valid only while it is one (`Changes.require_guest`).
    busy_until: end of the time that earlier plays used (eligibility.py).
    entry: the revision and tokens of the player's entry, if plays need one; None: no entry.
    read_in: the round that read it; in later rounds it is cached data.
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
    entry: tuple[int, frozenset[str]] | None = None


@dataclass(slots=True)
class StockState:
    """A prize's remaining units (None: unlimited), free codes, and units awarded today."""

    remaining: int | None
    day_awarded: int
    codes: int
    read_in: int


class Price(Enum):
    """What an admitted play costs its player."""

    FREE = "free"
    TURN = "turn"


class StaleRead(Exception):
    """Cached data would refuse this: the actor must refresh and decide again."""


@dataclass(slots=True)
class GameState:
    """A game's state in one round of its actor. Decisions read it; only `record` (awards.py) changes it.

    day, resets_at: the campaign's local day, and when it ends (unix seconds). now: the database's time.
    round: data read in an earlier round is cached data. compared: this round compared the snapshot with the database.
    under_way: the players of each pending commit, if their next plays depend on it.
    keys: sign sessions and cursors; the first one signs new ones. session_seconds: lifetime of a session.
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
        """An event of this game, in the causing request's trace. nth: the index among a play's prizes."""
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

    def inputs_of(self, player: PlayerState) -> Any:
        """All state that a decision about this player uses. Equal results lead to equal decisions."""
        stock = {prize_id: (own.remaining, own.day_awarded, own.codes) for prize_id, own in self.stock.items()}
        copies = map(dict, (player.prizes, player.balances, player.grants))
        own = (player.plays, player.day_plays, player.turns, player.busy_until, player.entry, *copies)
        return self.snapshot.version, self.day, own, stock
