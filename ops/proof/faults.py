"""Which test is behind each fault that the service must survive: docs/faults.md, from tests/faults/faults.toml.

A test says by its mark which fault it is about, how large it makes it, and which figure it asserts:

    @pytest.mark.fault("Stock race", size="200 players, 2 Cores", figure="10 wins, no 5xx")

`smaller` says what of the row it does not reach. What no test of a row asserts stands in the row's `lacks`: mostly a
time, which says little on a busy machine. `./ops/certify` makes the fault on real processes, and holds it to its times:
what each of its rows asserts stands in `certified`. A fault without a test, a mark or a row of certify that is of no
fault, and one of the two that the other does not name, fail the suite (tests/unit/test_faults_page.py).
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from ops.certification import rows as certification
from ops.certification.row import Row as Certified

ROOT: Final = Path(__file__).resolve().parents[2]
FILE: Final = ROOT / "tests" / "faults" / "faults.toml"

_TEXT: Final = """\
# Faults and bad inputs that it survives

Each is tried by the tests named here, in the size and with the figure that they assert. After them the invariants of
`tests/support/invariants.py` are checked: they find no row. [`./ops/certify`](certify.md) makes them on real processes
under load, in the size that stands here, and asserts the times too; each of its rows also that conservation holds, that
every answer can be explained, and that the rankings are what the plays say. Made by `python -m ops.generate` from
`tests/faults/faults.toml`, the marks of the tests and the rows of certify.
"""


class Row(NamedTuple):
    """A fault: how it is made, when it is survived, what of that no test asserts (empty: nothing), and what the rows of
    `./ops/certify` assert that make it.
    """

    name: str
    how: str
    passes: str
    lacks: str = ""
    certified: Mapping[str, str] = MappingProxyType({})


class Proof(NamedTuple):
    """A test of a fault: how large it makes it, what it asserts, and in what it is smaller than the row (or empty)."""

    fault: str
    test: str
    size: str
    figure: str
    smaller: str


def rows() -> list[Row]:
    """The faults, in the file's order."""
    return [Row(**row) for row in tomllib.loads(FILE.read_text())["faults"]]


def proofs() -> list[Proof]:
    """What the tests say, by file and line. They are read, not imported."""
    return [
        proof
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for proof in _proofs_in(str(path.relative_to(ROOT)), ast.parse(path.read_text()))
    ]


def _proofs_in(path: str, tree: ast.Module) -> Iterator[Proof]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.fault":
                    said = {str(keyword.arg): str(ast.literal_eval(keyword.value)) for keyword in mark.keywords}
                    (fault,) = map(ast.literal_eval, mark.args)
                    yield Proof(fault, f"{path}::{node.name}", **{"smaller": "", **said})


def problems(rows: list[Row], proofs: list[Proof], certified: Mapping[str, Certified]) -> list[str]:
    """Faults without a test; tests and rows of certify that are of no fault, or that theirs does not name."""
    proven, there = {proof.fault for proof in proofs}, {row.name for row in rows}
    said = {(name, row.name) for row in rows for name in row.certified}
    made = {(one.name, one.fault) for one in certified.values() if one.fault}
    return [
        *(f"no test is marked with {row.name!r}" for row in rows if row.name not in proven),
        *(
            f"{proof.test} is marked with {proof.fault!r}, which is no row"
            for proof in proofs
            if proof.fault not in there
        ),
        *(f"certify's {name} is of {fault!r}, where it does not stand" for name, fault in sorted(made - said)),
        *(f"{fault!r} names certify's {name}, which is not of it" for name, fault in sorted(said - made)),
    ]


def page() -> str:
    """docs/faults.md."""
    lines = [_TEXT]
    said, certified = proofs(), certification.load()
    for row in rows():
        lines += [f"## {row.name}", "", f"{row.how}. Passes when: {row.passes}.", ""]
        lines += ["| Test | Size | Asserted | Smaller than said |", "|---|---|---|---|"]
        lines += [
            f"| `{proof.test}` | {proof.size} | {proof.figure} | {proof.smaller} |"
            for proof in said
            if proof.fault == row.name
        ]
        lines += ["", *([f"Asserted by no test: {row.lacks}.", ""] if row.lacks else [])]
        if row.certified:
            lines += ["| Row of certify | Size | Asserted |", "|---|---|---|"]
            lines += [
                f"| `{name}` | {certified[name].full:,} {certified[name].unit} | {figure} |"
                for name, figure in row.certified.items()
            ]
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"
