"""How these tests play: `play` decides one attempt, with real words or with given ones.

play(handler, config, **options) -> Outcome
    handler         registered name
    config          raw handler_config
    words           the numbers of the draw, where a test needs certain ones; else seed and client_seed
    stock           units per prize; a prize that is left out is unlimited
    payload, plan, on_unavailable, fallback_prize_id, segments
refusal(function, *arguments) -> Fault: the refusal that the call must end with
fields(fault) -> the fields that its violations name
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from runtime.errors import Fault
from runtime.rules import REWARD_HANDLERS, Attempt, Drop, GameRule, Outcome, Words


class GivenWords(Words):
    __slots__ = ("_given",)

    def __init__(self, given: Sequence[float]) -> None:
        super().__init__(b"")
        self._given = given

    def word(self, i: int) -> float:
        return self._given[i]


def _play(
    handler: str,
    config: Mapping[str, Any],
    *,
    words: Sequence[float] | None = None,
    seed: bytes = b"seed",
    client_seed: str = "",
    stock: Mapping[str, int] | None = None,
    payload: Mapping[str, Any] | None = None,
    plan: tuple[Drop, ...] = (),
    **rule: Any,
) -> Outcome:
    rules = REWARD_HANDLERS.require(handler, "reward_handler")

    def available(prize_id: str, quantity: int) -> bool:
        return stock is None or prize_id not in stock or stock[prize_id] >= quantity

    drawn = Words(seed, client_seed) if words is None else GivenWords(words)
    return rules.decide(Attempt(rules.parse(config), GameRule(**rule), drawn, payload or {}, plan, available))


def _refusal(function: Callable[..., Any], *arguments: Any) -> Fault:
    with pytest.raises(Fault) as caught:
        function(*arguments)
    return caught.value


@pytest.fixture(scope="session")
def play() -> Callable[..., Outcome]:
    return _play


@pytest.fixture(scope="session")
def refusal() -> Callable[..., Fault]:
    return _refusal


@pytest.fixture(scope="session")
def fields() -> Callable[[Fault], list[str]]:
    return lambda fault: [row["field"] for row in fault.facts["violations"]]
