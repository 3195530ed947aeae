"""The places of a port: how many connections of a kind there may be, and of one address among them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Final

SHARES: Final = 4
"""An address may have one in so many of the places."""


class Places:
    """Connections of one kind, those that came first in front."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._share = max(1, most // SHARES)
        self._held: dict[asyncio.Transport, str] = {}
        self._of: Counter[str] = Counter()

    def __iter__(self) -> Iterator[asyncio.Transport]:
        return iter(list(self._held))

    def in_the_way(self, transport: asyncio.Transport) -> asyncio.Transport | None:
        """The first of those that leave this one no place, of its own address or, where all are taken, of any."""
        address = _address_of(transport)
        if self._is_full(address):
            self.tidy()
        if not self._is_full(address):
            return None
        has_its_share = self._of[address] >= self._share
        return next(one for one, own in self._held.items() if own == address or not has_its_share)

    def take(self, transport: asyncio.Transport) -> None:
        """Gives the connection a place, whether or not there is one."""
        address = self._held[transport] = _address_of(transport)
        self._of[address] += 1

    def leave(self, transport: asyncio.Transport) -> None:
        """Gives the connection's place back, where it has one."""
        address = self._held.pop(transport, None)
        if address is not None:
            self._of[address] -= 1
            if not self._of[address]:
                del self._of[address]

    def tidy(self) -> None:
        """Takes the places of connections that have closed back."""
        for one in self:
            if one.is_closing():
                self.leave(one)

    def _is_full(self, address: str) -> bool:
        return len(self._held) >= self._most or self._of[address] >= self._share


def _address_of(transport: asyncio.Transport) -> str:
    name = transport.get_extra_info("peername")
    return str(name[0]) if isinstance(name, tuple) else ""
