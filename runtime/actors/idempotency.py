"""Idempotency keys: recognising a retried request, and returning its first answer.

A request with a key commits the key and a hash of its content together with its effect. The database allows one row per
key, caller and route (with the ids of its path). A retry finds that row and is answered from it (`first_answer`), at
any later time. A player's key is in the row of its effect: a play, a redeem, a claim, a quest's completion. Staff keys
have rows of their own (runtime/operations/idempotent_writes.py).
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
NOT_CONTENT: Final = frozenset({"scope", "player_id", "idempotency_key", "client_address", "client_network"})
"""Fields that identify the caller and the key; all others are the request's content."""

_encode: Final = msgspec.json.Encoder(order="sorted").encode
_WHOLE: Final = re.compile(rb"\.0[,}\]]")

Reply = TypeVar("Reply")

replayed: Final[ContextVar[bool]] = ContextVar("replayed", default=False)
"""Whether this task's last `Caller.call` returned the stored reply of an earlier request with the same key."""


class Replay(NamedTuple):
    """An actor's answer to a repeated request: Core unwraps the reply and sets `replayed`."""

    reply: Any


class KeyedRequest(NamedTuple):
    """A player's idempotency key and the hash of its request; both None without a key."""

    player_id: str
    key: str | None
    request_hash: bytes | None


WITHOUT_KEY: Final = KeyedRequest("", None, None)


def keyed(request: Any, *, player_id: str = "") -> KeyedRequest:
    """The request's key and hash, or WITHOUT_KEY. player_id: overrides the request's own."""
    key = request.idempotency_key
    if not key:
        return WITHOUT_KEY
    return KeyedRequest(player_id or request.player_id, key, cached_hash(request))


def request_hash(request: Any) -> bytes:
    """The hash that requests with the same key must share: of every field except `NOT_CONTENT`.

    Equivalent JSON hashes alike: member order does not matter, nor 2.0 versus 2. An omitted field equals its default,
    as in proto3; so adding a field to a message does not change the hashes in old rows.
    """
    own: Any = type(request)
    kind, read = _content_reader(own)
    content = read(request)
    encoded = _encode(content)
    if b".0" in encoded and _WHOLE.search(encoded):  # Only then can a whole number be written as a float.
        encoded = _encode(_normalize_numbers(content))
    return hashlib.blake2b(kind + encoded, digest_size=HASH_BYTES).digest()


def cached_hash(request: Any) -> bytes:
    """`request_hash`, kept with the message: an edge and Core in one process both need it. The content of a message
    must not change after the first call.
    """
    kept: bytes | None = request.__dict__.get("_hash")
    if kept is None:
        kept = request.__dict__["_hash"] = request_hash(request)
    return kept


def staff_request_hash(request: Any) -> bytes:
    """As `request_hash`, plus the player: in a staff request the player is content, not the caller."""
    about = getattr(request, "player_id", "")
    return hashlib.blake2b(request_hash(request) + about.encode(), digest_size=HASH_BYTES).digest()


def _normalize_numbers(value: Any) -> Any:
    """The value with 2.0 as 2: JSON does not distinguish them."""
    if isinstance(value, dict):
        return {name: _normalize_numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_normalize_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


@cache
def _content_reader(kind: Any) -> tuple[bytes, Callable[[Any], dict[str, Any]]]:
    """(a message's name, a function that reads its non-empty content fields)."""
    # Generate the function once: a loop over the fields costs each play twice as much, at the edge and in Core.
    source = ["def read(request):", " content = {}"]
    for name in sorted(field.name for field in dataclasses.fields(kind) if field.name not in NOT_CONTENT):
        source.append(f" if value := request.{name}: content[{name!r}] = value")
    scope: dict[str, Any] = {}
    exec(compile("\n".join([*source, " return content"]), f"<content of {kind.__name__}>", "exec"), scope)
    return kind.__name__.encode(), scope["read"]


def first_answer(row: Any | None, request: KeyedRequest, read: Callable[[Any], Reply]) -> Reply | None:
    """The request's first answer, decoded by `read` from the row that stores its key.

    None if there is no such row or no key. IDEMPOTENCY_MISMATCH if the row stores a different request.
    """
    if request.key is None or row is None or row["request_hash"] is None:
        return None
    if row["request_hash"] != request.request_hash:
        raise mismatch()
    return read(row)


def in_progress() -> Fault:
    """The refusal while the first request with this Idempotency-Key is still running."""
    return Fault(
        Status.ABORTED,
        "IDEMPOTENCY_IN_PROGRESS",
        "a request with this Idempotency-Key is still running",
        retry_after_seconds=1,
    )


def mismatch() -> Fault:
    """The refusal of an Idempotency-Key that was used for a different request."""
    return Fault(
        Status.INVALID_ARGUMENT,
        "IDEMPOTENCY_MISMATCH",
        "this Idempotency-Key was used with another request",
        http_status=422,
    )
