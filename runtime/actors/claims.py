"""Claims: players claim their won rewards.

A tenant's claims wait in one mailbox, and a batch commits all of them in one statement (sql/claims.sql). The statement
decides, and returns for each claim that it succeeded or why not. So concurrent claims in other processes are as safe as
those of one batch. The transaction commits after every code that it delivers is decrypted: if no key decrypts a code,
the claim is rolled back.
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
from runtime.rules.entry import entry_required, not_eligible
from runtime.wire.enums import enum
from runtime.wire.scope import tenant_of

CLAIM: Final = sql.load("claims")["claim"]
AS_CLAIMED: Final = sql.load("rewards")["as_claimed"]

MERGED: Final = sql.load("players")["merged"]


class Claimer(NamedTuple):
    """The actor of one tenant's claims. It caches nothing: the rows decide."""

    engine: Engine
    tenant_id: str


class ClaimActors(Actors[str, m.ClaimRewardRequest, Claimer]):
    """The claims of each tenant, committed together."""

    name = "claims"

    @staticmethod
    def key_of(request: m.ClaimRewardRequest) -> str:
        return tenant_of(request)

    def new_state(self, key: str) -> Claimer:
        return Claimer(self.engine, key)

    async def process_batch(self, state: Claimer, works: list[Work[m.ClaimRewardRequest]]) -> None:
        """Answers every waiting claim with the caller's reward, or the reason for its refusal.

        One statement holds claims of different rewards; further claims of the same reward wait for the next.
        """
        waiting = _groups(works)
        while waiting:
            batch, waiting = _disjoint(waiting)
            await _claim_batch(state, batch)


Group = list[Work[m.ClaimRewardRequest]]
"""Duplicates of one claim: one goes to the database, the others get its outcome."""

Outcome = tuple[Group, Any]
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
            content = frozenset(request.answers.items())
            groups.setdefault((request.id, request.player_id, request.idempotency_key, content), []).append(work)
    return list(groups.values())


def _disjoint(groups: list[Group]) -> tuple[list[Group], list[Group]]:
    """(groups with distinct rewards, sorted by reward; the rest)."""
    batch: list[Group] = []
    rest: list[Group] = []
    seen: set[str] = set()
    for group in groups:
        reward_id = group[0].request.id
        (rest if reward_id in seen else batch).append(group)
        seen.add(reward_id)
    return sorted(batch, key=lambda group: group[0].request.id), rest


async def _claim_batch(claimer: Claimer, groups: list[Group]) -> None:
    try:
        rows = await _write(claimer, [group[0].request for group in groups])
    except (asyncpg.PostgresError, CodeUnavailable) as error:
        # One of them failed and the transaction was rolled back: repeat each alone, so that only that one fails.
        if len(groups) > 1:
            for group in groups:
                await _claim_batch(claimer, [group])
            return
        for work in groups[0]:
            work.refuse(error)
        return
    # Committed: publish and answer whatever fails from here on.
    _publish(claimer, {row["reward_id"]: group[0].trace_id for group, row in zip(groups, rows, strict=True)}, rows)
    replayed: list[Outcome] = []
    missing: list[Outcome] = []
    for group, row in zip(groups, rows, strict=True):
        match row["outcome"]:
            case "replayed":
                replayed.append((group, row))
            case "unknown":
                missing.append((group, row))
            case _:
                _answer(claimer, group, row, None)
    if replayed:
        await _answer_replayed(claimer, replayed)
    if missing:
        await _follow_merged(claimer, missing)


async def _answer_replayed(claimer: Claimer, replayed: list[Outcome]) -> None:
    """Answers repeated claims with their first answer. If that cannot be read, only these fail.

    IDEMPOTENCY_MISMATCH for a claim with different answers than the first.
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


async def _follow_merged(claimer: Claimer, missing: list[Outcome]) -> None:
    """Repeats claims of guests that have logged in as their merged players. If that fails, only these fail.

    Runs only for rewards that look missing: a merge moves the reward, before the claim or while it waits.
    """
    try:
        guests = [group[0].request.player_id for group, _ in missing]
        found = await claimer.engine.database.fetch(MERGED, claimer.tenant_id, guests)
        players = {row["player_id"]: row["merged_into"] for row in found}
        for group, row in missing:
            if (player_id := players.get(group[0].request.player_id)) is None:
                _answer(claimer, group, row, None)
                continue
            for work in group:
                work.request.player_id = player_id
            await _claim_batch(claimer, [group])
    except (Fault, asyncpg.PostgresError) as error:
        _refuse(missing, error)


def _refuse(outcomes: list[Outcome], error: Exception) -> None:
    """Refuses the claims that are not answered yet."""
    for group, _ in outcomes:
        for work in group:
            work.refuse(error)


async def _write(claimer: Claimer, requests: Sequence[m.ClaimRewardRequest]) -> list[asyncpg.Record]:
    """Commits the claims; one row of sql/claims.sql for each request. CodeUnavailable: rolled back."""
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
    """The channels that deliver immediately."""
    return [name for name in CHANNELS.names() if CHANNELS.require(name, "channel").instant]


def _answer(claimer: Claimer, group: Group, row: Any, as_claimed: Any) -> None:
    if row["outcome"] not in ("claimed", "replayed"):
        fault = _refusal(group[0].request, row)
        for work in group:
            work.refuse(fault)
        return
    try:
        reply = m.RewardReply(reward=for_owner(claimer.engine, claimer.tenant_id, as_claimed or row))
    except CodeUnavailable as error:  # A repeated claim gets its full first answer, or none.
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
        case "unentered":
            return entry_required(row["entry_missing"])
        case "barred":
            return not_eligible("COUNTRY", country=row["barred_country"])
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
        f"reward {row['reward_id']} has already been claimed",
        claimed_at=row["claimed_at"],
    )


def _publish(claimer: Claimer, traces: Mapping[str, str], rows: Sequence[Any]) -> None:
    """Publishes the committed claims. The task's row is authoritative: the sweep finds what is lost here."""
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
