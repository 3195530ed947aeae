"""What must be true of a crowd's tenant whenever nobody is asking: the invariants, and that what it was told is so."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from tests.model.caps import broken_caps
from tests.model.crowd import PLAYERS
from tests.model.erased import left_behind, may_be_erased
from tests.model.staff import broken_by_staff, parts
from tests.model.tenant import WORKER, Tenant
from tests.support import invariants
from tests.support.receiver import Receiver
from tests.support.two_cores import Patient

KEYED = (("Play", "plays"), ("Redeem", "milestone_grants"), ("CompleteQuest", "quest_completions"))
"""Operations whose key is written down with their effect, and where."""


async def problems(tenant: Tenant) -> list[str]:
    """What is not as it must be, in words; at a moment at which everything was answered."""
    database = Patient(tenant.stage.cores[WORKER].engine.database)
    found = [f"{holds}: {rows}" for holds, rows in (await invariants.broken(database, tenant.tenant_id)).items()]
    for operation, table in KEYED:
        rows = await database.fetch(
            f"SELECT idempotency_key AS key FROM {table} WHERE tenant_id = $1 AND idempotency_key <> ''",
            tenant.tenant_id,
        )
        found += _effects(tenant, operation, Counter(row["key"] for row in rows))
    entries = await database.fetch(
        "SELECT reference_id FROM ledger_entries WHERE tenant_id = $1 AND reason = 'adjustment'", tenant.tenant_id
    )
    found += _effects(tenant, "AdjustBalance", Counter(row["reference_id"] for row in entries))
    moves = await database.fetch(
        "SELECT reason FROM stock_moves WHERE tenant_id = $1 AND reason <> ''", tenant.tenant_id
    )
    found += _effects(tenant, "MoveStock", Counter(row["reason"] for row in moves))
    given = await database.fetch(
        "SELECT after ->> 'why' AS why FROM audit_entries WHERE tenant_id = $1 AND action = 'player.grant_turns'",
        tenant.tenant_id,
    )
    found += _effects(tenant, "GrantTurns", Counter(row["why"] for row in given))
    found += await broken_by_staff(tenant, database)
    found += await broken_caps(tenant, database)
    rewards = await database.fetch(
        "SELECT reward_id, status, claimed_at FROM rewards WHERE tenant_id = $1", tenant.tenant_id
    )
    found += _moves(tenant, {row["reward_id"]: row for row in rewards})
    return [*found, *_once(tenant), *_standings(tenant)]


def _effects(tenant: Tenant, operation: str, stored: Counter[str]) -> Iterator[str]:
    """Each key that was answered has one effect, and no other has any."""
    done = {attempt.key: attempt for attempt in tenant.history.of(operation)}
    yield from (f"{operation} of {key} is there {times} times" for key, times in stored.items() if times > 1)
    yield from (f"{operation} of {key} is there, and was refused" for key in stored.keys() - done.keys())
    for key in done.keys() - stored.keys():
        # What a guest did that its player had done before is surplus, which a merge may drop; an erasure takes keys.
        of_player = done[key].fields.get("player_id") in PLAYERS and not may_be_erased(tenant, done[key])
        if done[key].act.who == "staff" or of_player:
            yield f"{operation} was answered and is not there: {done[key]}"


def _moves(tenant: Tenant, rewards: dict[str, Any]) -> Iterator[str]:
    """What was said of a reward is so: a claim is for ever, and so is the end of one that was revoked."""
    for attempt in tenant.history.of("ClaimReward"):
        if rewards[attempt.fields["id"]]["claimed_at"] is None:
            yield f"not claimed: {attempt}"
    for reward_id, attempt in parts(tenant, "RevokeReward"):
        if rewards[reward_id]["status"] != "revoked":
            yield f"not revoked: {reward_id} by {attempt}"
    for reward_id, attempt in parts(tenant, "FulfillReward"):
        if rewards[reward_id]["status"] not in ("fulfilled", "revoked"):
            yield f"not fulfilled: {reward_id} by {attempt}"


def _once(tenant: Tenant) -> Iterator[str]:
    """What can be done once was done under one key."""
    keys: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    for operation in ("ClaimReward", "RevokeReward", "FulfillReward"):
        for reward_id, attempt in parts(tenant, operation):
            keys[operation, reward_id].add(attempt.key)
    for attempt in tenant.history.of("Play"):
        keys["Play", attempt.fields["session_id"]].add(attempt.key)
    for attempt in tenant.history.of("Redeem"):
        if attempt.act.who in PLAYERS:
            keys["Redeem", attempt.act.who, attempt.fields["id"], attempt.fields["milestone_id"]].add(attempt.key)
    for attempt in tenant.history.of("CompleteQuest"):
        if attempt.act.who in PLAYERS and attempt.fields["id"] == tenant.ids["quest once"]:
            keys["CompleteQuest", attempt.act.who].add(attempt.key)
    yield from (f"{what} was done under {sorted(under)}" for what, under in keys.items() if len(under) > 1)


def _standings(tenant: Tenant) -> Iterator[str]:
    """A board is finalized as one thing, whoever asks. Who a guest was may be another by then."""
    told: dict[str, set[tuple[Any, ...]]] = defaultdict(set)
    for attempt in tenant.history.of("FinalizeLeaderboard"):
        ranks = tuple((row.rank, row.score, row.prize_id) for row in attempt.reply.standings)
        told[attempt.fields["id"]].add(ranks)
    yield from (f"board {board_id} was told as {ways}" for board_id, ways in told.items() if len(ways) > 1)


async def in_the_end(tenant: Tenant, receiver: Receiver) -> list[str]:
    """What was delivered was sent, nothing was sent that is not to be delivered, and who was erased is gone."""
    database = Patient(tenant.stage.cores[WORKER].engine.database)
    rows = await database.fetch(
        "SELECT task_id, reward_id, status, channel FROM tasks WHERE tenant_id = $1", tenant.tenant_id
    )
    events = [got.json for got in receiver.all]
    sent = {
        event["id"]
        for event in events
        if event["type"] == "fulfillment.requested" and event["tenant_id"] == tenant.tenant_id
    }
    carried = {row["task_id"] for row in rows if row["channel"] in ("webhook", "workflow")}
    by_hand = {reward_id for reward_id, _ in parts(tenant, "FulfillReward")}
    delivered = {
        row["task_id"]
        for row in rows
        if row["channel"] == "webhook" and row["status"] == "delivered" and row["reward_id"] not in by_hand
    }
    found = [f"{task_id} was sent, and is no task" for task_id in sent - carried]
    found += [f"{task_id} is delivered, and was never sent" for task_id in delivered - sent]
    return found + await left_behind(tenant, database)
