"""The release schedules of a game's prizes, with their secret seeds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from runtime.actors import sealed_seeds
from runtime.rules.release import SEALED, TIMES, Schedule, Terms, schedule
from runtime.settings import Key


def seed_purpose(tenant_id: str, prize_id: str, nonce: str) -> tuple[str, ...]:
    """What the seed of a prize's release is derived from."""
    return "release", tenant_id, prize_id, nonce


def load_schedule(keys: Sequence[Key], tenant_id: str, prize_id: str, column: Mapping[str, Any]) -> Schedule:
    """The schedule of a stored release (runtime/operations/prizes/release.py).

    UNAVAILABLE for a SEALED one whose key is no longer configured.
    """
    terms, seed = column["terms"], b""
    if terms["kind"] == SEALED:
        seed = sealed_seeds.opened(keys, column["key_id"], *seed_purpose(tenant_id, prize_id, column["nonce"]))
    return schedule_of(terms, seed)


def schedule_of(terms: Terms, seed: bytes = b"") -> Schedule:
    """As `schedule`, but cached if it takes milliseconds: each change of the catalogue loads the games again."""
    if terms["kind"] == TIMES:
        return schedule(terms, seed)
    return _cached(json.dumps(terms, sort_keys=True), seed)


@lru_cache(maxsize=256)
def _cached(terms: str, seed: bytes) -> Schedule:
    return schedule(json.loads(terms), seed)
