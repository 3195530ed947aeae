"""Where a Python function can be broken, and the function broken there.

    compare  `<` becomes `<=`, `==` becomes `!=`, `in` becomes `not in`, and so on
    join     `and` becomes `or`, and the other way round
    negate   the condition of an `if`, or of what stands before its `else`, is the opposite
    count    a whole number is one more, and `+` becomes `-`
    omit     a call for its effect (no line of the log), or a `raise`, is left out

A function's code is exchanged in the running process, so what a module computes at its import is not broken.
mutmut and cosmic-ray do as much, but begin each mutant's tests with servers of their own, and actors need a database.
"""

from __future__ import annotations

import ast
import gc
import importlib
import importlib.util
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[3]

MODULES: Final = (
    *(f"runtime.rules.{path.stem}" for path in sorted((ROOT / "runtime" / "rules").glob("[!_]*.py"))),
    *(f"runtime.http.{name}" for name in ("auth", "jwks", "foreign")),
    "runtime.outgoing.connector",
    "runtime.outgoing.signing",
    *(f"runtime.actors.{path.stem}" for path in sorted((ROOT / "runtime" / "actors").glob("[!_]*.py"))),
    *(f"runtime.actors.game.{path.stem}" for path in sorted((ROOT / "runtime" / "actors" / "game").glob("[!_]*.py"))),
)
"""What is broken."""

_COMPARED: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPPOSED: Final = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
"""Broken they say the opposite: of what is a whole condition, that is `negate`."""
_JOINED: Final[Mapping[type[ast.boolop], type[ast.boolop]]] = {ast.And: ast.Or, ast.Or: ast.And}
_COUNTED: Final[Mapping[type[ast.operator], type[ast.operator]]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}

_Put = Callable[[], None]


class Mutant(NamedTuple):
    """A function broken at one place: the `nth` of those in it. `name` tells it from every other mutant."""

    module: str
    function: str
    nth: int
    name: str

    @property
    def statement(self) -> str:
        """The function's full name."""
        return f"{self.module}.{self.function}"

    @property
    def group(self) -> str:
        return self.module

    @property
    def of_tenant(self) -> bool:
        return False

    def is_executed_by(self, statements: tuple[str, ...], functions: tuple[str, ...]) -> bool:
        return self.statement in functions

    def install(self) -> None:
        """Exchanges the function's code in this process."""
        importlib.import_module(self.module)
        for function in self._functions():
            function.__code__ = self._code()

    def refusal(self, prepare: Callable[[str], str]) -> str:
        importlib.import_module(self.module)
        functions = self._functions()
        if not functions:
            return "no such function was made"
        if any(function.__code__.co_freevars != self._code().co_freevars for function in functions):
            return "it has other variables"
        return ""

    def _functions(self) -> list[FunctionType]:
        """The function, however it was decorated: functions whose code is of this name and line."""
        code = self._code()
        return [
            found
            for found in _objects()
            if type(found) is FunctionType
            and found.__code__.co_qualname == self.function
            and found.__code__.co_filename == code.co_filename
            and found.__code__.co_firstlineno == code.co_firstlineno
        ]

    def _code(self) -> CodeType:
        return _broken(self.module, self.function, self.nth)


def _objects() -> list[Any]:
    """All there are, also those that nobody collects any more."""
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    found = gc.get_objects()
    if frozen:
        gc.freeze()
    return found


@cache
def files() -> dict[str, str]:
    """The modules that are broken, by their files' paths."""
    return {str(_path(module)): module for module in MODULES}


@cache
def mutants() -> list[Mutant]:
    """All mutants of all modules, in their order."""
    found = []
    for module in MODULES:
        seen: Counter[str] = Counter()
        for function, node in _functions_of(_parse(module)):
            for nth, (kind, shown, _) in enumerate(_places(node)):
                label = f"{module}.{function}: {kind} {shown}"
                seen[label] += 1
                found.append(Mutant(module, function, nth, label if seen[label] == 1 else f"{label} #{seen[label]}"))
    return found


@cache
def _broken(module: str, function: str, nth: int) -> CodeType:
    """The code of a module's function, broken at its nth place."""
    tree = _parse(module)
    node = next(node for name, node in _functions_of(tree) if name == function)
    list(_places(node))[nth][2]()
    compiled = compile(ast.fix_missing_locations(tree), str(_path(module)), "exec", dont_inherit=True)
    return next(code for code in _codes(compiled) if code.co_qualname == function and code.co_name == node.name)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _path(module: str) -> Path:
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin)


def _parse(module: str) -> ast.Module:
    return ast.parse(_path(module).read_text())


def _functions_of(
    node: ast.Module | ast.ClassDef, above: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """The functions and methods of a module; what is defined within one is part of it."""
    for inner in node.body:
        if isinstance(inner, ast.ClassDef):
            yield from _functions_of(inner, f"{above}{inner.name}.")
        elif isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{above}{inner.name}", inner


def _places(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[tuple[str, str, _Put]]:
    """(kind, what stands there, what breaks it) of each place of a function's body."""
    found: list[tuple[str, str, _Put]] = []
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    conditions = {id(node.test) for node in nodes if isinstance(node, ast.If | ast.IfExp)}
    for node in nodes:
        found.extend(_of(node, is_condition=id(node) in conditions))
    # The body's own statements are nobody's field that is walked above.
    found.extend(_omissions(function))
    return found


def _of(node: ast.AST, *, is_condition: bool) -> Iterator[tuple[str, str, _Put]]:
    if isinstance(node, ast.Compare):
        for nth, operator in enumerate(node.ops):
            if type(operator) in _COMPARED and not (is_condition and isinstance(operator, _OPPOSED)):
                yield "compare", ast.unparse(node), _item(node.ops, nth, _COMPARED[type(operator)]())
    if isinstance(node, ast.BoolOp):
        yield "join", ast.unparse(node), _field(node, "op", _JOINED[type(node.op)]())
    if isinstance(node, ast.If | ast.IfExp):
        yield "negate", ast.unparse(node.test), _field(node, "test", ast.UnaryOp(ast.Not(), node.test))
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _COUNTED:
        yield "count", ast.unparse(node), _field(node, "op", _COUNTED[type(node.op)]())
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield "count", str(node.value), _field(node, "value", node.value + 1)
    yield from _omissions(node)


def _omissions(node: ast.AST) -> Iterator[tuple[str, str, _Put]]:
    for name in ("body", "orelse", "finalbody"):
        statements = getattr(node, name, None)
        for nth, statement in enumerate(statements if isinstance(statements, list) else ()):
            if isinstance(statement, ast.Raise) or (isinstance(statement, ast.Expr) and _is_call(statement.value)):
                yield "omit", " ".join(ast.unparse(statement).split()), _item(statements, nth, ast.Pass())


def _is_call(node: ast.expr) -> bool:
    """Whether it is a call that does something; a line of the log does not."""
    called = node.value if isinstance(node, ast.Await) else node
    return isinstance(called, ast.Call) and not ast.unparse(called.func).startswith("log.")


def _field(node: Any, name: str, value: Any) -> _Put:
    return lambda: setattr(node, name, value)


def _item(items: Any, nth: int, value: Any) -> _Put:
    return lambda: items.__setitem__(nth, value)
