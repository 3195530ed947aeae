"""The connection slots of a port: a limit per kind of connection, and per address."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Final

SHARES: Final = 4
"""An address may occupy 1/SHARES of the slots."""


class Slots:
    """The slots of one kind of connection, oldest first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._share = max(1, most // SHARES)
        self._occupied: dict[asyncio.Transport, str] = {}
        self._of: Counter[str] = Counter()

    def __iter__(self) -> Iterator[asyncio.Transport]:
        return iter(list(self._occupied))

    def to_evict(self, transport: asyncio.Transport) -> asyncio.Transport | None:
        """The oldest connection to evict for this one; None if a slot is free. If the address has its share, it is one
        of the same address.
        """
        address = _address_of(transport)
        if self._is_full(address):
            self.prune()
        if not self._is_full(address):
            return None
        has_its_share = self._of[address] >= self._share
        return next(one for one, own in self._occupied.items() if own == address or not has_its_share)

    def occupy(self, transport: asyncio.Transport) -> None:
        """Occupies a slot, even above the limit."""
        address = self._occupied[transport] = _address_of(transport)
        self._of[address] += 1

    def release(self, transport: asyncio.Transport) -> None:
        """Releases the connection's slot, if it has one."""
        address = self._occupied.pop(transport, None)
        if address is not None:
            self._of[address] -= 1
            if not self._of[address]:
                del self._of[address]

    def prune(self) -> None:
        """Releases the slots of closed connections."""
        for one in self:
            if one.is_closing():
                self.release(one)

    def _is_full(self, address: str) -> bool:
        return len(self._occupied) >= self._most or self._of[address] >= self._share


def _address_of(transport: asyncio.Transport) -> str:
    name = transport.get_extra_info("peername")
    return str(name[0]) if isinstance(name, tuple) else ""
