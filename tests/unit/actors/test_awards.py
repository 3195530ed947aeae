import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runtime import messages as m
from runtime.actors import claims
from runtime.actors.answers import ANSWERS_MAX, LONG_TEXT_MAX, read, unanswered
from runtime.actors.changes import Changes, NewTask, StockTake
from runtime.actors.claims import Claimer
from runtime.actors.deliveries import failed_event
from runtime.actors.game.awards import Effects, Winner, award, give_turns, prize_won, publish_tasks, record
from runtime.actors.game.state import PrizeTerms
from runtime.actors.mailbox import Work
from runtime.errors import Fault
from runtime.events import DeliveryFailed
from runtime.metrics import FULFILLMENT_TASKS
from runtime.outgoing.services.values import escape_formula
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
    state = state_of(stocks={"mug": stock(5)})
    effects, changes = Effects.on(state.players["ann"]), Changes()
    for _ in range(2):
        effects.give(replace(MUG, release=schedule({"kind": "TIMES", "times": [[NOW + 9, 3]]}, b"")), 1, ANN)
    record(state, effects, changes)
    assert changes.stock == {"mug": StockTake("mug", 2, held_back=3)}


@pytest.mark.parametrize(("winner", "crossed", "rung"), [("", "", ""), ("cup", "", "cup"), ("", "pot", "pot")])
def test_prize_won_names_the_rung_that_it_was_won_by(winner: str, crossed: str, rung: str) -> None:
    event = prize_won(ANN._replace(milestone_id=winner), MUG, 1, "r1", milestone_id=crossed)
    assert (event.milestone_id, event.player_id, event.rank) == (rung, "ann", 0)


def test_pending_tasks_are_published_and_the_others_counted() -> None:
    states = {"task_1": "pending", "task_2": "delivered", "task_3": "pending", "task_4": "awaiting"}
    tasks = [NewTask(name, "r", "mug", "camp", "ann", "webhook", state) for name, state in states.items()]
    publisher, before = Publisher(), FULFILLMENT_TASKS.labels("awaiting")._value.get()
    publish_tasks(cast(Any, SimpleNamespace(publisher=publisher)), "t", Changes(tasks=tasks))
    assert publisher.published == ["task_1", "task_3"]
    assert FULFILLMENT_TASKS.labels("awaiting")._value.get() == before + 1


def claim(reward_id: str, player_id: str = "ann", answers: dict[str, Any] | None = None) -> Work[Any]:
    request = m.ClaimRewardRequest(id=reward_id, player_id=player_id, answers=answers)
    return Work(request, asyncio.get_running_loop().create_future())


async def test_claim_without_a_player_is_refused_and_the_others_go_on() -> None:
    nobody, anns, odd = claim("r1", ""), claim("r1"), claim("r2", answers={"name": 7})
    assert claims._groups([nobody, anns, odd]) == [[anns]]
    assert violations_of(cast(Fault, nobody.future.exception())) == [("player_id", "is required")]
    assert violations_of(cast(Fault, odd.future.exception())) == [("answers.name", "must be a string")]


class Publisher:
    def __init__(self) -> None:
        self.published: list[str] = []

    def tasks(self, _: str, task_ids: Sequence[str]) -> None:
        self.published += task_ids

    def events(self, events: Any) -> None:
        self.published += [event.type for event in events]


def test_delivery_with_its_claim_is_counted() -> None:
    row = dict.fromkeys(("player_id", "prize_id", "name", "type", "game_id", "play_id", "milestone_id"), "")
    row |= {"status": "fulfilled", "campaign_id": "camp", "merchant_id": None, "sent_task_id": None}
    claimed: dict[str, Any] = {**row, "value": 1, "quantity": 1, "claimed_at": 1.0, "outcome": "claimed"}
    publisher = Publisher()
    claimer = cast(Claimer, SimpleNamespace(engine=SimpleNamespace(publisher=publisher), tenant_id="t"))
    before = FULFILLMENT_TASKS.labels("delivered")._value.get()
    rows = [
        {**claimed, "reward_id": "r1", "delivered": True, "awaiting": False},
        {**claimed, "reward_id": "r2", "delivered": True, "awaiting": False},
        {**claimed, "reward_id": "r3", "delivered": False, "awaiting": False, "sent_task_id": "task_1"},
        {"reward_id": "r4", "outcome": "illegal", "delivered": True, "awaiting": False},
    ]
    claims._publish(claimer, dict.fromkeys(("r1", "r2", "r3", "r4"), ""), rows)
    assert FULFILLMENT_TASKS.labels("delivered")._value.get() == before + 2
    assert publisher.published == ["task_1", *["prize_claimed"] * 3]


def test_same_delivery_that_ends_at_the_same_moment_is_the_same_event() -> None:
    at = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
    row = {"id": "task_abc", "at": at, "merchant_id": "shop", "campaign_id": "camp", "attempts": 8}
    row |= dict.fromkeys(("reward_id", "player_id", "prize_id", "channel", "error"), "x")
    event = failed_event("t", row, "f" * 32)
    assert event.id == f"evt_abc_{int(at.timestamp())}250000"
    assert (event.tenant_id, event.merchant_id, event.campaign_id) == ("t", "shop", "camp")
    assert (event.occurred_at, event.trace_id) == (int(at.timestamp()), "f" * 32)
    assert isinstance(event.data, DeliveryFailed) and (event.data.task_id, event.data.attempts) == ("task_abc", 8)


@pytest.mark.parametrize(
    ("given", "answers"),
    [
        *((None, {}), ({}, {}), ({"name": " Ann \n", "note": " \t ", "size": ""}, {"name": "Ann"})),
        ({"note": "x" * LONG_TEXT_MAX}, {"note": "x" * LONG_TEXT_MAX}),
        ({"note": "one\ntwo"}, {"note": "one\ntwo"}),
        (dict.fromkeys(map(str, range(ANSWERS_MAX)), "x"), dict.fromkeys(map(str, range(ANSWERS_MAX)), "x")),
    ],
)
def test_answers_are_taken_without_the_space_around_them(given: Any, answers: dict[str, str]) -> None:
    assert read(given) == answers


def violations_of(fault: Fault) -> list[tuple[str, str]]:
    return [(one["field"], one["description"]) for one in fault.facts["violations"]]


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({"name": 7, "size": None, "note": "fine"}, ["answers.name", "answers.size"]),
        ({"note": "x" * (LONG_TEXT_MAX + 1)}, ["answers.note"]),
        ({"name": "nul\0", "note": "\u202eeman"}, ["answers.name", "answers.note"]),
        (dict.fromkeys(map(str, range(ANSWERS_MAX + 1)), "x"), ["answers"]),
    ],
)
def test_wrong_answer_is_refused_at_its_key(given: Any, fields: list[str]) -> None:
    with pytest.raises(Fault) as refused:
        read(given)
    assert [field for field, _ in violations_of(refused.value)] == fields


def test_unknown_or_missing_answer_is_refused_in_words() -> None:
    problems = ("required", "unknown", "option", "long", "lines")
    found = violations_of(unanswered((key, key) for key in problems))
    assert [field for field, _ in found] == [f"answers.{key}" for key in problems]
    assert len({words for _, words in found}) == len(problems)


@pytest.mark.parametrize("first", "=+-@\t\r\uff1d\uff0b\uff0d\uff20")
def test_cell_that_a_spreadsheet_would_work_out_is_a_text(first: str) -> None:
    for own in ("", "'", "''"):  # One apostrophe more than the text has, so that a reader can remove it.
        assert escape_formula(f"{own}{first}1+1") == f"'{own}{first}1+1"
        assert escape_formula(f"a;\n{own}{first.strip()}=1") == f"a;\n'{own}{first.strip()}=1"
