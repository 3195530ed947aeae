"""What must be true of what staff does to players, to their rewards and to stock: each answer has its own effect."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from runtime.errors import Status
from runtime.http.docs.refusals import REFUSALS, reasons_of
from runtime.operations import BY_NAME
from tests.model.caps import owner_of
from tests.model.crowd import STOCKED, Attempt
from tests.model.tenant import NEVER, Tenant
from tests.support.invariants import Reads

BULK: Final = {"RevokeReward": "revoke", "FulfillReward": "fulfill"}
"""What of a bulk is the same as an operation of its own."""
SINGLE: Final = {**{act: operation for operation, act in BULK.items()}, "retry": "RetryTask"}


def parts(tenant: Tenant, operation: str) -> Iterator[tuple[str, Attempt]]:
    """The rewards of which an operation was done, by itself or in bulk."""
    yield from ((attempt.fields["id"], attempt) for attempt in tenant.history.of(operation))
    for attempt in tenant.history.of("BulkRewards"):
        if attempt.fields["act"] == BULK.get(operation):
            yield from ((part.id, attempt) for part in attempt.reply.results if part.ok)


async def broken_by_staff(tenant: Tenant, database: Reads) -> list[str]:
    async def read(query: str) -> list[Any]:
        return await database.fetch(query, tenant.tenant_id)

    became = {
        row["player_id"]: row["merged_into"]
        for row in await read("SELECT player_id, merged_into FROM players WHERE tenant_id = $1")
    }
    found = [*_merged(tenant, became), *_unknown(tenant), *_parts(tenant), *_repeated(tenant)]
    plays = await read("SELECT play_id, player_id FROM plays WHERE tenant_id = $1")
    rewards = await read("SELECT reward_id, player_id FROM rewards WHERE tenant_id = $1")
    found += _whose(tenant, became, {row["play_id"]: row["player_id"] for row in plays}, rewards)
    # Of quests that both have completed: else a guest that is a player has no turns left.
    kept = await read(
        "SELECT player_id, balance, coalesce((SELECT sum(q.turns) FROM quest_completions AS q"
        " WHERE q.tenant_id = $1 AND q.player_id = t.player_id), 0) AS kept FROM turn_balances AS t"
        " WHERE tenant_id = $1"
    )
    found += [
        f"left with a guest: {row}" for row in kept if became.get(row["player_id"]) and row["balance"] > row["kept"]
    ]
    given = await read(
        "SELECT entry_id, amount FROM turn_entries WHERE tenant_id = $1 AND reason = 'adjustment' ORDER BY 1"
    )
    told = {attempt.reply.entry.id: attempt.fields["amount"] for attempt in tenant.history.of("GrantTurns")}
    if {row["entry_id"]: row["amount"] for row in given} != told:
        found.append(f"turns were given as {told}, and there are {given}")
    noted = await read(
        "SELECT action, subject_id FROM audit_entries WHERE tenant_id = $1"
        " AND action IN ('reward.revoke', 'reward.fulfill')"
    )
    found += _noted(tenant, Counter((row["action"], row["subject_id"]) for row in noted))
    moves = await read(
        "SELECT prize_id, reason, total_before, total_after FROM stock_moves"
        " WHERE tenant_id = $1 ORDER BY prize_id, seq"
    )
    return [*found, *_moved(tenant, moves)]


def _merged(tenant: Tenant, became: Mapping[str, str | None]) -> Iterator[str]:
    """A guest is whose it was said to be, once, and nobody's whom nobody asked for."""
    asked, times = set(), Counter[str]()
    for attempt in tenant.history.of("ResolvePlayer"):
        if attempt.reply.guest_merged:
            asked.add((attempt.fields["guest_player_id"], attempt.reply.player.id))
    for attempt in tenant.history.asked("MergePlayer"):
        guest_id, player_id = attempt.fields["guest_id"], attempt.fields["id"]
        if not attempt.fields["preview"]:
            asked.add((guest_id, player_id))
        if attempt.ok and attempt.reply.merged:
            times[guest_id] += 1
            if became[guest_id] != player_id:
                yield f"{guest_id} is {became[guest_id]}: {attempt}"
        if attempt.outcome == "ILLEGAL_TRANSITION" and not became[guest_id]:
            yield f"{guest_id} is a guest still: {attempt}"
    yield from (f"{guest_id} was merged {often} times" for guest_id, often in times.items() if often > 1)
    yield from (f"nobody made {pair}" for pair in became.items() if pair[1] and pair not in asked)


def _unknown(tenant: Tenant) -> Iterator[str]:
    """Nobody is unknown who has played."""
    first: dict[str, int] = {}
    for attempt in tenant.history.of("Play"):
        owner = owner_of(attempt.fields["session_id"])
        first[owner] = min(first.get(owner, attempt.ended), attempt.ended)
    for attempt in tenant.history.asked("GrantTurns", "MergePlayer", "ErasePlayer", "SetPlayerStatus"):
        named = [attempt.fields[name] for name in ("id", "guest_id") if name in attempt.fields]
        known = all(first.get(who, attempt.ended) < attempt.began for who in named)
        if attempt.outcome == "UNKNOWN_PLAYER" and known:
            yield f"had played: {attempt}"


def _parts(tenant: Tenant) -> Iterator[str]:
    """What is refused in bulk is so for a reason that its operation has by itself."""
    for attempt in tenant.history.of("BulkRewards"):
        if [part.id for part in attempt.reply.results] != attempt.fields["ids"]:
            yield f"not all were answered: {attempt}"
        known = {"", *reasons_of(BY_NAME[SINGLE[attempt.fields["act"]]]), "UNKNOWN_REWARD"} - NEVER - {"UNKNOWN_TASK"}
        for part in attempt.reply.results:
            if part.reason not in known or part.ok != (not part.reason):
                yield f"{part} of {attempt}"


def _repeated(tenant: Tenant) -> Iterator[str]:
    """What was revoked under a key is revoked for whoever asks under that key: nothing else made it so before."""
    done = {(attempt.key, reward_id) for reward_id, attempt in parts(tenant, "RevokeReward")}
    refused = [
        (attempt.key, attempt.fields["id"], attempt)
        for attempt in tenant.history.asked("RevokeReward")
        if attempt.outcome == "ILLEGAL_TRANSITION"
    ]
    refused += [
        (attempt.key, part.id, attempt)
        for attempt in tenant.history.of("BulkRewards")
        for part in attempt.reply.results
        if attempt.fields["act"] == "revoke" and part.reason == "ILLEGAL_TRANSITION"
    ]
    for key, reward_id, attempt in refused:
        if (key, reward_id) in done:
            yield f"{reward_id} was revoked under {key}, and refused: {attempt}"


def _whose(
    tenant: Tenant, became: Mapping[str, str | None], plays: Mapping[str, str], rewards: list[Any]
) -> Iterator[str]:
    """A play is whose session it was, or the player's that became of it, and so is what it won: but for surplus."""
    owners = {row["reward_id"]: row["player_id"] for row in rewards}
    for attempt in tenant.history.of("Play"):
        owner = owner_of(attempt.fields["session_id"])
        now = became[owner] or owner
        if plays.get(attempt.reply.play_id) != now:
            yield f"a play of {plays.get(attempt.reply.play_id)}, not {now}: {attempt}"
        for reward in attempt.reply.rewards:
            if reward.reward_id and owners.get(reward.reward_id) not in (owner, now):
                yield f"won for {owners.get(reward.reward_id)}, not {now}: {attempt}"


def _noted(tenant: Tenant, noted: Counter[tuple[str, str]]) -> Iterator[str]:
    """What was done to a reward is done once, as staff's log has it, and nothing else is."""
    done = {(f"reward.{act}", reward_id) for name, act in BULK.items() for reward_id, _ in parts(tenant, name)}
    # A part whose answer was lost may have been done.
    lost = {
        (f"reward.{attempt.fields['act']}", part.id)
        for attempt in tenant.history.of("BulkRewards")
        for part in attempt.reply.results
        if part.reason and REFUSALS[part.reason].status is Status.UNAVAILABLE
    }
    yield from (f"{what} was done {often} times" for what, often in noted.items() if often > 1)
    yield from (f"{what} was done, and refused" for what in noted.keys() - done - lost)
    yield from (f"{what} was answered, and not done" for what in done - noted.keys())


def _moved(tenant: Tenant, moves: list[Any]) -> Iterator[str]:
    """Each move is by as many as were asked for; the first begins with what there was."""
    asked = {attempt.key: attempt.fields for attempt in tenant.history.of("MoveStock")}
    of_prize = defaultdict(list)
    for move in moves:
        of_prize[move["prize_id"]].append(move)
        fields = asked.get(move["reason"], {})
        if move["total_after"] != fields.get("total", move["total_after"]):
            yield f"{fields} was done as {move}"
        if move["total_after"] - move["total_before"] != fields.get(
            "change", move["total_after"] - move["total_before"]
        ):
            yield f"{fields} was done as {move}"
    for name in STOCKED:
        for move in of_prize[tenant.ids[name]][:1]:
            if move["total_before"] != tenant.world[name]:
                yield f"there were {tenant.world[name]} of {name}: {move}"
