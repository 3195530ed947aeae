"""Finds tests that could not fail: `python -m ops.proof.lint`.

    asserts    a test that asserts nothing: no `assert`, no `pytest.raises`, and no helper of tests/ that does either.
               Nor is it an assertion where nothing could fail: a constant, a tuple, `x == x`, `len(x) >= 0`, a
               coroutine that nobody awaits, a function within that nobody calls; nor one that is not reached, or only
               where something was raised. Nor `pytest.raises(Exception)` that matches nothing
    swallows   an exception that is dropped: `except ...: pass`, or `return`, `suppress(Exception)`, a bare `except`,
               one of everything, or of AssertionError, that looks at nothing, a `return` in `finally`,
               `gather(..., return_exceptions=True)` that nobody reads
    sleeps     a pause of so long, by whatever name, where a fact could be waited for; a loop that ends with a fact may
               pause in between, and the clock is none

Where one of them is right, the line (or the one above it) says why: `# swallows: the socket may be closed already`.
A reason that excuses nothing is found too.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

ROOT: Final = Path(__file__).resolve().parents[2]

RULES: Final = ("asserts", "swallows", "sleeps")

_REASON = re.compile(rf"#\s*({'|'.join(RULES)}):\s*\S")
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_EVERYTHING: Final = frozenset({"Exception", "BaseException"})
_CLOCKS: Final = frozenset({"time", "monotonic", "perf_counter"})
_OF_PYTEST: Final = frozenset({"raises", "fail", "warns"})
_ASSERTING: Final = frozenset({"until", "wait_for", "validate", "to_be_focused"})
"""What fails by raising, though it says no `assert`: waits that give up, and a document's check against its schema."""


class Found(NamedTuple):
    """A place in a test, which rule it breaks, and what to do."""

    path: str
    line: int
    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.what}"


def lint(sources: dict[str, str]) -> list[Found]:
    """What is found in files, by their paths, read together: a test may assert by a helper of another file."""
    trees = {path: ast.parse(source) for path, source in sources.items()}
    helpers = Helpers(trees)
    return [
        found
        for path, tree in trees.items()
        for found in _unexcused(sources[path], path, [*_tests(path, tree, helpers), *_Walk.over(path, tree)])
    ]


def _unexcused(source: str, path: str, found: list[Found]) -> list[Found]:
    """What no reason stands at, and the reasons at which there is nothing."""
    excuses = {
        (token.start[0], match[1])
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT and (match := _REASON.match(token.string)) is not None
    }
    kept, used = [], set()
    for one in found:
        places = {(one.line, one.rule), (one.line - 1, one.rule)} & excuses
        used |= places
        if not places:
            kept.append(one)
    idle = sorted(excuses - used)
    return kept + [Found(path, line, rule, "this reason excuses nothing") for line, rule in idle]


class Helpers:
    """Which functions of tests/ assert, by themselves or by what they call.

    They are told apart by name alone, so where several have one name all of them must: a method `close` that
    asserts lends nothing to whoever closes something else.
    """

    def __init__(self, trees: Mapping[str, ast.Module]) -> None:
        self._own: dict[tuple[str, str], list[_Function]] = {}
        self._shared: dict[str, list[tuple[str, _Function]]] = {}
        for path, tree in trees.items():
            outside = {id(node) for node in _reached_from_outside(tree)}
            for node in ast.walk(tree):
                if isinstance(node, _FUNCTIONS):
                    self._own.setdefault((path, node.name), []).append(node)
                    if id(node) in outside:
                        self._shared.setdefault(node.name, []).append((path, node))
        self._known: dict[int, bool] = {}

    def assert_something(self, path: str, function: _Function) -> bool:
        """Whether a function of the file at `path` asserts. One that calls itself does not by that."""
        if id(function) not in self._known:
            self._known[id(function)] = False
            self._known[id(function)] = any(self._is_assertion(path, node) for node in self._run_by(path, function))
        return self._known[id(function)]

    def _run_by(self, path: str, function: _Function) -> Iterator[ast.AST]:
        """What is in a function, but for functions that nothing in it names, and coroutines that are dropped."""
        named = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        waiting: list[ast.AST] = [function]
        while waiting:
            node = waiting.pop()
            yield node
            value = {ast.Expr: "value", ast.Assert: "test"}.get(type(node))
            if value is None or not self._is_coroutine(path, getattr(node, value)):
                children = list(_reached_in(node))
                waiting += [child for child in children if not isinstance(child, _FUNCTIONS) or child.name in named]

    def _is_assertion(self, path: str, node: ast.AST) -> bool:
        if isinstance(node, ast.Assert):
            return not _cannot_fail(node.test) and not self._is_coroutine(path, node.test)
        if isinstance(node, ast.Raise):
            return "AssertionError" in ast.dump(node)
        return isinstance(node, ast.Call) and self._calls_one(path, node)

    def _is_coroutine(self, path: str, value: ast.expr) -> bool:
        """Whether a value is a coroutine that nobody awaits: always true, and never run."""
        if not isinstance(value, ast.Call):
            return False
        called = self._called(path, value)
        return bool(called) and all(isinstance(function, ast.AsyncFunctionDef) for _, function in called)

    def _calls_one(self, path: str, call: ast.Call) -> bool:
        name = _called(call)
        if name in _ASSERTING or (name in _OF_PYTEST and ast.unparse(call.func).startswith("pytest.")):
            return True
        called = self._called(path, call)
        return bool(called) and all(self.assert_something(*one) for one in called)

    def _called(self, path: str, call: ast.Call) -> list[tuple[str, _Function]]:
        """The functions of tests/ that it may call, each with its file's path."""
        name = _called(call)
        own = self._own.get((path, name), []) if isinstance(call.func, ast.Name) else []
        return [(path, function) for function in own] or self._shared.get(name, [])


def _reached_in(node: ast.AST) -> Iterator[ast.AST]:
    """What is in a node, but for what follows a `return` or the like, is in `if False`, or awaits an exception."""
    for name, value in ast.iter_fields(node):
        if name == "handlers" or (name == "body" and isinstance(node, ast.If) and _is_false(node.test)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child
            if isinstance(child, ast.Return | ast.Raise | ast.Continue | ast.Break):
                break


def _is_false(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and not test.value


def _cannot_fail(test: ast.expr) -> bool:
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.Lambda() | ast.GeneratorExp() | ast.JoinedStr():
            return not isinstance(test, ast.JoinedStr) or any(isinstance(part, ast.Constant) for part in test.values)
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            return any(not isinstance(element, ast.Starred) for element in elements)
        case ast.Dict(keys=keys):
            return any(key is not None for key in keys)
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(map(_cannot_fail, values))
        case ast.BoolOp(op=ast.And(), values=values):
            return all(map(_cannot_fail, values))
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is() | ast.LtE() | ast.GtE()], comparators=[right]) if (
            isinstance(left, ast.Name | ast.Attribute | ast.Constant) and ast.dump(left) == ast.dump(right)
        ):
            return True
        case ast.Compare(left=ast.Call(func=ast.Name(id="len")), ops=[ast.GtE()], comparators=[ast.Constant(value=0)]):
            return True
    return False


def _reached_from_outside(tree: ast.Module) -> Iterator[_Function]:
    """Functions and methods, not what is defined within them."""
    for node in tree.body:
        if isinstance(node, _FUNCTIONS):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from (inner for inner in node.body if isinstance(inner, _FUNCTIONS))


def _tests(path: str, tree: ast.Module, helpers: Helpers) -> Iterator[Found]:
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS) and node.name.startswith("test_") and not helpers.assert_something(path, node):
            yield Found(path, node.lineno, "asserts", f"{node.name} could not fail: it asserts nothing")


def _called(call: ast.Call) -> str:
    """The bare name of what is called: `check` of `invariants.check(...)`."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


class _Walk(ast.NodeVisitor):
    """Swallowed exceptions, and sleeps, of one file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._polls = 0
        self._names: dict[str, str] = {}
        self.found: list[Found] = []

    @classmethod
    def over(cls, path: str, tree: ast.Module) -> list[Found]:
        walk = cls(path)
        walk.visit(tree)
        return walk.found

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self._names |= {alias.asname: alias.name for alias in node.names if alias.asname}

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is None:
            self._note(node, "swallows", "a bare except takes what it does not know")
        if all(_does_nothing(statement) for statement in node.body):
            self._note(node.body[0], "swallows", f"{_named(node.type)} is dropped: assert it, or say why it may come")
        elif _takes(node.type, "AssertionError") and not _looks_at(node):
            self._note(node, "swallows", "takes what an assertion says: let it fail, or look at it")
        elif node.type is not None and _named(node.type) in _EVERYTHING and not _looks_at(node):
            self._note(node, "swallows", "takes whatever comes, and looks at none of it: name what may")
        self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> None:
        """What leaves by its `finally` drops whatever was raised."""
        for statement in node.finalbody:
            if isinstance(statement, ast.Return | ast.Break | ast.Continue):
                self._note(statement, "swallows", "leaves by finally, and drops whatever was raised")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        """Answers that nobody reads."""
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Call) and any(
            word.arg == "return_exceptions" and getattr(word.value, "value", False) for word in call.keywords
        ):
            self._note(node, "swallows", "the exceptions that are returned are dropped: look at them")
        if isinstance(call, ast.Call) and _called(call) == "wait" and _lasts(call) and not self._polls:
            self._note(node, "sleeps", f"{ast.unparse(call)} waits for a time, and does not say whether it was needed")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = self._names.get(_called(node), _called(node))
        if _takes_whatever_is_raised(node):
            self._note(node, "asserts", "whatever is raised will do: name it, or match what it says")
        if called == "suppress" and any(_takes(argument, "AssertionError") for argument in node.args):
            self._note(node, "swallows", "drops what an assertion says")
        if called == "suppress" and any(_named(a) in _EVERYTHING or isinstance(a, ast.Starred) for a in node.args):
            self._note(node, "swallows", "suppresses whatever comes: name what may")
        if (called == "sleep" or _sleeps_elsewhere(node)) and not self._polls and not _is_zero(node):
            self._note(node, "sleeps", f"{ast.unparse(node)} waits for a time: wait for what it is for")
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        """A loop that a fact ends: by its condition, or by leaving it; one that is left in its first round is none."""
        timed = any(isinstance(inner, ast.Call) and _called(inner) in _CLOCKS for inner in ast.walk(node.test))
        ends = not (isinstance(node.test, ast.Constant) or timed) or any(
            isinstance(inner, ast.Break | ast.Return) for inner in ast.walk(node)
        )
        ends = ends and not any(isinstance(statement, ast.Break | ast.Return) for statement in node.body)
        self._polls += ends
        self.generic_visit(node)
        self._polls -= ends

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """What is defined inside a loop is not the loop."""
        polls, self._polls = self._polls, 0
        self.generic_visit(node)
        self._polls = polls

    visit_FunctionDef = _function
    visit_AsyncFunctionDef = _function

    def _note(self, node: ast.stmt | ast.expr | ast.ExceptHandler, rule: str, what: str) -> None:
        self.found.append(Found(self._path, node.lineno, rule, what))


def _does_nothing(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Return):
        return statement.value is None  # A value, also None, says what came.
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Pass | ast.Continue | ast.Break)


def _looks_at(handler: ast.ExceptHandler) -> bool:
    """Whether it raises, or keeps or compares what came; to print it is no look."""
    for node in ast.walk(handler):
        if isinstance(node, ast.Raise | ast.Assert):
            return True
        if isinstance(node, ast.Call) and _called(node) == "print":
            return False
    return any(isinstance(node, ast.Name) and node.id == handler.name for node in ast.walk(handler))


def _takes(expression: ast.expr | None, name: str) -> bool:
    """Whether an exception's type, or one of several, is the one of this name."""
    each = expression.elts if isinstance(expression, ast.Tuple) else [expression]
    return any(isinstance(one, ast.Name) and one.id == name for one in each)


def _takes_whatever_is_raised(call: ast.Call) -> bool:
    """`pytest.raises(Exception)`, which asks nothing of it."""
    asks = any(word.arg in ("match", "check") for word in call.keywords)
    everything = bool(call.args) and _named(call.args[0]) in _EVERYTHING
    return ast.unparse(call.func) == "pytest.raises" and everything and not asks


def _lasts(call: ast.Call) -> bool:
    """`event.wait(0.5)`, `asyncio.wait(tasks, timeout=0.5)`."""
    given = [*call.args, *(word.value for word in call.keywords if word.arg == "timeout")]
    return any(isinstance(value, ast.Constant) and isinstance(value.value, int | float) for value in given)


def _sleeps_elsewhere(call: ast.Call) -> bool:
    """`run(["sleep", "1"])`, `execute("SELECT pg_sleep(1)")`."""
    command = call.args[0] if call.args else None
    words = command.elts if isinstance(command, ast.List | ast.Tuple) else call.args
    if words and isinstance(words[0], ast.Constant) and words[0].value == "sleep":
        return True
    asks = _called(call) in ("execute", "fetch", "fetchrow", "fetchval", "psql")
    return asks and any(
        isinstance(part, ast.Constant) and isinstance(part.value, str) and "pg_sleep" in part.value
        for argument in call.args
        for part in ast.walk(argument)
    )


def _named(expression: ast.expr | None) -> str:
    return ast.unparse(expression) if expression is not None else "whatever comes"


def _is_zero(call: ast.Call) -> bool:
    return bool(call.args) and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0


def sources(root: Path = ROOT) -> dict[str, str]:
    """The files of tests/, by their paths from the repository's root."""
    return {str(path.relative_to(root)): path.read_text() for path in sorted((root / "tests").rglob("*.py"))}


def main() -> int:
    """Prints what is found. 1 where there is anything."""
    found = lint(sources())
    for one in found:
        print(one)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
