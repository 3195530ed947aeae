"""A client that retries under its idempotency key, and records every request and answer."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

from ops.certification.process import Process
from ops.history.record import Asked, Attempt, History
from runtime.operations import API

PATIENCE_SECONDS: Final = 60.0
"""How long one request is retried. What takes longer is broken."""

ANSWER_SECONDS: Final = 10.0
"""How long an answer is waited for. The service gives up on its stores long before that."""

PAUSE_SECONDS: Final = (0.02, 0.5)
"""Between two tries: the first, and the longest."""

TRIED_AGAIN: Final = ("IDEMPOTENCY_IN_PROGRESS",)
"""Refusals that are retried, beside every 5xx and every request without an answer."""


class GaveUp(RuntimeError):
    """A request was not answered within PATIENCE_SECONDS."""


@dataclass
class Client:
    """Sends the requests of one tenant's players and staff: to the edges, or to Core's REST.

    processes: those of a surface ("consumer", "admin", "core"), asked in turn. tokens: the bearer token of a person on
    a surface.
    """

    http: aiohttp.ClientSession
    history: History
    tenant_id: str
    processes: Callable[[str], Sequence[Process]]
    tokens: Callable[[str, str], str]
    _turns: Iterator[int] = field(default_factory=itertools.count)

    async def ask(
        self,
        operation: str,
        who: str,
        verb: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        surface: str = "consumer",
        key: str = "",
        of: str = "",
        again: bool = False,
        **facts: Any,
    ) -> Asked:
        """The request once it is done, or refused for good.

        again: it is sent once more after it was done, as if the answer was lost. GaveUp after PATIENCE_SECONDS.
        """
        asked = self.history.new(operation, who, of=of, key=key, body=body, facts=facts)
        gives_up = time.monotonic() + PATIENCE_SECONDS
        pause = PAUSE_SECONDS[0]
        while True:
            attempt = await self._send(asked, surface, verb, path)
            if attempt.ok and again:
                again = False
                continue
            if attempt.ok or not _is_tried_again(attempt):
                return asked
            if time.monotonic() > gives_up:
                raise GaveUp(asked.told())
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS[1])

    async def once(self, operation: str, who: str, verb: str, path: str, body: Any = None, **more: Any) -> Asked:
        """A request that is sent once."""
        surface = more.pop("surface", "consumer")
        asked = self.history.new(operation, who, of=more.pop("of", ""), key=more.pop("key", ""), body=body, facts=more)
        await self._send(asked, surface, verb, path)
        return asked

    async def _send(self, asked: Asked, surface: str, verb: str, path: str) -> Attempt:
        nodes = self.processes(surface)
        node = nodes[next(self._turns) % len(nodes)]
        url = node.url(surface) + API + path
        headers, body = self._as(asked, surface)
        attempt = Attempt(node.name, time.monotonic())
        asked.attempts.append(attempt)
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        try:
            async with self.http.request(verb, url, json=body, headers=headers, timeout=timeout) as answer:
                attempt.http = answer.status
                attempt.retry_after = answer.headers.get("Retry-After", "")
                envelope = await answer.json()
                attempt.code, attempt.data = str(envelope.get("code", "")), envelope.get("data")
                if not attempt.ok and isinstance(attempt.data, dict):
                    attempt.reason = str(attempt.data.get("reason", ""))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            attempt.http = 0  # Cut off in the middle of an answer.
            return attempt
        attempt.ended = time.monotonic()
        return attempt

    def _as(self, asked: Asked, surface: str) -> tuple[dict[str, str], dict[str, Any] | None]:
        """Headers and body: an edge reads the person from the token, Core from the body."""
        if surface == "core":
            key = {"idempotency_key": asked.key} if asked.key else {}
            return {}, {"scope": {"tenant_id": self.tenant_id}, "player_id": asked.who, **key, **(asked.body or {})}
        headers = {"Idempotency-Key": asked.key} if asked.key else {}
        if surface == "consumer":
            headers["X-Tenant-Id"] = self.tenant_id
        headers["Authorization"] = f"Bearer {self.tokens(surface, asked.who)}"
        return headers, asked.body


def _is_tried_again(attempt: Attempt) -> bool:
    return attempt.http in (0, 429) or attempt.http >= 500 or attempt.reason in TRIED_AGAIN
