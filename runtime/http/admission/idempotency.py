"""The Idempotency-Key of a request: reserved while it runs, and with its answer once it succeeded.

The store only answers faster: the key is also written with the row of what is done under it (runtime/actors/
idempotency.py), but for a start's, which does nothing that lasts. One key in the store:

    {tenant}k:<digest>      "?" + request hash while it runs (10 s), "=" + request hash + answer (24 h; a start's,
                            while its session may be played)
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from aiohttp import web

from runtime.actors.idempotency import KEY_CHARACTERS_MAX, in_progress, mismatch, replayed
from runtime.errors import Fault, invalid
from runtime.stores.ephemeral import Ephemeral

RESERVATION_SECONDS: Final = 10.0
"""How long the key of a request that crashed stays taken."""

ANSWER_SECONDS: Final = 86_400

REPLAY, MISMATCH, IN_PROGRESS = 2, 3, 4
"""The script's verdicts on a key that is taken. The detail of a replay is the stored answer."""

RESERVE: Final = """
-- Part of the script in control.py. ARGV 7: how long a reservation lasts, ms.
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
"""The header of an answer that is an earlier request's."""


class Asked(NamedTuple):
    """What is asked under a key. route: the method and the concrete path, so that one key on two games is two keys."""

    route: str
    key: str
    request_hash: bytes


class Reservation(NamedTuple):
    """A key that the request holds, with the hash of what it asks."""

    key: str
    request_hash: bytes


@dataclass(frozen=True, slots=True)
class Replay:
    """The same key and body succeeded before; `answer` is what `settle` stored."""

    answer: bytes
    headers: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The key was used with another request."""

    def fault(self) -> Fault:
        return mismatch()


@dataclass(frozen=True, slots=True)
class InProgress:
    """The same key and body is being worked on."""

    def fault(self) -> Fault:
        return in_progress()


def idempotency_key(request: web.Request) -> str:
    """The Idempotency-Key header, or "". INVALID_ARGUMENT when it is empty, too long or not printable ASCII."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return ""
    if not key or len(key) > KEY_CHARACTERS_MAX or not (key.isascii() and key.isprintable()):
        raise invalid("Idempotency-Key", f"must be 1 to {KEY_CHARACTERS_MAX} printable ASCII characters")
    return key


def replay_headers() -> Mapping[str, str]:
    """REPLAYED where Core's last answer to this task was an earlier request's, else nothing."""
    return REPLAYED if replayed.get() else {}


def reservation(tenant_id: str, owner: str, asked: Asked) -> Reservation:
    """What RESERVE is to reserve.

    owner: the player, or what proves to be the same client where there is none (the session that it plays). An
    address proves nothing: it is a whole office's, and whoever sent the same key from there would get another's
    session and token.
    """
    return Reservation(f"{{{tenant_id}}}k:{_digest(owner, asked.route, asked.key)}", asked.request_hash)


def settle(store: Ephemeral, held: Reservation, answer: bytes | None, seconds: int = ANSWER_SECONDS) -> None:
    """Stores a success for replays, or (None) frees the key: a refusal changed nothing and may be tried again.

    A reservation that ran out may by now be another request's; freeing that one too lets a third
    run beside it, which the unique index over keys in the durable store then refuses.
    """
    if answer is None:
        store.post("DEL", held.key)
    else:
        store.post("SET", held.key, b"=" + held.request_hash + answer, "EX", seconds)


def _digest(*parts: str) -> str:
    """Length-prefixed, so that ("a", "bc") and ("ab", "c") differ."""
    joined = "".join([f"{len(part)}:{part}" for part in parts])
    return hashlib.blake2b(joined.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
