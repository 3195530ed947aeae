"""Replays a past play from its stored row; the outcome is the same byte for byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from runtime.rules.base import Attempt, Available, Drop, GameRule, Outcome, RewardHandler
from runtime.rules.draw import Words

RECEIPT_FORMAT: Final = "tombola-receipt-1"
"""The format of a play's receipt: what a replay needs, for anybody."""


class ReplayMismatch(ValueError):
    """The inputs do not lead to the recorded path: the row, the seed or the rule is not the original."""


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

    `config` and `game` are those of the play's revision. Stock and caps have changed since, so
    availability comes from the recorded path. Raises ReplayMismatch when the decision checks
    availability that the path does not record, or takes another path.
    """
    outcome = handler.decide(Attempt(config, game, Words(seed, client_seed), payload, plan, _recorded_answers(path)))
    if outcome.path != list(path):
        raise ReplayMismatch("the decision takes another path than the recorded one")
    return outcome


def _recorded_answers(path: Sequence[Any]) -> Available:
    answers = iter([step for step in path if isinstance(step, list) and step[:1] == ["available"]])

    def available(prize_id: str, quantity: int) -> bool:
        match next(answers, None):
            case [_, known_id, known_quantity, answer] if (known_id, known_quantity) == (prize_id, quantity):
                return bool(answer)
        raise ReplayMismatch(f"the path does not record whether {quantity} of {prize_id!r} were available")

    return available
