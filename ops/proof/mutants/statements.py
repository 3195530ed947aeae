"""Where a named statement can be broken, and the statement broken there.

Every mutant has the parameters of the original and can be prepared like it, so a test that fails has seen what the
mutant does. Conditions are therefore not cut out but made void:

    widen     a condition of an AND always holds: `c` becomes `c OR true`
    narrow    an alternative of an OR, or a branch of a CASE, never does: `c` becomes `c AND false`
    boundary  `<` becomes `<=`, and so on
    unlock    FOR UPDATE, FOR SHARE ... are left out; a SKIP LOCKED waits instead
    unsort    an ORDER BY is left out
    unlimit   a LIMIT is left out
    collide   an ON CONFLICT is left out
    repeat    a DISTINCT is left out

A place is named by the part of the statement that it is in (a WITH's name, a guard's, else `main`), not by its
number in the text: the commit is sent without the parts that it does not need.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final, NamedTuple

from pglast import ast as typed_ast
from pglast import enums, parse_sql
from pglast.stream import RawStream

import sql
from ops.proof.mutants import hook

ast: Any = typed_ast
"""Without its types: every list of them may be None, by which what stands in the grammar would be asked again."""

TENANT: Final = re.compile(r"^(\w+\.)?tenant_id = (\$\d+|(\w+\.)?tenant_id)$")
"""A condition that keeps tenants apart."""

_PARAMETER: Final = re.compile(r"\$\d+")
_FLIPPED: Final = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_TRUE: Final = ast.A_Const(isnull=False, val=ast.Boolean(boolval=True))
_FALSE: Final = ast.A_Const(isnull=False, val=ast.Boolean(boolval=False))
_NULL: Final = ast.A_Const(isnull=True)
_BIGINT: Final = ast.TypeName(
    names=(ast.String(sval="pg_catalog"), ast.String(sval="int8")), setof=False, pct_type=False, typemod=-1
)

_Put = Callable[[Any], None]


class Place(NamedTuple):
    """Where a statement may be broken: `part`, what is done there, and how manieth of it in the part it is."""

    part: str
    kind: str
    nth: int


class Mutant(NamedTuple):
    """A statement broken at one place. `shown` is what stands there; `name` tells it from every other mutant."""

    statement: str
    place: Place
    shown: str
    name: str

    @property
    def of_tenant(self) -> bool:
        """Whether it lets one tenant's statement reach the rows of another that has the same ids."""
        return self.place.kind == "widen" and TENANT.match(self.shown) is not None

    @property
    def group(self) -> str:
        """The file."""
        return self.statement.partition(".")[0]

    def is_executed_by(self, statements: tuple[str, ...], functions: tuple[str, ...]) -> bool:
        """Whether a test that executes these could see it."""
        return self.statement in statements

    def apply(self, text: str) -> str:
        """The statement's text, broken. The same where the text (one without all parts) has no such place."""
        return _broken(text, self.place)

    def install(self) -> None:
        """Gives this process' connections the broken statement."""
        hook.install(lambda query: self.apply(query) if hook.name_of(query) == self.statement else query)

    def refusal(self, prepare: Callable[[str], str]) -> str:
        """Why the database would not run it, or the application not call it; empty where both do."""
        text = text_of(self.statement)
        broken = self.apply(text)
        if set(_PARAMETER.findall(text)) != set(_PARAMETER.findall(broken)):
            return "it has other parameters"
        return prepare(broken)


def mutants(statement: str) -> list[Mutant]:
    """All mutants of a statement, by its full name ("commit.commit"), in its order."""
    found = []
    seen: Counter[str] = Counter()
    for place, shown, _ in _places(parse_sql(text_of(statement))):
        label = f"{statement} {place.part}: {place.kind} {shown}"
        seen[label] += 1
        found.append(Mutant(statement, place, shown, label if seen[label] == 1 else f"{label} #{seen[label]}"))
    return found


def text_of(statement: str) -> str:
    """The text of a statement, by its full name."""
    file, _, name = statement.partition(".")
    return sql.load(file)[name]


def statements() -> list[str]:
    """The full names of all there are."""
    return [f"{file}.{name}" for file in sql.files() for name in sql.load(file)]


@cache
def _broken(text: str, place: Place) -> str:
    tree = parse_sql(text)
    for found, _, put in list(_places(tree)):
        if found == place:
            put(None)
            comment = text.split("\n", 1)[0]
            return f"{comment}\n{RawStream()(tree)}"
    return text


def _places(tree: Any) -> Iterator[tuple[Place, str, _Put]]:
    """Each place, what stands there, and what breaks it."""
    counts: Counter[tuple[str, str]] = Counter()
    for part, kind, shown, put in _Walk().nodes(tree[0], "main"):
        counts[part, kind] += 1
        yield Place(part, kind, counts[part, kind]), shown, put


_Site = tuple[str, str, str, _Put]


class _Walk:
    """Goes through a statement's tree in its order."""

    _shared: Any = None

    def __init__(self) -> None:
        self._compared: set[int] = set()

    def nodes(self, node: Any, part: str) -> Iterator[_Site]:
        if isinstance(node, tuple | list):
            for item in node:
                yield from self.nodes(item, part)
            return
        if not isinstance(node, ast.Node):
            return
        if isinstance(node, ast.MultiAssignRef):
            # `(a, b) = (SELECT ...)` has its SELECT in the tree once for each: here, one for all.
            if node.colno > 1:
                node.source = self._shared
                return
            self._shared = node.source
        if isinstance(node, ast.CommonTableExpr):
            part = node.ctename
        if isinstance(node, ast.CaseExpr) and node.arg is not None:
            # CASE status WHEN 'won' ...: no condition, but a value that is compared.
            self._compared.update(id(branch) for branch in node.args)
            for branch in node.args:
                yield part, "narrow", f"{_show(node.arg)} = {_show(branch.expr)}", _constant(branch, "expr", _NULL)
        is_condition = isinstance(node, ast.CaseWhen) and id(node) not in self._compared
        if is_condition:
            part = _guard_of(node) or part
            yield part, "narrow", _show(node.expr), _setter(node, "expr", _never)
        for name in ("whereClause", "havingClause", "quals", "agg_filter"):
            if getattr(node, name, None) is not None:
                yield from self._condition(node, name, part, alternative=False)
        if is_condition:
            yield from self._inner(node, "expr", part)
        yield from self._clauses(node, part)
        for name in node:
            yield from self.nodes(getattr(node, name), part)

    def _condition(self, holder: Any, name: str, part: str, *, alternative: bool) -> Iterator[_Site]:
        """What a condition is made of, each breakable by itself."""
        node = getattr(holder, name)
        if isinstance(node, ast.CaseExpr):
            return  # Its branches are broken one by one.
        if isinstance(node, ast.A_Const):
            return  # ON true: always holds.
        if not isinstance(node, ast.BoolExpr) or node.boolop == enums.BoolExprType.NOT_EXPR:
            change = _never if alternative else _always
            yield part, "narrow" if alternative else "widen", _show(node), _setter(holder, name, change)
        yield from self._inner(holder, name, part)

    def _inner(self, holder: Any, name: str, part: str) -> Iterator[_Site]:
        node = getattr(holder, name)
        if isinstance(node, ast.BoolExpr) and node.boolop != enums.BoolExprType.NOT_EXPR:
            alternative = node.boolop == enums.BoolExprType.OR_EXPR
            for nth, inner in enumerate(node.args):
                yield from self._condition(_Item(node, "args", nth, inner), "value", part, alternative=alternative)
                if isinstance(inner, ast.BoolExpr) and alternative:
                    yield part, "narrow", _show(inner), _item_setter(node, nth, _never)
        if isinstance(node, ast.A_Expr) and node.kind == enums.A_Expr_Kind.AEXPR_OP:
            operator = node.name[-1].sval
            if operator in _FLIPPED:
                flipped = (ast.String(sval=_FLIPPED[operator]),)
                yield part, "boundary", _show(node), _constant(node, "name", flipped)

    def _clauses(self, node: Any, part: str) -> Iterator[_Site]:
        if getattr(node, "lockingClause", None):
            yield part, "unlock", _show_locks(node), _constant(node, "lockingClause", None)
            for lock in node.lockingClause:
                if lock.waitPolicy == enums.LockWaitPolicy.LockWaitSkip:
                    wait = enums.LockWaitPolicy.LockWaitBlock
                    yield part, "unlock", "SKIP LOCKED", _constant(lock, "waitPolicy", wait)
        if getattr(node, "sortClause", None) and not _sorts_distinct(node):
            shown = ", ".join(_show(item) for item in node.sortClause)
            yield part, "unsort", f"ORDER BY {shown}", _constant(node, "sortClause", None)
        if getattr(node, "limitCount", None) is not None:
            yield part, "unlimit", f"LIMIT {_show(node.limitCount)}", _setter(node, "limitCount", _nothing)
        if getattr(node, "onConflictClause", None) is not None:
            does = node.onConflictClause.action == enums.OnConflictAction.ONCONFLICT_UPDATE
            shown = f"ON CONFLICT DO {'UPDATE' if does else 'NOTHING'}"
            yield part, "collide", shown, _constant(node, "onConflictClause", None)
        if getattr(node, "distinctClause", None):
            yield part, "repeat", "DISTINCT", _constant(node, "distinctClause", None)


class _Item:
    """One of a node's list, as if it were a field: nodes hold tuples, which are replaced whole."""

    def __init__(self, node: Any, name: str, nth: int, value: Any) -> None:
        object.__setattr__(self, "_at", (node, name, nth))
        object.__setattr__(self, "value", value)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        node, field, nth = self._at  # type: ignore[attr-defined]
        items = list(getattr(node, field))
        items[nth] = value
        setattr(node, field, tuple(items))


def _setter(holder: Any, name: str, change: Callable[[Any], Any]) -> _Put:
    return lambda _: setattr(holder, name, change(getattr(holder, name)))


def _item_setter(node: Any, nth: int, change: Callable[[Any], Any]) -> _Put:
    return _setter(_Item(node, "args", nth, node.args[nth]), "value", change)


def _constant(holder: Any, name: str, value: Any) -> _Put:
    return lambda _: setattr(holder, name, value)


def _always(condition: Any) -> Any:
    return ast.BoolExpr(boolop=enums.BoolExprType.OR_EXPR, args=(condition, _TRUE))


def _never(condition: Any) -> Any:
    return ast.BoolExpr(boolop=enums.BoolExprType.AND_EXPR, args=(condition, _FALSE))


def _nothing(count: Any) -> Any:
    """NULL, said with the same parameters."""
    number = ast.TypeCast(arg=count, typeName=_BIGINT)
    name = (ast.String(sval="="),)
    return ast.A_Expr(kind=enums.A_Expr_Kind.AEXPR_NULLIF, name=name, lexpr=number, rexpr=number)


def _guard_of(branch: ast.CaseWhen) -> str:
    """The guard that a branch refuses by: "refuse stock" of `refuse('stock')`."""
    result = branch.result
    if isinstance(result, ast.FuncCall) and result.funcname[-1].sval == "refuse":
        return f"refuse {result.args[0].val.sval}"
    return ""


def _sorts_distinct(select: Any) -> bool:
    """DISTINCT ON wants the order that it says."""
    return bool(getattr(select, "distinctClause", None)) and select.distinctClause[0] is not None


def _show(node: Any) -> str:
    return " ".join(str(RawStream()(node)).split())


def _show_locks(select: Any) -> str:
    strengths = {"FORUPDATE": "FOR UPDATE", "FORNOKEYUPDATE": "FOR NO KEY UPDATE", "FORSHARE": "FOR SHARE"}
    names = (enums.LockClauseStrength(lock.strength).name.removeprefix("LCS_") for lock in select.lockingClause)
    return ", ".join(strengths.get(name, "FOR KEY SHARE") for name in names)
