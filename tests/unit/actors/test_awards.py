"""What winning writes, and tells."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from runtime import messages as m
from runtime.actors.changes import Changes, NewTask, StockTake
from runtime.actors.game.awards import Effects, Winner, award, give_turns, pending_tasks, prize_won, record
from runtime.actors.game.state import PrizeTerms
from runtime.rules.release import schedule
from tests.support.game_state import NOW, state_of, stock

MUG = PrizeTerms("mug", "Mug", "goods", 0, 0, 0, "on_win", "none", True, 0, active=True)
ANN = Winner("ann", "camp", date(2026, 11, 26), "game", "play")


def test_turns_are_given_for_each_reward_of_the_prize() -> None:
    changes = Changes()
    rewards = [m.WonReward(reward_id="r1", quantity=1), m.WonReward(reward_id="r2", quantity=3)]
    assert give_turns(changes, replace(MUG, type="turns", value=2), rewards, ANN, 5) == 8
    turns = [(entry.reference_id, entry.amount, entry.balance_after) for entry in changes.turn_entries]
    assert turns == [("r1", 2, 7), ("r2", 6, 13)]
    assert (changes.turns["ann", "camp"].before, changes.turns["ann", "camp"].after) == (5, 13)
    assert give_turns(changes, MUG, rewards, ANN, 13) == 0
    assert len(changes.turn_entries) == 2


def test_points_are_noted_as_delivered_and_never_expire() -> None:
    changes = Changes()
    [won] = award(changes, replace(MUG, type="points", value=1.0, expires_after_days=3), 7, ANN)
    (reward,) = changes.rewards
    recorded = (reward.reward_id, reward.quantity, reward.status, reward.expires_after_days)
    assert recorded == (won.reward_id, 7, "fulfilled", 0)
    assert changes.prize_players["mug", "ann"].quantity == 7 and not changes.tasks and not changes.stock


def test_win_leaves_the_units_in_stock_that_become_free_later() -> None:
    later = schedule({"kind": "TIMES", "times": [[NOW + 9, 3]]}, b"")
    state = state_of(stocks={"mug": stock(5)})
    effects, changes = Effects.on(state.players["ann"]), Changes()
    for _ in range(2):
        effects.give(replace(MUG, release=later), 1, ANN)
    record(state, effects, changes)
    assert changes.stock == {"mug": StockTake("mug", 2, held_back=3)}


@pytest.mark.parametrize(("winner", "crossed", "rung"), [("", "", ""), ("cup", "", "cup"), ("", "pot", "pot")])
def test_prize_won_names_the_rung_that_it_was_won_by(winner: str, crossed: str, rung: str) -> None:
    event = prize_won(ANN._replace(milestone_id=winner), MUG, 1, "r1", milestone_id=crossed)
    assert (event.milestone_id, event.player_id, event.rank) == (rung, "ann", 0)


def test_pending_tasks_are_those_that_a_worker_must_do() -> None:
    states = {"task_1": "pending", "task_2": "delivered", "task_3": "pending"}
    tasks = [NewTask(name, "r", "mug", "camp", "ann", "webhook", state) for name, state in states.items()]
    assert pending_tasks(Changes(tasks=tasks)) == ["task_1", "task_3"]
