"""Quests: what a player does elsewhere, and gets turns for.

A quest is completed once per period: ever (one_time), once a local day, or once an ISO week, of the
campaign's time zone. The unique row of the completion is what makes it once; the turns are granted by
the statement that writes it. An Idempotency-Key is of its route, so of its quest: one key may complete
two quests (contract.md, "Idempotency-Key").
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final, NamedTuple

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.idempotency import KeyedRequest, first_answer, keyed
from runtime.errors import Fault, Status, suspended, unknown, violations
from runtime.events import QuestCompleted, event_of
from runtime.operations import audit, catalog, reading, samples, suspension
from runtime.operations.campaigns import records as campaigns
from runtime.operations.checks import Checks, given, search_pattern, set_fields
from runtime.operations.row import DESIGNERS, STAFF, Access, Consumer, Operation, RoutePolicy
from runtime.stores.clock import Days
from runtime.wire.enums import enum, token
from runtime.wire.scope import merchant_of, player_id_of, tenant_of

_SQL: Final = sql.load("quests")
_MEET: Final = sql.load("players")["meet"]

SETTABLE: Final = frozenset({"campaign_id", "name", "description", "type", "turns", "status", "start_date", "end_date"})
TURNS_MAX: Final = 1_000_000
ATTEMPTS: Final = 4
"""A completion that lost a race looks again: at most once for the rival, a changed quest, a guest that logged in."""


# -- management ------------------------------------------------------------------------------


async def create_quest(engine: Engine, request: m.CreateQuestRequest) -> m.QuestReply:
    """A new quest: a draft unless it says otherwise, one-time unless it says otherwise."""
    tenant_id, quest = tenant_of(request), given(request.quest, "quest")
    _check(quest)

    async def work(connection: asyncpg.Connection) -> asyncpg.Record:
        row = await connection.fetchrow(
            _SQL["insert"], tenant_id, ids.make("quest"), *_stored(quest), merchant_of(request)
        )
        if row is None:
            raise await campaigns.not_to_write(connection, request, quest.campaign_id)
        await audit.record(connection, tenant_id, "quest.create", row["id"], after=dict(row))
        return row

    return m.QuestReply(quest=_quest(await catalog.change_beside(engine, tenant_id, work)))


async def get_quest(engine: Engine, request: m.GetQuestRequest) -> m.QuestReply:
    """A quest, archived or not."""
    return m.QuestReply(quest=_quest(await reading.one(engine, _SQL["get"], request, "quest")))


async def list_quests(engine: Engine, request: m.ListQuestsRequest) -> m.ListQuestsReply:
    """The tenant's quests, newest first; archived ones only where `status` asks for them."""
    narrowed = (request.campaign_id, token(request.type), token(request.status), search_pattern(request.q))
    filters = (*narrowed, merchant_of(request))
    rows, pagination = await reading.page(engine, _SQL["list"], request, tenant_of(request), *filters)
    return m.ListQuestsReply(items=[_quest(row) for row in rows], pagination=pagination)


async def update_quest(engine: Engine, request: m.UpdateQuestRequest) -> m.QuestReply:
    """Sets the fields that are given. Completions keep the turns that they granted."""
    tenant_id, update = tenant_of(request), given(request.quest, "quest")

    async def work(connection: asyncpg.Connection) -> asyncpg.Record:
        before = await reading.to_write(connection, _SQL["get"], request, "quest", request.id)
        quest = _quest(before)
        set_fields(quest, update, request.update_mask, SETTABLE)
        _check(quest)
        row = await connection.fetchrow(_SQL["update"], tenant_id, request.id, *_stored(quest), merchant_of(request))
        if row is None:
            raise await campaigns.not_to_write(connection, request, quest.campaign_id)
        await audit.record(connection, tenant_id, "quest.update", request.id, before=dict(before), after=dict(row))
        return row

    return m.QuestReply(quest=_quest(await catalog.change_beside(engine, tenant_id, work)))


async def delete_quest(engine: Engine, request: m.DeleteRequest) -> m.DeleteReply:
    """Removes a quest that nobody completed; archives one with history."""
    tenant_id = tenant_of(request)

    async def work(connection: asyncpg.Connection) -> bool:
        # Locked before the look: a completion under way is either seen by it, or finds no quest.
        if await connection.fetchval(_SQL["lock"], tenant_id, request.id) is None:
            raise unknown("quest", request.id)
        before = await reading.to_write(connection, _SQL["get"], request, "quest", request.id)
        archived = await connection.fetchval(_SQL["remove"], tenant_id, request.id) is None
        if archived:
            await connection.execute(_SQL["archive"], tenant_id, request.id)
        await audit.record(
            connection, tenant_id, "quest.archive" if archived else "quest.delete", request.id, before=dict(before)
        )
        return archived

    return m.DeleteReply(id=request.id, archived=await catalog.change_beside(engine, tenant_id, work))


# -- completion ------------------------------------------------------------------------------


class Period(NamedTuple):
    """`name`: 'once', '2026-11-21' or '2026-W47'. resets_at: unix seconds of its end, 0 = never."""

    name: str
    resets_at: int


async def complete_quest(engine: Engine, request: m.CompleteQuestRequest) -> m.CompleteQuestReply:
    """Grants the quest's turns, once per period.

    A repeated Idempotency-Key answers as the first time, for ever. NOT_FOUND UNKNOWN_QUEST, also where it is archived,
    or it or its campaign is a draft; FAILED_PRECONDITION QUEST_CLOSED (out of its dates, its campaign not open);
    ALREADY_EXISTS ALREADY_COMPLETED with `resets_at`.
    """
    tenant_id, player_id = tenant_of(request), player_id_of(request)
    asked = keyed(request)
    if ids.is_guest(player_id):
        # With a row of its own from now on: that is what a login waits for, or has ended.
        await engine.database.fetchval(_MEET, tenant_id, player_id)
    for _ in range(ATTEMPTS):
        row = await engine.database.fetchrow(_SQL["for_completion"], tenant_id, request.id, player_id, asked.key)
        if row is None:
            raise unknown("quest", request.id)
        unshown = row["status"] != "active" or row["campaign_status"] == "draft"
        if unshown and row["request_hash"] is None and row["merged_into"] is None:
            # Just as one that is not there; but what was granted is told again.
            raise unknown("quest", request.id)
        if row["merchant_suspended"]:
            raise suspended("merchant")
        if row["merged_into"] is not None:
            # A guest that has logged in: what it does is the player's.
            player_id = request.player_id = row["merged_into"]
            await suspension.refuse(engine, request, player_id)
            asked = keyed(request)
            continue
        first = first_answer(row, asked, lambda row: _reply(request, row["replay_turns"], row["replay_balance"]))
        if first is not None:
            return first
        now = engine.clock.now()
        _check_open(request.id, row, now)
        period = period_at(row["type"], row["timezone"], now)
        if period.name in (row["periods"] or ()):
            raise _completed(request.id, period)
        if (granted := await _grant(engine, request, row, period, asked)) is not None:
            _tell(engine, request, row, period, granted)
            return _reply(request, granted["turns"], granted["balance_after"])
    raise Fault(Status.UNAVAILABLE, "OVERLOADED", "the quest is changing; try again", retry_after_seconds=1)


def period_at(type: str, timezone: str, now: float) -> Period:
    """The period of a quest of `type` that unix second `now` is in, in the time zone."""
    if type == "one_time":
        return Period("once", 0)
    days = Days(timezone)
    day, midnight = days.at(now)
    if type == "daily":
        return Period(day.isoformat(), midnight)
    year, week, weekday = day.isocalendar()
    return Period(f"{year}-W{week:02}", days.starts(day + timedelta(days=8 - weekday)))


async def _grant(
    engine: Engine, request: m.CompleteQuestRequest, row: asyncpg.Record, period: Period, asked: KeyedRequest
) -> asyncpg.Record | None:
    """The completion; None where somebody was faster, or the quest has changed: look again."""
    try:
        return await engine.database.fetchrow(
            _SQL["complete"],
            tenant_of(request),
            request.id,
            request.player_id,
            period.name,
            row["type"],
            row["turns"],
            row["campaign_id"],
            ids.make("entry"),
            asked.key,
            asked.request_hash,
            ids.make("evt"),
        )
    except asyncpg.UniqueViolationError:
        return None


def _check_open(quest_id: str, row: asyncpg.Record, now: float) -> None:
    """QUEST_CLOSED, saying why."""
    if row["campaign_status"] != "active":
        why = f"its campaign is {row['campaign_status']}"
    elif now < max(row["start_date"], row["campaign_start"]):
        why = "it has not begun"
    elif any(0 < end <= now for end in (row["end_date"], row["campaign_end"])):
        why = "it is over"
    else:
        return
    raise Fault(Status.FAILED_PRECONDITION, "QUEST_CLOSED", f"quest {quest_id} is closed: {why}")


def _completed(quest_id: str, period: Period) -> Fault:
    message = f"quest {quest_id} was completed" + (f" for {period.name}" if period.resets_at else "")
    return Fault(Status.ALREADY_EXISTS, "ALREADY_COMPLETED", message, resets_at=period.resets_at)


def _reply(request: m.CompleteQuestRequest, turns: int, balance: int) -> m.CompleteQuestReply:
    return m.CompleteQuestReply(quest_id=request.id, turns_granted=turns, balance=balance)


def _tell(
    engine: Engine, request: m.CompleteQuestRequest, row: asyncpg.Record, period: Period, granted: asyncpg.Record
) -> None:
    event = event_of(
        QuestCompleted(
            quest_id=request.id,
            player_id=request.player_id,
            turns_granted=granted["turns"],
            balance=granted["balance_after"],
            period=period.name,
        ),
        occurred_at=granted["completed_at"],
        tenant_id=tenant_of(request),
        merchant_id=row["merchant_id"],
        campaign_id=row["campaign_id"],
        id=granted["event_id"],
    )
    engine.publisher.events([event])


# -- turns -----------------------------------------------------------------------------------


async def list_turns(engine: Engine, request: m.ListTurnsRequest) -> m.ListTurnsReply:
    """The player's turns, by campaign, each with its quests that are completed for now.

    Whoever has completed a quest of a campaign has a balance of it, be it of no turns.
    """
    tenant_id, player_id = tenant_of(request), player_id_of(request)
    filters = (tenant_id, player_id, request.campaign_id)
    rows, pagination = await reading.page(engine, _SQL["turns"], request, *filters, key="campaign_id")
    items = {row["campaign_id"]: m.TurnBalance(**row) for row in rows}
    now = engine.clock.now()
    for row in await engine.database.fetch(_SQL["completed"], tenant_id, player_id, list(items)) if items else ():
        period = period_at(row["type"], row["timezone"], now)
        if row["period"] == period.name:
            done = m.CompletedQuest(
                quest_id=row["quest_id"], completed_at=row["completed_at"], available_at=period.resets_at
            )
            items[row["campaign_id"]].completed_quests.append(done)
    return m.ListTurnsReply(items=list(items.values()), pagination=pagination)


# -- messages --------------------------------------------------------------------------------


def problems(quest: m.Quest) -> list[tuple[str, str]]:
    """(field, what is wrong) of a quest in itself; what it names is not looked up."""
    checks = Checks()
    checks.required("name", quest.name)
    checks.required("campaign_id", quest.campaign_id)
    checks.between("turns", quest.turns, 0, TURNS_MAX)
    checks.times(quest.start_date, quest.end_date)
    return checks.found


def _check(quest: m.Quest) -> None:
    if found := problems(quest):
        raise violations(found)


def _stored(quest: m.Quest) -> tuple[Any, ...]:
    """$3.. of `insert` and `update`."""
    return (
        quest.campaign_id,
        quest.name,
        quest.description,
        token(quest.type, "one_time"),
        quest.turns,
        token(quest.status, "draft"),
        quest.start_date,
        quest.end_date,
    )


def _quest(row: asyncpg.Record) -> m.Quest:
    return m.Quest(**{**row, "type": enum(m.QuestType, row["type"]), "status": enum(m.QuestStatus, row["status"])})


# -- rows ------------------------------------------------------------------------------------


ROWS: Final = (
    Operation(
        "CreateQuest",
        "POST /quests",
        run=create_quest,
        resource="quest",
        admin=DESIGNERS,
        stales=True,
        refusals=("UNKNOWN_CAMPAIGN",),
        example={
            "campaign_id": samples.CAMPAIGN,
            "name": "Visit the stall",
            "description": "By the fountain",
            "type": "QUEST_TYPE_DAILY",
            "turns": 3,
            "status": "QUEST_STATUS_ACTIVE",
            "start_date": samples.EARLIER,
        },
    ),
    Operation("GetQuest", "GET /quests/{id}", run=get_quest, admin=STAFF),
    Operation("ListQuests", "GET /quests", run=list_quests, admin=STAFF),
    Operation(
        "UpdateQuest",
        "PUT /quests/{id}",
        run=update_quest,
        resource="quest",
        admin=DESIGNERS,
        stales=True,
        refusals=("UNKNOWN_CAMPAIGN",),
        example={"turns": 5},
    ),
    Operation("DeleteQuest", "DELETE /quests/{id}", run=delete_quest, admin=DESIGNERS, stales=True),
    Operation(
        "CompleteQuest",
        "POST /quests/{id}/complete",
        run=complete_quest,
        consumer=Consumer(Access.PLAYER, RoutePolicy.ACT),
        refusals=("ALREADY_COMPLETED", "QUEST_CLOSED", "CAMPAIGN_CLOSED", "PLAYER_MERGED", "UNKNOWN_TENANT"),
        example={},
    ),
    Operation("ListTurns", "GET /players/me/turns", run=list_turns, consumer=Consumer(Access.PLAYER)),
)
