"""Decide a past play again from what its row kept, and get the same outcome byte for byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.rules.base import Attempt, Available, Drop, GameRule, Outcome, RewardHandler
from runtime.rules.draw import Words


class ReplayMismatch(ValueError):
    """The recorded path is not what these inputs decide: the row, the seed or the rule is not the play's own."""


def replay(
    handler: RewardHandler,
    config: Any,
    game: GameRule,
    *,
    seed: bytes,
    client_seed: str,
    payload: Mapping[str, Any],
    plan: tuple[Drop, ...],
    path: Sequence[Any],
) -> Outcome:
    """The play's outcome; `msgspec.json.encode` of it equals that of the original.

    `config` and `game` are those of the play's revision. Stock and caps have moved since, so
    availability is answered from the recorded path. Raises ReplayMismatch when the decision asks
    anything else than the path answers, or walks another path.
    """
    outcome = handler.decide(Attempt(config, game, Words(seed, client_seed), payload, plan, _recorded_answers(path)))
    if outcome.path != list(path):
        raise ReplayMismatch("the decision walks another path than the recorded one")
    return outcome


def _recorded_answers(path: Sequence[Any]) -> Available:
    answers = iter([step for step in path if isinstance(step, list) and step[:1] == ["available"]])

    def available(prize_id: str, quantity: int) -> bool:
        match next(answers, None):
            case [_, asked_id, asked_quantity, answer] if (asked_id, asked_quantity) == (prize_id, quantity):
                return bool(answer)
        raise ReplayMismatch(f"the path does not answer whether {quantity} of {prize_id!r} were available")

    return available
