"""Mutants of a Python function.

    compare  `<` becomes `<=`, `==` becomes `!=`, `in` becomes `not in`, and so on
    join     `and` becomes `or`, and the reverse
    negate   the condition of an `if` is negated
    count    a whole number is one more, and `+` becomes `-`
    omit     a `raise`, or a call for its effect, is left out; log lines are not mutated

A mutant replaces the function's code in the running process, so what a module computes at import is not mutated.
"""

import ast
import gc
import importlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[3]

FILES: Final = tuple(
    sorted(
        str(path.relative_to(ROOT))
        for package in ("actors", "rules")
        for path in (ROOT / "runtime" / package).rglob("[!_]*.py")
        if path.parent.name != "forecast"  # Numerics: most mutants change only a tolerance or the time.
    )
)

_OPPOSED: Final = ((ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn))
_PAIRS: Final = (*_OPPOSED, (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.And, ast.Or), (ast.Add, ast.Sub))
_SWAPPED: Final[dict[type, Any]] = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
_NEGATED: Final = tuple(operator for pair in _OPPOSED for operator in pair)
"""Swapped, they say the opposite. For a whole condition that is `negate`."""

_Mutate = Callable[[], None]


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

    def install(self, prepare: object) -> None:
        """Replaces the function's code in this process. ValueError if there is no such function to replace."""
        importlib.import_module(self.module)
        code = _mutated(self.module, self.function, self.nth)
        functions = [one for one in _functions() if _place(one.__code__) == _place(code)]
        if not functions:
            raise ValueError("no such function was made")
        for function in functions:
            function.__code__ = code


def _place(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _functions() -> list[FunctionType]:
    """All functions, decorated or not."""
    gc.unfreeze()  # tests/conftest.py hides what there is after collection
    return [found for found in gc.get_objects() if type(found) is FunctionType]


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


def _places(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[tuple[str, str, _Mutate]]:
    """(kind, source, what mutates it) of each place of a function's body."""
    found: list[tuple[str, str, _Mutate]] = []
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    conditions = {id(node.test) for node in nodes if isinstance(node, ast.If | ast.IfExp)}
    for node in nodes:
        found.extend(_of(node, is_condition=id(node) in conditions))
    found.extend(_omissions(function))
    return found


def _of(node: Any, *, is_condition: bool) -> Iterator[tuple[str, str, _Mutate]]:
    if isinstance(node, ast.Compare):
        for nth, operator in enumerate(node.ops):
            if not (is_condition and isinstance(operator, _NEGATED)):
                yield "compare", ast.unparse(node), partial(node.ops.__setitem__, nth, _SWAPPED[type(operator)]())
    if isinstance(node, ast.BoolOp):
        yield "join", ast.unparse(node), partial(setattr, node, "op", _SWAPPED[type(node.op)]())
    if isinstance(node, ast.If | ast.IfExp):
        yield "negate", ast.unparse(node.test), partial(setattr, node, "test", ast.UnaryOp(ast.Not(), node.test))
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _SWAPPED:
        yield "count", ast.unparse(node), partial(setattr, node, "op", _SWAPPED[type(node.op)]())
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield "count", str(node.value), partial(setattr, node, "value", node.value + 1)
    yield from _omissions(node)


def _omissions(node: ast.AST) -> Iterator[tuple[str, str, _Mutate]]:
    for name in ("body", "orelse", "finalbody"):
        statements: Any = getattr(node, name, None)
        for nth, statement in enumerate(statements if isinstance(statements, list) else ()):
            if isinstance(statement, ast.Raise) or (isinstance(statement, ast.Expr) and _is_call(statement.value)):
                shown = " ".join(ast.unparse(statement).split())
                yield "omit", shown, partial(statements.__setitem__, nth, ast.Pass())


def _is_call(node: ast.expr) -> bool:
    """Whether it is a call, other than a log line."""
    called = node.value if isinstance(node, ast.Await) else node
    return isinstance(called, ast.Call) and not ast.unparse(called.func).startswith("log.")
