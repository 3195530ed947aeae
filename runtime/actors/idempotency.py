"""Idempotency keys: which requests are the same one asked again, and how such a one gets its first answer.

A request with a key commits the key, and the hash of what it asks, with what it does. The database holds the
key of who asked, on one route with its path's ids, to one row; who finds that row answers by it
(`first_answer`), however much later. A player's is in the row of what it does: a play, a redeem, a claim, a
quest's completion. What staff do is in a row of its own (runtime/operations/idempotent_writes.py).
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from runtime.errors import Fault, Status

HASH_BYTES: Final = 16
KEY_CHARACTERS_MAX: Final = 255
NOT_ASKED: Final = frozenset({"scope", "player_id", "idempotency_key"})
"""Fields that say who asks, and under which key; all others say what."""

_encode: Final = msgspec.json.Encoder(order="sorted").encode
_WHOLE: Final = re.compile(rb"\.0[,}\]]")

Reply = TypeVar("Reply")

replayed: Final[ContextVar[bool]] = ContextVar("replayed", default=False)
"""Whether the last `Caller.call` of this task answered with the reply of an earlier request under the same key."""


class Replay(NamedTuple):
    """How an actor answers a request that was done before: Core unwraps the reply and sets `replayed`."""

    reply: Any


class KeyedRequest(NamedTuple):
    """A player's idempotency key, and the hash of what was asked under it; both None where there is no key."""

    player_id: str
    key: str | None
    request_hash: bytes | None


WITHOUT_KEY: Final = KeyedRequest("", None, None)


def keyed(request: Any, *, player_id: str = "") -> KeyedRequest:
    """The request's key and hash, or WITHOUT_KEY. player_id: where it is not the request's own."""
    key = request.idempotency_key
    if not key:
        return WITHOUT_KEY
    return KeyedRequest(player_id or request.player_id, key, request_hash(request))


def request_hash(request: Any) -> bytes:
    """What two requests under one key must have in common: every field but `NOT_ASKED`.

    JSON that means the same is the same: the order of an object's members makes no difference, nor does 2.0 for 2.
    A field that is left out is the same as one with its default, as everywhere in proto3; so a message that has
    gained a field since the row was written hashes as it did then.
    """
    own: Any = type(request)
    kind, read = _asked_by(own)
    said = read(request)
    encoded = _encode(said)
    if b".0" in encoded and _WHOLE.search(encoded):  # Only then may a number be whole and not look it.
        encoded = _encode(_whole(said))
    return hashlib.blake2b(kind + encoded, digest_size=HASH_BYTES).digest()


def staff_request_hash(request: Any) -> bytes:
    """As `request_hash`, of a request whose player is not who asks, but what it is about."""
    about = getattr(request, "player_id", "")
    return hashlib.blake2b(request_hash(request) + about.encode(), digest_size=HASH_BYTES).digest()


def _whole(value: Any) -> Any:
    """The value with 2.0 as 2, which JSON does not tell apart."""
    if isinstance(value, dict):
        return {name: _whole(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


@cache
def _asked_by(kind: Any) -> tuple[bytes, Callable[[Any], dict[str, Any]]]:
    """(a message's name; what reads its fields that say what it asks, but for those that hold nothing)."""
    # Written as source once: a loop over the fields costs each play twice as much, at the edge and in Core.
    source = ["def read(request):", " said = {}"]
    for name in sorted(field.name for field in dataclasses.fields(kind) if field.name not in NOT_ASKED):
        source.append(f" if value := request.{name}: said[{name!r}] = value")
    scope: dict[str, Any] = {}
    exec(compile("\n".join([*source, " return said"]), f"<what {kind.__name__} asks>", "exec"), scope)
    return kind.__name__.encode(), scope["read"]


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


def in_progress() -> Fault:
    """A request with this Idempotency-Key has begun, and is not done (contract.md, "Errors")."""
    return Fault(
        Status.ABORTED,
        "IDEMPOTENCY_IN_PROGRESS",
        "a request with this Idempotency-Key is still running",
        retry_after_seconds=1,
    )


def mismatch() -> Fault:
    """An Idempotency-Key that was used with another request (contract.md, "Errors")."""
    return Fault(
        Status.INVALID_ARGUMENT,
        "IDEMPOTENCY_MISMATCH",
        "this Idempotency-Key was used with another request",
        http_status=422,
    )
