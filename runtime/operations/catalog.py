"""Transactions that change the catalogue (campaigns, games, prizes) or its dependents (quests, boards). They run one
at a time per tenant.

Every change to the terms of plays first raises the tenant's `catalog_version`. The lock on that row serializes the
tenant's changes, so that a change's checks (a prize exists, nothing references it) still hold when it commits. The
commit guard refuses plays that were decided under the old version. A game's first play takes the row lock too,
shared, until it commits: a change that finds a game without history can rely on it. The row is the first in the lock
order (sql/locks.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import asyncpg

import sql
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, unknown
from runtime.operations import idempotent_writes
from runtime.wire.scope import Scoped, merchant_of, tenant_of

CHANGE_COPY: Final = "duplicate the campaign and change the copy"
"""The remedy of a HAS_HISTORY that a copy, which was never played, does not have."""

T = TypeVar("T")

_SQL: Final = sql.load("tenancy")
_NAMED_PRIZES: Final = sql.load("prizes")["named"]


async def change(engine: Engine, tenant_id: str, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
    """Runs `work` as one change of the tenant's catalogue, and notifies the engine after the commit.

    `work` may run again if the transaction lost a race. Raises NOT_FOUND for an unknown tenant.
    """

    async def in_transaction(connection: asyncpg.Connection) -> tuple[T, int]:
        version = await _raise_version(connection, tenant_id)
        return await work(connection), version

    result, version = await engine.database.transaction(in_transaction)
    engine.catalog_changed(tenant_id, version)
    return result


async def create(engine: Engine, request: Any, kind: type[T], work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
    """As `change`, once per Idempotency-Key. `work` returns the reply, a message of `kind`."""

    raised: list[int] = []

    async def in_transaction(connection: asyncpg.Connection) -> T:
        raised.append(await _raise_version(connection, tenant_of(request)))
        return await work(connection)

    done = await idempotent_writes.create(engine, request, kind, in_transaction)
    if not done.repeated:
        engine.catalog_changed(tenant_of(request), raised[-1])
    reply: T = done.reply
    return reply


async def create_dependent(
    engine: Engine, request: Any, kind: type[T], work: Callable[[asyncpg.Connection], Awaitable[T]]
) -> T:
    """As `change_dependent`, once per Idempotency-Key. `work` returns the reply, a message of `kind`."""

    async def in_transaction(connection: asyncpg.Connection) -> T:
        await _lock(connection, tenant_of(request))
        return await work(connection)

    reply: T = (await idempotent_writes.create(engine, request, kind, in_transaction)).reply
    return reply


async def change_dependent(engine: Engine, tenant_id: str, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
    """As `change`, for resources that reference the catalogue but are not part of a play's terms: quests, boards.

    It does not raise the version. Otherwise every game of the tenant would reload, and plays in flight would be decided
    again.
    """

    async def in_transaction(connection: asyncpg.Connection) -> T:
        await _lock(connection, tenant_id)
        return await work(connection)

    return await engine.database.transaction(in_transaction)


async def _raise_version(connection: asyncpg.Connection, tenant_id: str) -> int:
    version: int | None = await connection.fetchval(_SQL["raise_catalog_version"], tenant_id)
    if version is None:
        raise unknown("tenant", tenant_id)
    return version


async def _lock(connection: asyncpg.Connection, tenant_id: str) -> None:
    if await connection.fetchval(_SQL["lock_catalog"], tenant_id) is None:
        raise unknown("tenant", tenant_id)


async def unusable_prizes(
    connection: asyncpg.Connection, request: Scoped, prize_ids: Iterable[str]
) -> Mapping[str, str]:
    """Why each of the prizes cannot be awarded: archived, or unknown to the caller. A merchant may use the tenant's.

    The catalogue lock keeps it true until commit.
    """
    wanted = sorted(set(prize_ids) - {""})
    if not wanted:
        return {}
    rows = await connection.fetch(_NAMED_PRIZES, tenant_of(request), wanted, merchant_of(request))
    found = {row["prize_id"]: row for row in rows}
    unknown_ids = {one: f"there is no prize {one[:200]!r}" for one in wanted if one not in found}
    archived = {one: f"{row['name']!r} is archived" for one, row in found.items() if row["is_archived"]}
    return unknown_ids | archived


def in_use(kind: str, name: str, used_by: list[dict[str, str]]) -> Fault:
    """FAILED_PRECONDITION: these reference the resource. Each is `{type, id, name}`, a rung also has its `game_id`.

    An empty `used_by`: they are another merchant's.
    """
    names = ", ".join(f"{user['type']} {user['name']!r}" for user in used_by[:5]) or "another merchant"
    return Fault(Status.FAILED_PRECONDITION, "IN_USE", f"{kind} {name!r} is in use by {names}", used_by=used_by[:100])


def stale(kind: str, current: int) -> Fault:
    """ABORTED (optimistic lock): the update was based on an older revision than the current one."""
    return Fault(
        Status.ABORTED, "STALE_REVISION", f"the {kind} is at revision {current}; read it again", revision=current
    )


def has_history(kind: str, name: str, field: str, why: str, *, instead: str, what: str = "") -> Fault:
    """FAILED_PRECONDITION: a change of `field` would switch to other wallets than plays used, or change past rewards.

    what: the field in the message, if its name is not clear. instead: the remedy.
    """
    message = f"{what or field} of {kind} {name!r} cannot change: {why}. Instead, {instead}"
    return Fault(Status.FAILED_PRECONDITION, "HAS_HISTORY", message, field=field)
