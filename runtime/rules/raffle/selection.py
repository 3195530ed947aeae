"""Prize draws: the Merkle tree over the tickets, and the winners that a random value determines.

Everything here can be recomputed from a draw's evidence file:

    leaf 0  the terms: JSON of id, tickets, prizes, alternates and randomness (without empty fields and the value), with
            sorted names and no spaces
    leaf i  "<holder> <tickets>", holders in the order of their pseudonyms; the tree is hashed as RFC 6962 defines
    seed    SHA-256("tombola-draw-1\\n<draw id>\\n<tickets root, hex>\\n<value>")
    word i  HMAC-SHA256(seed, "<i>"), as a big-endian number below 2^256, i from 0

Rank i + 1 goes to a ticket that no earlier winner holds: of the n tickets left, numbered in order, it is number
floor(word i * n / 2^256). So a holder wins at most once, and each ticket left has the same chance, to within 2^-190.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from bisect import insort
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

FORMAT: Final = "tombola-draw-1"

FORMS: Final = {"DRAND": "[0-9a-f]{96}", "DECLARED": "[1-9]+|0", "INTERNAL": "[0-9a-f]{64}"}
"""The form of a value (a regular expression) by kind. A second spelling of one value would give other winners."""

RANKS_MAX: Final = 5_000
"""Winners and alternates of one draw."""

_WORD_RANGE: Final = 2**256


def terms_leaf(terms: Mapping[str, Any]) -> bytes:
    """The first leaf: the terms that the root fixes together with the tickets."""
    named = {name: terms[name] for name in ("id", "campaign_id", "name", "tickets", "prizes", "alternates")}
    return json.dumps(
        named | {"randomness": shown_randomness(terms["randomness"])},
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
    ).encode()


def shown_randomness(terms: Mapping[str, Any]) -> dict[str, Any]:
    """The public terms of the random value."""
    return {name: value for name, value in terms.items() if name not in ("value", "key_id") and value}


def leaf(holder: str, tickets: int) -> bytes:
    """The leaf of a holder's tickets."""
    return f"{holder} {tickets}".encode()


class Block(NamedTuple):
    """A winner's tickets, which leave the draw: the number of the first one, and how many."""

    first: int
    tickets: int


class Selection:
    """Picks a ticket for each rank. The caller looks up who holds it, and removes all of the holder's tickets."""

    def __init__(self, draw_id: str, tickets_root: str, value: str, ticket_count: int) -> None:
        seed = hashlib.sha256("\n".join((FORMAT, draw_id, tickets_root, value)).encode())
        self._key = hmac.new(seed.digest(), digestmod="sha256")
        self._rank = 0
        self._removed: list[Block] = []
        self.left = ticket_count
        """The tickets that no winner holds."""

    def pick(self) -> int:
        """The number of the next rank's ticket, among all tickets. Only while tickets are left."""
        signer = self._key.copy()
        signer.update(str(self._rank).encode())
        ticket = int.from_bytes(signer.digest(), "big") * self.left // _WORD_RANGE
        for block in self._removed:
            if ticket < block.first:
                break
            ticket += block.tickets
        return ticket

    def remove(self, block: Block) -> None:
        """Removes the winner's tickets, and goes on to the next rank."""
        insort(self._removed, block)
        self.left -= block.tickets
        self._rank += 1


class Pick(NamedTuple):
    """A drawn rank: the number of its ticket, and the ticket's holder."""

    rank: int
    ticket: int
    holder: str


def result_hash(picks: Iterable[Pick]) -> str:
    """SHA-256 over a line "<rank> <ticket> <holder>" for each rank, in hex."""
    lines = "".join(f"{pick.rank} {pick.ticket} {pick.holder}\n" for pick in picks)
    return hashlib.sha256(lines.encode()).hexdigest()


def commitment(seed: str) -> str:
    """The published hash of a secret seed in hex form."""
    return hashlib.sha256(seed.encode()).hexdigest()
