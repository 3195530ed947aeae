"""docs/reference/faults.md: the tests of each fault, from tests/faults/faults.toml and the tests' marks.

A test says by its mark which fault it makes, how large, and what it asserts: with one size, or with the sizes of the
suite and of `./ops/certify`.

    @pytest.mark.fault("Stock race", size="200 players, 2 Cores", figure="10 wins, no 5xx")
    @pytest.mark.fault("Core killed (SIGKILL)", small=2, full=50, unit="kills", figure="1 play a key")

`smaller` says what of the fault the test does not reach.
"""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ops.certification.table import size_of

ROOT: Final = Path(__file__).resolve().parents[2]
FILE: Final = ROOT / "tests" / "faults" / "faults.toml"

_TEXT: Final = """\
# Faults and bad inputs

The tests of each fault, their sizes and what they assert. A test with a full size runs small in the suite, and in full
in [`./ops/certify`](../how-to/certify.md), which also asserts times. Afterwards the checks of
[`tombola audit`](audit.md) must find no row. `python -m ops.generate` generates this page from
`tests/faults/faults.toml` and the tests' marks.
"""


class Row(NamedTuple):
    """A fault: how it is made, and when the service has survived it."""

    name: str
    how: str
    passes: str


class Proof(NamedTuple):
    """A test of a fault: its size, what it asserts, and what of the fault it does not reach (or empty)."""

    fault: str
    test: str
    size: str
    figure: str
    smaller: str = ""


def rows() -> list[Row]:
    """The faults, in the file's order."""
    return [Row(**row) for row in tomllib.loads(FILE.read_text())["faults"]]


def proofs() -> list[Proof]:
    """The marked tests, by file and line. They are read, not imported."""
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
                    said = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in mark.keywords}
                    (fault,) = map(ast.literal_eval, mark.args)
                    test = f"{path}::{node.name}"
                    yield Proof(fault, test, size_of(said), str(said["figure"]), str(said.get("smaller", "")))


def problems(rows: list[Row], proofs: list[Proof]) -> list[str]:
    """Faults without a test, and tests of unknown faults."""
    proven, known = {proof.fault for proof in proofs}, {row.name for row in rows}
    return [
        *(f"no test is marked with {row.name!r}" for row in rows if row.name not in proven),
        *(
            f"{proof.test} is marked with {proof.fault!r}, an unknown fault"
            for proof in proofs
            if proof.fault not in known
        ),
    ]


def page() -> str:
    """docs/reference/faults.md."""
    lines, marked = [_TEXT], proofs()
    for row in rows():
        lines += [f"## {row.name}", "", f"{row.how}. Passes when: {row.passes}.", ""]
        lines += ["| Test | Size | Asserted |", "|---|---|---|"]
        for proof in marked:
            if proof.fault == row.name:
                size = f"{proof.size} ({proof.smaller})" if proof.smaller else proof.size
                lines.append(f"| `{proof.test}` | {size} | {proof.figure} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"
