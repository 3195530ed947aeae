"""The entries of a log: the facts of a row that never change, as canonical JSON.

An entry is a flat JSON object of texts and whole numbers: names sorted, no spaces, UTF-8. `kind` and `id` name the row;
sql/log.sql (`log_entry`) writes the same bytes. Facts of each kind:

| kind | facts |
|---|---|
| terms | id (the revision_hash), game_id, at |
| play | id, game_id, revision, revision_hash, session, outcome, seed (hex), score, wins, points, at, sent |
| reward | id, prize_id, campaign_id, game_id, play_id, milestone_id, name, type, value (text), quantity, at |
| draw | id, campaign_id, tickets_root, ticket_count, value, result_hash, at |
| adjustment | id, scope_key, currency, amount, reference_id, at |
| audit | id, action, row (SHA-256 of the entry without its actor, with persons masked), actor (a salted hash), at |
| mark | id: every row from before this time is in the log by now, except those after it, which are back-dated |

`at` is the row's time in microseconds since 1970; `session` and `outcome` are SHA-256 of the stored texts. No entry has
a player's id or contact: a merge changes the owner of a play, and an erasure must not leave them here. An audit entry's
`row` has salted hashes in their place, so a dossier can show what was hashed. What a player
sent with a play (client seed and payload) is only in `sent`, a salted hash; an erasure deletes the salt. A play without
either has no `sent`. After its time, the id of a mark has the log's size, and the present time if the log is behind.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

KINDS: Final = ("terms", "play", "reward", "draw", "adjustment", "audit", "mark")

BACKDATED_MICROSECONDS: Final = 60_000_000
"""How much earlier than the last mark a row may be: transactions that ran while the mark was made."""

IDLE_MINUTES: Final = 30
"""A log without new rows has a mark this often (sql/log.sql, `lock_tree`)."""

ENTRY_BYTES_MAX: Final = 65_535
"""The limit of a bundle's length prefix."""


def write_entry(kind: str, entry_id: str, facts: Mapping[str, str | int]) -> bytes:
    """The bytes of an entry."""
    named = {**facts, "kind": kind, "id": entry_id}
    return json.dumps(named, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def read_entry(entry: bytes) -> dict[str, Any]:
    """The facts of an entry, with kind and id. Empty if it is not one."""
    try:
        facts = json.loads(entry)
    except (ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def mark_of(facts: Mapping[str, Any]) -> int:
    """The time of a mark, in microseconds."""
    return _numbers(facts)[0]


def made_of(facts: Mapping[str, Any]) -> int:
    """When a mark was made, in microseconds: the third number of its id, if the log was behind."""
    numbers = _numbers(facts)
    return numbers[2 if len(numbers) > 2 else 0]


def _numbers(mark: Mapping[str, Any]) -> list[int]:
    return [int(one) for one in mark["id"].split()]


def commit_sent(salt: bytes, client_seed: str, payload: str) -> str:
    """The `sent` of a play: the salted hash of the client seed and of the payload's stored JSON, in hex."""
    parts = (salt, hashlib.sha256(client_seed.encode()).digest(), hashlib.sha256(payload.encode()).digest())
    return hashlib.sha256(b"".join(parts)).hexdigest()


def write_bundle(entries: Iterable[bytes]) -> bytes:
    """An entry bundle: each entry after its length."""
    return b"".join(len(entry).to_bytes(2, "big") + entry for entry in entries)


def read_bundle(bundle: bytes) -> Iterator[bytes]:
    """The entries of a bundle. ValueError if it is cut off."""
    at = 0
    while at < len(bundle):
        end = at + 2 + int.from_bytes(bundle[at : at + 2], "big")
        if end > len(bundle) or at + 2 > len(bundle):
            raise ValueError("the entry bundle is cut off")
        yield bundle[at + 2 : end]
        at = end
