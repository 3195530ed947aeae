"""The three registries of rules, with the built-in entries."""

from __future__ import annotations

from typing import Final

from runtime.registry import Registry
from runtime.rules import basic, drop_plan, drop_sequence, none
from runtime.rules.base import RewardHandler, SeedGenerator, Validator
from runtime.rules.handlers import collect_items, lucky_item, moments, probability, score_to_tier

SEED_GENERATORS: Final[Registry[SeedGenerator]] = Registry("seed generator")
SEED_GENERATORS.register("none", none)
SEED_GENERATORS.register("drop_sequence", drop_sequence)

REWARD_HANDLERS: Final[Registry[RewardHandler]] = Registry("reward handler")
REWARD_HANDLERS.register("probability", probability)
REWARD_HANDLERS.register("score_to_tier", score_to_tier)
REWARD_HANDLERS.register("collect_items", collect_items)
REWARD_HANDLERS.register("lucky_item", lucky_item)
REWARD_HANDLERS.register("moments", moments)

VALIDATORS: Final[Registry[Validator]] = Registry("validator")
VALIDATORS.register("basic", basic)
VALIDATORS.register("drop_plan", drop_plan)
