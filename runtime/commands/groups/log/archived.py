"""Rows that a log names as archived, compared with the audit entries of their archives."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from runtime.rules.log.digest import PlaysDigest

DELETING_DAYS: Final = 1
"""How long an archive may take to delete its plays."""


class Archived:
    """What a visit found. Memory grows only with the number of archives."""

    def __init__(self) -> None:
        self._found: dict[str, PlaysDigest] = {}
        self._named: dict[str, Mapping[str, Any]] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def takes(self, index: int, leaf: bytes, facts: Mapping[str, Any]) -> bool:
        """Whether the entry is only the id of an archived play. Such entries are read in the order of their leaves."""
        if (
            facts.keys() != {"archive", "id", "kind"}
            or facts["kind"] != "play"
            or not isinstance(facts["archive"], str)
        ):
            return False
        self._found.setdefault(facts["archive"], PlaysDigest()).add(index, leaf)
        return True

    def name(self, facts: Mapping[str, Any]) -> list[str]:
        """Takes the audit entry of an archive, which has the hash of its leaf. Describes the archive, if it is one."""
        if facts.get("kind") != "audit" or facts.get("action") != "campaign.archive":
            return []
        self._named[facts["id"]] = facts
        return [f"{_about(facts)}: it has {_printable(str(facts.get('plays')))} plays"]

    def problems(self, waits: list[str]) -> Iterator[str]:
        """What is wrong with the archives. waits: receives each archive that still deletes plays."""
        for archive, found in self._found.items():
            if (facts := self._named.get(archive)) is None:
                name = _printable(archive)
                yield f"{found.plays} plays were removed, and no audit entry {name} says that they were archived"
                continue
            about = _about(facts)
            if type(facts.get("plays")) is not int:
                yield f"{about}: {found.plays} plays were removed, and it says not how many"
            elif found.plays < facts["plays"] and time.time() < int(facts["at"]) / 1_000_000 + DELETING_DAYS * 86_400:
                waits.append(f"{about}: {found.plays} of {facts['plays']} plays are deleted; the rest follows")
            elif (found.plays, found.hex()) != (facts["plays"], facts["digest"]):
                yield f"{about}: {found.plays} plays were removed, which are not the {facts['plays']} in the file"


def _about(facts: Mapping[str, Any]) -> str:
    return _printable(f"archive {facts['id']} of campaign {facts.get('campaign_id')}, file {facts.get('file_sha256')}")


def _printable(text: str) -> str:
    """The log may be hostile: without control characters, and not long."""
    return "".join(one for one in text[:400] if one.isprintable())
