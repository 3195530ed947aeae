"""Changes: what several decisions add up to before the database sees them."""

from __future__ import annotations

from datetime import date

from runtime.actors.committer import PARTS, Changes, statement

TODAY = date(2026, 11, 21)


def test_a_players_plays_add_up_and_the_last_day_cap_holds() -> None:
    changes = Changes()
    changes.count_play("g", "ann", TODAY, cap=9, day_cap=1)
    changes.count_play("g", "ann", TODAY, cap=9, day_cap=2)
    assert changes.play_counts == {("g", "ann"): (TODAY, 2, 9, 2)}


def test_a_balance_moves_from_what_it_was_first_to_what_it_is_last() -> None:
    changes = Changes()
    assert changes.move_balance("e1", "ann", "s", "coin", 5, 2, "play_reward", "p1") == 7
    assert changes.move_balance("e2", "ann", "s", "coin", 7, -3, "milestone_spend", "r") == 4
    assert changes.balances == {("ann", "s", "coin"): (5, 4)}
    assert [(entry[4], entry[5]) for entry in changes.ledger] == [(2, 7), (-3, 4)]


def test_a_balance_that_is_not_there_yet_stays_so_until_the_commit() -> None:
    changes = Changes()
    after = changes.move_balance("e1", "ann", "s", "coin", None, 2, "play_reward", "p1")
    changes.move_balance("e2", "ann", "s", "coin", after, 3, "play_reward", "p2")
    assert changes.balances == {("ann", "s", "coin"): (None, 5)}


def test_turns_move_likewise() -> None:
    changes = Changes()
    changes.move_turns("t1", "ann", "c", 3, -1, "play", "p1")
    changes.move_turns("t2", "ann", "c", 2, -1, "play", "p2")
    assert changes.turns == {("ann", "c"): (3, 1)}
    assert [entry[4] for entry in changes.turn_entries] == [2, 1]


def test_changes_of_one_balance_or_of_one_players_turns_overlap() -> None:
    one, two, three = Changes(), Changes(), Changes()
    one.move_balance("e", "ann", "s", "coin", 0, 1, "play_reward", "p")
    two.move_balance("e", "ann", "s", "leaf", 0, 1, "play_reward", "p")
    assert not one.overlaps(two)
    three.move_balance("e", "ann", "s", "coin", 0, 1, "play_reward", "p")
    assert one.overlaps(three)
    two.move_turns("t", "ann", "c", 1, -1, "play", "p")
    three.move_turns("t", "ann", "c", 1, -1, "play", "p")
    assert two.overlaps(three)


def test_arguments_come_in_the_order_in_which_rows_are_locked() -> None:
    one, two = Changes(), Changes()
    for changes, order in ((one, ("b", "a", "c")), (two, ("c", "b", "a"))):
        for name in order:
            changes.count_play(name, "ann", TODAY, cap=0, day_cap=0)
            changes.take_prize(name, name, 1, TODAY, stocked=True, per_user=0, per_day=0)
            changes.move_balance("e", name, "s", "coin", 0, 1, "play_reward", "p")
    for part, (left, right) in enumerate(zip(one.arguments(), two.arguments(), strict=True)):
        if PARTS[part] != "balances" or part == PARTS.index("balances"):  # the ledger keeps its own order
            assert left == right == sorted(left)


def test_each_reward_takes_its_own_nth_code_of_its_prize() -> None:
    changes = Changes()
    changes.codes += [("r1", "a"), ("r2", "b"), ("r3", "a")]
    numbered = changes.arguments()[PARTS.index("codes")]
    assert numbered == [("r1", "a", 1), ("r2", "b", 1), ("r3", "a", 2)]


def test_a_statement_has_its_own_parts_and_numbers_what_they_take() -> None:
    text, taken = statement(frozenset({"stock"}))
    assert "UPDATE stock" in text
    assert "balances" not in text.replace("--", "")
    assert [PARTS[index] for index in taken] == ["stock"]
    assert "$3" in text and "$4" not in text
    everything, all_taken = statement(frozenset(PARTS))
    assert all_taken == tuple(range(len(PARTS)))
    assert "--[" not in everything
