"""Turns uploaded bytes into an asset: a picture is re-encoded, a font is checked.

The bytes determine the type; a file name or Content-Type is ignored. Each picture is decoded by a separate process
(recode.py), one at a time and with low priority, so that uploads take little time from plays and none of their memory.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import struct
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from runtime.errors import Fault, Status, invalid

UPLOAD_BYTES_MAX: Final = 3_000_000
FONT_BYTES_MAX: Final = 1024 * 1024
FONT_EXPANDED_BYTES_MAX: Final = 16 * 1024 * 1024
SECONDS: Final = 30.0
"""The time limit on a busy machine; recode.py limits the CPU time."""

OF_TENANT_MAX: Final = 8
WAITING_MAX: Final = 64
"""The uploads that may wait for the decoder of this process; further ones are OVERLOADED."""

_SCRIPT: Final = str(Path(__file__).with_name("recode.py"))
_PICTURES: Final = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF")
_WOFF2: Final = b"wOF2"
_FLAVORS: Final = (b"\x00\x01\x00\x00", b"OTTO", b"true")
_HEADER: Final = struct.Struct(">4s4sIHHII")
"""Of WOFF2: signature, flavor, length, tables, reserved, expanded size, compressed size."""
_HEADER_BYTES: Final = 48
TABLES_MAX: Final = 256


class Decoded(NamedTuple):
    """The stored form. width, height: 0 for a font."""

    asset_id: str
    type: str
    body: bytes
    width: int = 0
    height: int = 0


class Decoder:
    """Decodes one picture at a time."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._turns_of: dict[str, asyncio.Lock] = {}
        self._waiting: Counter[str] = Counter()

    async def decode(self, tenant_id: str, body: bytes) -> Decoded:
        """The asset of an upload. INVALID_ARGUMENT on `content`; UNAVAILABLE OVERLOADED if too many uploads wait.

        Tenants take turns: one with many or slow uploads delays another by one picture.
        """
        if len(body) > UPLOAD_BYTES_MAX:
            raise invalid("content", f"must be at most {UPLOAD_BYTES_MAX} bytes")
        if body.startswith(_WOFF2):
            if problem := _font_problem(body):
                raise invalid("content", problem)
            return Decoded(_id_of(body), "font/woff2", body)
        if not body.startswith(_PICTURES):
            raise invalid("content", "must be a PNG, JPEG or WebP picture, or a WOFF2 font")
        if self._waiting[tenant_id] >= OF_TENANT_MAX or self._waiting.total() >= WAITING_MAX:
            message = "too many uploads are in progress; try again"
            raise Fault(Status.UNAVAILABLE, "OVERLOADED", message, retry_after_seconds=2)
        self._waiting[tenant_id] += 1
        try:
            async with self._turns_of.setdefault(tenant_id, asyncio.Lock()), self._turn:
                return await _recoded(body)
        finally:
            self._waiting[tenant_id] -= 1
            if not self._waiting[tenant_id]:
                del self._waiting[tenant_id], self._turns_of[tenant_id]


def _id_of(body: bytes) -> str:
    return f"asset_{hashlib.sha256(body).hexdigest()}"


async def _recoded(body: bytes) -> Decoded:
    # Without the environment, which contains the secrets of the service.
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", _SCRIPT),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PATH": os.defpath},
    )
    try:
        async with asyncio.timeout(SECONDS):
            written, _ = await process.communicate(body)
    except TimeoutError:
        raise invalid("content", "takes too long to decode") from None
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    about, _, picture = written.partition(b"\n")
    found: dict[str, Any] = {"problem": "cannot be decoded"}
    if process.returncode == 0:
        found = msgspec.json.decode(about)
    if "problem" in found:
        raise invalid("content", found["problem"])
    return Decoded(_id_of(picture), found["type"], picture, found["width"], found["height"])


def _font_problem(body: bytes) -> str:
    """The problem of a font by its header; "" if there is none. Browsers check the tables (OpenType Sanitizer)."""
    if len(body) > FONT_BYTES_MAX:
        return f"is a font of {len(body)} bytes: at most {FONT_BYTES_MAX} are accepted"
    if len(body) < _HEADER_BYTES:
        return "is not a complete WOFF2 font"
    _, flavor, length, tables, reserved, expanded, compressed = _HEADER.unpack_from(body)
    if flavor not in _FLAVORS or reserved or not 0 < tables <= TABLES_MAX:
        return "is not a WOFF2 font of one face"
    if length != len(body) or not 0 < compressed <= length - _HEADER_BYTES:
        return "is not a complete WOFF2 font"
    if expanded > FONT_EXPANDED_BYTES_MAX:
        return f"is a font of {expanded} bytes when unpacked: at most {FONT_EXPANDED_BYTES_MAX} are accepted"
    return ""
