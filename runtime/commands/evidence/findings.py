"""The findings of a check, and the strict reading of the JSON that it checks."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

EXIT_REFUTED: Final = 1

_PERSON: Final = re.compile("person:[0-9a-f]{64}")
_PSEUDONYM: Final = "([0-9a-f]{32})"


class Finding(NamedTuple):
    """One check of a file. ok: None if it cannot be decided here."""

    text: str
    ok: bool | None


def report(findings: Iterable[Finding]) -> None:
    """Prints the findings, a line each. Ends the process if a check failed."""
    refuted = False
    for finding in findings:
        print({True: "ok     ", False: "FAILED ", None: "open   "}[finding.ok] + printable(finding.text))
        refuted |= finding.ok is False
    if refuted:
        sys.exit(EXIT_REFUTED)


def printable(text: str) -> str:
    """The text without control characters: a file could otherwise print lines of its own."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)


def read_object(text: str | bytes, kind: str) -> dict[str, Any]:
    """The JSON object. kind: what it should be, for the message. Raises ValueError."""
    try:
        found = json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not {kind}: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"not {kind}: it is not an object")
    return found


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal. Unlike in Python, 1 is not true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def same_but_persons(masked: Any, shown: Any, pseudonyms: dict[str, str]) -> bool:
    """Whether two JSON values are equal except for persons: masked in one, pseudonyms in the other.

    pseudonyms: those of the masked persons so far. One person has one pseudonym.
    """
    match masked, shown:
        case str(), str():
            found = re.fullmatch(_PSEUDONYM.join(map(re.escape, _PERSON.split(masked))), shown)
            return found is not None and all(
                pseudonyms.setdefault(person, name) == name
                for person, name in zip(_PERSON.findall(masked), found.groups(), strict=True)
            )
        case dict(), dict():
            return masked.keys() == shown.keys() and all(
                same_but_persons(masked[name], shown[name], pseudonyms) for name in masked
            )
        case list(), list():
            return len(masked) == len(shown) and all(
                same_but_persons(one, other, pseudonyms) for one, other in zip(masked, shown, strict=True)
            )
    return same(masked, shown)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object. Of two fields with one name, another reader could take the other."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("two fields have one name")
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
