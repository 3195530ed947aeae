"""A client that retries with its idempotency key, and records every request and response."""

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

from ops.certification.process import Process
from ops.history.record import Attempt, History, Request
from runtime.operations import API

PATIENCE_SECONDS: Final = 60.0
"""How long one request is retried. A longer outage is a failure."""

ANSWER_SECONDS: Final = 10.0
"""Timeout of a response. The service's own timeouts on its stores are much shorter."""

PAUSE_SECONDS: Final = (0.02, 0.5)
"""Back-off between two attempts: the first, and the maximum."""

TRIED_AGAIN: Final = ("IDEMPOTENCY_IN_PROGRESS",)
"""Refusals that are retried, besides every 5xx and every request without a response."""


class GaveUp(RuntimeError):
    """A request got no response within PATIENCE_SECONDS."""


@dataclass
class Client:
    """Sends the requests of one tenant's players and staff to the edges, or to Core's REST.

    processes: those of a surface ("consumer", "admin", "core"), used in turn. tokens: the bearer token of a person for
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
    ) -> Request:
        """Sends a request until it is done or refused for good.

        again: sends it once more after success, as if the response was lost. GaveUp after PATIENCE_SECONDS.
        """
        request = self.history.new(operation, who, of=of, key=key, body=body, facts=facts)
        gives_up = time.monotonic() + PATIENCE_SECONDS
        pause = PAUSE_SECONDS[0]
        while True:
            attempt = await self._send(request, surface, verb, path)
            if attempt.ok and again:
                again = False
                continue
            if attempt.ok or not (attempt.http in (0, 429) or attempt.http >= 500 or attempt.reason in TRIED_AGAIN):
                return request
            if time.monotonic() > gives_up:
                raise GaveUp(request.describe())
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS[1])

    async def once(self, operation: str, who: str, verb: str, path: str, body: Any = None, **more: Any) -> Request:
        """Sends a request without retries."""
        surface = more.pop("surface", "consumer")
        request = self.history.new(
            operation, who, of=more.pop("of", ""), key=more.pop("key", ""), body=body, facts=more
        )
        await self._send(request, surface, verb, path)
        return request

    async def _send(self, request: Request, surface: str, verb: str, path: str) -> Attempt:
        nodes = self.processes(surface)
        node = nodes[next(self._turns) % len(nodes)]
        url = node.url(surface) + API + path
        headers, body = self._as(request, surface)
        attempt = Attempt(node.name, time.monotonic())
        request.attempts.append(attempt)
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
            attempt.http = 0  # The connection broke within a response.
            return attempt
        attempt.ended = time.monotonic()
        return attempt

    def _as(self, request: Request, surface: str) -> tuple[dict[str, str], dict[str, Any] | None]:
        """Headers and body: an edge reads the person from the token, Core from the body."""
        if surface == "core":
            key = {"idempotency_key": request.key} if request.key else {}
            return {}, {"scope": {"tenant_id": self.tenant_id}, "player_id": request.who, **key, **(request.body or {})}
        headers = {"Idempotency-Key": request.key} if request.key else {}
        if surface == "consumer":
            headers["X-Tenant-Id"] = self.tenant_id
        headers["Authorization"] = f"Bearer {self.tokens(surface, request.who)}"
        return headers, request.body
