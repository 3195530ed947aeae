"""The imported ticket list of a draw, such as from a shop's tills or from entries by post."""

from __future__ import annotations

import hashlib
from typing import Final

import asyncpg

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status
from runtime.operations import audit, reading
from runtime.operations.checks import Checks
from runtime.operations.draws.draw_admin import illegal
from runtime.operations.players.lookup import PLAYER
from runtime.wire.scope import PLAYER_ID, PLAYER_ID_RULE, tenant_of

_SQL: Final = sql.load("draws")

HOLDERS_MAX: Final = 3_000
"""Players in one request: a body has at most 10,000 fields. The command line sends several requests."""

TICKETS_MAX: Final = 10**12


async def set_draw_tickets(engine: Engine, request: m.SetDrawTicketsRequest) -> m.SetDrawTicketsReply:
    """Sets the tickets of up to 3,000 players; 0 removes a player. Other players keep theirs, so it can be repeated.

    An unknown id in this service's format is refused; any other unknown id creates the player.
    The audit log records the SHA-256 of the lines "<player> <tickets>". FAILED_PRECONDITION ILLEGAL_TRANSITION once the
    tickets are frozen; NOT_IMPORTED if the draw's tickets come from elsewhere. ABORTED IMPORT_RUNNING while another
    request changes the draw.
    """
    tenant_id = tenant_of(request)
    players, tickets = _checked(request)

    async def work(connection: asyncpg.Connection) -> m.SetDrawTicketsReply:
        row = await _lock(connection, request)
        if row["status"] != "open":
            raise illegal(request.id, row["status"], "its tickets are frozen")
        if not row["tickets"]["imported"]:
            message = f"the tickets of draw {request.id} are not imported: set tickets.imported first"
            raise Fault(Status.FAILED_PRECONDITION, "NOT_IMPORTED", message)
        await _check_known(connection, tenant_id, request)
        await connection.execute(_SQL["set_list"], tenant_id, request.id, players, tickets)
        size = await connection.fetchrow(_SQL["list_size"], tenant_id, request.id)
        assert size is not None, "an aggregate has a row"
        lines = "".join(f"{player} {count}\n" for player, count in zip(players, tickets, strict=True))
        after = {"holders": len(players), "sha256": hashlib.sha256(lines.encode()).hexdigest(), **size}
        await audit.record(connection, tenant_id, "draw.set_tickets", request.id, after=after)
        return m.SetDrawTicketsReply(**size)

    return await engine.database.transaction(work)


async def _lock(connection: asyncpg.Connection, request: m.SetDrawTicketsRequest) -> asyncpg.Record:
    """The locked draw. Does not wait: each waiting import would hold a connection that plays need."""
    try:
        return await reading.for_update(connection, _SQL["lock_now"], request, "draw", request.id)
    except asyncpg.LockNotAvailableError:
        message = f"another request changes draw {request.id}; send this part again"
        raise Fault(Status.ABORTED, "IMPORT_RUNNING", message, retry_after_seconds=1) from None


async def _check_known(connection: asyncpg.Connection, tenant_id: str, request: m.SetDrawTicketsRequest) -> None:
    """INVALID_ARGUMENT for each line with an unknown id in this service's format. Others are external identities."""
    own = [one.player_id for one in request.holders if one.tickets and one.player_id.startswith(PLAYER)]
    unknown = {row["player_id"] for row in await connection.fetch(_SQL["unknown_players"], tenant_id, own)}
    checks = Checks()
    for index, holder in enumerate(request.holders):
        if holder.tickets and holder.player_id in unknown:
            text = f"there is no player {holder.player_id}; correct the id or remove the line"
            checks.problem(f"holders[{index}].player_id", text)
    checks.raise_found()


def _checked(request: m.SetDrawTicketsRequest) -> tuple[list[str], list[int]]:
    """The players and their tickets. INVALID_ARGUMENT names each wrong line."""
    checks, tickets_of = Checks(), dict[str, int]()
    if not 0 < len(request.holders) <= HOLDERS_MAX:
        checks.problem("holders", f"must have from 1 to {HOLDERS_MAX} players; send a longer list in parts")
    for index, holder in enumerate(request.holders[:HOLDERS_MAX]):
        checks.required(f"holders[{index}].player_id", holder.player_id)
        if holder.player_id and holder.tickets and not PLAYER_ID.fullmatch(holder.player_id):
            checks.problem(f"holders[{index}].player_id", PLAYER_ID_RULE)
        if holder.player_id in tickets_of:
            checks.problem(f"holders[{index}].player_id", "must be unique")
        if holder.tickets is None:
            checks.problem(f"holders[{index}].tickets", "is required; 0 removes the player")
        checks.between(f"holders[{index}].tickets", holder.tickets or 0, 0, TICKETS_MAX)
        tickets_of[holder.player_id] = holder.tickets or 0
    checks.raise_found()
    return list(tickets_of), list(tickets_of.values())
