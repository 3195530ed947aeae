"""Request bodies: read whole or in pieces, bounded in size and in time, and decoded."""

from __future__ import annotations

import asyncio
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
"""Where a request whose body does not say its length keeps what is told of it, and may raise, before it is decoded."""

T = TypeVar("T")


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


async def read_body(request: web.Request) -> bytes:
    """The whole body: at most the application's `client_max_size` bytes, within BODY_SECONDS.

    BODY_TOO_LARGE beyond the one, BODY_INCOMPLETE beyond the other; OVERLOADED while others hold all that there is.
    """
    length = request.content_length
    _check(request, length, request.client_max_size)
    if length is not None and length <= SMALL_BYTES:
        return await request.read() if request.content.is_eof() else await _read(request)
    # Of a body that does not say its length, all that it may have.
    _hold(request, request.client_max_size if length is None else length)
    body = await _read(request)
    if length is None and ON_BODY in request:
        request[ON_BODY](len(body))
    values = body.count(b",") + body.count(b":") + body.count(b"[") + body.count(b"{")
    _hold(request, len(body) + VALUE_BYTES * values)
    return body


async def _read(request: web.Request) -> bytes:
    try:
        # aiohttp waits for ever for a body that stops coming, or whose chunks break half-way.
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except TimeoutError:
        raise _incomplete() from None


class _Held:
    """The bytes that larger bodies hold now."""

    total = 0


def _hold(request: web.Request, count: int) -> None:
    """Counts bytes until the request has been answered: aiohttp answers each in a task of its own."""
    task = asyncio.current_task()
    assert task is not None
    # One of the largest that are allowed must fit, whatever BODY_LIMIT_BYTES says.
    if _Held.total + count > max(HELD_BYTES_MAX, VALUE_BYTES * request.client_max_size):
        raise Fault(
            Status.UNAVAILABLE, "OVERLOADED", "too many large bodies are being read; try again", retry_after_seconds=1
        )
    _Held.total += count

    def release(_: asyncio.Task[Any]) -> None:
        _Held.total -= count

    task.add_done_callback(release)


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


def decode_json(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Decode; every way in which a body can be wrong is INVALID_ARGUMENT, naming the field where there is one."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as exc:
        description, _, path = str(exc).partition(" - at `")
        raise invalid(path.rstrip("`").removeprefix("$").lstrip("."), description) from None
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
