"""The Idempotency-Key of a request: reserved while it runs, stored with the response once it succeeds.

This store is a cache: the key is also written durably with the effect of the request (runtime/actors/idempotency.py),
except a start's, which has no durable effect. The entry:

    {tenant:bucket}k:<digest>      "?" + request hash while it runs (10 s), "=" + request hash + response (24 h; for a
                                   start, as long as its session can be played)
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from aiohttp import web

from runtime.actors.idempotency import KEY_CHARACTERS_MAX, in_progress, mismatch, replayed
from runtime.errors import Fault, invalid
from runtime.http.headers import single_header
from runtime.stores.ephemeral import Ephemeral

RESERVATION_SECONDS: Final = 10.0
"""How long the key of a crashed request stays reserved."""

ANSWER_SECONDS: Final = 86_400

REPLAY, MISMATCH, IN_PROGRESS = 2, 3, 4
"""The script's verdicts on a reserved key. The detail of a replay is the stored response."""

RESERVE: Final = """
-- Part of the script in control.py. ARGV 7: the duration of a reservation, ms.
local function reserve(key, hash, reply)
  local stored = redis.call('GET', key)
  if not stored then
    redis.call('SET', key, '?' .. hash, 'PX', ARGV[7])
    return true
  end
  if stored:sub(2, 1 + #hash) ~= hash then
    reply[1] = 3
  elseif stored:sub(1, 1) == '?' then
    reply[1] = 4
  else
    reply[1], reply[2] = 2, stored:sub(2 + #hash)
  end
  return false
end
"""


REPLAYED: Final[Mapping[str, str]] = {"Idempotency-Replayed": "true"}
"""The header of a replayed response."""


class KeyedRequest(NamedTuple):
    """A request under a key. route: the method and the concrete path, so that a key is separate for each game."""

    route: str
    key: str
    request_hash: bytes


class Reservation(NamedTuple):
    """A reserved key, with the hash of the request."""

    key: str
    request_hash: bytes


@dataclass(frozen=True, slots=True)
class Replay:
    """A request with the same key and body has succeeded; `answer` is the response stored by `settle`."""

    answer: bytes
    headers: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The key was used with another request."""

    def fault(self) -> Fault:
        return mismatch()


@dataclass(frozen=True, slots=True)
class InProgress:
    """A request with the same key and body is running."""

    def fault(self) -> Fault:
        return in_progress()


def idempotency_key(request: web.Request) -> str:
    """The Idempotency-Key header, or "". INVALID_ARGUMENT if it is repeated, empty, too long or not printable ASCII."""
    key = single_header(request, "Idempotency-Key")
    if key is None:
        return ""
    if not key or len(key) > KEY_CHARACTERS_MAX or not (key.isascii() and key.isprintable()):
        raise invalid("Idempotency-Key", f"must be 1 to {KEY_CHARACTERS_MAX} printable ASCII characters")
    return key


def replay_headers() -> Mapping[str, str]:
    """REPLAYED if Core's last reply in this task was a replay, else empty."""
    return REPLAYED if replayed.get() else {}


def reservation(tag: str, owner: str, keyed: KeyedRequest) -> Reservation:
    """The reservation for RESERVE.

    tag: of the tenant and the player (`tag_of`).
    owner: the player, or without one a proof of the same client (the session that it plays). An address is no proof:
    a whole office shares it, and another client with the same key would get the first one's session and token.
    """
    return Reservation(f"{{{tag}}}k:{_digest(owner, keyed.route, keyed.key)}", keyed.request_hash)


def settle(store: Ephemeral, reserved: Reservation, answer: bytes | None, seconds: int = ANSWER_SECONDS) -> None:
    """Stores a success for replays, or (None) releases the key: a refused request changed nothing and may be retried.

    An expired reservation may now belong to another request. Releasing that one lets a third run concurrently, which
    the unique index over keys in the durable store then rejects.
    """
    if answer is None:
        store.post("DEL", reserved.key)
    else:
        store.post("SET", reserved.key, b"=" + reserved.request_hash + answer, "EX", seconds)


def _digest(*parts: str) -> str:
    """A digest of the length-prefixed parts, so that ("a", "bc") and ("ab", "c") differ."""
    joined = "".join([f"{len(part)}:{part}" for part in parts])
    return hashlib.blake2b(joined.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
