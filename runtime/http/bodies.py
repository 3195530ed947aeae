"""Reads and decodes request bodies, whole or in pieces, with limits on size and time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web

from runtime.errors import Fault, Status, invalid

BODY_SECONDS: Final = 10.0
"""The time limit for receiving a body."""

SMALL_BYTES: Final = 16 * 1024
"""Bodies up to this size are not counted against the memory limit, so that large bodies never block plays. The
connection limit bounds them."""

RESERVED_BYTES_MAX: Final = 32 * 1024 * 1024
"""The memory limit of this process for all larger bodies in progress, including their decoded values."""

VALUE_BYTES: Final = 64
"""The approximate memory of a decoded JSON value."""

ON_BODY: Final[web.RequestKey[Callable[[int], None]]] = web.RequestKey("on_body")
"""The request key of a callback for bodies without a Content-Length. It gets the bytes received so far, and may raise
to refuse the body."""

JSON: Final = "application/json"

AS_JSON: Final = (JSON, "", "application/octet-stream", "application/x-www-form-urlencoded")
"""Content types read as JSON: its own, and the defaults of clients that set none. The last is the default of curl's -d
and Python's urllib. Web pages can send it too, but Core refuses them by their origin (core_guard.py).
"""

T = TypeVar("T")


def type_of(request: web.Request, *others: str) -> str:
    """The body's content type, JSON for all of AS_JSON. CONTENT_TYPE_UNSUPPORTED if it is not in `others` either."""
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind in AS_JSON:
        return JSON
    if kind in others:
        return kind
    types = " or ".join((JSON, *others))
    message = f"content type {kind[:100]!r} is not supported: set Content-Type to {types}"
    raise Fault(Status.INVALID_ARGUMENT, "CONTENT_TYPE_UNSUPPORTED", message, http_status=415)


def check_body(request: web.Request, max_bytes: int) -> None:
    """Refuses a body that is compressed, or too large by its Content-Length, before any of it is read.

    Compressed bodies are never inflated, which defeats decompression bombs.
    """
    _check(request, request.content_length, max_bytes)


def _check(request: web.Request, length: int | None, max_bytes: int) -> None:
    if (length or 0) > max_bytes:
        raise _too_large(max_bytes)
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        raise Fault(
            Status.INVALID_ARGUMENT,
            "ENCODING_UNSUPPORTED",
            "Content-Encoding is not supported: send the body uncompressed",
            http_status=415,
        )


async def read_body(request: web.Request, most: int = 0, *types: str) -> bytes:
    """Reads a whole body of JSON or of one of `types`: at most `most` bytes (0: the application's `client_max_size`),
    within BODY_SECONDS.

    BODY_TOO_LARGE above the size, BODY_INCOMPLETE after the time, OVERLOADED if other bodies use up the memory limit.
    """
    most = most or request.client_max_size
    length = request.content_length
    _check(request, length, most)
    type_of(request, *types)
    if length is not None and length <= SMALL_BYTES and request.content.is_eof():
        return request.content.read_nowait()  # Without the two awaits and the copies of `request.read()`.
    try:
        # aiohttp would wait forever for a body that stalls, or whose chunks break off.
        async with asyncio.timeout(BODY_SECONDS):
            return await _read(request, most, length_known=length is not None)
    except TimeoutError:
        raise _incomplete() from None


async def _read(request: web.Request, most: int, *, length_known: bool) -> bytes:
    """Reads the body and reserves memory for the bytes received: a large Content-Length alone reserves none."""
    pieces: list[bytes] = []
    size = 0
    reserved = None
    while piece := await request.content.readany():
        pieces.append(piece)
        size += len(piece)
        if size > most:
            raise _too_large(most)
        if not length_known and ON_BODY in request:
            request[ON_BODY](size)
        if size > SMALL_BYTES:
            reserved = reserved or _Reservation(request)
            reserved.reserve(len(piece))
    body = b"".join(pieces)
    if reserved is not None:
        reserved.reserve(len(body) + VALUE_BYTES * sum(map(body.count, (b",", b":", b"[", b"{"))))
    return body


class _Reservation:
    """The memory reserved for a request with a larger body, until its response is sent."""

    total = 0
    """The bytes reserved by all requests of this process."""

    def __init__(self, request: web.Request) -> None:
        # One body of the largest allowed size must fit, for any BODY_LIMIT_BYTES.
        self._most = max(RESERVED_BYTES_MAX, VALUE_BYTES * request.client_max_size)
        self._bytes = 0
        task = asyncio.current_task()  # aiohttp answers each request in a task of its own.
        assert task is not None
        task.add_done_callback(self._release)

    def reserve(self, count: int) -> None:
        """Reserves `count` more bytes. OVERLOADED if the limit is reached."""
        if _Reservation.total + count > self._most:
            raise Fault(
                Status.UNAVAILABLE,
                "OVERLOADED",
                "too many large bodies are in progress; try again",
                retry_after_seconds=1,
            )
        _Reservation.total += count
        self._bytes += count

    def _release(self, _: asyncio.Task[Any]) -> None:
        _Reservation.total -= self._bytes


async def stream_body(request: web.Request, max_bytes: int) -> AsyncIterator[bytes]:
    """Yields the body in pieces as they arrive, for bodies too large for memory.

    BODY_TOO_LARGE above `max_bytes`; BODY_INCOMPLETE if no piece arrives for BODY_SECONDS.
    """
    check_body(request, max_bytes)
    seen = 0
    while True:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                piece = await request.content.readany()
        except TimeoutError:
            raise _incomplete() from None
        if not piece:
            return
        seen += len(piece)
        if seen > max_bytes:
            raise _too_large(max_bytes)
        yield piece


_NAMED: Final = re.compile(r"field `([^`]+)`$")


def decode_json(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Decodes a body. Any error is INVALID_ARGUMENT and names the field, if there is one."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as exc:
        description, _, path = str(exc).partition(" - at `")
        of = path.rstrip("`").removeprefix("$").lstrip(".")
        # For a missing or unknown field, the path is the object's.
        named = _NAMED.search(description)
        raise invalid(".".join(filter(None, (of, named and named[1]))), description) from None
    except RecursionError:
        raise invalid("", "the JSON is nested too deeply") from None
    except ValueError as exc:  # msgspec.DecodeError and UnicodeDecodeError are ValueErrors.
        raise invalid("", f"the body is not valid JSON: {exc}" if body else "the body is empty") from None


def _too_large(max_bytes: int) -> Fault:
    return Fault(
        Status.INVALID_ARGUMENT,
        "BODY_TOO_LARGE",
        f"the body exceeds {max_bytes} bytes",
        http_status=413,
        limit_bytes=max_bytes,
    )


def _incomplete() -> Fault:
    return Fault(
        Status.INVALID_ARGUMENT,
        "BODY_INCOMPLETE",
        f"the body did not arrive within {BODY_SECONDS:g} s; send it again",
        http_status=408,
    )
