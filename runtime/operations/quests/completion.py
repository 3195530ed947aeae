"""Completes quests and grants their turns.

A quest with a condition can be completed once the player has done enough since the start of the period (and the
quest's start_date): plays, prizes won by plays, or points credited for plays (not scores), in the campaign's games or
one of them. The granting statement counts the rows of plays, so plays write nothing extra. A merged guest's plays count
for the player, except those won beyond the caps of one player (players/merging.py). Days with a login count for players
whom the service signs in. A job pays referrals (referrals.py). A quest without a condition is completed on request.

A quest is completed once per period: ever (one_time), once a local day, or once an ISO week, in the campaign's time
zone. A unique row enforces that; the same statement grants the turns. An Idempotency-Key is scoped to its route and so
to its quest: one key may complete two quests.
"""

from __future__ import annotations

from typing import Final

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.idempotency import KeyedRequest, first_answer, keyed, replayed
from runtime.errors import Fault, Status, suspended, unknown
from runtime.events import QuestCompleted, event_of
from runtime.operations import reading, suspension
from runtime.operations.quests.periods import Period, check_open, period_at
from runtime.wire.scope import player_id_of, tenant_of

_SQL: Final = sql.load("quests")
_MEET: Final = sql.load("players")["create"]

ATTEMPTS: Final = 4
"""Attempts of a completion that loses races: one each for a concurrent one, a changed quest, a guest that logged in."""


async def complete_quest(engine: Engine, request: m.CompleteQuestRequest) -> m.CompleteQuestReply:
    """Grants the quest's turns, once per period.

    A repeated Idempotency-Key always gets the first reply. NOT_FOUND UNKNOWN_QUEST, also if the quest is archived, or
    it or its campaign is a draft. FAILED_PRECONDITION QUEST_CLOSED (outside its dates, campaign not open), or
    CONDITION_NOT_MET with `have` and `need`. ALREADY_EXISTS ALREADY_COMPLETED with `resets_at`.
    """
    tenant_id, player_id = tenant_of(request), player_id_of(request)
    keyed_request = keyed(request)
    if ids.is_guest(player_id):
        # Create the guest's row: a concurrent login waits for its lock, or has already merged it.
        await engine.database.fetchval(_MEET, tenant_id, player_id)
    for _ in range(ATTEMPTS):
        about = (tenant_id, request.id, player_id, keyed_request.key)
        row = await engine.database.fetchrow(_SQL["for_completion"], *about)
        if row is None:
            raise unknown("quest", request.id)
        unshown = row["status"] != "active" or row["campaign_status"] == "draft"
        if unshown and row["request_hash"] is None and row["merged_into"] is None:
            # The same refusal as for a missing quest. A retry of a granted completion still gets its reply.
            raise unknown("quest", request.id)
        if row["merchant_suspended"]:
            raise suspended("merchant")
        if row["merged_into"] is not None:
            # The guest has logged in: continue as the player.
            player_id = request.player_id = row["merged_into"]
            await suspension.refuse(engine, request, player_id)
            keyed_request = keyed(request)
            continue
        first = first_answer(
            row, keyed_request, lambda row: _reply(request, row["replay_turns"], row["replay_balance"])
        )
        if first is not None:
            replayed.set(True)
            return first
        now = engine.clock.now()
        check_open(request.id, row, now)
        period = period_at(row["type"], row["timezone"], now)
        if period.name in (row["periods"] or ()):
            raise _completed(request.id, period)
        if row["condition"] is not None:
            await _check_condition(engine, request, row, period)
        if (granted := await _grant(engine, request, row, period, keyed_request)) is not None:
            _emit(engine, request, row, period, granted)
            return _reply(request, granted["turns"], granted["balance_after"])
    raise Fault(Status.UNAVAILABLE, "OVERLOADED", "the quest is changing; try again", retry_after_seconds=1)


async def _grant(
    engine: Engine, request: m.CompleteQuestRequest, row: asyncpg.Record, period: Period, keyed_request: KeyedRequest
) -> asyncpg.Record | None:
    """The completion; None if a concurrent one was faster or the quest has changed: retry."""
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
            keyed_request.key,
            keyed_request.request_hash,
            ids.make("evt"),
            row["condition"],
            _counts_since(row, period),
        )
    except asyncpg.UniqueViolationError:
        return None


def _counts_since(row: asyncpg.Record, period: Period) -> int:
    """The time from which a player's actions count for the quest's condition, in unix seconds; 0: always."""
    return max(period.begins, int(row["start_date"]), int(row["campaign_start"]))


async def _check_condition(
    engine: Engine, request: m.CompleteQuestRequest, row: asyncpg.Record, period: Period
) -> None:
    """Raises CONDITION_NOT_MET with `have` and `need`.

    Called before the granting statement, which checks the condition again but cannot say why it granted nothing.
    """
    about = (tenant_of(request), request.player_id, [request.id], [_counts_since(row, period)])
    found = await engine.database.fetchrow(_SQL["progress"], *about)
    if found is not None and (found["have"] < found["need"] or row["condition"]["kind"] == "referrals"):
        have, need = found["have"], found["need"]  # A job pays referrals (quests/referrals.py).
        message = f"quest {request.id} requires {need} {row['condition']['kind']}; the player has {have}"
        raise Fault(Status.FAILED_PRECONDITION, "CONDITION_NOT_MET", message, have=have, need=need)


def _completed(quest_id: str, period: Period) -> Fault:
    message = f"quest {quest_id} is already completed" + (f" for {period.name}" if period.resets_at else "")
    return Fault(Status.ALREADY_EXISTS, "ALREADY_COMPLETED", message, resets_at=period.resets_at)


def _reply(request: m.CompleteQuestRequest, turns: int, balance: int) -> m.CompleteQuestReply:
    return m.CompleteQuestReply(quest_id=request.id, turns_granted=turns, balance=balance)


def _emit(
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


async def list_quest_progress(engine: Engine, request: m.ListQuestProgressRequest) -> m.ListQuestProgressReply:
    """The active quests, each with the player's progress, and whether it is completed in the current period."""
    tenant_id, player_id = tenant_of(request), player_id_of(request)
    rows, pagination = await reading.page(engine, _SQL["own"], request, tenant_id, request.campaign_id, player_id)
    now = engine.clock.now()
    periods = {row["id"]: period_at(row["type"], row["timezone"], now) for row in rows}
    since = [_counts_since(row, periods[row["id"]]) for row in rows]
    found = await engine.database.fetch(_SQL["progress"], tenant_id, player_id, list(periods), since) if rows else []
    progress = {one["quest_id"]: (one["have"], one["need"]) for one in found}
    items = []
    for row in rows:
        period, (have, need) = periods[row["id"]], progress.get(row["id"], (0, 0))
        done = period.name in (row["periods"] or ()) or (row["pays_referrals"] and have >= need)
        one = m.QuestProgress(quest_id=row["id"], campaign_id=row["campaign_id"], have=min(have, need), need=need)
        one.completed, one.available_at = done, period.resets_at if done else 0
        items.append(one)
    return m.ListQuestProgressReply(items=items, pagination=pagination)


async def list_turns(engine: Engine, request: m.ListTurnsRequest) -> m.ListTurnsReply:
    """The player's turns by campaign, each with the quests completed in the current period.

    A player who has completed a quest has a balance in its campaign, even if it is 0.
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
