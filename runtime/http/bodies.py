"""Request bodies: read whole or in pieces, bounded in size and in time, and decoded."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web

from runtime.errors import Fault, Status, invalid

BODY_SECONDS: Final = 10.0
"""How long a body may take to arrive."""

SMALL_BYTES: Final = 16 * 1024
"""Bodies of this size are not counted: the bound on connections is theirs, and plays are never refused for others'."""

HELD_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of all larger bodies that are being read and answered in this process, with what they are decoded to."""

VALUE_BYTES: Final = 64
"""What a value of JSON takes once it is decoded, about."""

ON_BODY: Final[web.RequestKey[Callable[[int], None]]] = web.RequestKey("on_body")
"""Where a request whose body does not say its length keeps what is told how much has come of it, and may raise."""

JSON: Final = "application/json"

AS_JSON: Final = (JSON, "", "application/octet-stream", "application/x-www-form-urlencoded")
"""Types whose body is read as JSON: beside its own, those that clients put on a body whose type nobody named. The last
is what curl's -d and Python's urllib send. On Core no page can use it: its browser names the page (core_guard.py).
"""

T = TypeVar("T")


def type_of(request: web.Request, *others: str) -> str:
    """The type of the body, JSON for each of AS_JSON. CONTENT_TYPE_UNSUPPORTED for what is not in `others` either."""
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind in AS_JSON:
        return JSON
    if kind in others:
        return kind
    types = " or ".join((JSON, *others))
    message = f"{kind[:100]!r} is not read here: send {types}, named by the header Content-Type: {JSON}"
    raise Fault(Status.INVALID_ARGUMENT, "CONTENT_TYPE_UNSUPPORTED", message, http_status=415)


def check_body(request: web.Request, max_bytes: int) -> None:
    """Refuse, before a byte of it is read, a body that says it is too large or that is compressed.

    A compressed body is never inflated: a bomb stays as small as it came.
    """
    _check(request, request.content_length, max_bytes)


def _check(request: web.Request, length: int | None, max_bytes: int) -> None:
    if (length or 0) > max_bytes:
        raise _too_large(max_bytes)
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        raise Fault(
            Status.INVALID_ARGUMENT, "ENCODING_UNSUPPORTED", "send the body without Content-Encoding", http_status=415
        )


async def read_body(request: web.Request, most: int = 0, *types: str) -> bytes:
    """The whole body of JSON, or of one of `types`: at most `most` bytes (0: the application's `client_max_size`),
    within BODY_SECONDS.

    BODY_TOO_LARGE beyond the one, BODY_INCOMPLETE beyond the other; OVERLOADED while others hold all that there is.
    """
    most = most or request.client_max_size
    length = request.content_length
    _check(request, length, most)
    type_of(request, *types)
    if length is not None and length <= SMALL_BYTES and request.content.is_eof():
        return await request.read()
    try:
        # aiohttp waits for ever for a body that stops coming, or whose chunks break half-way.
        async with asyncio.timeout(BODY_SECONDS):
            return await _read(request, most, told=length is not None)
    except TimeoutError:
        raise _incomplete() from None


async def _read(request: web.Request, most: int, *, told: bool) -> bytes:
    """The body as it comes; what is held of it is counted as it comes, so that who only says much holds nothing."""
    pieces: list[bytes] = []
    size = 0
    held = None
    while piece := await request.content.readany():
        pieces.append(piece)
        size += len(piece)
        if size > most:
            raise _too_large(most)
        if not told and ON_BODY in request:
            request[ON_BODY](size)
        if size > SMALL_BYTES:
            held = held or _Hold(request)
            held.more(len(piece))
    body = b"".join(pieces)
    if held is not None:
        held.more(len(body) + VALUE_BYTES * sum(map(body.count, (b",", b":", b"[", b"{"))))
    return body


class _Hold:
    """The bytes that a request with a larger body holds, until it has been answered."""

    total = 0
    """Of all of them in this process."""

    def __init__(self, request: web.Request) -> None:
        # One of the largest that are allowed must fit, whatever BODY_LIMIT_BYTES says.
        self._most = max(HELD_BYTES_MAX, VALUE_BYTES * request.client_max_size)
        self._bytes = 0
        task = asyncio.current_task()  # aiohttp answers each request in a task of its own.
        assert task is not None
        task.add_done_callback(self._release)

    def more(self, count: int) -> None:
        """Counts so many more. OVERLOADED where there are no more."""
        if _Hold.total + count > self._most:
            raise Fault(
                Status.UNAVAILABLE,
                "OVERLOADED",
                "too many large bodies are being read; try again",
                retry_after_seconds=1,
            )
        _Hold.total += count
        self._bytes += count

    def _release(self, _: asyncio.Task[Any]) -> None:
        _Hold.total -= self._bytes


async def stream_body(request: web.Request, max_bytes: int) -> AsyncIterator[bytes]:
    """The body in pieces as they arrive, for bodies that must not be held in memory.

    BODY_TOO_LARGE beyond `max_bytes`; BODY_INCOMPLETE when no piece comes for BODY_SECONDS.
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
    """Decode; every way in which a body can be wrong is INVALID_ARGUMENT, naming the field where there is one."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as exc:
        description, _, path = str(exc).partition(" - at `")
        of = path.rstrip("`").removeprefix("$").lstrip(".")
        # Of one that is missing or unknown, the path is that of the object.
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
        Status.INVALID_ARGUMENT, "BODY_INCOMPLETE", f"the body stopped for {BODY_SECONDS:g} s", http_status=408
    )
