"""What breaks statements and functions breaks one place of each, and says which."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
from pglast import parse_sql

from ops.proof.mutants import code, hook, statements, survivors
from ops.proof.mutants.statements import mutants, text_of
from runtime.actors.committer import statement


def shown(name: str) -> list[str]:
    return [mutant.name.removeprefix(f"{name} ") for mutant in mutants(name)]


def test_each_mutant_of_each_statement_is_another_statement_with_the_same_parameters() -> None:
    for name in statements.statements():
        text = text_of(name)
        for mutant in mutants(name)[::7]:  # Of all, it takes as long as the rest of tests/unit.
            broken = mutant.apply(text)
            assert parse_sql(broken) != parse_sql(text), mutant
            assert hook.name_of(broken) == name
            lost = "it has other parameters" if mutant.place.kind in ("collide", "unsort") else ""
            assert mutant.refusal(lambda _: "") in ("", lost), mutant


def test_mutants_have_names_of_their_own() -> None:
    names = [mutant.name for name in statements.statements() for mutant in mutants(name)]
    names += [mutant.name for mutant in code.mutants()]
    assert [name for name, count in Counter(names).items() if count > 1] == []
    assert len(names) > 3_000


def test_every_survivor_is_explained_and_is_a_mutant() -> None:
    names = [mutant.name for name in statements.statements() for mutant in mutants(name)]
    assert survivors.stale(survivors.explained(), [*names, *(mutant.name for mutant in code.mutants())]) == []


@pytest.mark.parametrize(
    "place",
    [
        "refuse plays: widen c.plays > n.cap",
        "refuse plays: boundary c.plays > n.cap",
        "refuse plays: narrow n.exact AND c.plays < n.cap",
        "refuse stock: narrow (SELECT count(*) FROM taken) <> cardinality(CAST($9 AS stock_take[]))",
        "taken: narrow s.remaining >= n.quantity",
        "played: collide ON CONFLICT DO NOTHING",
        "guests_held: unlock FOR SHARE",
        "guests_held: unsort ORDER BY p.player_id",
        "code_picks: unlock SKIP LOCKED",
        "code_picks: unlimit LIMIT w.wanted",
    ],
)
def test_the_commit_can_be_broken_in_each_of_its_guards(place: str) -> None:
    assert place in shown("commit.commit")


def test_a_commit_of_some_parts_is_broken_where_the_whole_one_is() -> None:
    """It is sent without the parts that it does not need, its parameters numbered anew."""
    (mutant,) = [one for one in mutants("commit.commit") if one.name.endswith("refuse plays: widen c.plays > n.cap")]
    with_plays, _ = statement(frozenset({"plays", "play_counts"}))
    without, _ = statement(frozenset({"grants"}))
    assert "c.plays > n.cap OR TRUE" in mutant.apply(with_plays)
    assert mutant.apply(without) == without


def test_conditions_on_the_tenant_are_told_from_others() -> None:
    assert {one.shown for one in mutants("commit.commit") if one.of_tenant} == {
        *("tenant_id = $1", "p.tenant_id = $1", "t.tenant_id = $1", "b.tenant_id = $1", "s.tenant_id = $1"),
        "c.tenant_id = $1",
    }


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("-- play.take_stock\nSELECT 1", "play.take_stock"),
        ("-- a remark\nSELECT 1", ""),
        ("-- play.take_stock", ""),
        ("SELECT 1", ""),
    ],
)
def test_a_statement_is_known_by_its_first_line(query: str, name: str) -> None:
    assert hook.name_of(query) == name


def test_a_function_is_broken_in_the_running_process() -> None:
    """In a child: what is broken stays broken."""
    (mutant,) = [one for one in code.mutants() if one.name == "runtime.rules.draw.pick_certain: negate index is None"]
    assert mutant.refusal(lambda _: "") == ""
    source = f"""
from ops.proof.mutants.code import Mutant
from runtime.rules.draw import pick_certain
before = pick_certain.__code__
Mutant{tuple(mutant)}.install()
print("broken" if pick_certain.__code__ != before else "whole")
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, cwd=code.ROOT)
    assert done.stdout == "broken\n", done.stderr
