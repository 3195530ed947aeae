"""Where the mutants stand: score.json, which runs write, and docs/mutants.md, which is made of it.

For each statement and function whose mutants were all tried: how many were killed, which live, and the tests that
killed them, the best first. `./ops/mutate --quick` goes by those tests, and so needs no note of all that tests execute.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol

import msgspec

from ops.proof.mutants import code, survivors
from ops.proof.mutants.worker import Verdict

FILE: Final = Path(__file__).with_name("score.json")

TEXT: Final = """\
# What no test notices

`./ops/mutate` breaks the guards of `sql/*.sql` and the functions of the play path, of rules, tokens and outgoing calls,
one place at a time, and runs the tests that execute them. A mutant that lives is a test that is missing, or is
explained in `ops/proof/mutants/survivors.toml`, mostly by another condition or a unique row that stands behind it.
`./ops/mutate --quick`, a part of what each change must pass, tries those of money, stock and caps again.

Conditions on `tenant_id` alone are left out: tests over every operation try those. As the last runs found it (made by
`python -m ops.generate` from `ops/proof/mutants/score.json`):
"""


class Stands(msgspec.Struct, frozen=True, omit_defaults=True):
    """How it stands with the mutants of one statement or function.

    alive: the ends of the names of those that live. killers: by the test, the best first, what it killed (`digest`).
    invalid: those that the database would not run.
    """

    killed: int = 0
    explained: int = 0
    untried: int = 0
    alive: tuple[str, ...] = ()
    killers: dict[str, tuple[str, ...]] = {}
    invalid: int = 0


class Named(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def statement(self) -> str: ...
    @property
    def of_tenant(self) -> bool: ...


def digest(name: str) -> str:
    """A short name of a mutant: its own is as long as what stands there."""
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def read() -> dict[str, Stands]:
    """By the full names of statements and functions."""
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, Stands]) if FILE.exists() else {}


def keep(every: Iterable[Named], verdicts: Mapping[str, Verdict]) -> None:
    """Writes down how it stands with those of which each mutant has a verdict. every: all the mutants there are.

    What is known of a statement stays until its mutants are others.
    """
    before = read()
    reasons = survivors.explained()
    names: dict[str, list[str]] = {}
    for mutant in every:
        if not mutant.of_tenant:
            names.setdefault(mutant.statement, []).append(mutant.name)
    found = {}
    for statement, its in names.items():
        if all(name in verdicts and verdicts[name].kind not in ("error", "untested") for name in its):
            found[statement] = _stands(statement, its, verdicts, reasons)
        elif statement in before and _is_of(before[statement], its):
            found[statement] = before[statement]
        else:
            found[statement] = Stands(untried=len(its))
    lines = (f"{json.dumps(name)}: {msgspec.json.encode(found[name]).decode()}" for name in sorted(found))
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _stands(
    statement: str, names: Iterable[str], verdicts: Mapping[str, Verdict], reasons: Mapping[str, str]
) -> Stands:
    killed = explained = invalid = 0
    alive = []
    killers: dict[str, list[str]] = {}
    for name in names:
        verdict = verdicts[name]
        if verdict.is_kill:
            killed += 1
            if "::" in verdict.by:
                killers.setdefault(verdict.by, []).append(digest(name))
        elif verdict.kind == "survived" and name in reasons:
            explained += 1
        elif verdict.kind == "invalid":
            invalid += 1
        elif verdict.kind == "survived":
            alive.append(name.removeprefix(statement).removeprefix(":").strip())
    best_first = {test: tuple(killers[test]) for test in sorted(killers, key=lambda test: (-len(killers[test]), test))}
    return Stands(killed=killed, explained=explained, invalid=invalid, alive=tuple(alive), killers=best_first)


def _is_of(stands: Stands, names: Iterable[str]) -> bool:
    """Whether it was found of these mutants, as far as it says of which."""
    of = {digest(name) for name in names}
    killed = {one for many in stands.killers.values() for one in many}
    settled = stands.killed + stands.explained + stands.invalid + len(stands.alive)
    return killed <= of and settled + stands.untried == len(of)


def page() -> str:
    """docs/mutants.md."""
    groups: dict[str, list[Stands]] = {}
    for name, stands in read().items():
        groups.setdefault(_group_of(name), []).append(stands)
    rows = [(name, *_sums(groups[name])) for name in sorted(groups, key=lambda name: ("/" in name, name))]
    tried = [row for row in rows if row[-1] < row[1]]
    left = [row for row in rows if row not in tried]
    others = [(f"{len(left)} others", *_sums(one for row in left for one in groups[row[0]]))] if left else []
    lines = [TEXT, "| Of | Mutants | Killed | Explained | Alive | Not tried |", "|---|---:|---:|---:|---:|---:|"]
    lines += [f"| {' | '.join(map(str, row))} |" for row in (*tried, *others, total())]
    _, mutants, killed, _, alive, untried = total()
    share = f"{100 * killed / (killed + alive):.1f} %" if killed else "none"
    told = f"Killed of those that were tried and are not explained: {share} ({killed} of {killed + alive})."
    return "\n".join([*lines, "", f"{told} Not tried yet: {untried} of {mutants}."]) + "\n"


def total() -> tuple[str, int, int, int, int, int]:
    """("all", how many there are, killed, explained, alive, not tried)"""
    return "all", *_sums(read().values())


def _sums(group: Iterable[Stands]) -> tuple[int, int, int, int, int]:
    of = [(0, 0, 0, 0), *((one.killed, one.explained, len(one.alive), one.untried) for one in group)]
    killed, explained, alive, untried = (sum(column) for column in zip(*of, strict=True))
    return killed + explained + alive + untried, killed, explained, alive, untried


def _group_of(name: str) -> str:
    """The file of a statement, the module of a function."""
    module = name
    while module and module not in code.MODULES:
        module = module.rpartition(".")[0]
    return f"{module.replace('.', '/')}.py" if module else f"{name.partition('.')[0]}.sql"
