"""What staff do once for each Idempotency-Key (contract.md, "Idempotency").

The key is of who asks (the merchant in whose name, and the subject of the token: machines of several merchants
may well have one), the operation, and its path's id. It is written in the transaction that does what is asked, and
keeps the answer: a retry hears that, however much later, and nothing is done twice. A refusal undoes the key with
the rest, so it may be tried again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import asyncpg

import sql
from runtime import trace
from runtime.actors.engine import Engine
from runtime.actors.idempotency import mismatch, replayed, staff_request_hash
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("once")

Reply = TypeVar("Reply")


class Done(NamedTuple):
    """A reply, and whether it is that of an earlier request."""

    reply: Any
    repeated: bool = False


class _Key(NamedTuple):
    """What names a request in keyed_requests."""

    tenant_id: str
    merchant_id: str
    subject: str
    route: str
    key: str


async def once(
    engine: Engine,
    request: Any,
    kind: type[Reply],
    work: Callable[[asyncpg.Connection], Awaitable[Reply]],
    *,
    hashes: Sequence[bytes] = (),
    part: int = 0,
) -> Done:
    """Does `work` in a transaction; where the request has a key, once.

    kind: the reply's message. hashes: those that the request may have been kept under, the one to keep first; left
    out: `staff_request_hash`. part: which one this is, of a request that comes in several.
    INVALID_ARGUMENT IDEMPOTENCY_MISMATCH where the key was used for another request.
    """
    key = _key_of(request, part)

    async def keyed_work(connection: asyncpg.Connection) -> Done:
        if key is None:
            return Done(await work(connection))
        known = hashes or (staff_request_hash(request),)
        if await connection.fetchval(_SQL["take"], *key, known[0]) is None:
            row = await connection.fetchrow(_SQL["find"], *key)
            assert row is not None, "what was in the way is committed, and never removed"
            if row["request_hash"] not in known:
                raise mismatch()
            made: Any = kind
            return Done(made.parse(row["reply"]), True)
        reply: Any = await work(connection)
        await connection.execute(_SQL["keep"], *key, bytes(reply))
        return Done(reply)

    done = await engine.database.transaction(keyed_work)
    replayed.set(done.repeated)
    return done


async def keep(engine: Engine, request: Any, reply: Any) -> None:
    """Keeps another reply for the request's key: one that is known only after the commit."""
    if (key := _key_of(request)) is not None:
        await engine.database.execute(_SQL["keep"], *key, bytes(reply))


async def begin_again(engine: Engine, request: Any, abandoned_seconds: float) -> bool:
    """Whether a request whose reply never came, for so long, is this one's to do once more: one retry's alone."""
    key = _key_of(request)
    assert key is not None, "only a request with a key is repeated"
    return await engine.database.fetchval(_SQL["begin_again"], *key, abandoned_seconds) is not None


def _key_of(request: Any, part: int = 0) -> _Key | None:
    key: str = request.idempotency_key
    if not key:
        return None
    return _Key(tenant_of(request), merchant_of(request), trace.actor.get(), route_of(request, part), key)


def route_of(request: Any, part: int = 0) -> str:
    """What a key is of: the operation, and its path's id."""
    route = [type(request).__name__.removesuffix("Request"), getattr(request, "id", ""), str(part or "")]
    return " ".join(filter(None, route))
