"""Identifiers: a type prefix and a ULID, as `play_01ke7x3c9q7hbh8k2m4n6p8r0t`.

A ULID is 26 characters of Crockford's base32 in lower case: 10 of milliseconds since 1970, then 16 of
randomness, of which the first two count within a millisecond. Identifiers of a kind so sort by the
time they were made, which keeps the indexes that hold them growing at one end. To clients they are
opaque. Made several times in each play, so made cheaply: no big-integer arithmetic.
"""

from __future__ import annotations

import os
import time
from typing import Final

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS: Final = [first + second for first in _ALPHABET for second in _ALPHABET]
_FROM_BYTE: Final = bytes(ord(_ALPHABET[byte & 31]) for byte in range(256))
_TO_BASE32: Final = str.maketrans(_ALPHABET, "0123456789abcdefghijklmnopqrstuv")
_POOL_CHARACTERS: Final = 16_384
_DAY_SECONDS: Final = 86_400

GUEST: Final = "guest_"

_pool = ""
_used = 0
_last_ms = 0
_count = 0
_time = ""


def _random(characters: int) -> str:
    """Characters of 5 random bits each, from the operating system's randomness, fetched many at a time."""
    global _pool, _used
    if _used + characters > len(_pool):
        _pool, _used = os.urandom(_POOL_CHARACTERS).translate(_FROM_BYTE).decode(), 0
    _used += characters
    return _pool[_used - characters : _used]


def _milliseconds(ms: int) -> str:
    """The first 10 characters of a ULID."""
    return "".join([_PAIRS[ms >> shift & 1023] for shift in (40, 30, 20, 10, 0)])


def make(prefix: str) -> str:
    """A new identifier of now, later than every other that this process has made: `make("reward")`."""
    global _last_ms, _count, _time
    ms = int(time.time() * 1000)
    if ms > _last_ms:
        _last_ms, _count, _time = ms, 0, _milliseconds(ms)
    else:
        # A clock that stands still or steps back must not make an identifier older than the last.
        _count += 1
        if _count > 1023:
            _last_ms, _count = _last_ms + 1, 0
            _time = _milliseconds(_last_ms)
    return f"{prefix}_{_time}{_PAIRS[_count]}{_random(14)}"


def is_guest(player_id: str) -> bool:
    """Whether the id is one that was made for a guest: known before the guest's first play makes its row.

    The schema's first_known_as() goes by the same.
    """
    return player_id.startswith(GUEST) and len(player_id) == len(GUEST) + 26


def ulid_at(unix_seconds: float) -> str:
    """A ULID of that time, without a prefix: for what must carry the database's time, not this machine's."""
    return _milliseconds(int(unix_seconds * 1000)) + _random(16)


def earliest(prefix: str, unix_seconds: float) -> str:
    """An identifier that sorts before all that are made from that time on."""
    return f"{prefix}_{_milliseconds(max(0, int(unix_seconds * 1000)))}"


def between(prefix: str, since: int, until: int) -> tuple[str, str]:
    """The least, and the first too great, of the identifiers that were made then (unix seconds; 0: any time).

    With a day to spare on either side, since they are told by the clock of who made them.
    """
    first = earliest(prefix, since - _DAY_SECONDS) if since else ""
    return first, earliest(prefix, until + _DAY_SECONDS) if until else "~"


def unix_ms(ulid: str) -> int:
    """The milliseconds since 1970 that a ULID carries. ValueError where it is not one."""
    return int(ulid[:10].translate(_TO_BASE32), 32)
