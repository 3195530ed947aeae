"""A good client: it asks, and asks again under the same key where it was not answered; everything is recorded."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

from ops.certification.node import Node
from ops.history.record import Asked, Attempt, History
from runtime.operations import API

PATIENCE_SECONDS: Final = 60.0
"""How long one request is tried again. What takes longer is broken."""

ANSWER_SECONDS: Final = 10.0
"""How long an answer is waited for. The service gives up on its stores long before."""

PAUSE_SECONDS: Final = (0.02, 0.5)
"""Between two tries: at first, and at most."""

TRIED_AGAIN: Final = ("IDEMPOTENCY_IN_PROGRESS",)
"""Refusals that ask for another try. Beside them every 503, and whatever was not answered."""


class GaveUp(RuntimeError):
    """A request was not answered within PATIENCE_SECONDS."""


@dataclass
class Client:
    """Asks for people of one tenant: the edges, and Core's REST where a row wants both Cores asked.

    processes: those to choose from, in turn, by surface ("consumer", "admin", "core"). tokens: the bearer token of a
    person on an edge; bearers: of guests, who were given theirs ("" is nobody, and shows none). seconds: how long each
    attempt took: operation, when it began, how long.
    """

    http: aiohttp.ClientSession
    history: History
    tenant_id: str
    processes: Callable[[str], Sequence[Node]]
    tokens: Callable[[str, str], str]
    bearers: dict[str, str] = field(default_factory=lambda: {"": ""})
    seconds: list[tuple[str, float, float]] = field(default_factory=list)
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
        """The request once it was answered: done, or refused for good.

        again: it is sent once more after it was done, as by a client that lost the answer. GaveUp where nobody answers
        in PATIENCE_SECONDS.
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
        """A request that is sent once, whatever comes of it."""
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
            attempt.http = 0  # Cut off in the middle of an answer: it says nothing.
            return attempt
        finally:
            now = time.monotonic()
            self.seconds.append((asked.operation, attempt.began, now - attempt.began))
        attempt.ended = time.monotonic()
        return attempt

    def _as(self, asked: Asked, surface: str) -> tuple[dict[str, str], dict[str, Any] | None]:
        """Headers and body: on an edge the token says who asks, on Core the body does."""
        if surface == "core":
            who = {"player_id": asked.who} if asked.facts.get("of_player", True) else {}
            key = {"idempotency_key": asked.key} if asked.key else {}
            return {}, {"scope": {"tenant_id": self.tenant_id}, **who, **key, **(asked.body or {})}
        headers = {"Idempotency-Key": asked.key} if asked.key else {}
        if surface == "consumer":
            headers["X-Tenant-Id"] = self.tenant_id
        token = self.bearers[asked.who] if asked.who in self.bearers else self.tokens(surface, asked.who)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return headers, asked.body


def _is_tried_again(attempt: Attempt) -> bool:
    return attempt.http in (0, 429) or attempt.http >= 500 or attempt.reason in TRIED_AGAIN


def percentile(values: Sequence[float], part: float) -> float:
    """The value below which that part of them lies; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0.0
