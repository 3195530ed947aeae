"""A game's terms: all that decides its plays, as one document, whose SHA-256 each start promises.

JSON of these names in their order, without spaces, as UTF-8; `prizes` has each prize that may be drawn, by id:

    {"fallback_prize_id": "", "game_id": "game_...", "handler_config": {...}, "on_unavailable": "lose",
     "prizes": [[prize_id, name, type, value], ...], "reward_handler": "probability", "seed_generator": "none",
     "validator": "basic"}

It is kept, before a start names its hash, as the bytes that were hashed, so nobody who checks it has to write the
same JSON. Looks (ui), stock, caps, milestones and how prizes are delivered are no part of it
(docs/explanation/fairness.md).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Protocol


class Prize(Protocol):
    """What the terms say of a prize."""

    @property
    def prize_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def value(self) -> float: ...


def write_terms(game_id: str, definition: Mapping[str, Any], prizes: Iterable[Prize]) -> bytes:
    """The terms of a game. prizes: those that a play may draw, by id."""
    terms = {
        "fallback_prize_id": definition.get("fallback_prize_id") or "",
        "game_id": game_id,
        "handler_config": definition.get("handler_config") or {},
        "on_unavailable": definition.get("on_unavailable") or "lose",
        "prizes": [_shown(prize) for prize in prizes],
        "reward_handler": definition["reward_handler"],
        "seed_generator": definition["seed_generator"],
        "validator": definition["validator"],
    }
    return json.dumps(terms, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def hash_terms(terms: bytes) -> str:
    """The `revision_hash` of terms: their SHA-256, in hex."""
    return hashlib.sha256(terms).hexdigest()


def promises(terms: Mapping[str, Any], rewards: Iterable[Prize]) -> bool:
    """Whether each prize that was won is one of the terms that were read, and just as they have it."""
    return all(_shown(reward) in terms["prizes"] for reward in rewards if reward.prize_id)


def _shown(prize: Prize) -> list[str | float]:
    return [prize.prize_id, prize.name, prize.type, prize.value]
