"""What breaks statements and functions breaks one place of each, and says which."""

from __future__ import annotations

import io
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pglast import parse_sql
from rich.console import Console

from ops.proof.mutants import __main__ as command
from ops.proof.mutants import code, hook, score, statements, survivors
from ops.proof.mutants.record import Noted
from ops.proof.mutants.statements import mutants, text_of
from ops.proof.mutants.worker import Verdict
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
        "stock_held: narrow s.remaining >= n.quantity",
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


def test_the_quick_choice_has_every_guard_of_the_commit_and_of_the_claim() -> None:
    found = {one.name for one in command.chosen(command.parse(["--quick"]))}
    for name in ("commit.commit", "claims.claim"):
        assert {one.name for one in mutants(name) if not one.of_tenant} <= found
    assert [name for name in command.QUICK if not any(one.startswith(name) for one in found)] == []


def test_the_quick_choice_draws_nothing_that_no_known_test_kills() -> None:
    killable = {statement for statement, stands in score.read().items() if stands.killers}
    for seed in range(40):
        found = {one.statement for one in command.chosen(command.parse(["--quick", "--seed", str(seed)]))}
        assert found <= killable


def test_the_quick_choice_draws_others_for_each_commit_and_begins_elsewhere() -> None:
    def quick(seed: str) -> list[str]:
        return [one.name for one in command.chosen(command.parse(["--quick", "--seed", seed]))]

    one, other = quick("one"), quick("other")
    assert one == quick("one") and one[0] != other[0]
    always = {name for name in one if name.startswith(command.QUICK)}
    assert always == {name for name in other if name.startswith(command.QUICK)}
    for found in (one, other):
        assert len(found) == len(set(found)) == len(always) + sum(count for _, count in command.QUICK_DRAWN)
        for drawn, count in command.QUICK_DRAWN:
            assert sum(name.startswith(drawn) and name not in always for name in found) == count
    assert set(one) - always != set(other) - always


def test_a_mutant_is_tried_with_what_killed_its_neighbours_then_with_what_is_short_and_narrow() -> None:
    mutant, neighbour = mutants("wallet.move")[:2]
    narrow = ("wallet.move",)
    noted = {
        "tests/a.py::broad": Noted(0.1, narrow, tuple(map(str, range(400)))),
        "tests/a.py::long": Noted(9.0, narrow),
        "tests/b.py::short": Noted(0.1, narrow),
        "tests/b.py::of_another": Noted(0.1, ("wallet.list",)),
        "tests/c.py::killer": Noted(0.5, narrow),
    }
    tests = command.Tests(noted, budget_seconds=1.0)
    tests.learn(neighbour, "tests/c.py::killer")
    job = tests.of(mutant)
    assert job.tests == ("tests/c.py::killer", "tests/b.py::short", "tests/a.py::broad", "tests/a.py::long")
    assert tests.rest_of(job).tests == ()


MUTANTS = [one for one in mutants("wallet.move") if not one.of_tenant]


def reported(
    verdicts: dict[str, Verdict], explained: dict[str, str], monkeypatch: pytest.MonkeyPatch, least_share: float = 0.0
) -> list[str]:
    """What a run says of the mutants of wallet.move, and at its end the exit code."""
    monkeypatch.setattr(survivors, "explained", lambda: explained)
    console = Console(width=300, file=io.StringIO(), record=True)
    status = command.report(console, MUTANTS, verdicts, least_share)
    return [*console.export_text().splitlines(), str(status)]


def test_a_run_fails_by_what_lives_unexplained_and_by_what_is_explained_and_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = MUTANTS[0].name, MUTANTS[1].name
    killed = {one.name: Verdict("killed", "tests/a.py::test", 1.0) for one in MUTANTS}
    assert reported(killed, {}, monkeypatch)[-1] == "0"
    alive = {**killed, first: Verdict("survived", "3 tests", 1.0)}
    assert reported(alive, {}, monkeypatch)[-3:] == [
        f"survived: {first}",
        f"mutants: {len(MUTANTS) - 1} of {len(MUTANTS)} killed ({100 - 100 / len(MUTANTS):.1f} %), 0 explained, "
        f"0 left for want of time (100% of {len(MUTANTS)} tried)",
        "1",
    ]
    assert reported(alive, {first: "as it should be, always"}, monkeypatch)[-1] == "0"
    stale = reported(killed, {second: "as it was once before"}, monkeypatch)
    assert (stale[-3], stale[-1]) == (f"explained, but killed by tests/a.py::test: {second}", "1")


def test_a_run_fails_that_tried_nothing_or_less_than_its_least_share(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reported({}, {}, monkeypatch)[-2:] == ["no mutant was tried: this says nothing", "1"]
    invalid = {one.name: Verdict("invalid", "the database refuses it", 0.0) for one in MUTANTS}
    assert reported(invalid, {}, monkeypatch)[-1] == "1"
    untested = {one.name: Verdict("untested", "no test executes it", 0.0) for one in MUTANTS}
    assert reported(untested, dict.fromkeys(untested, "no test can tell it"), monkeypatch)[-1] == "1"
    killed = {one.name: Verdict("killed", "tests/a.py::test", 1.0) for one in MUTANTS}
    some = dict(list(killed.items())[:2])
    share = 2 / len(MUTANTS)
    assert reported(some, {}, monkeypatch, share)[-1] == "0"
    assert reported(some, {}, monkeypatch, share + 0.01)[-2:] == [
        f"{share:.0%} were tried, at least {share + 0.01:.0%} are to be: give it --minutes",
        "1",
    ]


def test_the_tests_that_the_score_names_are_there(request: pytest.FixtureRequest) -> None:
    """By the names that they have: else a quick run takes what they kill for what lives."""
    config = request.config
    if config.getoption("keyword") or any("::" in argument for argument in config.args):
        pytest.skip("only some tests were asked for")
    there = {item.nodeid for item in request.session.items}
    files = {name.partition("::")[0] for name in there}
    named = {killer for stands in score.read().values() for killer in stands.killers}
    assert [killer for killer in named if not (code.ROOT / killer.partition("::")[0]).exists()] == []
    assert [killer for killer in named - there if killer.partition("::")[0] in files] == []


def test_what_runs_found_is_kept_by_statement_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score, "FILE", tmp_path / "score.json")
    monkeypatch.setattr(survivors, "explained", lambda: {MUTANTS[1].name: "as it should be, always"})
    every = [*MUTANTS, *mutants("wallet.target")]
    killers = ["tests/a.py::test_a", *(["tests/b.py::test_b"] * (len(MUTANTS) - 3))]
    verdicts = dict.fromkeys([one.name for one in MUTANTS[:2]], Verdict("survived", "3 tests", 1.0))
    for mutant, killer in zip(MUTANTS[2:], killers, strict=True):
        verdicts[mutant.name] = Verdict("killed", killer, 1.0)
    score.keep(every, verdicts)
    alive = MUTANTS[0].name.removeprefix("wallet.move ")
    untried = sum(not one.of_tenant for one in mutants("wallet.target"))
    killed = [score.digest(one.name) for one in MUTANTS[2:]]
    by = {"tests/b.py::test_b": tuple(killed[1:]), "tests/a.py::test_a": (killed[0],)}
    assert list(score.read()["wallet.move"].killers) == list(by)
    assert score.read() == {
        "wallet.move": score.Stands(len(killers), 1, 0, (alive,), by),
        "wallet.target": score.Stands(untried=untried),
    }
    assert f"| wallet.sql | {len(MUTANTS) + untried} | {len(killers)} | 1 | 1 | {untried} |" in score.page()
    # What was known of it stays where a later run tries it in part only.
    score.keep(every, {MUTANTS[0].name: Verdict("killed", "tests/a.py::test_a", 1.0)})
    assert score.read()["wallet.move"].alive == (alive,)
    # And goes where the statement was written anew.
    for changed in ([*MUTANTS, MUTANTS[2]._replace(name="another")], MUTANTS[:-1]):
        score.keep([*MUTANTS, *mutants("wallet.target")], verdicts)
        score.keep(changed, {})
        assert score.read() == {"wallet.move": score.Stands(untried=len(changed))}
