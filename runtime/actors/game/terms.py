"""A game's terms: one document of everything that decides its plays. Each start commits to its SHA-256.

UTF-8 JSON of these names in this order, without spaces; `prizes` lists each prize that may be drawn, by id:

    {"fallback_prize_id": "", "game_id": "game_...", "handler_config": {...}, "on_unavailable": "lose",
     "prizes": [[prize_id, name, type, value], ...], "reward_handler": "probability", "seed_generator": "none",
     "validator": "basic"}

If prizes have a release schedule, `releases` maps each of their ids to its commitment (runtime/rules/release.py).

The hashed bytes are stored before a start names their hash, so a verifier need not reproduce the JSON. The document
excludes appearance (ui), stock, caps, milestones and delivery settings (docs/explanation/fairness.md).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol


class Prize(Protocol):
    """The fields of a prize that the terms include."""

    @property
    def prize_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def value(self) -> float: ...


class TermsPrize(Prize, Protocol):
    """A prize with the commitment to its release schedule; "": none."""

    @property
    def release_hash(self) -> str: ...


def write_terms(game_id: str, definition: Mapping[str, Any], prizes: Collection[TermsPrize]) -> bytes:
    """The terms of a game, as UTF-8 JSON. prizes: those that a play may draw; the caller must sort them by id."""
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
    if releases := {prize.prize_id: prize.release_hash for prize in prizes if prize.release_hash}:
        terms["releases"] = releases
    return json.dumps(terms, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def hash_terms(terms: bytes) -> str:
    """The `revision_hash` of terms: their SHA-256, in hex."""
    return hashlib.sha256(terms).hexdigest()


def promises(terms: Mapping[str, Any], rewards: Iterable[Prize]) -> bool:
    """Whether every won prize is in the terms, with identical fields."""
    return all(_shown(reward) in terms["prizes"] for reward in rewards if reward.prize_id)


def _shown(prize: Prize) -> list[str | float]:
    return [prize.prize_id, prize.name, prize.type, prize.value]
