"""Identifiers: a type prefix and a UUIDv7, as `play_0636d2c3g9q7hbh8k2m4n6p8r0`.

The 128 bits are written in 26 characters of Crockford's base32, most significant first, so that
identifiers of a kind sort by the time they were made (RFC 9562, UUIDv7). That keeps the indexes that
hold them growing at one end. They are opaque to clients.
"""

from __future__ import annotations

import os
import time
from base64 import b32hexencode
from typing import Final

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_CROCKFORD: Final = bytes.maketrans(b"0123456789ABCDEFGHIJKLMNOPQRSTUV", _ALPHABET.encode())
_BACK: Final = {character: index for index, character in enumerate(_ALPHABET)}

_pool = b""
_used = 0
_last_ms = 0
_counter = 0


def random_bytes(size: int) -> bytes:
    """`size` bytes of the operating system's randomness, fetched 4 KiB at a time."""
    global _pool, _used
    if _used + size > len(_pool):
        _pool, _used = os.urandom(4096), 0
    _used += size
    return _pool[_used - size : _used]


def uuid7(unix_seconds: float | None = None) -> bytes:
    """16 bytes: 48 bits of milliseconds, a 12-bit counter within one, and 62 random bits.

    The counter keeps identifiers of one process in the order in which they were made.
    """
    global _last_ms, _counter
    ms = int((time.time() if unix_seconds is None else unix_seconds) * 1000)
    if ms > _last_ms:
        _last_ms, _counter = ms, 0
    else:
        # A clock that stands still or steps back must not make an identifier older than the last.
        _counter += 1
        if _counter > 0xFFF:
            _last_ms, _counter = _last_ms + 1, 0
    value = _last_ms << 80 | (0x7000 | _counter) << 64 | 0x8000000000000000
    return (value | int.from_bytes(random_bytes(8), "big") >> 2).to_bytes(16, "big")


def encode(prefix: str, raw: bytes) -> str:
    """`prefix` and the 26 characters of 16 bytes."""
    return f"{prefix}_{b32hexencode(raw)[:26].translate(_CROCKFORD).decode()}"


def decode(identifier: str) -> bytes | None:
    """The 16 bytes of an identifier made by `encode`; None where it is not one."""
    text = identifier.rpartition("_")[2]
    if len(text) != 26:
        return None
    value = 0
    for character in text:
        index = _BACK.get(character)
        if index is None:
            return None
        value = value << 5 | index
    return (value >> 2).to_bytes(16, "big") if not value & 3 else None


def make(prefix: str, unix_seconds: float | None = None) -> str:
    """A new identifier, such as `make("reward")`."""
    return encode(prefix, uuid7(unix_seconds))


def unix_ms(raw: bytes) -> int:
    """The milliseconds since 1970 that a UUIDv7 carries."""
    return int.from_bytes(raw[:6], "big")
