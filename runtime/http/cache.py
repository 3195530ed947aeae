"""The edges' read cache: many players' identical reads cost Core one call per LIFE_MS.

A response is cached for two seconds in the ephemeral store, shared by all edge processes. Any change by the tenant's
staff invalidates it at once (`runtime.stores.cache_version`). Only changes through plays may be read stale until the
entry expires: a prize that just sold out, a rank. Without the store, every read goes to Core.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from redis.exceptions import RedisError

from runtime.stores import cache_version
from runtime.stores.ephemeral import Ephemeral
from runtime.stores.pipeline import EphemeralDown
from runtime.stores.single_flight import SingleFlight

LIFE_MS: Final = 2_000
PARTS: Final = b"\n"


class Cache:
    """Encoded responses by tenant and name."""

    def __init__(self, store: Ephemeral) -> None:
        self._store = store
        self._making = SingleFlight()

    async def get(self, tenant_id: str, name: str, make: Callable[[], Awaitable[bytes]]) -> bytes:
        """The cached response, or else the result of `make`, which concurrent callers share.

        A request that arrives after a change does not share a call that began before it.
        An error of `make` reaches all who wait, and is not cached.
        """
        key = f"{{{tenant_id}}}v:{name}"
        number, found = await self._lookup(tenant_id, key)
        if found is not None:
            return found

        async def made() -> bytes:
            answer = await make()
            if number is not None:
                self._store.post("SET", key, number + PARTS + answer, "PX", LIFE_MS)
            return answer

        answer: bytes = await self._making.share((tenant_id, name, number), made)
        return answer

    async def _lookup(self, tenant_id: str, key: str) -> tuple[bytes | None, bytes | None]:
        """(the tenant's cache version, the response cached under it); None for what is unknown."""
        try:
            number, stored = await self._store.run("MGET", cache_version.key(tenant_id), key)
        except (EphemeralDown, RedisError):
            return None, None
        number = number or b"0"
        if stored is None:
            return number, None
        made_under, _, answer = stored.partition(PARTS)
        return number, answer if made_under == number else None
