"""What staff do once for each Idempotency-Key (contract.md, "Idempotency").

The key is of who asks (the merchant in whose name, and the subject of the token: machines of several merchants
may well have one), the operation, and its path's id. It is written in the transaction that does what is asked, and
keeps the answer: a retry hears that, however much later, and nothing is done twice. A refusal undoes the key with
the rest, so it may be tried again.

A secret in a reply is kept sealed. Once its key is retired from CODE_KEYS, a retry gets the reply without it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

import asyncpg
from betterproto2 import Message

import sql
from runtime import trace
from runtime.actors.engine import Engine
from runtime.actors.idempotency import mismatch, replayed, staff_request_hash
from runtime.outgoing.vault import VaultError, vault_of
from runtime.wire.scope import merchant_of

_SQL: Final = sql.load("once")

SECRETS: Final = frozenset({"secret", "secret_once"})
"""Fields of a reply that are told once."""

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
            return Done(_open_secrets(engine, key, kind, row["reply"]), True)
        reply: Any = await work(connection)
        await connection.execute(_SQL["keep"], *key, _seal_secrets(engine, key, reply))
        return Done(reply)

    done = await engine.database.transaction(keyed_work)
    replayed.set(done.repeated)
    return done


async def create(
    engine: Engine, request: Any, kind: type[Reply], work: Callable[[asyncpg.Connection], Awaitable[Reply]]
) -> Done:
    """As `once`, of a request that makes a resource. What it was asked by is kept as a keyed hash: a plain one of a
    webhook's secret could be guessed from.
    """
    asked, resource = replace(request), type(request).__name__.removeprefix("Create").removesuffix("Request").lower()
    if (made := getattr(request, resource, None)) is not None:
        # One that a second person approved comes with the id that it was first tried under.
        setattr(asked, resource, replace(made, id=""))
    prints = vault_of(engine.keyring.code).fingerprints(staff_request_hash(asked).hex(), "request")
    return await once(engine, request, kind, work, hashes=prints)


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
    # A tenant is made in nobody's scope.
    tenant_id = request.scope.tenant_id if request.scope is not None else ""
    return _Key(tenant_id, merchant_of(request), trace.actor.get(), route_of(request, part), key)


def _seal_secrets(engine: Engine, key: _Key, reply: Any) -> bytes:
    """The reply's bytes, with each of its secrets sealed."""
    encoded = bytes(reply)
    if not _secrets_in(reply):
        return encoded
    kept, vault, context = type(reply).parse(encoded), vault_of(engine.keyring.code), _context(key)
    for holder, name, secret in _secrets_in(kept):
        holder[name] = vault.seal_secret(secret, context)
    return bytes(kept)


def _open_secrets(engine: Engine, key: _Key, kind: Any, encoded: bytes) -> Any:
    reply = kind.parse(encoded)
    for holder, name, sealed in _secrets_in(reply):
        try:
            holder[name] = vault_of(engine.keyring.code).open_secret(sealed, _context(key))
        except VaultError:
            holder[name] = ""
    return reply


def _context(key: _Key) -> str:
    """What the secrets of a kept reply are sealed in."""
    return "reply/" + "/".join(key)


def _secrets_in(value: Any) -> list[tuple[dict[str, Any], str, str]]:
    """(what holds it, its name there, the secret) of each secret in a message, or in free-form JSON in it."""
    found: list[tuple[dict[str, Any], str, str]] = []
    holder = vars(value) if isinstance(value, Message) else value if isinstance(value, dict) else {}
    for name, item in holder.items():
        if name in SECRETS and item and isinstance(item, str):
            found.append((holder, name, item))
        for inner in item if isinstance(item, list) else (item,):
            found += _secrets_in(inner)
    return found


def route_of(request: Any, part: int = 0) -> str:
    """What a key is of: the operation, and its path's id."""
    route = [type(request).__name__.removesuffix("Request"), getattr(request, "id", ""), str(part or "")]
    return " ".join(filter(None, route))
