import re
from datetime import date, timedelta

import pytest
from msgspec.structs import astuple

import sql
from runtime.actors.changes import Changes, NewGrant, NewPlay, PlayCount, TurnMove, _cap_of_both
from runtime.actors.statement import (
    COMMIT,
    FIRST_NUMBER,
    PARAMETERS,
    PARTS,
    composite_types,
    parameters,
    parts_of,
    statement,
    statement_of,
)

TODAY = date(2026, 11, 21)


def test_players_plays_add_up_under_the_caps_of_each() -> None:
    changes = Changes()
    changes.count_play(PlayCount("g", "ann", TODAY, 1, cap=9, day_cap=1, day_ends=7))
    changes.count_play(PlayCount("g", "ann", TODAY, 1, cap=9, day_cap=2, day_ends=7))
    for cap in (4, 5):
        changes.count_play(PlayCount("g", "bob", TODAY, 1, cap=cap, day_cap=0, exact=True))
    counted = PlayCount("g", "ann", TODAY, plays=2, cap=9, day_cap=2, day_ends=7, exact=False)
    exact = PlayCount("g", "bob", TODAY, 2, 5, 0, day_ends=0, exact=True)
    assert changes.play_counts == {("g", "ann"): counted, ("g", "bob"): exact}


def test_plays_that_are_absorbed_add_up_and_those_of_another_day_overlap() -> None:
    one, two, tomorrow = Changes(), Changes(), Changes()
    one.count_play(PlayCount("g", "ann", TODAY, 1, cap=9, day_cap=1, busy_until=70))
    two.count_play(PlayCount("g", "ann", TODAY, 1, cap=9, day_cap=2, busy_until=60))
    tomorrow.count_play(PlayCount("g", "ann", TODAY + timedelta(days=1), 1, cap=9, day_cap=2))
    assert not one.overlaps(two)
    assert one.overlaps(tomorrow)
    one.absorb(two)
    both = PlayCount("g", "ann", TODAY, 2, cap=9, day_cap=2, day_ends=0, exact=False, busy_until=70)
    assert one.play_counts == {("g", "ann"): both}


@pytest.mark.parametrize("exact", [(False, False), (True, False), (False, True), (True, True)])
def test_plays_overlap_where_each_has_its_own_ordinal(exact: tuple[bool, bool]) -> None:
    one, two = Changes(), Changes()
    one.count_play(PlayCount("g", "ann", TODAY, 1, cap=4, day_cap=0, exact=exact[0]))
    two.count_play(PlayCount("g", "ann", TODAY, 1, cap=9, day_cap=0, exact=exact[1]))
    assert one.overlaps(two) == two.overlaps(one) == all(exact)


@pytest.mark.parametrize(
    ("cap", "more", "next_cap", "both"),
    [(0, 3, 0, 0), (0, 3, 7, 7), (5, 3, 0, 8), (5, 3, 9, 8), (5, 3, 8, 8), (5, 3, 7, 7), (1, 1, 0, 2)],
)
def test_cap_of_two_counts_keeps_both_within_their_caps(cap: int, more: int, next_cap: int, both: int) -> None:
    assert _cap_of_both(cap, more, next_cap) == both


def test_balance_moves_from_what_it_was_first_to_what_it_is_last() -> None:
    changes = Changes()
    assert changes.move_balance("e1", "ann", "s", "coin", 5, 2, "play_reward", "p1") == 7
    assert changes.move_balance("e2", "ann", "s", "coin", 7, -3, "milestone_spend", "r") == 4
    after = changes.move_balance("e3", "ann", "s", "leaf", None, 2, "play_reward", "p1")  # It has no row yet.
    changes.move_balance("e4", "ann", "s", "leaf", after, 3, "play_reward", "p2")
    moves = [astuple(move) for move in changes.balances.values()]
    assert moves == [("ann", "s", "coin", 5, 4), ("ann", "s", "leaf", None, 5)]
    assert [(entry.amount, entry.balance_after) for entry in changes.ledger] == [(2, 7), (-3, 4), (2, 2), (3, 5)]


def test_move_that_does_not_begin_where_the_one_before_ended_is_a_mistake() -> None:
    changes = Changes()
    changes.move_balance("e1", "ann", "s", "coin", 5, 2, "play_reward", "p1")
    changes.move_turns("t1", "ann", "c", 3, -1, "play", "p1")
    with pytest.raises(AssertionError):
        changes.move_balance("e2", "ann", "s", "coin", 5, 2, "play_reward", "p2")
    with pytest.raises(AssertionError):
        changes.move_turns("t2", "ann", "c", 3, -1, "play", "p2")


def test_arguments_come_in_the_order_in_which_rows_are_locked() -> None:
    one, two = Changes(), Changes()
    for changes, order in ((one, ("b", "a", "c")), (two, ("c", "b", "a"))):
        for name in order:
            changes.count_play(PlayCount(name, "ann", TODAY, 1, cap=0, day_cap=0))
            changes.take_prize(name, name, 1, TODAY, stocked=True, per_user=0, per_day=0)
            changes.move_balance("e", name, "s", "coin", 0, 1, "play_reward", "p")
            changes.grants.append(NewGrant(name, "ann", "rung", "", None, None, None))
            changes.plays.append(NewPlay(name, "g", "ann", "s", 1, b"", "", {}, b"", 0, 0, 0, None, None))
    left, right = one.rows(), two.rows()
    parts = ["plays", "play_counts", "balances", "ledger", "stock", "prize_days", "prize_players", "grants"]
    assert list(left) == list(right) == parts
    for name in left.keys() - {"ledger"}:  # the ledger keeps its own order
        assert left[name] == right[name] == sorted(left[name])


def test_reward_takes_its_own_nth_code_of_its_prize() -> None:
    changes = Changes()
    for reward_id, prize_id in (("r1", "a"), ("r2", "b"), ("r3", "a")):
        changes.take_code(reward_id, prize_id)
    assert [*map(astuple, changes.rows()["codes"])] == [("r1", "a", 1), ("r2", "b", 1), ("r3", "a", 2)]
    # What went to another game's rewards of the prize is counted on.
    together = Changes()
    together.absorb(changes)
    together.absorb(changes)
    assert [code.nth for code in together.codes] == [1, 1, 2, 3, 2, 4]


def test_statement_has_its_own_parts_and_numbers_what_they_take() -> None:
    text, taken = statement(frozenset({"stock"}))
    assert "UPDATE stock" in text
    assert "balances" not in text.replace("--", "")
    assert taken == ("stock",)
    assert "$3" in text and "$4" not in text
    everything, all_taken = statement(frozenset(PARTS))
    assert all_taken == tuple(parameter.name for parameter in PARAMETERS)
    assert "--[" not in everything


def test_statement_takes_both_parameters_of_a_part_that_has_but_one() -> None:
    changes = Changes()
    changes.turns["ann", "c"] = TurnMove("ann", "c", 1, 0)
    text, arguments = statement_of({"t": changes, "a": changes}, 5)
    assert arguments[:2] == [[("t", 0), ("a", 0)], 5]
    assert arguments[2:] == [[("a", "ann", "c", 1, 0), ("t", "ann", "c", 1, 0)], []], "not in the order of their locks"
    assert "$3::turn_move[]" in text and "$4::new_turn_entry[]" in text


def test_parameters_are_the_fields_of_changes_in_their_order() -> None:
    names = list(Changes.__struct_fields__[1:])
    assert [parameter.name for parameter in PARAMETERS] == names == list(PARTS)
    assert [parameter.number for parameter in PARAMETERS] == list(range(FIRST_NUMBER, FIRST_NUMBER + len(names)))
    assert PARAMETERS[0] == ("plays", FIRST_NUMBER, "new_play")
    assert parameters(composite_types(sql.SCHEMA.read_text())) == PARAMETERS


@pytest.mark.parametrize(
    ("written", "instead", "says"),
    [
        ("game_id text, player_id text, session_id", "player_id text, game_id text, session_id", "field 2 is game_id"),
        ("score bigint, wins", "points_won bigint, wins", "field 10 is score, but points_won"),
        ("request_hash bytea\n);\n-- plays", "request_hash bytea, more text\n);\n-- plays", "is nothing, but more"),
        (",\n    request_hash bytea\n);\n-- plays", "\n);\n-- plays", "is request_hash, but nothing"),
        ("CREATE TYPE new_play ", "CREATE TYPE a_play ", "schema.sql has no type new_play"),
    ],
)
def test_row_that_is_not_its_type_of_the_schema_is_refused(written: str, instead: str, says: str) -> None:
    schema = sql.SCHEMA.read_text()
    assert schema.count(written) == 1
    assert composite_types(schema)["new_play"] == ("tenant_id", *NewPlay.__struct_fields__)
    with pytest.raises(TypeError, match=f"^NewPlay: .*{says}"):
        parameters(composite_types(schema.replace(written, instead)))


@pytest.mark.parametrize(
    ("written", "instead", "says"),
    [
        ("$5::turn_move[]", "$6::turn_move[]", r"\$6 as turn_move\[\], but it is turn_entries, new_turn_entry"),
        ("$9::stock_take[]", "$9", r"\$9 as no type\[\], but it is stock, stock_take"),
        ("$18::game_debut[]", "$20::game_debut[]", r"\$20 as game_debut\[\], but it is no parameter"),
        ("--[ grants", "--[ grants_of_players", ""),
        ("$14::new_task[]", "ARRAY[]::new_task[]", "takes no tasks"),
        ("FROM moment\n", "FROM moment, unnest($9::stock_take[])\n", r"\$9 \(stock\) must be of one part"),
        ("FROM unnest($14::new_task[]) AS n", "FROM unnest($14::new_task[], $3::new_play[])", r"\$3 \(plays\) must be"),
    ],
)
def test_commit_statement_that_numbers_parameters_otherwise_is_refused(written: str, instead: str, says: str) -> None:
    assert written in COMMIT
    if not says:  # A part may be called what it likes.
        assert parts_of(COMMIT.replace(written, instead))["grants"] == "grants_of_players"
        return
    with pytest.raises(ValueError, match=says):
        parts_of(COMMIT.replace(written, instead))


def test_columns_inserted_by_position_stand_in_their_types_order() -> None:
    """`SELECT n.*` puts a composite's fields into the columns by position, not by name."""
    inserted = re.findall(r"INSERT INTO \w+ \(([^)]*)\)\s+SELECT n\.\* FROM unnest\(\$\d+::(\w+)\[\]\)", COMMIT)
    types = composite_types(sql.SCHEMA.read_text())
    assert len(inserted) == COMMIT.count("n.*")
    for columns, type_name in inserted:
        assert tuple(re.split(r",\s*", columns)) == types[type_name], type_name
