"""The edges' read-model cache: what many players read, asked of Core once (spec.md, "Consistency rules" 2 and 3).

An answer is kept for a second or two in the ephemeral store, shared by all edge processes, and dropped as
soon as anything of its tenant changes (`runtime.stores.cache_version`). What may be behind by the cache's life is
only what nobody changed by hand: a prize that just ran out, a rank. With the store away, Core is asked.
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
    """Encoded answers by tenant and name."""

    def __init__(self, store: Ephemeral) -> None:
        self._store = store
        self._making = SingleFlight()

    async def get(self, tenant_id: str, name: str, make: Callable[[], Awaitable[bytes]]) -> bytes:
        """The answer of this name; made by `make` where there is none, once for all who wait for it.

        Who comes after a change waits for none that was begun before it.
        What `make` raises is everybody's who waited, and is not kept.
        """
        key = f"{{{tenant_id}}}v:{name}"
        number, found = await self._look(tenant_id, key)
        if found is not None:
            return found

        async def made() -> bytes:
            answer = await make()
            if number is not None:
                self._store.post("SET", key, number + PARTS + answer, "PX", LIFE_MS)
            return answer

        answer: bytes = await self._making.share((tenant_id, name, number), made)
        return answer

    async def _look(self, tenant_id: str, key: str) -> tuple[bytes | None, bytes | None]:
        """(the tenant's number, the answer that was made under it); None for what is not known."""
        try:
            number, kept = await self._store.run("MGET", cache_version.key(tenant_id), key)
        except (EphemeralDown, RedisError):
            return None, None
        number = number or b"0"
        if kept is None:
            return number, None
        made_under, _, answer = kept.partition(PARTS)
        return number, answer if made_under == number else None
