"""Looks up the host names of receivers, in separate threads.

The event loop has few threads for lookups (uvloop: 4), which new connections to Postgres need too. If a name server
never answers, a lookup keeps its thread for up to a minute, longer than the attempt. So the lookups of one tenant use
at most PER_TENANT threads, and the deliveries of other tenants go on. Attempts at the same host share a lookup.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary, WeakValueDictionary

from aiohttp.abc import AbstractResolver, ResolveResult

from runtime import trace

THREADS: Final = 64
PER_TENANT: Final = 4
"""The most concurrent lookups: of all, and of one tenant (`trace.tenant`). Further ones wait."""

CACHE_SECONDS: Final = 10.0
"""How long the addresses of a host are used again."""

_NUMERIC: Final = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV

Key: TypeAlias = tuple[str, int]
"""A host, and the family of its addresses."""

Addresses: TypeAlias = list[ResolveResult]
Lookup: TypeAlias = "asyncio.Future[Addresses | Exception]"
"""An error is a result too: the attempts that waited for it may have ended."""


class Resolver(AbstractResolver):
    """Resolves names for one event loop (`of_loop`). Its threads do not delay the end of the process."""

    def __init__(self) -> None:
        self._lookups: dict[Key, Lookup] = {}
        self._turns = asyncio.Semaphore(THREADS)
        self._turns_of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @staticmethod
    def of_loop() -> Resolver:
        """The resolver that all connectors of the running event loop share."""
        loop = asyncio.get_running_loop()
        if (found := _OF_LOOPS.get(loop)) is None:
            found = _OF_LOOPS[loop] = Resolver()
        return found

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_INET) -> Addresses:
        """The addresses of a host. Raises OSError, or ValueError for a host that is no name."""
        key = host, int(family)
        lookup = self._lookups.get(key) or await self._begin(key)
        found = await asyncio.shield(lookup)
        if isinstance(found, Exception):
            raise found
        return [ResolveResult(**{**address, "port": port}) for address in found]

    async def close(self) -> None:
        """Running lookups end by themselves."""

    async def _begin(self, key: Key) -> Lookup:
        """Starts a lookup once there is a turn for it, or returns one that another attempt has started meanwhile.

        A lookup without a turn is not shared: another tenant's attempt at the same host must not wait for this tenant.
        """
        turns_of_tenant = self._turns_of.setdefault(trace.tenant.get(), asyncio.Semaphore(PER_TENANT))
        await turns_of_tenant.acquire()
        try:
            await self._turns.acquire()
        except BaseException:
            turns_of_tenant.release()
            raise

        def release(_: object = None) -> None:
            self._turns.release()
            turns_of_tenant.release()

        if (lookup := self._lookups.get(key)) is not None:
            release()
            return lookup
        lookup = self._lookups[key] = asyncio.get_running_loop().create_future()
        lookup.add_done_callback(release)  # Not at the end of the attempt: the thread may last longer.
        try:
            threading.Thread(target=self._run, args=(key, lookup), name="lookup", daemon=True).start()
        except RuntimeError as error:  # The process may not start more threads.
            self._end(key, lookup, OSError(str(error)))
        return lookup

    def _run(self, key: Key, lookup: Lookup) -> None:
        found: Addresses | Exception
        try:
            found = _addresses(*key)
        except Exception as error:
            found = error
        with suppress(RuntimeError):  # The loop has closed.
            lookup.get_loop().call_soon_threadsafe(self._end, key, lookup, found)

    def _end(self, key: Key, lookup: Lookup, found: Addresses | Exception) -> None:
        lookup.set_result(found)
        if isinstance(found, Exception):
            del self._lookups[key]
        else:
            lookup.get_loop().call_later(CACHE_SECONDS, self._lookups.pop, key)


_OF_LOOPS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Resolver]] = WeakKeyDictionary()


def _addresses(host: str, family: int) -> Addresses:
    found = socket.getaddrinfo(host, 0, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [
        ResolveResult(hostname=host, host=str(address[0]), port=0, family=of, proto=protocol, flags=_NUMERIC)
        for of, _, protocol, _, address in found
    ]
