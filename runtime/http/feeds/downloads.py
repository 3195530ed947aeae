"""Long downloads: sent in parts, each read from Core when the client has taken the one before.

Only one part is in memory, and a slow client keeps nothing open in the database. Concurrent downloads are limited per
owner and per edge. A client that reads nothing for STALLED_SECONDS is disconnected, so that it cannot occupy a slot
forever. An interrupted download has no final chunk.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import structlog
from aiohttp import web

from runtime import trace
from runtime.errors import Fault, Status

log = structlog.get_logger(__name__)

JSON_LINES: Final = "application/x-ndjson"

TRIES: Final = 6
PAUSE_SECONDS: Final = 0.5
"""The tries per part and the pause between them, so that a download survives a restart of Core."""

OF_OWNER_MAX: Final = 2
AGAIN_SECONDS: Final = 5.0
STALLED_SECONDS: Final = 120.0

T = TypeVar("T")


class Slots:
    """The slots for concurrent downloads: `of_owner`, one of them for merchant staff, and `of_edge` in total."""

    def __init__(self, policy: str, of_edge: int, of_owner: int = OF_OWNER_MAX) -> None:
        self._policy = policy
        self._of_edge, self._of_owner = of_edge, of_owner
        self._taken: Counter[str] = Counter()
        self._merchants: set[str] = set()

    @contextmanager
    def one(self, owner: str, *, of_merchant: bool = False) -> Iterator[None]:
        """Occupies a slot during the block. RATE_LIMITED if none is free."""
        # No await from here to the addition: two concurrent requests would both take the last slot.
        full = self._taken[owner] >= self._of_owner or self._taken.total() >= self._of_edge
        if full or (of_merchant and owner in self._merchants):
            message = f"too many {self._policy} are running; try again when one has finished"
            raise Fault(
                Status.RESOURCE_EXHAUSTED,
                "RATE_LIMITED",
                message,
                retry_after_seconds=AGAIN_SECONDS,
                policy=self._policy,
            )
        self._taken[owner] += 1
        if of_merchant:
            self._merchants.add(owner)
        try:
            yield
        finally:
            if of_merchant:
                self._merchants.remove(owner)
            self._taken[owner] -= 1
            if not self._taken[owner]:
                del self._taken[owner]


async def persistently(call: Callable[[], Awaitable[T]]) -> T:
    """The call's result. Repeats the call while Core is unavailable, at most TRIES times."""
    remaining = TRIES
    while True:
        try:
            return await call()
        except Fault as fault:
            remaining -= 1
            if fault.status is not Status.UNAVAILABLE or not remaining:
                raise
        await asyncio.sleep(PAUSE_SECONDS)


async def send(request: web.Request, headers: dict[str, str], parts: AsyncIterator[str | bytes]) -> web.StreamResponse:
    """Sends the parts. A failure after the first one ends the connection without a final chunk."""
    first = await anext(parts)  # Before the response begins, so that a refusal can still be sent.
    response = web.StreamResponse(headers={**headers, "X-Content-Type-Options": "nosniff"})
    await response.prepare(request)
    try:
        await _write(response, first)
        async for part in parts:
            await _write(response, part)
    except Exception as error:
        # Not raised: its error response would follow in the body, with a final chunk, as if the file were whole.
        if not isinstance(error, Fault | ConnectionError | TimeoutError):
            log.error("download_failed", trace_id=trace.current.get(), exc_info=error)
        if request.transport is not None:
            request.transport.abort()
    return response


async def _write(response: web.StreamResponse, part: str | bytes) -> None:
    async with asyncio.timeout(STALLED_SECONDS):
        await response.write(part.encode() if isinstance(part, str) else part)
