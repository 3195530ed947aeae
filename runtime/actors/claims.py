"""Claims: players take what they won.

A tenant's claims wait in one mailbox, and a batch commits all that wait in one statement
(sql/claims.sql). The statement decides: it says of each claim whether it was done, or why not. So
claims made elsewhere at the same moment are as safe as those of one batch. It is committed once every code that it
delivers has been opened: a claim whose code no key opens is undone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import asyncpg

import sql
from runtime import events, ids
from runtime import messages as m
from runtime.actors import answers
from runtime.actors.engine import Actors, Engine
from runtime.actors.idempotency import Replay, mismatch
from runtime.actors.mailbox import Work
from runtime.actors.rewards import CodeUnavailable, for_owner, illegal, open_code, out_of_stock
from runtime.errors import Fault, Status, invalid, suspended, unknown
from runtime.metrics import FULFILLMENT_TASKS
from runtime.outgoing.channels import CHANNELS
from runtime.wire.enums import enum
from runtime.wire.scope import tenant_of

CLAIM: Final = sql.load("claims")["claim"]
AS_CLAIMED: Final = sql.load("rewards")["as_claimed"]

MERGED: Final = sql.load("players")["merged"]


class Claimer(NamedTuple):
    """The actor of one tenant's claims. It remembers nothing: what is true is in the rows."""

    engine: Engine
    tenant_id: str


class ClaimActors(Actors[str, m.ClaimRewardRequest, Claimer]):
    """The claims of each tenant, committed together."""

    @staticmethod
    def key_of(request: m.ClaimRewardRequest) -> str:
        return tenant_of(request)

    def new_state(self, key: str) -> Claimer:
        return Claimer(self.engine, key)

    async def process_batch(self, state: Claimer, works: list[Work[m.ClaimRewardRequest]]) -> None:
        """Answers every claim that waits: a reward of the caller's, or the reason why not.

        The claims of one statement are of different rewards; others wait for the next.
        """
        waiting = _groups(works)
        while waiting:
            together, waiting = _disjoint(waiting)
            await _claim_together(state, together)


Group = list[Work[m.ClaimRewardRequest]]
"""The same claim several times over: one is put to the database, the others are answered by its outcome."""

Told = tuple[Group, Any]
"""A claim, and its row of sql/claims.sql."""


def _groups(works: Sequence[Work[m.ClaimRewardRequest]]) -> list[Group]:
    groups: dict[tuple[str, str, str, frozenset[tuple[str, str]]], Group] = {}
    for work in works:
        request = work.request
        if not request.player_id:
            work.refuse(invalid("player_id", "is required"))
        else:
            try:
                request.answers = answers.read(request.answers)
            except Fault as fault:
                work.refuse(fault)
                continue
            said = frozenset(request.answers.items())
            groups.setdefault((request.id, request.player_id, request.idempotency_key, said), []).append(work)
    return list(groups.values())


def _disjoint(groups: list[Group]) -> tuple[list[Group], list[Group]]:
    """(groups that share no reward, in the order of their rewards; the rest)."""
    together: list[Group] = []
    rest: list[Group] = []
    seen: set[str] = set()
    for group in groups:
        reward_id = group[0].request.id
        (rest if reward_id in seen else together).append(group)
        seen.add(reward_id)
    return sorted(together, key=lambda group: group[0].request.id), rest


async def _claim_together(claimer: Claimer, groups: list[Group]) -> None:
    try:
        rows = await _write(claimer, [group[0].request for group in groups])
    except (asyncpg.PostgresError, CodeUnavailable) as error:
        # One of them spoiled it for all, and all was undone: each alone, so that only that one suffers.
        if len(groups) > 1:
            for group in groups:
                await _claim_together(claimer, [group])
            return
        for work in groups[0]:
            work.refuse(error)
        return
    # It is committed: whatever fails from here on, it is told of and answered.
    _publish(claimer, {row["reward_id"]: group[0].trace_id for group, row in zip(groups, rows, strict=True)}, rows)
    replayed: list[Told] = []
    missed: list[Told] = []
    for group, row in zip(groups, rows, strict=True):
        match row["outcome"]:
            case "replayed":
                replayed.append((group, row))
            case "unknown":
                missed.append((group, row))
            case _:
                _answer(claimer, group, row, None)
    if replayed:
        await _answer_replayed(claimer, replayed)
    if missed:
        await _follow_merged(claimer, missed)


async def _answer_replayed(claimer: Claimer, replayed: list[Told]) -> None:
    """Answers claims that were done before as they were answered then. Only these suffer where that cannot be read.

    IDEMPOTENCY_MISMATCH for one that gives other answers than that.
    """
    try:
        rewards = [row["reward_id"] for _, row in replayed]
        rows = await claimer.engine.database.fetch(AS_CLAIMED, claimer.tenant_id, rewards)
    except (Fault, asyncpg.PostgresError) as error:
        _refuse(replayed, error)
        return
    first = {row["reward_id"]: row for row in rows}
    for group, row in replayed:
        then = first.get(row["reward_id"])
        if then is not None and then["given"] != group[0].request.answers:
            _refuse([(group, row)], mismatch())
        else:
            _answer(claimer, group, row, then)


async def _follow_merged(claimer: Claimer, missed: list[Told]) -> None:
    """Claims of guests that have logged in, once more as the players whom they have become. Only these suffer.

    Asked for what seems to be nobody's alone: a merge moves the reward, before the claim or while it waits.
    """
    try:
        guests = [group[0].request.player_id for group, _ in missed]
        found = await claimer.engine.database.fetch(MERGED, claimer.tenant_id, guests)
        players = {row["player_id"]: row["merged_into"] for row in found}
        for group, row in missed:
            if (player_id := players.get(group[0].request.player_id)) is None:
                _answer(claimer, group, row, None)
                continue
            for work in group:
                work.request.player_id = player_id
            await _claim_together(claimer, [group])
    except (Fault, asyncpg.PostgresError) as error:
        _refuse(missed, error)


def _refuse(told: list[Told], error: Exception) -> None:
    """Refuses what is not answered yet."""
    for group, _ in told:
        for work in group:
            work.refuse(error)


async def _write(claimer: Claimer, requests: Sequence[m.ClaimRewardRequest]) -> list[asyncpg.Record]:
    """One row of sql/claims.sql for each request, committed. CodeUnavailable: nothing was."""
    arguments = (
        claimer.tenant_id,
        [request.id for request in requests],
        [request.player_id for request in requests],
        [request.idempotency_key or None for request in requests],
        [ids.make("task") for _ in requests],
        instant_channels(),
        [request.answers for request in requests],
    )

    async def work(connection: asyncpg.Connection) -> list[asyncpg.Record]:
        rows = await connection.fetch(CLAIM, *arguments)
        for row in rows:
            if row["outcome"] == "claimed" and row["ciphertext"] is not None:
                open_code(claimer.engine, claimer.tenant_id, row, row["reward_id"], row["prize_id"])
        return list(rows)

    return await claimer.engine.database.transaction(work)


def instant_channels() -> list[str]:
    """The channels that deliver where the delivery falls due."""
    return [name for name in CHANNELS.names() if CHANNELS.require(name, "channel").instant]


def _answer(claimer: Claimer, group: Group, row: Any, as_claimed: Any) -> None:
    if row["outcome"] not in ("claimed", "replayed"):
        fault = _refusal(group[0].request, row)
        for work in group:
            work.refuse(fault)
        return
    try:
        reply = m.RewardReply(reward=for_owner(claimer.engine, claimer.tenant_id, as_claimed or row))
    except CodeUnavailable as error:  # Of a claim that was answered before: as it was told then, or not at all.
        for work in group:
            work.refuse(error)
        return
    for nth, work in enumerate(group):
        if (nth > 0 and work.request.idempotency_key) or row["outcome"] == "replayed":
            work.answer(Replay(reply))
        elif nth == 0:
            work.answer(reply)
        else:
            work.refuse(_already_claimed(row))


def _refusal(request: m.ClaimRewardRequest, row: Any) -> Fault:
    match row["outcome"]:
        case "out_of_stock":
            return out_of_stock(request.id)
        case "suspended":
            return suspended(row["suspended"])
        case "unanswered":
            return answers.unanswered(row["problems"])
        case "illegal":
            return _already_claimed(row) if row["claimed_at"] else illegal(row, "claim")
        case _:
            return unknown("reward", request.id)


def _already_claimed(row: Any) -> Fault:
    return Fault(
        Status.ALREADY_EXISTS,
        "ALREADY_CLAIMED",
        f"reward {row['reward_id']} was claimed before",
        claimed_at=row["claimed_at"],
    )


def _publish(claimer: Claimer, traces: Mapping[str, str], rows: Sequence[Any]) -> None:
    """Tells the streams what was committed. The task's row is the truth: what is lost here, the sweep finds."""
    claimed = [row for row in rows if row["outcome"] == "claimed"]
    engine = claimer.engine
    engine.publisher.tasks(claimer.tenant_id, [row["sent_task_id"] for row in claimed if row["sent_task_id"]])
    for outcome in ("delivered", "awaiting"):
        if ended := sum(row[outcome] for row in claimed):
            FULFILLMENT_TASKS.labels(outcome).inc(ended)
    engine.publisher.events(
        events.event_of(
            events.PrizeClaimed(
                reward_id=row["reward_id"],
                player_id=row["player_id"],
                prize_id=row["prize_id"],
                name=row["name"],
                type=row["type"],
                value=row["value"],
                quantity=row["quantity"],
                status=enum(m.RewardStatus, row["status"]).proto_name or "",
                game_id=row["game_id"],
                play_id=row["play_id"],
                milestone_id=row["milestone_id"],
            ),
            occurred_at=row["claimed_at"],
            tenant_id=claimer.tenant_id,
            merchant_id=row["merchant_id"] or "",
            campaign_id=row["campaign_id"],
            trace_id=traces[row["reward_id"]],
        )
        for row in claimed
    )
