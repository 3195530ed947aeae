"""Checks the evidence file of a draw, without the service: `tombola draws verify FILE`.

The file is read twice, so that its size does not matter: once for the Merkle tree, and then only around the winners'
tickets. Every thousandth holder's place in the file is remembered.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from runtime.commands.evidence import draw_lines
from runtime.commands.evidence.findings import Finding, read_object, same
from runtime.rules.log.tree import MerkleTree
from runtime.rules.raffle.selection import (
    FORMAT,
    FORMS,
    Block,
    Pick,
    Selection,
    commitment,
    leaf,
    result_hash,
    terms_leaf,
)

_EVERY: Final = 1_000


_EARLIER: Final = "([1-9][0-9]*|0|[A-Z]+)( ([1-9][0-9]*|0|[A-Z]+))*"
_EARLIER_TEXT: Final = "the value has a notation of earlier versions, in which each notation gives other winners:"
"""Earlier versions stored numbers without leading zeros and words in capitals, with single spaces."""


class _Place(NamedTuple):
    """A holder's first ticket, and the line's offset in the file."""

    first_ticket: int
    offset: int


def verify(path: Path, root: str = "") -> list[Finding]:
    """The findings of an evidence file. root: the one published at the close. ValueError if it is no such file."""
    with path.open("rb") as file:
        head = _object(file.readline())
        if head.get("format") != FORMAT:
            raise ValueError(f"not an evidence file of a draw: its first line has no format {FORMAT!r}")
        draw_lines.check(head, "line 1")
        places, tree, count, end = _scan(file, head)
        findings = [
            Finding(
                f"{tree.size - 1:,} holders with {count:,} tickets, as stated", _is_stated(head, tree.size - 1, count)
            ),
            Finding(f"the Merkle root of terms and tickets is {tree.root()}", tree.root() == head["tickets_root"]),
            Finding("this root was published", root == tree.root() if root else None),
        ]
        at = head["randomness"].get("at") or 0
        if head["randomness"]["kind"] != "INTERNAL":
            text, is_early = "the tickets were frozen before the value could be known", head["closed_at"] < at
            # Without a copy of the root, the time is only what the operator says.
            findings.append(Finding(text, None if is_early and not root else is_early))
        if end is None:
            return [*findings, Finding("the winners are not drawn yet", None)]
        text, is_later = "the winners were drawn after the close", end["drawn_at"] >= max(at, head["closed_at"])
        findings.append(Finding(f"{text}, when the value could be known", is_later))
        findings.append(_value(head["randomness"], end["value"]))
        picks = _draw(file, places, head, end["value"], count)
        stated = [Pick(i + 1, one["ticket"], one["holder"]) for i, one in enumerate(end["result"])]
        findings.append(Finding(f"{len(picks):,} ranks follow from the tickets and the value", picks == stated))
        findings.append(Finding("the hash of the result matches", result_hash(picks) == end["result_hash"]))
        return findings


def is_closing(head: Mapping[str, Any], after: Mapping[str, Any], at: int) -> bool:
    """Whether an entry of the log is the close of this draw, from before its value could be known.

    after: what the entry says. at: its time in microseconds.
    """
    known_at = head["randomness"].get("at")
    same_tickets = all(same(after[name], head[name]) for name in ("tickets_root", "ticket_count", "holder_count"))
    return same_tickets and (not known_at or at < known_at * 1_000_000)


def _scan(file: BinaryIO, head: dict[str, Any]) -> tuple[list[_Place], MerkleTree, int, dict[str, Any] | None]:
    places: list[_Place] = []
    tree, count, offset, before = MerkleTree(), 0, file.tell(), ""
    tree.add(terms_leaf(head))
    for number, line in enumerate(file, 2):
        one = _object(line)
        draw_lines.check(one, f"line {number}")
        if "holder" not in one:
            if file.readline():
                raise ValueError("there are lines after the result")
            return places, tree, count, one
        if one["holder"] <= before:
            raise ValueError(f"line {number}: the holder {one['holder']!r} is out of order")
        before = one["holder"]
        if tree.size % _EVERY == 1:
            places.append(_Place(count, offset))
        tree.add(leaf(one["holder"], one["tickets"]))
        count += one["tickets"]
        offset += len(line)
    return places, tree, count, None


def _is_stated(head: dict[str, Any], holders: int, tickets: int) -> bool:
    return (head["holder_count"], head["ticket_count"]) == (holders, tickets)


def _value(terms: dict[str, Any], value: str) -> Finding:
    if not re.fullmatch(FORMS[terms["kind"]], value):
        if terms["kind"] == "DECLARED" and re.fullmatch(_EARLIER, value):
            return Finding(f"{_EARLIER_TEXT} {value!r}: compare it with {terms['source']!r}", None)
        return Finding("the value has the form of its kind", False)
    if terms["kind"] == "INTERNAL":
        return Finding("the seed matches its published hash", commitment(value) == terms["commitment"])
    if terms["kind"] == "DRAND":
        # Imported here: the extra is needed for this kind alone.
        from runtime.rules.raffle import beacon

        if not beacon.is_available():
            return Finding("the value's signature: install tombola[drand] to check it", None)
        signed = beacon.round_at(terms["at"]) == terms["round"] and beacon.verify(terms["round"], value)
        return Finding(f"the value is the signature of round {terms['round']}, the first of its time", signed)
    return Finding(f"the value, in digits without zeros, is {value!r}: compare it with {terms['source']!r}", None)


def _draw(file: BinaryIO, places: list[_Place], head: dict[str, Any], value: str, count: int) -> list[Pick]:
    ranks = sum(prize["count"] for prize in head["prizes"]) + head["alternates"]
    selection = Selection(head["id"], head["tickets_root"], value, count)
    picks: list[Pick] = []
    while len(picks) < ranks and selection.left:
        ticket = selection.pick()
        block, holder = _holder_of(file, places, ticket)
        selection.remove(block)
        picks.append(Pick(len(picks) + 1, ticket, holder))
    return picks


def _holder_of(file: BinaryIO, places: list[_Place], ticket: int) -> tuple[Block, str]:
    first, offset = places[bisect_right(places, ticket, key=lambda place: place.first_ticket) - 1]
    file.seek(offset)
    for line in file:
        one = _object(line)
        if ticket < first + one["tickets"]:
            return Block(first, one["tickets"]), one["holder"]
        first += one["tickets"]
    raise AssertionError("each ticket has a holder")


def _object(line: bytes) -> dict[str, Any]:
    return read_object(line, "an evidence file of a draw")
