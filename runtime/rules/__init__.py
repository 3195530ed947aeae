"""Game rules: pure functions from a configuration, a secret seed and a play's payload to an outcome.

Plugins may extend the three registries. `compose` combines a game's rules; `replay` verifies a past play.
Everything here is deterministic and imports neither a clock nor a store.
"""

from __future__ import annotations

from runtime.rules.base import (
    Attempt,
    Award,
    Credit,
    Drop,
    DropSource,
    GameRule,
    Odds,
    Outcome,
    RewardHandler,
    SeedGenerator,
    Validator,
    Worth,
    winnable,
)
from runtime.rules.chances import Trail
from runtime.rules.compose import Rules, compose
from runtime.rules.draw import Words, check_client_seed, keyed, seed_hash, seed_of
from runtime.rules.payloads import NETWORK_SLACK_MS, UNTIMED_MS
from runtime.rules.registries import REWARD_HANDLERS, SEED_GENERATORS, VALIDATORS
from runtime.rules.replay import ReplayMismatch, replay

__all__ = [
    "NETWORK_SLACK_MS",
    "REWARD_HANDLERS",
    "SEED_GENERATORS",
    "UNTIMED_MS",
    "VALIDATORS",
    "Attempt",
    "Award",
    "Credit",
    "Drop",
    "DropSource",
    "GameRule",
    "Odds",
    "Outcome",
    "ReplayMismatch",
    "RewardHandler",
    "Rules",
    "SeedGenerator",
    "Trail",
    "Validator",
    "Words",
    "Worth",
    "check_client_seed",
    "compose",
    "keyed",
    "replay",
    "seed_hash",
    "seed_of",
    "winnable",
]
