"""Idempotent staff requests: each Idempotency-Key takes effect once.

The scope of a key is the caller (the merchant and the token's subject, since several merchants' machines may share a
subject), the operation, and the id in its path. The key and the reply are stored in the transaction that does the
work. A retry, however late, gets the stored reply. A refusal rolls the key back, so the request can be retried.

A secret in a stored reply is encrypted. Once its key is removed from CODE_KEYS, a retry gets the reply without it.
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

_SQL: Final = sql.load("idempotency")

SECRETS: Final = frozenset({"secret", "secret_once"})
"""Fields of a reply that are shown once, and stored encrypted."""

Reply = TypeVar("Reply")


class Done(NamedTuple):
    """A reply, and whether it was stored by an earlier request."""

    reply: Any
    repeated: bool = False


class _Key(NamedTuple):
    """The primary key of keyed_requests."""

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
    """Runs `work` in a transaction, once if the request has a key.

    kind: the reply's message. hashes: the request hashes to accept, the one to store first; default:
    `staff_request_hash`. part: the number of this part, if a request is sent in several.
    INVALID_ARGUMENT IDEMPOTENCY_MISMATCH if the key was used for another request.
    """
    key = _key_of(request, part)

    async def keyed_work(connection: asyncpg.Connection) -> Done:
        if key is None:
            return Done(await work(connection))
        known = hashes or (staff_request_hash(request),)
        if await connection.fetchval(_SQL["claim"], *key, known[0]) is None:
            row = await connection.fetchrow(_SQL["find"], *key)
            assert row is not None, "the conflicting key is committed, and never removed"
            if row["request_hash"] not in known:
                raise mismatch()
            return Done(_open_secrets(engine, key, kind, row["reply"]), True)
        reply: Any = await work(connection)
        await connection.execute(_SQL["store_reply"], *key, _seal_secrets(engine, key, reply))
        return Done(reply)

    done = await engine.database.transaction(keyed_work)
    replayed.set(done.repeated)
    return done


async def create(
    engine: Engine, request: Any, kind: type[Reply], work: Callable[[asyncpg.Connection], Awaitable[Reply]]
) -> Done:
    """As `once`, for a request that creates a resource. The request hash is keyed: a plain hash could be used to
    brute-force a webhook's secret in the request.
    """
    hashed, resource = replace(request), type(request).__name__.removeprefix("Create").removesuffix("Request").lower()
    if (made := getattr(request, resource, None)) is not None:
        # After approval by a second person, the request carries the id of its first attempt.
        setattr(hashed, resource, replace(made, id=""))
    prints = vault_of(engine.keyring.code).fingerprints(staff_request_hash(hashed).hex(), "request")
    return await once(engine, request, kind, work, hashes=prints)


async def store_reply(engine: Engine, request: Any, reply: Any) -> None:
    """Replaces the stored reply of the request's key with one that is known only after the commit."""
    if (key := _key_of(request)) is not None:
        await engine.database.execute(_SQL["store_reply"], *key, bytes(reply))


async def claim_abandoned(engine: Engine, request: Any, abandoned_seconds: float) -> bool:
    """Claims a key that has had no reply for `abandoned_seconds`. Exactly one retry gets True and runs it again."""
    key = _key_of(request)
    assert key is not None, "only a request with a key is repeated"
    return await engine.database.fetchval(_SQL["reclaim"], *key, abandoned_seconds) is not None


def _key_of(request: Any, part: int = 0) -> _Key | None:
    key: str = request.idempotency_key
    if not key:
        return None
    # CreateTenant has no scope.
    tenant_id = request.scope.tenant_id if request.scope is not None else ""
    return _Key(tenant_id, merchant_of(request), trace.actor.get(), route_of(request, part), key)


def _seal_secrets(engine: Engine, key: _Key, reply: Any) -> bytes:
    encoded = bytes(reply)
    if not _secrets_in(reply):
        return encoded
    stored, vault, context = type(reply).parse(encoded), vault_of(engine.keyring.code), _context(key)
    for holder, name, secret in _secrets_in(stored):
        holder[name] = vault.seal_secret(secret, context)
    return bytes(stored)


def _open_secrets(engine: Engine, key: _Key, kind: Any, encoded: bytes) -> Any:
    reply = kind.parse(encoded)
    for holder, name, sealed in _secrets_in(reply):
        try:
            holder[name] = vault_of(engine.keyring.code).open_secret(sealed, _context(key))
        except VaultError:
            holder[name] = ""
    return reply


def _context(key: _Key) -> str:
    return "reply/" + "/".join(key)


def _secrets_in(value: Any) -> list[tuple[dict[str, Any], str, str]]:
    """(container, field name, secret) of each secret in a message, including its free-form JSON."""
    found: list[tuple[dict[str, Any], str, str]] = []
    holder = vars(value) if isinstance(value, Message) else value if isinstance(value, dict) else {}
    for name, item in holder.items():
        if name in SECRETS and item and isinstance(item, str):
            found.append((holder, name, item))
        for inner in item if isinstance(item, list) else (item,):
            found += _secrets_in(inner)
    return found


def route_of(request: Any, part: int = 0) -> str:
    """The route that scopes a key: the operation, and the id in its path."""
    route = [type(request).__name__.removesuffix("Request"), getattr(request, "id", ""), str(part or "")]
    return " ".join(filter(None, route))
