"""How the catalogue (campaigns, games, prizes) changes, and what hangs on it (quests, boards): one transaction, one at
a time in a tenant.

Every change of what plays are decided by first raises the tenant's `catalog_version`. That row's lock makes the
tenant's changes take turns, so that what a change checked (a prize exists, nothing names it) still holds when it
commits; and whatever was decided by the old version is refused by the commit's guard. A game's first play holds
the row too, to share, until it is committed: a change that finds a game without a history is right about that.
It is the first lock there is (sql/locks.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import asyncpg

import sql
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, unknown
from runtime.operations import idempotent_writes
from runtime.wire.scope import tenant_of

T = TypeVar("T")

_SQL: Final = sql.load("tenancy")


async def change(engine: Engine, tenant_id: str, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
    """Runs `work` as one change of the tenant's catalogue, and tells the engine of it once committed.

    `work` may run again where the transaction lost a race. Raises NOT_FOUND for an unknown tenant.
    """

    async def in_transaction(connection: asyncpg.Connection) -> tuple[T, int]:
        version = await _raise_version(connection, tenant_id)
        return await work(connection), version

    result, version = await engine.database.transaction(in_transaction)
    engine.catalog_changed(tenant_id, version)
    return result


async def create(engine: Engine, request: Any, kind: type[T], work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
    """As `change`, once for the request's Idempotency-Key. `work` makes the reply, a message of `kind`."""

    raised: list[int] = []

    async def in_transaction(connection: asyncpg.Connection) -> T:
        raised.append(await _raise_version(connection, tenant_of(request)))
        return await work(connection)

    done = await idempotent_writes.create(engine, request, kind, in_transaction)
    if not done.repeated:
        engine.catalog_changed(tenant_of(request), raised[-1])
    reply: T = done.reply
    return reply


async def create_beside(
    engine: Engine, request: Any, kind: type[T], work: Callable[[asyncpg.Connection], Awaitable[T]]
) -> T:
    """As `change_beside`, once for the request's Idempotency-Key. `work` makes the reply, a message of `kind`."""

    async def in_transaction(connection: asyncpg.Connection) -> T:
        await _hold(connection, tenant_of(request))
        return await work(connection)

    reply: T = (await idempotent_writes.create(engine, request, kind, in_transaction)).reply
    return reply


async def change_beside(engine: Engine, tenant_id: str, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
    """As `change`, of what names the catalogue's things and is part of no play's terms: a quest, a board.

    The version stays. Else every game of the tenant would be read anew, and what was decided meanwhile decided again.
    """

    async def in_transaction(connection: asyncpg.Connection) -> T:
        await _hold(connection, tenant_id)
        return await work(connection)

    return await engine.database.transaction(in_transaction)


async def _raise_version(connection: asyncpg.Connection, tenant_id: str) -> int:
    version: int | None = await connection.fetchval(_SQL["raise_catalog_version"], tenant_id)
    if version is None:
        raise unknown("tenant", tenant_id)
    return version


async def _hold(connection: asyncpg.Connection, tenant_id: str) -> None:
    if await connection.fetchval(_SQL["hold_catalog"], tenant_id) is None:
        raise unknown("tenant", tenant_id)


def in_use(kind: str, identifier: str, used_by: list[dict[str, str]]) -> Fault:
    """FAILED_PRECONDITION: the thing cannot go while these name it, each `{type, id}`, a rung with its `game_id`."""
    names = ", ".join(f"{user['type']} {user['id']}" for user in used_by[:5])
    return Fault(
        Status.FAILED_PRECONDITION, "IN_USE", f"{kind} {identifier} is in use by {names}", used_by=used_by[:100]
    )


def stale(kind: str, current: int) -> Fault:
    """ABORTED: an update was sent for another revision than the current one, which its sender has not seen."""
    return Fault(
        Status.ABORTED, "STALE_REVISION", f"the {kind} is at revision {current}; read it again", revision=current
    )


def has_history(kind: str, identifier: str, what: str) -> Fault:
    """FAILED_PRECONDITION: `what` says whose wallets were moved, which would be others from now on."""
    return Fault(Status.FAILED_PRECONDITION, "HAS_HISTORY", f"{what} of {kind} {identifier} stays: it was played")
