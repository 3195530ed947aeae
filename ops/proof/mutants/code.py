"""Mutants of a Python function.

    compare  `<` becomes `<=`, `==` becomes `!=`, `in` becomes `not in`, and so on
    join     `and` becomes `or`, and the reverse
    negate   the condition of an `if` is negated
    count    a whole number is one more, and `+` becomes `-`
    omit     a `raise`, or a call for its effect, is left out; log lines are not mutated

A mutant replaces the function's code in the running process, so what a module computes at import is not mutated.
"""

from __future__ import annotations

import ast
import gc
import importlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[3]

FILES: Final = tuple(
    sorted(
        str(path.relative_to(ROOT))
        for package in ("actors", "rules")
        for path in (ROOT / "runtime" / package).rglob("[!_]*.py")
    )
)

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
"""Mutated, they say the opposite. For a whole condition that is `negate`."""
_JOINED: Final[Mapping[type[ast.boolop], type[ast.boolop]]] = {ast.And: ast.Or, ast.Or: ast.And}
_COUNTED: Final[Mapping[type[ast.operator], type[ast.operator]]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}

_Put = Callable[[], None]


class Mutant(NamedTuple):
    """A function mutated at the `nth` of its places. The name is unique."""

    module: str
    function: str
    nth: int
    name: str

    @property
    def target(self) -> str:
        """The function's full name."""
        return f"{self.module}.{self.function}"

    @property
    def group(self) -> str:
        return self.module

    def install(self, prepare: object) -> None:
        """Replaces the function's code in this process. ValueError if there is no such function to replace."""
        importlib.import_module(self.module)
        functions = self._functions()
        if not functions:
            raise ValueError("no such function was made")
        for function in functions:
            function.__code__ = self._code()

    def _functions(self) -> list[FunctionType]:
        """The functions with this code, decorated or not."""
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
        return _mutated(self.module, self.function, self.nth)


def _objects() -> list[Any]:
    """All objects, those that tests/conftest.py froze included."""
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    found = gc.get_objects()
    if frozen:
        gc.freeze()
    return found


def mutants() -> list[Mutant]:
    """All mutants of all modules."""
    found = []
    for path in FILES:
        module = _module(path)
        seen: Counter[str] = Counter()
        for function, node in _functions_of(ast.parse((ROOT / path).read_text())):
            for nth, (kind, shown, _) in enumerate(_places(node)):
                label = f"{module}.{function}: {kind} {shown}"
                seen[label] += 1
                found.append(Mutant(module, function, nth, label if seen[label] == 1 else f"{label} #{seen[label]}"))
    return found


def texts(read: Callable[[str], str]) -> dict[str, str]:
    """The code of each function, without comments and lines, by its full name; `read` gives a file's text."""
    return {
        f"{_module(path)}.{name}": ast.dump(node)
        for path in FILES
        for name, node in _functions_of(ast.parse(read(path)))
    }


def names(called: Iterable[CodeType]) -> frozenset[str]:
    """The full names of the functions whose code this is. An inner function is part of its outer one."""
    modules = {str(ROOT / path): _module(path) for path in FILES}
    return frozenset(
        f"{modules[one.co_filename]}.{one.co_qualname.partition('.<locals>')[0]}"
        for one in called
        if one.co_filename in modules
    )


def _module(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


@cache
def _mutated(module: str, function: str, nth: int) -> CodeType:
    path = ROOT / f"{module.replace('.', '/')}.py"
    tree = ast.parse(path.read_text())
    node = next(node for name, node in _functions_of(tree) if name == function)
    list(_places(node))[nth][2]()
    compiled = compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)
    return next(code for code in _codes(compiled) if code.co_qualname == function and code.co_name == node.name)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _functions_of(
    node: ast.Module | ast.ClassDef, above: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """The functions and methods of a module. An inner function is part of its outer one."""
    for inner in node.body:
        if isinstance(inner, ast.ClassDef):
            yield from _functions_of(inner, f"{above}{inner.name}.")
        elif isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{above}{inner.name}", inner


def _places(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[tuple[str, str, _Put]]:
    """(kind, source, what mutates it) of each place of a function's body."""
    found: list[tuple[str, str, _Put]] = []
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    conditions = {id(node.test) for node in nodes if isinstance(node, ast.If | ast.IfExp)}
    for node in nodes:
        found.extend(_of(node, is_condition=id(node) in conditions))
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
    """Whether it is a call, other than a log line."""
    called = node.value if isinstance(node, ast.Await) else node
    return isinstance(called, ast.Call) and not ast.unparse(called.func).startswith("log.")


def _field(node: Any, name: str, value: Any) -> _Put:
    return lambda: setattr(node, name, value)


def _item(items: Any, nth: int, value: Any) -> _Put:
    return lambda: items.__setitem__(nth, value)
