"""Idempotency keys: which requests are the same one asked again, and how such a one gets its first answer.

A request with a key commits the key, and the hash of what it asks, in the row of what it does: a play, a
redeem, a claim, a quest's completion, an adjustment. The database holds a player's key to one row. Who
finds that row answers by it (`first_answer`), however much later. Only a claim's statement compares the
hash itself (sql/claims.sql), since claims of one batch are decided there.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from runtime.errors import Fault, Status

HASH_BYTES: Final = 16
KEY_CHARACTERS_MAX: Final = 255
NOT_ASKED: Final = frozenset({"scope", "player_id", "idempotency_key"})
"""Fields that say who asks, and under which key; all others say what."""

_encode: Final = msgspec.json.Encoder().encode

Reply = TypeVar("Reply")


class KeyedRequest(NamedTuple):
    """A player's idempotency key, and the hash of what was asked under it; both None where there is no key."""

    player_id: str
    key: str | None
    request_hash: bytes | None


WITHOUT_KEY: Final = KeyedRequest("", None, None)


def keyed(request: Any, *, player_id: str = "", within: str = "") -> KeyedRequest:
    """The request's key and hash, or WITHOUT_KEY.

    player_id: where it is not the request's own. within: what the key is of, where one table holds the
    keys of several (each quest has keys of its own).
    """
    key = request.idempotency_key
    if not key:
        return WITHOUT_KEY
    return KeyedRequest(player_id or request.player_id, f"{within} {key}" if within else key, request_hash(request))


def request_hash(request: Any) -> bytes:
    """What two requests under one key must have in common: every field but `NOT_ASKED`.

    A field that is left out is the same as one with its default, as everywhere in proto3; so a message that has
    gained a field since the row was written hashes as it did then.
    """
    own: Any = type(request)
    kind, names, read = _asked_by(own)
    said = {name: value for name, value in zip(names, read(request), strict=True) if value}
    return hashlib.blake2b(kind + _encode(said), digest_size=HASH_BYTES).digest()


@cache
def _asked_by(kind: Any) -> tuple[bytes, list[str], Callable[[Any], tuple[Any, ...]]]:
    """(a message's name, the names of the fields that say what it asks, what reads them). Made once for each kind."""
    names = sorted(field.name for field in dataclasses.fields(kind) if field.name not in NOT_ASKED)
    if len(names) == 1:
        return kind.__name__.encode(), names, lambda request: (getattr(request, names[0]),)
    return kind.__name__.encode(), names, attrgetter(*names)


def first_answer(row: Any | None, asked: KeyedRequest, read: Callable[[Any], Reply]) -> Reply | None:
    """What the request was answered the first time, as `read` has it from the row that keeps its key.

    None where there is no such row, or the request has no key. IDEMPOTENCY_MISMATCH where the row is another
    request's.
    """
    if asked.key is None or row is None or row["request_hash"] is None:
        return None
    if row["request_hash"] != asked.request_hash:
        raise mismatch()
    return read(row)


def mismatch() -> Fault:
    """An Idempotency-Key that was used with another request (contract.md, "Errors")."""
    return Fault(
        Status.INVALID_ARGUMENT,
        "IDEMPOTENCY_MISMATCH",
        "this Idempotency-Key was used with another request",
        http_status=422,
    )
