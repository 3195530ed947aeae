"""Reads what a dossier has of a campaign's plays, for `tombola campaigns archive`."""

from __future__ import annotations

import hashlib
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, NamedTuple

from runtime.commands.dossiers import FORMAT
from runtime.commands.evidence.findings import read_object
from runtime.rules.log.digest import PlaysDigest
from runtime.rules.log.tree import HASH_BYTES, hash_leaf

_KIND: Final = "the dossier of a campaign"
_READ_BYTES: Final = 4_096 * HASH_BYTES


class Plays(NamedTuple):
    """The fields of ArchiveCampaignRequest."""

    file_sha256: str
    plays: int
    digest: str
    first_leaf: int
    last_leaf: int


def campaign_in(path: Path) -> str:
    """The id of the campaign whose dossier the file contains; "" if it is missing or not a dossier."""
    try:
        with path.open("rb") as file:
            return str(read_object(file.readline(), _KIND)["head"]["campaign"]["id"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return ""


def sha256_of(path: Path) -> str:
    """The file's SHA-256. Empty: there is no such file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


def read_plays(path: Path, campaign_id: str) -> Plays:
    """The plays of the campaign in the file. ValueError if it is not its whole dossier, or a play is not in the log.

    The hashes of their entries are put in the order of the log in a temporary file, so memory does not grow.
    """
    whole, lines, count = hashlib.sha256(), 0, 0
    end: Any = None
    with path.open("rb") as file, TemporaryFile() as leaves:
        head = read_object(file.readline(), _KIND).get("head", {})
        file.seek(0)
        if head.get("format") != FORMAT or head["campaign"]["id"] != campaign_id:
            raise ValueError(f"not the dossier of campaign {campaign_id}")
        for line in file:
            if end is not None:
                raise ValueError("there are lines after the end")
            if line.startswith(b'{"end":'):
                end = read_object(line, _KIND)["end"]
                if (end["lines"], end["sha256"]) != (lines, whole.hexdigest()):
                    raise ValueError("the file was changed, or is damaged")
            elif line.startswith(b'{"play":'):
                play = read_object(line, _KIND)["play"]
                if "entry" not in play:
                    raise ValueError(f"play {play['id']} is not in the log yet. Write the dossier again")
                leaves.seek(play["leaf_index"] * HASH_BYTES)
                leaves.write(hash_leaf(play["entry"].encode()))
                count += 1
            whole.update(line)
            lines += 1
        if end is None:
            raise ValueError("the file is cut off")
        digest, first, last, at = PlaysDigest(), 0, 0, 0
        leaves.seek(0)
        while held := leaves.read(_READ_BYTES):
            for begin in range(0, len(held), HASH_BYTES):
                if any(leaf := held[begin : begin + HASH_BYTES]):
                    last = at + begin // HASH_BYTES
                    first = last if digest.plays == 0 else first
                    digest.add(last, leaf)
            at += len(held) // HASH_BYTES
    if digest.plays != count:
        raise ValueError("two plays have the same entry in the log")
    return Plays(whole.hexdigest(), count, digest.hex(), first, last)
