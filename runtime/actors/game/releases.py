"""The release schedules of a game's prizes, with their secret seeds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from runtime.actors import sealed_seeds
from runtime.rules.release import SEALED, Schedule, schedule
from runtime.settings import Key


def seed_purpose(tenant_id: str, prize_id: str, nonce: str) -> tuple[str, ...]:
    """What the seed of a prize's release is derived from."""
    return "release", tenant_id, prize_id, nonce


def load_schedule(keys: Sequence[Key], tenant_id: str, prize_id: str, column: Mapping[str, Any]) -> Schedule:
    """The schedule of a stored release (runtime/operations/prizes/release.py).

    UNAVAILABLE for a SEALED one whose key is no longer configured.
    """
    if column["terms"]["kind"] != SEALED:
        return schedule(column["terms"], b"")
    seed = sealed_seeds.opened(keys, column["key_id"], *seed_purpose(tenant_id, prize_id, column["nonce"]))
    return _sealed(json.dumps(column["terms"], sort_keys=True), seed)


@lru_cache(maxsize=256)
def _sealed(terms: str, seed: bytes) -> Schedule:
    """Cached, because each change of the catalogue loads the games again."""
    return schedule(json.loads(terms), seed)
