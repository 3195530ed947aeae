"""Quest management for staff. Completion: completion.py.

A quest that starts to accept events (events.py) gets a secret, shown only in that reply.
"""

from __future__ import annotations

from typing import Any, Final

import asyncpg

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, invalid, unknown, violations
from runtime.operations import audit, catalog, reading
from runtime.operations.approvals import policy
from runtime.operations.approvals.pending import NeedsApproval, id_of_new, may_need_approval, pinned_id, settle
from runtime.operations.campaigns import campaign_admin as campaigns
from runtime.operations.checks import Checks, provided, refuse_read_only, search_pattern, set_fields
from runtime.outgoing.signing import make_secret
from runtime.outgoing.vault import quest_context, vault_of
from runtime.settings import Settings
from runtime.wire.enums import enum, token
from runtime.wire.scope import Scoped, merchant_of, tenant_of

_SQL: Final = sql.load("quests")
GET: Final = _SQL["get"]
_CAMPAIGN: Final = sql.load("campaigns")["get"]

SETTABLE: Final = frozenset(
    {"campaign_id", "name", "description", "type", "turns", "status", "start_date", "end_date"}
) | {"condition"}
TURNS_MAX: Final = 1_000_000
COUNT_MAX: Final = 1_000_000_000
DAYS_MAX: Final = 3_660
REFERRALS: Final = 10
"""How many referrals a quest without a count pays to a player."""
REFERRALS_MAX: Final = 1_000


# -- management ------------------------------------------------------------------------------


@may_need_approval
async def create_quest(engine: Engine, request: m.CreateQuestRequest) -> m.QuestReply:
    """Creates a quest. Defaults: draft, one-time.

    More turns than DUAL_TURNS_ABOVE need approval by a second person: 202 APPROVAL_NEEDED.
    For a quest that accepts events, the reply has their `secret`, which is never shown again.
    """

    async def work(connection: asyncpg.Connection) -> m.QuestReply:
        return m.QuestReply(quest=quest_from_row(*await make(connection, request, engine, settings=engine.settings)))

    return await catalog.create_dependent(engine, request, m.QuestReply, work)


async def make(
    connection: asyncpg.Connection, request: m.CreateQuestRequest, engine: Engine | None = None, *, settings: Settings
) -> tuple[asyncpg.Record, str]:
    """Creates a quest in the caller's transaction, which holds the catalogue lock.

    Returns the quest's row and the secret of its events, whose stored copy `engine` encrypts. Without `engine` no
    secret is created (''); a later rotation creates one.
    """
    tenant_id, quest = tenant_of(request), provided(request.quest, "quest")
    refuse_read_only(quest, m.Quest(id=pinned_id(quest.id)))
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
    await settle(connection, waits, lambda: NeedsApproval(quest_id, before={}, after=dict(row), pinned=pinned))
    return row, secret


async def get_quest(engine: Engine, request: m.GetQuestRequest) -> m.QuestReply:
    """One quest, archived or not."""
    return m.QuestReply(quest=quest_from_row(await reading.one(engine, GET, request, "quest")))


async def list_quests(engine: Engine, request: m.ListQuestsRequest) -> m.ListQuestsReply:
    """The tenant's quests, newest first. Archived quests only if `status` asks for them."""
    narrowed = (request.campaign_id, token(request.type), token(request.status), search_pattern(request.q))
    filters = (*narrowed, merchant_of(request))
    rows, pagination = await reading.page(engine, _SQL["list"], request, tenant_of(request), *filters)
    return m.ListQuestsReply(items=[quest_from_row(row) for row in rows], pagination=pagination)


@may_need_approval
async def update_quest(engine: Engine, request: m.UpdateQuestRequest) -> m.QuestReply:
    """Sets the fields of the request. Completions keep the turns that they granted.

    More turns than DUAL_TURNS_ABOVE need approval by a second person: 202 APPROVAL_NEEDED. FAILED_PRECONDITION
    HAS_HISTORY if a completed quest would move to another campaign: a merge would grant its turns in both.
    If the quest starts to accept events, the reply has their `secret`. Removing the condition deletes the secret.
    """

    async def work(connection: asyncpg.Connection) -> tuple[asyncpg.Record, str]:
        return await alter(connection, request, engine, settings=engine.settings)

    return m.QuestReply(quest=quest_from_row(*await catalog.change_dependent(engine, tenant_of(request), work)))


async def alter(
    connection: asyncpg.Connection, request: m.UpdateQuestRequest, engine: Engine | None = None, *, settings: Settings
) -> tuple[asyncpg.Record, str]:
    """Updates a quest in the caller's transaction, which holds the catalogue lock.

    Returns the quest's row, and as in `make` the secret of a quest that starts to accept events.
    """
    tenant_id, update = tenant_of(request), provided(request.quest, "quest")
    before = await reading.for_update(connection, GET, request, "quest", request.id)
    quest = quest_from_row(before)
    set_fields(quest, update, request.update_mask, SETTABLE)
    _check(quest)
    if quest.campaign_id != before["campaign_id"]:
        await _refuse_completed(connection, tenant_id, quest)
    secret, signing = _new_secret(engine, tenant_id, request.id, quest, before["condition"])
    named = (merchant_of(request), signing)
    row = await connection.fetchrow(_SQL["update"], tenant_id, request.id, *_stored(quest), *named)
    if row is None:
        raise await _not_written(connection, request, quest)
    await audit.record(connection, tenant_id, "quest.update", request.id, before=dict(before), after=dict(row))
    waits = policy.quest(settings, before, row)
    approval = NeedsApproval(request.id, before=dict(before), after=dict(row), rests_on=dict(before))
    await settle(connection, waits, lambda: approval)
    return row, secret


async def _refuse_completed(connection: asyncpg.Connection, tenant_id: str, quest: m.Quest) -> None:
    # Lock first, as in `delete_quest`: it waits for a completion under way.
    await connection.fetchval(_SQL["lock"], tenant_id, quest.id)
    if await connection.fetchval(_SQL["has_completions"], tenant_id, quest.id):
        why, instead = "players have completed it", "create another quest"
        raise catalog.has_history("quest", quest.name, "campaign_id", why, instead=instead)


async def delete_quest(engine: Engine, request: m.DeleteRequest) -> m.DeleteReply:
    """Deletes a quest without history; archives any other."""
    tenant_id = tenant_of(request)

    async def work(connection: asyncpg.Connection) -> bool:
        # Lock first: a concurrent completion is then either visible to `remove`, or finds no quest.
        if await connection.fetchval(_SQL["lock"], tenant_id, request.id) is None:
            raise unknown("quest", request.id)
        before = await reading.for_update(connection, GET, request, "quest", request.id)
        archived = await connection.fetchval(_SQL["remove"], tenant_id, request.id) is None
        if archived:
            await connection.execute(_SQL["archive"], tenant_id, request.id)
        await audit.record(
            connection, tenant_id, "quest.archive" if archived else "quest.delete", request.id, before=dict(before)
        )
        return archived

    return m.DeleteReply(id=request.id, archived=await catalog.change_dependent(engine, tenant_id, work))


# -- messages --------------------------------------------------------------------------------


def problems(quest: m.Quest) -> list[tuple[str, str]]:
    """(field, description) of each problem of a quest. References are not checked."""
    if (given := quest.condition) is not None and given.kind is m.QuestConditionKind.REFERRALS:
        given.count = given.count or REFERRALS
    checks = Checks()
    checks.required("name", quest.name)
    checks.required("campaign_id", quest.campaign_id)
    checks.between("turns", quest.turns, 0, TURNS_MAX)
    checks.times(quest.start_date, quest.end_date)
    if (condition := quest.condition) is not None and condition.kind:
        _check_condition_itself(checks, quest, condition)
    elif condition:
        checks.problem("condition.kind", "is required, unless the condition is empty")
    return checks.found


def _check_condition_itself(checks: Checks, quest: m.Quest, condition: m.QuestCondition) -> None:
    most = COUNT_MAX
    if condition.kind is m.QuestConditionKind.LOGINS:
        most = 7 if quest.type is m.QuestType.WEEKLY else DAYS_MAX
        if quest.type is m.QuestType.DAILY:
            checks.problem("condition.kind", "must not be LOGINS for a daily quest, since it counts days")
        if condition.game_id:
            checks.problem("condition.game_id", "must be empty: logins do not belong to a game")
    if condition.kind is m.QuestConditionKind.REFERRALS:
        most = REFERRALS_MAX
        if quest.type not in (m.QuestType.ONE_TIME, m.QuestType.UNSPECIFIED):
            checks.problem("type", "must be ONE_TIME for a quest that pays for referrals: it pays once for each")
    if condition.kind is m.QuestConditionKind.EVENT and condition.game_id:
        checks.problem("condition.game_id", "must be empty: events do not belong to a game")
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
    """(secret, its stored form) for a quest that starts to accept events; `before` is its old condition."""
    takes = quest.condition is not None and quest.condition.kind is m.QuestConditionKind.EVENT
    if engine is None or not takes or (before or {}).get("kind") == "event":
        return "", None
    secret = make_secret()
    return secret, {"secret": vault_of(engine.keyring.code).seal_secret(secret, quest_context(tenant_id, quest_id))}


async def _not_written(connection: asyncpg.Connection, request: Scoped, quest: m.Quest) -> Fault:
    refusal = await campaigns.write_refusal(connection, request, quest.campaign_id)
    if quest.condition and quest.condition.game_id and refusal.status is Status.NOT_FOUND:
        campaign = await connection.fetchrow(
            _CAMPAIGN, tenant_of(request), quest.campaign_id, merchant_of(request), True
        )
        if campaign is not None:
            named = quest.condition.game_id
            return invalid("condition.game_id", f"there is no game {named!r} in campaign {quest.campaign_id!r}")
    return refusal


def quest_from_row(row: asyncpg.Record, secret: str = "") -> m.Quest:
    """The message for a row, with its secret if it was just created."""
    return m.Quest(**_fields(row), secret=secret)


def public_quest(row: asyncpg.Record) -> m.PublicQuest:
    """The message for a row, without staff-only fields."""
    return m.PublicQuest(**_fields(row))


def _fields(row: asyncpg.Record) -> dict[str, Any]:
    stored = row["condition"]
    condition = m.QuestCondition(**{**stored, "kind": enum(m.QuestConditionKind, stored["kind"])}) if stored else None
    known = {"type": enum(m.QuestType, row["type"]), "status": enum(m.QuestStatus, row["status"])}
    return {**row, **known, "condition": condition}
