"""What a history says of times: how long refusals took, when errors ended, how many were slow.

Asked once everybody has been answered: a request that is under way still looks like one that nobody answered.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import aiohttp

from ops.certification.node import Node
from ops.history.record import NOT_YET, Attempt, History


def failing(history: History, since: float, until: float = NOT_YET) -> list[Attempt]:
    """The attempts, begun in that time, that were not answered, or answered by an error of the service."""
    return [one for one in history.attempts if since <= one.began < until and (one.http == 0 or one.http >= 500)]


def errors_ended(history: History, since: float, until: float = NOT_YET) -> float:
    """Seconds after `since` at which the last error before `until` was heard of; 0 where none was."""
    failed = [one for one in history.attempts if one.http == 0 or one.http >= 500]
    times = [one.began if one.ended == NOT_YET else one.ended for one in failed if one.began < until]
    return max((time - since for time in times if since < time < until), default=0.0)


def slowest(attempts: Iterable[Attempt]) -> float:
    """The longest time that one of these took to be answered; 0 of none."""
    return max((one.ended - one.began for one in attempts if one.ended != NOT_YET), default=0.0)


def unanswered(attempts: Iterable[Attempt]) -> int:
    """How many of these nobody answered."""
    return sum(one.http == 0 for one in attempts)


@dataclass
class Readiness:
    """What a process says of itself, looked at often: (when, of /readyz the status and X-Failed-Check, of /healthz)."""

    node: Node
    http: aiohttp.ClientSession
    seen: list[tuple[float, int, str, int]] = field(default_factory=list)
    _looking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Readiness:
        self._looking = asyncio.ensure_future(self._look())
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._looking is not None
        self._looking.cancel()
        await asyncio.wait([self._looking])

    async def _look(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            async with self.http.get(f"{self.node.core_url}/readyz") as ready:
                status, failed = ready.status, ready.headers.get("X-Failed-Check", "")
            async with self.http.get(f"{self.node.core_url}/healthz") as alive:
                self.seen.append((clock(), status, failed, alive.status))
            await asyncio.sleep(0.05)

    def first(self, since: float, status: int, failed: str = "") -> float:
        """Seconds after `since` until it said so; infinite where it never did."""
        return next(
            (at - since for at, one, check, _ in self.seen if at >= since and (one, check) == (status, failed)), NOT_YET
        )

    @property
    def alive(self) -> bool:
        """Whether /healthz was 200 every time."""
        return {health for *_, health in self.seen} == {200}


class Watch:
    """A process of its own that sees when another one is ready: this one is busy with the load, and looks late."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Watch:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-c", _WATCH, stdin=pipe, stdout=pipe
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    async def ready(self, node: Node) -> float:
        """When it said that it is ready, by time.monotonic()."""
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        process.stdin.write(f"{node.ready_port}\n".encode())
        return float(await process.stdout.readline())


_WATCH: Final = """
import sys, time
from http.client import HTTPConnection, HTTPException
for port in sys.stdin:
    status = 0
    while status != 200:
        time.sleep(0.01)
        connection = HTTPConnection("127.0.0.1", int(port), timeout=2)
        try:
            connection.request("GET", "/readyz")
            status = connection.getresponse().status
        except (OSError, HTTPException):
            status = 0
        finally:
            connection.close()
    print(time.monotonic(), flush=True)
"""
