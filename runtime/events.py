"""Events: the messages that Tombola sends to other systems, as types.

Each event type has one Struct for its data, with one shape whatever its source: every field is always present, "" or 0
if unset. Fields may be added to a Struct, never renamed or removed. `python -m ops.generate` makes asyncapi.json from
these.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Final, TypeAlias

import msgspec
from msgspec import Meta

from runtime import ids, trace

STANDINGS_MAX: Final = 100
"""The number of standings in leaderboard_finalized, from the top."""


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
    """One for each awarded prize: in a play, by a milestone, or by a rank of a leaderboard or a draw."""

    TYPE: ClassVar[str] = "prize_won"

    player_id: str
    prize_id: str
    reward_id: Annotated[str, Meta(description="Empty for points won by a play.")]
    name: Annotated[str, Meta(description="The prize's name.")]
    type: Annotated[str, Meta(description="The prize's type.")]
    quantity: int
    value: Annotated[float, Meta(description="The value of one unit.")]
    game_id: Annotated[str, Meta(description="Empty for a prize of a leaderboard or a draw.")] = ""
    play_id: Annotated[str, Meta(description="Empty unless a play won the prize.")] = ""
    milestone_id: Annotated[str, Meta(description="Empty unless a milestone granted the prize.")] = ""
    leaderboard_id: Annotated[str, Meta(description="Empty unless a leaderboard awarded the prize.")] = ""
    draw_id: Annotated[str, Meta(description="Empty unless a draw awarded the prize.")] = ""
    rank: Annotated[int, Meta(description="0 unless a leaderboard or a draw awarded the prize.")] = 0


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
    balance: Annotated[int, Meta(description="The player's turns in the campaign afterwards.")]
    period: Annotated[str, Meta(description="once, a local day (2026-11-21), an ISO week (2026-W47), or referral-3.")]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A player's final rank on a leaderboard."""

    rank: int
    player_id: str
    display_name: str
    score: int
    achieved_at: Annotated[int, Meta(description="Unix seconds.")]
    prize_id: Annotated[str, Meta(description="Empty if the rank has no prize.")]
    reward_id: str
    reason: Annotated[str, Meta(description="Why the rank's prize was not awarded; empty if it was.")]


class LeaderboardFinalized(msgspec.Struct, frozen=True, kw_only=True):
    """A leaderboard was finalized."""

    TYPE: ClassVar[str] = "leaderboard_finalized"

    leaderboard_id: str
    name: str
    game_id: Annotated[str, Meta(description="Empty for a leaderboard of the whole campaign.")]
    players: int
    standings: Annotated[
        list[Standing],
        Meta(description="The first hundred.", extra_json_schema={"maxItems": STANDINGS_MAX}),
    ]


class DeliveryFailed(msgspec.Struct, frozen=True, kw_only=True):
    """A reward's delivery failed, until it is retried: no attempt is left, or no callback arrived in time."""

    TYPE: ClassVar[str] = "delivery_failed"

    task_id: str
    reward_id: str
    player_id: str
    prize_id: str
    channel: Annotated[str, Meta(description="The prize's `fulfillment.channel`.")]
    attempts: int
    error: Annotated[str, Meta(description="The error of the last attempt.")]


class BudgetReached(msgspec.Struct, frozen=True, kw_only=True):
    """A campaign has used 80 % or 100 % of its budget: once per threshold, and again after the budget was raised."""

    TYPE: ClassVar[str] = "campaign.budget_reached"

    campaign_id: str
    name: Annotated[str, Meta(description="The campaign's name.")]
    percent: Annotated[int, Meta(description="80 or 100: the threshold reached.")]
    amount: Annotated[float, Meta(description="The budget.")]
    currency: Annotated[str, Meta(description="ISO 4217 code.")]
    used: Annotated[float, Meta(description="The value of awarded prizes, minus returned ones.")]


class LowStock(msgspec.Struct, frozen=True, kw_only=True):
    """A prize's stock has fallen to its `low_stock_at`: once, and again after it has risen above that."""

    TYPE: ClassVar[str] = "prizes.low_stock"

    prize_id: str
    name: Annotated[str, Meta(description="The prize's name.")]
    remaining: Annotated[int, Meta(description="Units in stock, or free codes if fewer.")]
    low_stock_at: int


class CodeRedeemed(msgspec.Struct, frozen=True, kw_only=True):
    """A player redeemed a code of a pack, or your system reported a receipt."""

    TYPE: ClassVar[str] = "code.redeemed"

    redemption_id: str
    pack_id: str
    player_id: str
    receipt_id: Annotated[str, Meta(description="Empty for a code.")]
    turns: Annotated[int, Meta(description="Turns credited; 0 if the pack gives a currency.")]
    currency: Annotated[str, Meta(description="Empty if the pack gives turns.")]
    scope_key: str
    amount: int
    balance: Annotated[int, Meta(description="The balance of turns or currency afterwards.")]


class DrawClosed(msgspec.Struct, frozen=True, kw_only=True):
    """The tickets of a draw were frozen."""

    TYPE: ClassVar[str] = "draw.closed"

    draw_id: str
    name: Annotated[str, Meta(description="The draw's name.")]
    tickets_root: Annotated[str, Meta(description="The Merkle root of the tickets.")]
    ticket_count: int
    holder_count: int


class DrawDrawn(msgspec.Struct, frozen=True, kw_only=True):
    """The winners of a draw were drawn. Prizes follow when it is confirmed, as `prize_won`."""

    TYPE: ClassVar[str] = "draw.drawn"

    draw_id: str
    name: Annotated[str, Meta(description="The draw's name.")]
    value: Annotated[str, Meta(description="The random value.")]
    result_hash: str
    tickets_root: str


class LogCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The tenant's Merkle log has grown, and its new root is signed. Store these to detect later changes of the log."""

    TYPE: ClassVar[str] = "log.checkpoint"

    size: Annotated[int, Meta(description="Entries of the log.")]
    root: Annotated[str, Meta(description="The root hash, in base64.")]
    note: Annotated[str, Meta(description="The signed checkpoint (C2SP signed-note).")]


class ViolationOpened(msgspec.Struct, frozen=True, kw_only=True):
    """The audit found a discrepancy: once, and again if it was closed and then returns or deviates otherwise."""

    TYPE: ClassVar[str] = "violation.opened"

    violation_id: str
    check: Annotated[str, Meta(description="The check's name, such as `campaign_odds`.")]
    holds: Annotated[str, Meta(description="The invariant that the rows violate.")]
    subject_id: Annotated[str, Meta(description="The checked object, such as a campaign or a player.")]
    row_id: Annotated[str, Meta(description="The row in it; empty if there is only one.")]
    scope_key: Annotated[str, Meta(description="Its campaign or merchant; empty: the tenant.")]
    expected: str
    found: str


EventData: TypeAlias = (
    PlayCompleted
    | PrizeWon
    | PrizeClaimed
    | QuestCompleted
    | LeaderboardFinalized
    | DeliveryFailed
    | BudgetReached
    | LowStock
    | CodeRedeemed
    | DrawClosed
    | DrawDrawn
    | LogCheckpoint
    | ViolationOpened
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
    CodeRedeemed,
    DrawClosed,
    DrawDrawn,
    LogCheckpoint,
    ViolationOpened,
)
TYPES: Final = tuple(data.TYPE for data in DATA)
"""The event types: the core ones first."""


class Event(msgspec.Struct, frozen=True):
    """One event."""

    id: Annotated[
        str,
        Meta(
            description="The same for every retry. Use it to deduplicate events.",
            extra_json_schema={"pattern": "^evt_"},
        ),
    ]
    type: str
    occurred_at: Annotated[int, Meta(description="Unix seconds.")]
    tenant_id: str
    merchant_id: Annotated[str, Meta(description="Empty if the campaign has no merchant.")]
    campaign_id: str
    data: EventData | dict[str, Any]
    trace_id: Annotated[str, Meta(description="W3C trace id, 32 hex digits, or empty.")] = ""
    emitted: Annotated[bool, Meta(description="True if staff emitted it to test receivers: it did not happen.")] | (
        msgspec.UnsetType
    ) = msgspec.UNSET


class ReceivedEvent(Event, frozen=True):
    """An event as it is read from a stream: of any type, its data any object."""

    data: dict[str, Any]


PERSONAL_FIELDS: Final = ("display_name", "error")
"""Personal data in events, apart from the player's id: the name, and the error text of a delivery's receiver."""


def personal_data_in(value: Any) -> Iterator[dict[str, Any]]:
    """The parts of an event's JSON that contain personal data about the player whose id they contain."""
    if isinstance(value, list):
        for item in value:
            yield from personal_data_in(item)
    elif isinstance(value, dict):
        if isinstance(value.get("player_id"), str) and any(name in value for name in PERSONAL_FIELDS):
            yield value
        for item in value.values():
            yield from personal_data_in(item)


def erase_personal_data(part: dict[str, Any]) -> None:
    """Erases the personal data of such a part, except the id."""
    part.update({name: "" for name in PERSONAL_FIELDS if name in part})


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
    """Builds an event. trace_id: default the current trace; a batch passes its request's.

    nth: the index among a play's prizes, from 0. id: required for completed quests, budget and stock events, whose rows
    store it, and for failed deliveries, which may fail again after a retry. Other ids are derived from `data`.
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
    """The event's deterministic id, so that the backfill emits the same event."""
    if isinstance(data, PlayCompleted):
        return "evt_" + data.play_id.removeprefix("play_")
    if isinstance(data, PrizeWon):
        if data.play_id:
            return f"evt_{data.play_id.removeprefix('play_')}_{nth}"
        assert data.reward_id, "a prize that no play won has a reward, points too"
        return "evt_" + data.reward_id.rpartition("_")[2]
    if isinstance(data, PrizeClaimed):
        return f"evt_{data.reward_id.rpartition('_')[2]}_claimed"
    if isinstance(data, LeaderboardFinalized):
        return "evt_" + data.leaderboard_id.rpartition("_")[2]
    if isinstance(data, CodeRedeemed):
        return "evt_" + data.redemption_id.rpartition("_")[2]
    if isinstance(data, DrawClosed | DrawDrawn):
        return f"evt_{data.draw_id.rpartition('_')[2]}_{data.TYPE.rpartition('.')[2]}"
    if isinstance(data, LogCheckpoint):
        return f"evt_{hashlib.sha256(data.note.encode()).hexdigest()[:32]}"
    if isinstance(data, ViolationOpened):
        return "evt_" + data.violation_id.rpartition("_")[2]
    # Not derived from quest, player and period: a login merges the player into another.
    raise ValueError(f"an event {data.TYPE} requires an id")


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
    """An event emitted by staff, with any type and data; in the current trace."""
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
