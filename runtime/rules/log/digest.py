"""The digest of the plays in an archive, from the hashes of their entries in the log.

The plays of each group of 1,024 leaves are hashed, in the order of the log; each hash is hashed after the digest of the
groups before it. So the service compares a file with the log in steps, and a witness needs no memory for it.
sql/archives.sql (`compare`) and sql/schema.sql (`archive_digest`) compute the same.
"""

from __future__ import annotations

import hashlib
from typing import Final

GROUP_LEAVES: Final = 1_024


class PlaysDigest:
    """Takes the plays in the order of their leaves."""

    def __init__(self) -> None:
        self.plays = 0
        self._digest = b""
        self._number = -1
        self._group = hashlib.sha256()

    def add(self, leaf_index: int, leaf_hash: bytes) -> None:
        if leaf_index // GROUP_LEAVES != self._number:
            self._digest, self._number, self._group = self._closed(), leaf_index // GROUP_LEAVES, hashlib.sha256()
        self._group.update(leaf_hash)
        self.plays += 1

    def hex(self) -> str:
        return self._closed().hex()

    def _closed(self) -> bytes:
        return hashlib.sha256(self._digest + self._group.digest()).digest() if self._number >= 0 else b""
