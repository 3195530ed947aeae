"""Events: what Tombola tells other systems, as types (spec.md, Events).

The data of each event, of the five canonical ones and of ours, is one Struct here, and has one shape wherever it
comes from: every field is always there, "" or 0 where there is none. Fields may be added to a Struct, never renamed or
removed; asyncapi.json is made from these by `python -m ops.generate`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Final, TypeAlias

import msgspec
from msgspec import Meta

from runtime import ids, trace

STANDINGS_TOLD: Final = 100
"""Standings that leaderboard_finalized tells of: the first."""


class PlayCompleted(msgspec.Struct, frozen=True):
    """Every play, after its commit."""

    TYPE: ClassVar[str] = "play_completed"

    play_id: str
    game_id: str
    player_id: str
    score: int
    wins: Annotated[int, Meta(description="Prizes and items that the play won.")]
    points: Annotated[int, Meta(description="Points that the play credited.")]


class PrizeWon(msgspec.Struct, frozen=True, kw_only=True):
    """Once for each prize that was awarded: in a play, by a milestone, or by a leaderboard's rank."""

    TYPE: ClassVar[str] = "prize_won"

    player_id: str
    prize_id: str
    reward_id: Annotated[str, Meta(description="Empty for points that a play drew.")]
    name: Annotated[str, Meta(description="The prize's.")]
    type: Annotated[str, Meta(description="The prize's.")]
    quantity: int
    value: Annotated[float, Meta(description="Of one.")]
    game_id: Annotated[str, Meta(description="Empty for a leaderboard's prize.")] = ""
    play_id: Annotated[str, Meta(description="Empty for a prize that no play won.")] = ""
    milestone_id: Annotated[str, Meta(description="Empty for a prize that no milestone granted.")] = ""
    leaderboard_id: Annotated[str, Meta(description="Empty for a prize that no leaderboard gave.")] = ""
    rank: Annotated[int, Meta(description="0 for a prize that no leaderboard gave.")] = 0


class PrizeClaimed(msgspec.Struct, frozen=True, kw_only=True):
    """A player claimed a reward."""

    TYPE: ClassVar[str] = "prize_claimed"

    reward_id: str
    player_id: str
    prize_id: str
    name: str
    type: str
    value: float
    quantity: int
    status: Annotated[str, Meta(extra_json_schema={"pattern": "^REWARD_STATUS_"})]
    game_id: str
    play_id: str
    milestone_id: str


class QuestCompleted(msgspec.Struct, frozen=True, kw_only=True):
    """A player completed a quest."""

    TYPE: ClassVar[str] = "quest_completed"

    quest_id: str
    player_id: str
    turns_granted: int
    balance: Annotated[int, Meta(description="The player's turns in the campaign, after it.")]
    period: Annotated[str, Meta(description="once, a local day (2026-11-21) or an ISO week (2026-W47).")]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A player's final rank on a leaderboard."""

    rank: int
    player_id: str
    display_name: str
    score: int
    achieved_at: Annotated[int, Meta(description="Unix seconds.")]
    prize_id: Annotated[str, Meta(description="Empty where the rank has no prize.")]
    reward_id: str
    reason: Annotated[str, Meta(description="Why the rank goes without its prize; empty where it has it.")]


class LeaderboardFinalized(msgspec.Struct, frozen=True, kw_only=True):
    """A leaderboard was finalized."""

    TYPE: ClassVar[str] = "leaderboard_finalized"

    leaderboard_id: str
    name: str
    game_id: Annotated[str, Meta(description="Empty for a leaderboard of the whole campaign.")]
    players: int
    standings: Annotated[
        list[Standing],
        Meta(description="The first hundred.", extra_json_schema={"maxItems": STANDINGS_TOLD}),
    ]


class DeliveryFailed(msgspec.Struct, frozen=True, kw_only=True):
    """A reward's delivery was given up, unless somebody retries it: no attempt is left, or no callback came in time."""

    TYPE: ClassVar[str] = "delivery_failed"

    task_id: str
    reward_id: str
    player_id: str
    prize_id: str
    channel: Annotated[str, Meta(description="The prize's `fulfillment.channel`.")]
    attempts: int
    error: Annotated[str, Meta(description="Why the last one failed.")]


class BudgetReached(msgspec.Struct, frozen=True, kw_only=True):
    """A campaign has used 80 %, or all, of its budget: once each, and again where the budget was raised meanwhile."""

    TYPE: ClassVar[str] = "campaign.budget_reached"

    campaign_id: str
    name: Annotated[str, Meta(description="The campaign's.")]
    percent: Annotated[int, Meta(description="80 or 100: the share that is reached.")]
    amount: Annotated[float, Meta(description="The budget.")]
    currency: Annotated[str, Meta(description="As ISO 4217 has it.")]
    used: Annotated[float, Meta(description="The value of what was given and not given back.")]


class LowStock(msgspec.Struct, frozen=True, kw_only=True):
    """No more is left of a prize than its `low_stock_at`: once, and again when it has risen above that meanwhile."""

    TYPE: ClassVar[str] = "prizes.low_stock"

    prize_id: str
    name: Annotated[str, Meta(description="The prize's.")]
    remaining: Annotated[int, Meta(description="Of its stock, or of its free codes where these are fewer.")]
    low_stock_at: int


EventData: TypeAlias = (
    PlayCompleted
    | PrizeWon
    | PrizeClaimed
    | QuestCompleted
    | LeaderboardFinalized
    | DeliveryFailed
    | BudgetReached
    | LowStock
)

DATA: Final[tuple[type[EventData], ...]] = (
    PlayCompleted,
    PrizeWon,
    PrizeClaimed,
    QuestCompleted,
    LeaderboardFinalized,
    DeliveryFailed,
    BudgetReached,
    LowStock,
)
TYPES: Final = tuple(data.TYPE for data in DATA)
"""The canonical types, in the specification's order, then ours."""


class Event(msgspec.Struct, frozen=True):
    """One event."""

    id: Annotated[
        str,
        Meta(
            description="Stable over every retry: what a receiver knows a repeated event by.",
            extra_json_schema={"pattern": "^evt_"},
        ),
    ]
    type: str
    occurred_at: Annotated[int, Meta(description="Unix seconds.")]
    tenant_id: str
    merchant_id: Annotated[str, Meta(description="Empty where the campaign has no merchant.")]
    campaign_id: str
    data: EventData | dict[str, Any]
    trace_id: Annotated[str, Meta(description="W3C trace id, 32 hex digits, or empty.")] = ""
    emitted: Annotated[bool, Meta(description="True of what staff emitted to try receivers: it did not happen.")] | (
        msgspec.UnsetType
    ) = msgspec.UNSET


class ReceivedEvent(Event, frozen=True):
    """An event as it is read from a stream: of any type, its data any object."""

    data: dict[str, Any]


SAID: Final = ("display_name", "error")
"""What an event says of a player beside the id: the name, and what a receiver said of a delivery."""


def said_of_players(value: Any) -> Iterator[dict[str, Any]]:
    """The parts of an event, as JSON has it, that say something of the player whose id is in them."""
    if isinstance(value, list):
        for item in value:
            yield from said_of_players(item)
    elif isinstance(value, dict):
        if isinstance(value.get("player_id"), str) and any(name in value for name in SAID):
            yield value
        for item in value.values():
            yield from said_of_players(item)


def forget(part: dict[str, Any]) -> None:
    """Leaves of such a part what it says of the id alone."""
    part.update({name: "" for name in SAID if name in part})


def event_of(
    data: EventData,
    *,
    occurred_at: float,
    tenant_id: str,
    merchant_id: str,
    campaign_id: str,
    trace_id: str | None = None,
    nth: int = 0,
    id: str = "",
) -> Event:
    """The event of what happened; in the current trace, where a batch does not say whose it is.

    nth: of a play's prizes, counted from 0. id: of a completed quest, and of what was noticed of budgets and stock,
    whose rows keep it, and of a delivery that failed, which may fail again after a retry; others' follow from `data`.
    """
    trace_id = trace.current.get() if trace_id is None else trace_id
    id = id or _id_of(data, nth)
    return Event(
        id=id,
        type=data.TYPE,
        occurred_at=int(occurred_at),
        tenant_id=tenant_id,
        merchant_id=merchant_id,
        campaign_id=campaign_id,
        data=data,
        trace_id=trace_id,
    )


def _id_of(data: EventData, nth: int) -> str:
    """The event's id: it follows from what is told of, so that who tells of it later, from rows, tells the same."""
    if isinstance(data, PlayCompleted):
        return "evt_" + data.play_id.removeprefix("play_")
    if isinstance(data, PrizeWon):
        if data.play_id:
            return f"evt_{data.play_id.removeprefix('play_')}_{nth}"
        assert data.reward_id, "what no play won has left a reward, points too"
        return "evt_" + data.reward_id.rpartition("_")[2]
    if isinstance(data, PrizeClaimed):
        return f"evt_{data.reward_id.rpartition('_')[2]}_claimed"
    if isinstance(data, LeaderboardFinalized):
        return "evt_" + data.leaderboard_id.rpartition("_")[2]
    # Quest, player and period would not do: the player is another after a login.
    raise ValueError(f"an event {data.TYPE} is given its id")


def new_event(
    type: str,
    *,
    occurred_at: float,
    tenant_id: str,
    merchant_id: str,
    campaign_id: str,
    data: dict[str, Any],
    id: str = "",
) -> Event:
    """An event that somebody made up, of any type and any data; in the current trace."""
    return Event(
        id=id or ids.make("evt"),
        type=type,
        occurred_at=int(occurred_at),
        tenant_id=tenant_id,
        merchant_id=merchant_id,
        campaign_id=campaign_id,
        data=data,
        trace_id=trace.current.get(),
        emitted=True,
    )
