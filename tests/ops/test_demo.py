"""The demo's games are made of rules that fit together and prizes that the demo has."""

from __future__ import annotations

import pytest

from ops import demo
from runtime.rules.compose import compose

PRIZES = {spec["name"]: f"prize_{number}" for number, spec in enumerate(demo.prize_specs())}
GAMES = demo.game_specs("camp_1", PRIZES)


@pytest.mark.parametrize("shape", GAMES)
def test_rules_of_a_demo_game_fit_together(shape: str) -> None:
    game = GAMES[shape]
    rules = compose(game["seed_generator"], game["reward_handler"], game["validator"], game["handler_config"])
    assert {prize_id for _, prize_id in rules.reward_handler.prizes(rules.config)} <= set(PRIZES.values())


def test_wheel_shows_a_segment_for_each_of_its_prizes() -> None:
    wheel = GAMES["spin_wheel"]
    shown = {segment.get("prize_id") for segment in wheel["ui"]["wheel"]["segments"]}
    assert shown == {None, *(prize["prize_id"] for prize in wheel["handler_config"]["prizes"])}
