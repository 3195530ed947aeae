"""What a play tells others: itself, then each prize under a number of its own, those of its rungs after its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from runtime import messages as m
from runtime.actors.game.awards import Winner
from runtime.actors.game.decide import _events
from runtime.events import PlayCompleted, PrizeWon
from tests.support.commits import TODAY


def test_each_prize_of_a_play_and_of_its_rungs_has_the_next_number() -> None:
    told: list[tuple[Any, int | None]] = []

    def event(data: Any, *_: Any, nth: int | None = None) -> Any:
        told.append((data, nth))
        return data

    prizes = {
        name: SimpleNamespace(prize_id=name, name=name.title(), type="goods", value=2.0) for name in ("mug", "hat")
    }
    reply = m.PlayReply(
        play_id="play_1",
        rewards=[
            m.WonReward(prize_id="mug", quantity=3, reward_id="r1"),
            m.WonReward(name="a coin"),
            m.WonReward(prize_id="hat", quantity=1, reward_id="r2"),
        ],
        milestones_granted=[
            m.GrantedMilestone(id="first", prize_id="hat", reward_id="r3"),
            m.GrantedMilestone(id="second", prize_id="mug", reward_id="r4"),
        ],
    )
    actor: Any = SimpleNamespace(game_id="game", event=event)
    outcome: Any = SimpleNamespace(score=7)
    snapshot: Any = SimpleNamespace(prizes=prizes)
    winner = Winner("ann", "camp", TODAY, "game", "play_1")
    found = _events(actor, snapshot, SimpleNamespace(), winner, outcome, reply, 20, 1.0)
    assert found == [data for data, _ in told]
    completed, *won = told
    assert completed == (PlayCompleted("play_1", "game", "ann", 7, 3, 20), None)
    assert all(isinstance(data, PrizeWon) and data.play_id == "play_1" for data, _ in won)
    assert [(nth, data.prize_id, data.quantity, data.reward_id, data.milestone_id) for data, nth in won] == [
        (0, "mug", 3, "r1", ""),
        (1, "hat", 1, "r2", ""),
        (2, "hat", 1, "r3", "first"),
        (3, "mug", 1, "r4", "second"),
    ]
