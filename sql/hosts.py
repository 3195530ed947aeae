"""Connects to Postgres at a URL that may name several hosts, as libpq accepts it.

    postgresql://tombola:secret@a,b:5433/tombola?target_session_attrs=read-write
    postgresql:///tombola?host=a,b&port=5432,5433&target_session_attrs=read-write

asyncpg tries such hosts in order within one timeout, so a host that is lost without a reset (its machine is off) would
use up the time of those after it. Here each host has its part of the timeout, and the last one that was connected to is
tried first.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg

CONNECT_SECONDS: Final = 60.0

_NEXT_HOST: Final = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InternalClientError)
"""Errors after which the next host is tried. InternalClientError: the host lacks the wanted target_session_attrs."""


def hosts_of(url: str) -> list[tuple[str, int | None]]:
    """The hosts of a URL with their ports; None: the default port. ValueError if a port is invalid."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    named = parts.netloc.rpartition("@")[2] or query.get("host", [""])[-1]
    ports = [int(port) if port else None for port in query.get("port", [""])[-1].split(",")]
    found = []
    for number, item in enumerate(named.split(",")):
        host, port = _split(item)
        # One port is that of every host.
        found.append((host, port if port is not None else ports[number] if number < len(ports) else ports[0]))
    if any(port is not None and not 0 < port < 65536 for _, port in found):
        raise ValueError("a port is out of range")
    return found


def _split(item: str) -> tuple[str, int | None]:
    """(host, port or None) of `host`, `host:port`, `[::1]:port` or a socket's directory."""
    host, colon, port = item.rpartition(":")
    if not colon or item.endswith("]") or item.startswith("/"):
        host, port = item, ""
    return unquote(host.removeprefix("[").removesuffix("]")), int(port) if port else None


class Hosts:
    """The hosts of one URL."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._last = 0
        """The host that was last connected to."""

    async def connect(self, seconds: float = CONNECT_SECONDS, **options: Any) -> asyncpg.Connection:
        """A connection, within `seconds`; options as of asyncpg.connect. Otherwise the error of the last host."""
        hosts = hosts_of(self._url)
        if len(hosts) == 1:
            connection: asyncpg.Connection = await asyncpg.connect(self._url, timeout=seconds, **options)
            return connection
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        last = self._last
        for tried in range(len(hosts)):
            number = (last + tried) % len(hosts)
            host, port = hosts[number]
            part = max(0.001, ends - loop.time()) / (len(hosts) - tried)
            try:
                connection = await asyncpg.connect(self._url, host=host, port=port, timeout=part, **options)
            except _NEXT_HOST:
                if tried == len(hosts) - 1:
                    raise
            else:
                self._last = number
                return connection
        raise AssertionError("unreachable")


async def connect(url: str, **options: Any) -> asyncpg.Connection:
    """A connection to a URL of one or several hosts, as of asyncpg.connect."""
    return await Hosts(url).connect(**options)
