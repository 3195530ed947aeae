"""Service discovery by DNS: the current addresses of the names in CORE_RPC_ADDRESSES.

A headless name has one address per replica (Kubernetes, Compose), and new ones after each rollout. So all addresses of
a name are used, and the name is resolved again every FOLLOW_SECONDS, or soon after a replica is unreachable. If a
lookup fails, the name keeps its last addresses.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address
from typing import Final

import structlog

log = structlog.get_logger(__name__)

FOLLOW_SECONDS: Final = 5.0
AGAIN_SECONDS: Final = 0.5
"""The minimum time between two lookups, however many replicas are unreachable."""

LOOKUP_SECONDS: Final = 5.0

Address = tuple[str, int]
Lookup = Callable[[str, int], Awaitable[list[Address]]]


async def look_up(host: str, port: int) -> list[Address]:
    """All addresses of a host, by the system's resolver. OSError if there is none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(str(address[0]), port) for *_, address in found]


class Addresses:
    """The addresses of `names` (host:port). Calls `changed` with all of them, in a fixed order, when they change."""

    def __init__(
        self, names: Sequence[str], changed: Callable[[list[Address]], None], *, lookup: Lookup = look_up
    ) -> None:
        self._names = [_split(name) for name in names]
        self._changed = changed
        self._lookup = lookup
        self._found: dict[Address, list[Address]] = {name: [name] for name in self._names if _is_literal(name[0])}
        self._published: list[Address] = []
        self._wanted = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        self._publish()

    async def first(self) -> None:
        """Waits until each name has been looked up once, successfully or not."""
        if self._following is None and self._open_names():
            self._following = asyncio.create_task(self._follow())
            self._first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._following is not None:
            await asyncio.shield(self._first)

    def doubt(self) -> None:
        """Requests a new lookup, because a replica is unreachable."""
        self._wanted.set()

    def close(self) -> None:
        if self._following is not None:
            self._following.cancel()

    def _open_names(self) -> list[Address]:
        return [name for name in self._names if not _is_literal(name[0])]

    async def _follow(self) -> None:
        while True:
            self._wanted.clear()
            try:
                await asyncio.gather(*(self._resolve(name) for name in self._open_names()))
                self._publish()
            except Exception as error:  # Callers wait for this task, so it must survive any error and retry.
                log.error("core_names_not_followed", exc_info=error)
            if not self._first.done():
                self._first.set_result(None)
            await asyncio.sleep(AGAIN_SECONDS)
            try:
                async with asyncio.timeout(FOLLOW_SECONDS - AGAIN_SECONDS):
                    await self._wanted.wait()
            except TimeoutError:
                pass

    async def _resolve(self, name: Address) -> None:
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                self._found[name] = await self._lookup(*name)
        except (OSError, UnicodeError, TimeoutError) as error:
            log.warning("core_name_not_found", host=name[0], why=str(error) or type(error).__name__)

    def _publish(self) -> None:
        found = list(dict.fromkeys(one for name in self._names for one in sorted(self._found.get(name, ()))))
        if found != self._published:
            self._published = found
            self._changed(found)


def _split(name: str) -> Address:
    host, _, port = name.rpartition(":")
    return host.strip("[]"), int(port)


def _is_literal(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
