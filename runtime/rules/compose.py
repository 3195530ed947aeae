"""Composes a game's rules from its configuration: three names and a handler_config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runtime.errors import Fault, violations
from runtime.rules.base import RewardHandler, SeedGenerator, Validator
from runtime.rules.registries import REWARD_HANDLERS, SEED_GENERATORS, VALIDATORS


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one game; `config` has the reward handler's type."""

    seed_generator: SeedGenerator
    reward_handler: RewardHandler
    validator: Validator
    config: Any


def compose(seed_generator: str, reward_handler: str, validator: str, handler_config: Mapping[str, Any]) -> Rules:
    """The rules registered under these names, checked against each other.

    Raises INVALID_ARGUMENT with the violations of all parts: unknown names, an invalid config, incompatible
    parts. The catalog checks that the prizes exist (`reward_handler.prizes`).
    """
    found: list[tuple[str, str]] = []

    def attempt(step: Any, *arguments: Any) -> Any:
        try:
            return step(*arguments)
        except Fault as fault:
            found.extend((row["field"], row["description"]) for row in fault.facts["violations"])
            return None

    generator = attempt(SEED_GENERATORS.require, seed_generator, "seed_generator")
    handler = attempt(REWARD_HANDLERS.require, reward_handler, "reward_handler")
    judge = attempt(VALIDATORS.require, validator, "validator")
    config = handler and attempt(handler.parse, handler_config)
    if config is not None:
        for part in (generator, judge):
            if part is not None:
                attempt(part.check_config, config)
    if found:
        raise violations(found)
    return Rules(generator, handler, judge, config)
