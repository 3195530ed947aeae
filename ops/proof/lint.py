"""Finds tests that cannot fail, and sleeps: `python -m ops.proof.lint`.

    asserts  a test without `assert`, `pytest.raises`, or a helper of tests/ that has one
    sleeps   a pause for a time where the test could wait for a fact; a loop that a fact ends may pause

A comment on the line or above it gives the reason for an exception: `# sleeps: the rate is per second`.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

ROOT: Final = Path(__file__).resolve().parents[2]

_REASON: Final = re.compile(r"#\s*(asserts|sleeps):\s*\S")
_CLOCKS: Final = frozenset({"time", "monotonic", "perf_counter"})
_ASSERTING: Final = frozenset({"raises", "fail", "warns", "until", "wait_for", "timeout", "validate", "to_be_focused"})
"""What fails by raising: pytest's own, waits with a deadline, a document's check against its schema."""
_QUERIES: Final = ("execute", "fetch", "psql")

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Found(NamedTuple):
    """A line that breaks a rule."""

    path: str
    line: int
    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.what}"


def lint(sources: Mapping[str, str]) -> list[Found]:
    """What is found in files, by their paths. A test may assert by a helper of another file."""
    trees = {path: ast.parse(source) for path, source in sources.items()}
    helpers = Helpers(trees)
    found = []
    for path, tree in trees.items():
        lines = ["", *sources[path].splitlines()]
        for one in (*_tests(path, tree, helpers), *_sleeps(path, tree)):
            reasons = [_REASON.search(line) for line in lines[max(one.line - 1, 0) : one.line + 1]]
            if not any(reason and reason[1] == one.rule for reason in reasons):
                found.append(one)
    return found


class Helpers:
    """Which functions assert, by themselves or by what they call.

    A call is resolved by its bare name: in its own file, else among the functions and methods of all files. If several
    have the name, all must assert.
    """

    def __init__(self, trees: Mapping[str, ast.Module]) -> None:
        self._own: dict[tuple[str, str], list[tuple[str, _Function]]] = {}
        self._shared: dict[str, list[tuple[str, _Function]]] = {}
        for path, tree in trees.items():
            holders = [node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef)]
            outer = {id(node) for holder in holders for node in holder.body}
            for node in ast.walk(tree):
                if isinstance(node, _Function):
                    self._own.setdefault((path, node.name), []).append((path, node))
                    if id(node) in outer:
                        self._shared.setdefault(node.name, []).append((path, node))
        self._known: dict[int, bool] = {}

    def assert_something(self, path: str, function: _Function) -> bool:
        """Whether a function of the file at `path` asserts. Recursion alone does not count."""
        if id(function) not in self._known:
            self._known[id(function)] = False
            self._known[id(function)] = any(self._is_assertion(path, node) for node in ast.walk(function))
        return self._known[id(function)]

    def _is_assertion(self, path: str, node: ast.AST) -> bool:
        if isinstance(node, ast.Assert):
            return not isinstance(node.test, ast.Constant)
        if isinstance(node, ast.Raise):
            return "AssertionError" in ast.dump(node)
        if not isinstance(node, ast.Call):
            return False
        own = self._own.get((path, _name(node)), []) if isinstance(node.func, ast.Name) else []
        called = own or self._shared.get(_name(node), [])
        return _name(node) in _ASSERTING or (bool(called) and all(self.assert_something(*one) for one in called))


def _tests(path: str, tree: ast.Module, helpers: Helpers) -> Iterator[Found]:
    for node in ast.walk(tree):
        if isinstance(node, _Function) and node.name.startswith("test_") and not helpers.assert_something(path, node):
            yield Found(path, node.lineno, "asserts", f"{node.name} asserts nothing")


def _sleeps(path: str, node: ast.AST, *, polls: bool = False) -> Iterator[Found]:
    """The pauses outside of loops that a fact ends. A function in such a loop is not part of it."""
    if isinstance(node, ast.While):
        polls = polls or _ends_by_fact(node)
    elif isinstance(node, _Function):
        polls = False
    elif isinstance(node, ast.Call) and _pauses(node) and not polls:
        yield Found(path, node.lineno, "sleeps", f"{ast.unparse(node)}: wait for a fact")
    for child in ast.iter_child_nodes(node):
        yield from _sleeps(path, child, polls=polls)


def _ends_by_fact(loop: ast.While) -> bool:
    """A clock is no fact, nor is the end of the first round."""
    if any(isinstance(statement, ast.Break | ast.Return) for statement in loop.body):
        return False
    timed = any(isinstance(inner, ast.Call) and _name(inner) in _CLOCKS for inner in ast.walk(loop.test))
    leaves = any(isinstance(inner, ast.Break | ast.Return) for inner in ast.walk(loop))
    return leaves or not (timed or isinstance(loop.test, ast.Constant))


def _pauses(call: ast.Call) -> bool:
    """`sleep(1)`, `run(["sleep", "1"])`, `execute("SELECT pg_sleep(1)")`; `sleep(0)` is none."""
    if _name(call) == "sleep":
        return not (call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0)
    words = [node.value for arg in call.args for node in ast.walk(arg) if isinstance(node, ast.Constant)]
    return words[:1] == ["sleep"] or (_name(call).startswith(_QUERIES) and any("pg_sleep" in str(w) for w in words))


def _name(call: ast.Call) -> str:
    """The bare name of what is called: `check` of `invariants.check(...)`."""
    return getattr(call.func, "attr", "") or getattr(call.func, "id", "")


def sources(root: Path = ROOT) -> dict[str, str]:
    """The files of tests/, by their paths from the repository's root."""
    return {str(path.relative_to(root)): path.read_text() for path in sorted((root / "tests").rglob("*.py"))}


if __name__ == "__main__":
    problems = lint(sources())
    print(*problems, sep="\n")
    sys.exit(1 if problems else 0)
