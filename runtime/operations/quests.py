"""Quests: what a player does, here or elsewhere, and gets turns for.

A quest with a condition is completed by who has done so much since the period began (and the quest's start_date):
plays, prizes won by plays, or points credited for plays (not scores), in the campaign's games or one of them. The
statement that grants counts them from the plays' own rows, so that plays write nothing for it; a merged guest's are
the player's, but for what it won beyond the caps of one player (merging.py). Days with a login are of players whom the
service signs in, which notes them. Events are told from outside (quest_events.py), signed with a secret that the quest
gets when it begins to take them. Without a condition, the player's word is enough.

A quest is completed once per period: ever (one_time), once a local day, or once an ISO week, of the
campaign's time zone. The unique row of the completion is what makes it once; the turns are granted by
the statement that writes it. An Idempotency-Key is of its route, so of its quest: one key may complete
two quests (contract.md, "Idempotency-Key").
"""

from __future__ import annotations

from typing import Any, Final

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.idempotency import KeyedRequest, first_answer, keyed
from runtime.errors import Fault, Status, invalid, suspended, unknown, violations
from runtime.events import QuestCompleted, event_of
from runtime.operations import audit, catalog, reading, samples, suspension
from runtime.operations.approvals import policy
from runtime.operations.approvals.pending import Held, id_of_new, may_wait, settle
from runtime.operations.campaigns import campaign_admin as campaigns
from runtime.operations.checks import Checks, given, search_pattern, set_fields
from runtime.operations.quest_times import Period, check_open, period_at
from runtime.operations.row import DESIGNERS, STAFF, Access, Consumer, Operation, RoutePolicy
from runtime.outgoing.signing import make_secret
from runtime.outgoing.vault import quest_context, vault_of
from runtime.settings import Settings
from runtime.wire.enums import enum, token
from runtime.wire.scope import Scoped, merchant_of, player_id_of, tenant_of

_SQL: Final = sql.load("quests")
GET: Final = _SQL["get"]
_CAMPAIGN: Final = sql.load("campaigns")["get"]
_MEET: Final = sql.load("players")["meet"]

SETTABLE: Final = frozenset(
    {"campaign_id", "name", "description", "type", "turns", "status", "start_date", "end_date"}
) | {"condition"}
TURNS_MAX: Final = 1_000_000
COUNT_MAX: Final = 1_000_000_000
DAYS_MAX: Final = 3_660
ATTEMPTS: Final = 4
"""A completion that lost a race looks again: at most once for the rival, a changed quest, a guest that logged in."""


# -- management ------------------------------------------------------------------------------


@may_wait
async def create_quest(engine: Engine, request: m.CreateQuestRequest) -> m.QuestReply:
    """A new quest: a draft unless it says otherwise, one-time unless it says otherwise.

    More turns than DUAL_TURNS_ABOVE wait for a second person: 202 APPROVAL_NEEDED.
    One that takes events is answered with their `secret`, which nobody is told again.
    """

    async def work(connection: asyncpg.Connection) -> tuple[asyncpg.Record, str]:
        return await make(connection, request, engine, settings=engine.settings)

    return m.QuestReply(quest=quest_from_row(*await catalog.change_beside(engine, tenant_of(request), work)))


async def make(
    connection: asyncpg.Connection, request: m.CreateQuestRequest, engine: Engine | None = None, *, settings: Settings
) -> tuple[asyncpg.Record, str]:
    """`create_quest` within a hold of the catalogue; its row, and the secret of its events, which `engine` seals.

    Without it there is none, until one is made for who is to have it.
    """
    tenant_id, quest = tenant_of(request), given(request.quest, "quest")
    quest_id = id_of_new("quest", quest.id)
    _check(quest)
    secret, signing = _new_secret(engine, tenant_id, quest_id, quest, None)
    row = await connection.fetchrow(_SQL["insert"], tenant_id, quest_id, *_stored(quest), merchant_of(request), signing)
    if row is None:
        raise await _not_written(connection, request, quest)
    await audit.record(connection, tenant_id, "quest.create", quest_id, after=dict(row))
    pinned = m.CreateQuestRequest.parse(bytes(request))
    assert pinned.quest is not None
    pinned.quest.id = quest_id
    waits = policy.quest(settings, None, row)
    await settle(connection, waits, lambda: Held(quest_id, {}, dict(row), pinned))
    return row, secret


async def get_quest(engine: Engine, request: m.GetQuestRequest) -> m.QuestReply:
    """A quest, archived or not."""
    return m.QuestReply(quest=quest_from_row(await reading.one(engine, GET, request, "quest")))


async def list_quests(engine: Engine, request: m.ListQuestsRequest) -> m.ListQuestsReply:
    """The tenant's quests, newest first; archived ones only where `status` asks for them."""
    narrowed = (request.campaign_id, token(request.type), token(request.status), search_pattern(request.q))
    filters = (*narrowed, merchant_of(request))
    rows, pagination = await reading.page(engine, _SQL["list"], request, tenant_of(request), *filters)
    return m.ListQuestsReply(items=[quest_from_row(row) for row in rows], pagination=pagination)


@may_wait
async def update_quest(engine: Engine, request: m.UpdateQuestRequest) -> m.QuestReply:
    """Sets the fields that are given. Completions keep the turns that they granted.

    More turns than DUAL_TURNS_ABOVE wait for a second person: 202 APPROVAL_NEEDED.
    One that begins to take events is answered with their `secret`; with the condition, its secret goes.
    """

    async def work(connection: asyncpg.Connection) -> tuple[asyncpg.Record, str]:
        return await alter(connection, request, engine, settings=engine.settings)

    return m.QuestReply(quest=quest_from_row(*await catalog.change_beside(engine, tenant_of(request), work)))


async def alter(
    connection: asyncpg.Connection, request: m.UpdateQuestRequest, engine: Engine | None = None, *, settings: Settings
) -> tuple[asyncpg.Record, str]:
    """`update_quest` within a hold of the catalogue; its row, and a new secret, as `make` has it."""
    tenant_id, update = tenant_of(request), given(request.quest, "quest")
    before = await reading.to_write(connection, GET, request, "quest", request.id)
    quest = quest_from_row(before)
    set_fields(quest, update, request.update_mask, SETTABLE)
    _check(quest)
    secret, signing = _new_secret(engine, tenant_id, request.id, quest, before["condition"])
    named = (merchant_of(request), signing)
    row = await connection.fetchrow(_SQL["update"], tenant_id, request.id, *_stored(quest), *named)
    if row is None:
        raise await _not_written(connection, request, quest)
    await audit.record(connection, tenant_id, "quest.update", request.id, before=dict(before), after=dict(row))
    waits = policy.quest(settings, before, row)
    await settle(connection, waits, lambda: Held(request.id, dict(before), dict(row), rests_on=dict(before)))
    return row, secret


async def delete_quest(engine: Engine, request: m.DeleteRequest) -> m.DeleteReply:
    """Removes a quest that nobody completed; archives one with history."""
    tenant_id = tenant_of(request)

    async def work(connection: asyncpg.Connection) -> bool:
        # Locked before the look: a completion under way is either seen by it, or finds no quest.
        if await connection.fetchval(_SQL["lock"], tenant_id, request.id) is None:
            raise unknown("quest", request.id)
        before = await reading.to_write(connection, GET, request, "quest", request.id)
        archived = await connection.fetchval(_SQL["remove"], tenant_id, request.id) is None
        if archived:
            await connection.execute(_SQL["archive"], tenant_id, request.id)
        await audit.record(
            connection, tenant_id, "quest.archive" if archived else "quest.delete", request.id, before=dict(before)
        )
        return archived

    return m.DeleteReply(id=request.id, archived=await catalog.change_beside(engine, tenant_id, work))


# -- completion ------------------------------------------------------------------------------


async def complete_quest(engine: Engine, request: m.CompleteQuestRequest) -> m.CompleteQuestReply:
    """Grants the quest's turns, once per period.

    A repeated Idempotency-Key answers as the first time, for ever. NOT_FOUND UNKNOWN_QUEST, also where it is archived,
    or it or its campaign is a draft; FAILED_PRECONDITION QUEST_CLOSED (out of its dates, its campaign not open),
    CONDITION_NOT_MET with `have` and `need`; ALREADY_EXISTS ALREADY_COMPLETED with `resets_at`.
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
        check_open(request.id, row, now)
        period = period_at(row["type"], row["timezone"], now)
        if period.name in (row["periods"] or ()):
            raise _completed(request.id, period)
        if row["condition"] is not None:
            await _check_condition(engine, request, row, period)
        if (granted := await _grant(engine, request, row, period, asked)) is not None:
            _tell(engine, request, row, period, granted)
            return _reply(request, granted["turns"], granted["balance_after"])
    raise Fault(Status.UNAVAILABLE, "OVERLOADED", "the quest is changing; try again", retry_after_seconds=1)


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
            row["condition"],
            _counts_since(row, period),
        )
    except asyncpg.UniqueViolationError:
        return None


def _counts_since(row: asyncpg.Record, period: Period) -> int:
    """Since when what a player does counts for the quest's condition, in unix seconds; 0: ever."""
    return max(period.begins, int(row["start_date"]))


async def _check_condition(
    engine: Engine, request: m.CompleteQuestRequest, row: asyncpg.Record, period: Period
) -> None:
    """CONDITION_NOT_MET with `have` and `need`. The statement that grants judges: this says why it would not."""
    about = (tenant_of(request), request.player_id, [request.id], [_counts_since(row, period)])
    found = await engine.database.fetchrow(_SQL["progress"], *about)
    if found is not None and found["have"] < found["need"]:
        have, need = found["have"], found["need"]
        message = f"quest {request.id} takes {need} {row['condition']['kind']}: there are {have}"
        raise Fault(Status.FAILED_PRECONDITION, "CONDITION_NOT_MET", message, have=have, need=need)


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


async def list_quest_progress(engine: Engine, request: m.ListQuestProgressRequest) -> m.ListQuestProgressReply:
    """The active quests, each with how far the player is with it, and whether it is completed for now."""
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
        done = period.name in (row["periods"] or ())
        one = m.QuestProgress(quest_id=row["id"], campaign_id=row["campaign_id"], have=min(have, need), need=need)
        one.completed, one.available_at = done, period.resets_at if done else 0
        items.append(one)
    return m.ListQuestProgressReply(items=items, pagination=pagination)


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
    if (condition := quest.condition) is not None and condition.kind:
        _check_condition_itself(checks, quest, condition)
    elif condition:
        checks.problem("condition.kind", "is required, unless the condition is empty: then the player's word is enough")
    return checks.found


def _check_condition_itself(checks: Checks, quest: m.Quest, condition: m.QuestCondition) -> None:
    most = COUNT_MAX
    if condition.kind is m.QuestConditionKind.LOGINS:
        most = 7 if quest.type is m.QuestType.WEEKLY else DAYS_MAX
        if quest.type is m.QuestType.DAILY:
            checks.problem("condition.kind", "counts days, of which a daily quest has one: must be another")
        if condition.game_id:
            checks.problem("condition.game_id", "must be empty: logins are of no game")
    if condition.kind is m.QuestConditionKind.EVENT and condition.game_id:
        checks.problem("condition.game_id", "must be empty: events are of no game")
    checks.between("condition.count", condition.count, 1, most)


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
        _condition(quest),
    )


def _condition(quest: m.Quest) -> dict[str, Any] | None:
    condition = quest.condition
    if condition is None or not condition.kind:
        return None
    return {"kind": token(condition.kind), "count": condition.count, "game_id": condition.game_id}


def _new_secret(
    engine: Engine | None, tenant_id: str, quest_id: str, quest: m.Quest, before: dict[str, Any] | None
) -> tuple[str, dict[str, str] | None]:
    """A secret for a quest that begins to take events, where its condition was `before`, and what is stored of it."""
    takes = quest.condition is not None and quest.condition.kind is m.QuestConditionKind.EVENT
    if engine is None or not takes or (before or {}).get("kind") == "event":
        return "", None
    secret = make_secret()
    return secret, {"secret": vault_of(engine.keyring.code).seal_secret(secret, quest_context(tenant_id, quest_id))}


async def _not_written(connection: asyncpg.Connection, request: Scoped, quest: m.Quest) -> Fault:
    refusal = await campaigns.not_to_write(connection, request, quest.campaign_id)
    if quest.condition and quest.condition.game_id and refusal.status is Status.NOT_FOUND:
        campaign = await connection.fetchrow(
            _CAMPAIGN, tenant_of(request), quest.campaign_id, merchant_of(request), True
        )
        if campaign is not None:
            named = quest.condition.game_id
            return invalid("condition.game_id", f"there is no game {named!r} in campaign {quest.campaign_id!r}")
    return refusal


def quest_from_row(row: asyncpg.Record, secret: str = "") -> m.Quest:
    """The message of a row, with its secret where that was made just now."""
    held = row["condition"]
    condition = m.QuestCondition(**{**held, "kind": enum(m.QuestConditionKind, held["kind"])}) if held else None
    known = {"type": enum(m.QuestType, row["type"]), "status": enum(m.QuestStatus, row["status"])}
    return m.Quest(**{**row, **known, "condition": condition, "secret": secret})


# -- rows ------------------------------------------------------------------------------------


ROWS: Final = (
    Operation(
        "CreateQuest",
        "POST /quests",
        run=create_quest,
        resource="quest",
        admin=DESIGNERS,
        stales=True,
        refusals=("UNKNOWN_CAMPAIGN", "APPROVAL_NEEDED"),
        example={
            "campaign_id": samples.CAMPAIGN,
            "name": "Visit the stall",
            "description": "By the fountain",
            "type": "QUEST_TYPE_DAILY",
            "turns": 3,
            "status": "QUEST_STATUS_ACTIVE",
            "start_date": samples.EARLIER,
            "condition": {"kind": "QUEST_CONDITION_KIND_PLAYS", "count": 3},
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
        refusals=("UNKNOWN_CAMPAIGN", "APPROVAL_NEEDED"),
        example={"turns": 5},
    ),
    Operation("DeleteQuest", "DELETE /quests/{id}", run=delete_quest, admin=DESIGNERS, stales=True),
    Operation(
        "CompleteQuest",
        "POST /quests/{id}/complete",
        run=complete_quest,
        consumer=Consumer(Access.PLAYER, RoutePolicy.ACT),
        refusals=(
            "ALREADY_COMPLETED",
            "CONDITION_NOT_MET",
            "QUEST_CLOSED",
            "CAMPAIGN_CLOSED",
            "PLAYER_MERGED",
            "UNKNOWN_TENANT",
        ),
        example={},
    ),
    Operation("ListTurns", "GET /players/me/turns", run=list_turns, consumer=Consumer(Access.PLAYER)),
    Operation("ListQuestProgress", "GET /players/me/quests", run=list_quest_progress, consumer=Consumer(Access.PLAYER)),
)
