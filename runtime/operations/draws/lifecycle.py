"""The steps of a draw: close (freeze the tickets), draw, confirm (award the prizes), and replace a winner.

Each step is one transaction with a conditional update under the draw's row lock, so a concurrent or repeated step finds
it done. The result follows from the frozen tickets and the value alone: a process that dies at any moment changes
nothing, or the step is complete. Prizes are awarded after the confirmation, rank by rank; the job `draws` resumes them.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import asyncpg

import sql
from runtime import messages as m
from runtime import trace
from runtime.actors.engine import Engine
from runtime.background import attempt
from runtime.errors import Fault, Status, invalid
from runtime.operations import audit, reading
from runtime.operations.checks import Checks
from runtime.operations.draws import randomness
from runtime.operations.draws.announcements import announce
from runtime.operations.draws.draw_admin import illegal, lock, shown
from runtime.operations.leaderboards.rank_prizes import RankPrizes
from runtime.rules.log.tree import MerkleTree
from runtime.rules.raffle.selection import RANKS_MAX, Block, Pick, Selection, leaf, result_hash, terms_leaf
from runtime.stores import cache_version
from runtime.stores.database import at
from runtime.stores.scores import counted_of
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("draws")
_SCORES: Final = sql.load("leaderboards")["scores"]
_ALLOW_COMPUTING: Final = sql.load("leaderboards")["allow_computing"]

JOB: Final = "draws"

EVERY_SECONDS: Final = 20.0
"""The interval of the job: a draw is closed within a minute of closes_at."""

ACTOR: Final = "tombola"

FREEZE_SECONDS: Final = 1800.0
"""The limit of a statement that freezes tickets: ten million holders take minutes."""

CLOSES_MAX: Final = 4
"""Tenants whose draws a process closes at a time."""

_HOLDERS_READ: Final = 2_000
"""Holders hashed before other requests get a turn."""


async def close_draw(engine: Engine, request: m.DrawRequest, *, due_only: bool = False) -> m.DrawReply:
    """Freezes the tickets and publishes their Merkle root. Repeating it returns the closed draw.

    FAILED_PRECONDITION ILLEGAL_TRANSITION if drawn or cancelled, or without tickets before closes_at; RANDOMNESS_KNOWN
    if the random value may be known.
    due_only: leaves a draw that is not past its closes_at, which staff may have moved since the job read it.
    """
    tenant_id = tenant_of(request)

    async def work(connection: asyncpg.Connection) -> bool:
        row = await lock(connection, request)
        if row["status"] == "closed":
            return False
        if row["status"] != "open":
            raise illegal(request.id, row["status"], "only an open draw can be closed")
        if due_only and not 0 < row["closes_at"] <= engine.clock.now():
            return False
        randomness.check_unknown(request.id, row["randomness"], engine.clock.now())
        await _freeze(connection, tenant_id, row)
        tree, count = await _hash_tickets(connection, tenant_id, row)
        holders = tree.size - 1
        if not holders and not 0 < row["closes_at"] <= engine.clock.now():
            why = "no player has a ticket; correct its `tickets`, or delete the draw"
            raise illegal(request.id, row["status"], why)
        await connection.fetchval(_SQL["close"], tenant_id, request.id, tree.root(), count, holders)
        # Again: freezing many tickets takes time.
        randomness.check_unknown(request.id, row["randomness"], engine.clock.now())
        after = {"status": "closed", "tickets_root": tree.root(), "ticket_count": count, "holder_count": holders}
        await audit.record(connection, tenant_id, "draw.close", request.id, after=after)
        return True

    if await engine.database.transaction(work):
        await announce(engine, tenant_id, request.id, "closed")
    return await _shown(engine, request)


async def _freeze(connection: asyncpg.Connection, tenant_id: str, row: asyncpg.Record) -> None:
    tickets = row["tickets"]
    try:
        if tickets["currency"]:
            source = (tickets["scope_key"], tickets["currency"])
            await connection.execute(_SQL["freeze_balances"], tenant_id, row["id"], *source, timeout=FREEZE_SECONDS)
            return
        if tickets["imported"]:
            await connection.execute(_SQL["freeze_list"], tenant_id, row["id"], timeout=FREEZE_SECONDS)
            return
        if tickets["entries"]:
            await connection.execute(_SQL["freeze_entries"], tenant_id, row["id"], timeout=FREEZE_SECONDS)
            return
        await connection.execute(_ALLOW_COMPUTING)
        found = await connection.fetch(_SCORES, tenant_id, [tickets["ranking"]], None, None, timeout=FREEZE_SECONDS)
        if (counted := await counted_of(found)) is None:
            raise illegal(row["id"], row["status"], f"leaderboard {tickets['ranking']} does not exist")
        columns = ([one.player_id for one in counted.scores], [one.score for one in counted.scores])
        await connection.execute(_SQL["freeze_scores"], tenant_id, row["id"], *columns, timeout=FREEZE_SECONDS)
    except asyncpg.NumericValueOutOfRangeError:
        raise illegal(row["id"], row["status"], "the tickets add up to more than 2^63") from None


async def _hash_tickets(connection: asyncpg.Connection, tenant_id: str, draw: asyncpg.Record) -> tuple[MerkleTree, int]:
    """The tree over the terms and the tickets, and the number of tickets. Memory does not grow with the holders."""
    tree, count = MerkleTree(), 0
    tree.add(terms_leaf(dict(draw)))
    cursor = connection.cursor(
        _SQL["every_ticket"], tenant_id, draw["id"], prefetch=_HOLDERS_READ, timeout=FREEZE_SECONDS
    )
    async for row in cursor:
        tree.add(leaf(row["holder"], row["tickets"]))
        count += row["tickets"]
    return tree, count


async def draw_winners(engine: Engine, request: m.DrawWinnersRequest) -> m.DrawReply:
    """Draws the winners and the alternates of a closed draw. Nothing is awarded yet.

    FAILED_PRECONDITION ILLEGAL_TRANSITION if it is not closed, has no tickets, or is drawn already; RANDOMNESS_PENDING
    with `available_at`.
    INVALID_ARGUMENT for a missing or wrong `value`.
    """
    tenant_id = tenant_of(request)
    if len(request.value) > randomness.VALUE_CHARACTERS_MAX:
        raise invalid("value", f"must be at most {randomness.VALUE_CHARACTERS_MAX} characters long")

    async def work(connection: asyncpg.Connection) -> None:
        row = await lock(connection, request)
        if row["status"] != "closed":
            why = "close it first" if row["status"] == "open" else "winners are drawn once"
            raise illegal(request.id, row["status"], why)
        if not row["holder_count"]:
            raise illegal(request.id, row["status"], "it has no tickets; cancel it")
        value = await randomness.value_of(engine, tenant_id, request.id, row["randomness"], request.value)
        ranks = [prize["prize_id"] for prize in row["prizes"] for _ in range(prize["count"])] + [""] * row["alternates"]
        drawn = await _pick(connection, tenant_id, row, value, len(ranks))
        picks = [pick for pick, _ in drawn]
        result = [{"ticket": pick.ticket, "holder": pick.holder} for pick in picks]
        stored = (tenant_id, request.id, value, result, result_hash(picks))
        await connection.fetchval(_SQL["record_result"], *stored)
        holders = ([row["player_id"] for _, row in drawn], [row["tickets"] for _, row in drawn])
        await connection.execute(_SQL["insert_ranks"], tenant_id, request.id, *holders, ranks[: len(drawn)])
        after = {"status": "drawn", "value": value, "result_hash": stored[-1]}
        await audit.record(connection, tenant_id, "draw.draw", request.id, after=after)

    await engine.database.transaction(work)
    await announce(engine, tenant_id, request.id, "drawn")
    return await _shown(engine, request)


async def _pick(
    connection: asyncpg.Connection, tenant_id: str, draw: asyncpg.Record, value: str, ranks: int
) -> list[tuple[Pick, asyncpg.Record]]:
    """Each rank's ticket with its holder's row: fewer than `ranks` if there are fewer holders."""
    selection = Selection(draw["id"], draw["tickets_root"], value, draw["ticket_count"])
    drawn: list[tuple[Pick, asyncpg.Record]] = []
    while len(drawn) < ranks and selection.left:
        ticket = selection.pick()
        row = await connection.fetchrow(_SQL["holder_of"], tenant_id, draw["id"], ticket)
        assert row is not None, "each ticket below ticket_count has a holder"
        selection.remove(Block(row["first_ticket"], row["tickets"]))
        drawn.append((Pick(len(drawn) + 1, ticket, row["holder"]), row))
    return drawn


async def confirm_draw(engine: Engine, request: m.DrawRequest) -> m.DrawReply:
    """Awards the prizes of the drawn ranks. Repeating it awards the rest, and returns the same winners.

    A rank whose prize is gone, or that the player may not have again, stays without a reward, with the reason.
    FAILED_PRECONDITION ILLEGAL_TRANSITION if it is not drawn.
    """
    tenant_id = tenant_of(request)

    async def work(connection: asyncpg.Connection) -> None:
        row = await lock(connection, request)
        if row["status"] == "confirmed":
            return
        if await connection.fetchval(_SQL["confirm"], tenant_id, request.id) is None:
            raise illegal(request.id, row["status"], "draw the winners first")
        await connection.execute(_SQL["owe"], tenant_id, request.id)
        after = {"status": "confirmed"}
        await audit.record(connection, tenant_id, "draw.confirm", request.id, after=after)

    await engine.database.transaction(work)
    await award(engine, tenant_id, request.id)
    return await shown(engine, request)


async def award(engine: Engine, tenant_id: str, draw_id: str) -> int:
    """Awards the prizes that a confirmed draw still owes. Returns their number."""
    terms = await engine.database.fetchrow(_SQL["award_terms"], tenant_id, draw_id)
    assert terms is not None, "a draw with a history stays"
    return await RankPrizes(engine, tenant_id, draw_id, terms, "draw_id").award()


async def replace_winner(engine: Engine, request: m.ReplaceWinnerRequest) -> m.DrawReply:
    """Gives a rank's prize to the next alternate. A reward of the rank must have expired or been revoked.

    FAILED_PRECONDITION ILLEGAL_TRANSITION if the draw is not drawn, or the rank has no winner to replace; OUT_OF_STOCK
    if no unit is left, as a delivered one does not return; NO_ALTERNATE if none is left.
    """
    tenant_id = tenant_of(request)
    checks = Checks()
    checks.required("reason", request.reason)
    checks.between("rank", request.rank, 1, RANKS_MAX)
    checks.raise_found()

    async def work(connection: asyncpg.Connection) -> bool:
        row = await lock(connection, request)
        confirmed: bool = row["status"] == "confirmed"
        if not confirmed and row["status"] != "drawn":
            raise illegal(request.id, row["status"], "it has no winners to replace")
        prize_id = await connection.fetchval(_SQL["replace"], tenant_id, request.id, request.rank)
        if prize_id is None:
            rank = await connection.fetchrow(_SQL["rank"], tenant_id, request.id, request.rank)
            raise illegal(request.id, row["status"], _why_kept(request.rank, rank))
        if confirmed and not await connection.fetchval(_SQL["is_available"], tenant_id, prize_id):
            message = f"no unit of prize {prize_id} is left for an alternate; raise its stock, or upload codes, first"
            raise Fault(Status.FAILED_PRECONDITION, "OUT_OF_STOCK", message)
        reason = "PENDING" if confirmed else "DRAWN"
        called = await connection.fetchrow(_SQL["call_alternate"], tenant_id, request.id, prize_id, reason)
        if called is None:
            message = f"draw {request.id} has no alternate left"
            raise Fault(Status.FAILED_PRECONDITION, "NO_ALTERNATE", message)
        after: dict[str, Any] = {"rank": request.rank, "reason": request.reason, "alternate": called["rank"]}
        await audit.record(connection, tenant_id, "draw.replace", request.id, after=after)
        return confirmed

    if await engine.database.transaction(work):
        await award(engine, tenant_id, request.id)
    return await _shown(engine, request)


def _why_kept(rank: int, row: asyncpg.Record | None) -> str:
    """Why the rank's winner cannot be replaced, and what to do first. row: of the statement `rank`."""
    if row is None:
        return f"it has no rank {rank}"
    if row["reason"] == "REPLACED":
        return f"the winner of rank {rank} is replaced already"
    if not row["prize_id"]:
        return f"rank {rank} is an alternate without a prize"
    if row["reason"] == "PENDING":
        return f"the prize of rank {rank} is being awarded; try again in a minute"
    return f"rank {rank} has reward {row['reward_id']}; revoke it first, or wait until it has expired"


async def _shown(engine: Engine, request: reading.IdRequest) -> m.DrawReply:
    """The draw after a step. FAILED_PRECONDITION ILLEGAL_TRANSITION if another request has cancelled it since."""
    reply = await shown(engine, request)
    assert reply.draw is not None
    if reply.draw.status is m.DrawStatus.CANCELLED:
        raise illegal(request.id, "cancelled", "another request cancelled it at the same time")
    return reply


async def finish_due(engine: Engine) -> None:
    """Closes every draw that is past its closes_at, and awards what confirmed draws still owe.

    One draw's failure does not block the others, and a tenant's large draw does not make the other tenants wait.
    """
    trace.actor.set(ACTOR)
    room = asyncio.Semaphore(CLOSES_MAX)

    async def finish(tenant_id: str) -> None:
        async with room:
            await at(tenant_id, _finish_draws(engine, tenant_id))

    await asyncio.gather(*map(finish, await engine.database.tenants(_SQL["tenants_with_due"])))


async def _finish_draws(engine: Engine, tenant_id: str) -> None:
    for draw in await engine.database.fetch(_SQL["due"], tenant_id):
        request = m.DrawRequest(scope=m.Scope(tenant_id=tenant_id), id=draw["draw_id"])
        closes = draw["status"] == "open"
        step = close_draw(engine, request, due_only=True) if closes else confirm_draw(engine, request)
        if await attempt(JOB, step, tenant_id=tenant_id, draw_id=request.id):
            cache_version.changed(engine.ephemeral, tenant_id)
