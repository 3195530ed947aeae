"""Identifiers: a type prefix and a ULID, as `play_01ke7x3c9q7hbh8k2m4n6p8r0t`.

A ULID is 26 lower-case characters of Crockford's base32: 10 of milliseconds since 1970, then 16 of randomness,
whose first two count within a millisecond. Identifiers of one kind therefore sort by creation time, so their indexes
grow at one end. Clients treat them as opaque. Each play makes several, so generation avoids big-integer arithmetic.
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
    """Random characters of 5 bits each, from the operating system, fetched in bulk."""
    global _pool, _used
    if _used + characters > len(_pool):
        _pool, _used = os.urandom(_POOL_CHARACTERS).translate(_FROM_BYTE).decode(), 0
    _used += characters
    return _pool[_used - characters : _used]


def _milliseconds(ms: int) -> str:
    """The first 10 characters of a ULID."""
    return "".join([_PAIRS[ms >> shift & 1023] for shift in (40, 30, 20, 10, 0)])


def make(prefix: str) -> str:
    """A new identifier, which sorts after every other made by this process: `make("reward")`."""
    global _last_ms, _count, _time
    ms = int(time.time() * 1000)
    if ms > _last_ms:
        _last_ms, _count, _time = ms, 0, _milliseconds(ms)
    else:
        # If the clock stands still or steps back, the new identifier must still sort after the last.
        _count += 1
        if _count > 1023:
            _last_ms, _count = _last_ms + 1, 0
            _time = _milliseconds(_last_ms)
    return f"{prefix}_{_time}{_PAIRS[_count]}{_random(14)}"


def is_guest(player_id: str) -> bool:
    """Whether the id was made for a guest: known before the guest's first play creates a row.

    The schema's first_known_as() uses the same rule.
    """
    return player_id.startswith(GUEST) and len(player_id) == len(GUEST) + 26


def is_own(player_id: str) -> bool:
    """Whether the id has the form of those made by this service, for guests and for players who log in."""
    return player_id.startswith((GUEST, "player_")) and len(player_id.partition("_")[2]) == 26


def guest_of(digest: bytes, origin_id: str) -> str:
    """The guest's id that 10 bytes of a digest determine. It sorts at the time of `origin_id`, which is older."""
    ulid = origin_id.rpartition("_")[2]
    at = ulid[:10] if len(ulid) == 26 and set(ulid) <= set(_ALPHABET) else "0" * 10
    number = int.from_bytes(digest[:10], "big")
    return f"{GUEST}{at}" + "".join([_PAIRS[number >> shift & 1023] for shift in range(70, -1, -10)])


def ulid_at(unix_seconds: float) -> str:
    """A ULID of that time, without a prefix, for ids that must carry the database's time, not this machine's."""
    return _milliseconds(int(unix_seconds * 1000)) + _random(16)


def day_of(unix_seconds: float) -> str:
    """A ULID of the beginning of the day (UTC), the same for all times of the day."""
    return _milliseconds(int(unix_seconds) // 86_400 * 86_400_000) + "0" * 16


def earliest(prefix: str, unix_seconds: float) -> str:
    """An identifier that sorts before all made from that time on."""
    return f"{prefix}_{_milliseconds(max(0, int(unix_seconds * 1000)))}"


def between(prefix: str, since: int, until: int) -> tuple[str, str]:
    """Bounds (inclusive, exclusive) of the identifiers made in a time span (unix seconds; 0: unbounded).

    They include a day's margin on either side, because ids carry the clock of the process that made them.
    """
    first = earliest(prefix, since - _DAY_SECONDS) if since else ""
    return first, earliest(prefix, until + _DAY_SECONDS) if until else "~"


def unix_ms(ulid: str) -> int:
    """The milliseconds since 1970 in a ULID. ValueError if it is not one."""
    return int(ulid[:10].translate(_TO_BASE32), 32)
