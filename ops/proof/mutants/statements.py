"""Mutants of a named SQL statement.

A mutant keeps the parameters of the original and can be prepared, so conditions are made void and not cut out:

    widen     a condition of an AND always holds: `c` becomes `c OR true`
    narrow    an alternative of an OR, or a branch of a CASE, never holds: `c` becomes `c AND false`
    boundary  `<` becomes `<=`, and so on
    unlock    FOR UPDATE, FOR SHARE ... are left out; a SKIP LOCKED waits instead
    unsort    an ORDER BY is left out
    unlimit   a LIMIT is left out
    collide   an ON CONFLICT is left out
    repeat    a DISTINCT is left out

A place is named by its part of the statement (a WITH's name, a guard's, else `main`) because the commit is sent without
the parts that it does not need. Conditions on tenant_id are not mutated: tests/sql/test_statements.py checks them.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, Final, NamedTuple

import asyncpg
from pglast import ast as typed_ast
from pglast import enums, parse_sql
from pglast.stream import RawStream

import sql

ast: Any = typed_ast
"""Untyped, because every list in pglast's types may be None."""

_PLAYING: Final = ("claims", "codes", "commit", "fulfillment", "idempotency", "play", "rewards")
FILES: Final = (*_PLAYING, "merging", "quests", "wallet")

_TENANT: Final = re.compile(r"^(\w+\.)?tenant_id = (\$\d+|(\w+\.)?tenant_id)$")
_PARAMETER: Final = re.compile(r"\$\d+")
_FLIPPED: Final = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_TRUE: Final = ast.A_Const(isnull=False, val=ast.Boolean(boolval=True))
_FALSE: Final = ast.A_Const(isnull=False, val=ast.Boolean(boolval=False))
_NULL: Final = ast.A_Const(isnull=True)
_BIGINT: Final = ast.TypeName(
    names=(ast.String(sval="pg_catalog"), ast.String(sval="int8")), setof=False, pct_type=False, typemod=-1
)

_Mutate = Callable[[], None]
_Site = tuple[str, str, str, _Mutate]


class Place(NamedTuple):
    """A place of a statement: its part, the kind of mutation, and its number among those of the part."""

    part: str
    kind: str
    nth: int


class Mutant(NamedTuple):
    """A statement mutated at one place. The name is unique."""

    target: str
    place: Place
    name: str

    def apply(self, text: str) -> str:
        """The mutated text; the same text if it lacks the place."""
        return _mutated(text, self.place)

    def install(self, prepare: Callable[[str], None]) -> None:
        """Gives this process' connections the mutated statement. Raises if it is invalid."""
        text = texts()[self.target]
        broken = self.apply(text)
        if set(_PARAMETER.findall(text)) != set(_PARAMETER.findall(broken)):
            raise ValueError("it has other parameters")
        prepare(broken)
        hook(lambda query: self.apply(query) if name_of(query) == self.target else query)


def mutants() -> list[Mutant]:
    """All mutants of all statements."""
    found = []
    for statement, text in texts().items():
        seen: Counter[str] = Counter()
        for place, shown, _ in _places(parse_sql(text)):
            label = f"{statement} {place.part}: {place.kind} {shown}"
            seen[label] += 1
            if place.kind != "widen" or not _TENANT.match(shown):
                found.append(Mutant(statement, place, label if seen[label] == 1 else f"{label} #{seen[label]}"))
    return found


def read_file(path: str) -> str:
    return (sql.DIRECTORY.parent / path).read_text()


def texts(read: Callable[[str], str] = read_file) -> dict[str, str]:
    """The texts of all statements, by their full names ("commit.commit"); `read` gives a file's text."""
    files = {file: read(f"sql/{file}.sql") for file in FILES}
    return {query.name: query.text for file, text in files.items() for query in sql.parse(file, text).values()}


def name_of(query: str) -> str:
    """The full name of a named statement, from its first line; empty for any other SQL."""
    found = re.match(r"-- (\w+\.\w+)\n", query)
    return found[1] if found else ""


def hook(change: Callable[[str], str]) -> None:
    """From now on this process sends `change(query)` instead of each query. Once a process."""
    connection: Any = asyncpg.Connection
    get_statement, execute = connection._get_statement, connection.execute

    async def changed_statement(self: Any, query: str, *args: Any, **kwargs: Any) -> Any:
        return await get_statement(self, change(query), *args, **kwargs)

    async def changed_execute(self: Any, query: str, *args: Any, **kwargs: Any) -> Any:
        # With arguments it is prepared by the method above.
        return await execute(self, query if args else change(query), *args, **kwargs)

    connection._get_statement, connection.execute = changed_statement, changed_execute


@cache
def _mutated(text: str, place: Place) -> str:
    tree = parse_sql(text)
    for found, _, mutate in list(_places(tree)):
        if found == place:
            mutate()
            comment = text.partition("\n")[0]
            return f"{comment}\n{RawStream()(tree)}"
    return text


def _places(tree: Any) -> Iterator[tuple[Place, str, _Mutate]]:
    """Each place, its SQL, and what mutates it."""
    counts: Counter[tuple[str, str]] = Counter()
    for part, kind, shown, mutate in _Walk().nodes(tree[0], "main"):
        counts[part, kind] += 1
        yield Place(part, kind, counts[part, kind]), shown, mutate


class _Walk:
    """Goes through a statement's tree in its order."""

    def __init__(self) -> None:
        self._compared: set[int] = set()
        self._shared: Any = None

    def nodes(self, node: Any, part: str) -> Iterator[_Site]:
        if isinstance(node, tuple):
            for item in node:
                yield from self.nodes(item, part)
            return
        if not isinstance(node, ast.Node):
            return
        if isinstance(node, ast.MultiAssignRef):
            # `(a, b) = (SELECT ...)`: the tree has a copy of the SELECT for each column; here they share the first.
            if node.colno > 1:
                node.source = self._shared
                return
            self._shared = node.source
        if isinstance(node, ast.CommonTableExpr):
            part = node.ctename
        if isinstance(node, ast.CaseExpr) and node.arg is not None:
            # CASE status WHEN 'won' ...: the branch is a value, not a condition.
            self._compared.update(id(branch) for branch in node.args)
            for branch in node.args:
                yield part, "narrow", f"{_show(node.arg)} = {_show(branch.expr)}", _put(branch, "expr", _NULL)
        if isinstance(node, ast.CaseWhen) and id(node) not in self._compared:
            part = _guard_of(node) or part
            yield part, "narrow", _show(node.expr), _put(node, "expr", _never(node.expr))
            yield from self._terms(node.expr, part, lambda term: setattr(node, "expr", term))
        for name in ("whereClause", "havingClause", "quals", "agg_filter"):
            if (condition := getattr(node, name, None)) is not None:
                yield from self._condition(condition, "widen", part, partial(setattr, node, name))
        yield from self._clauses(node, part)
        for name in node:
            yield from self.nodes(getattr(node, name), part)

    def _condition(self, node: Any, kind: str, part: str, put: Callable[[Any], None]) -> Iterator[_Site]:
        """The places of a condition: itself or its terms. Branches of a CASE are found elsewhere; `ON true` is none."""
        if isinstance(node, ast.CaseExpr | ast.A_Const):
            return
        if not isinstance(node, ast.BoolExpr) or node.boolop == enums.BoolExprType.NOT_EXPR:
            yield part, kind, _show(node), partial(put, _always(node) if kind == "widen" else _never(node))
        yield from self._terms(node, part, put)

    def _terms(self, node: Any, part: str, put: Callable[[Any], None]) -> Iterator[_Site]:
        if isinstance(node, ast.BoolExpr) and node.boolop != enums.BoolExprType.NOT_EXPR:
            kind = "narrow" if node.boolop == enums.BoolExprType.OR_EXPR else "widen"
            for nth, inner in enumerate(node.args):
                put_inner = partial(_put_term, node, nth)
                yield from self._condition(inner, kind, part, put_inner)
                if isinstance(inner, ast.BoolExpr) and kind == "narrow":
                    yield part, kind, _show(inner), partial(put_inner, _never(inner))
        if isinstance(node, ast.A_Expr) and node.kind == enums.A_Expr_Kind.AEXPR_OP and node.name[-1].sval in _FLIPPED:
            flipped = ast.String(sval=_FLIPPED[node.name[-1].sval])
            yield part, "boundary", _show(node), _put(node, "name", (flipped,))

    def _clauses(self, node: Any, part: str) -> Iterator[_Site]:
        if locks := getattr(node, "lockingClause", None):
            shown = ", ".join(enums.LockClauseStrength(lock.strength).name.removeprefix("LCS_") for lock in locks)
            yield part, "unlock", shown, _put(node, "lockingClause", None)
            for lock in locks:
                if lock.waitPolicy == enums.LockWaitPolicy.LockWaitSkip:
                    wait = enums.LockWaitPolicy.LockWaitBlock
                    yield part, "unlock", "SKIP LOCKED", _put(lock, "waitPolicy", wait)
        distinct = getattr(node, "distinctClause", None)
        if (order := getattr(node, "sortClause", None)) and not (distinct and distinct[0]):  # DISTINCT ON needs it.
            yield part, "unsort", f"ORDER BY {', '.join(map(_show, order))}", _put(node, "sortClause", None)
        if (limit := getattr(node, "limitCount", None)) is not None:
            yield part, "unlimit", f"LIMIT {_show(limit)}", _put(node, "limitCount", _nothing(limit))
        if (conflict := getattr(node, "onConflictClause", None)) is not None:
            action = enums.OnConflictAction(conflict.action).name.removeprefix("ONCONFLICT_")
            yield part, "collide", f"ON CONFLICT {action}", _put(node, "onConflictClause", None)
        if distinct:
            yield part, "repeat", "DISTINCT", _put(node, "distinctClause", None)


def _put(holder: Any, name: str, value: Any) -> _Mutate:
    return partial(setattr, holder, name, value)


def _put_term(node: Any, nth: int, term: Any) -> None:
    node.args = (*node.args[:nth], term, *node.args[nth + 1 :])


def _always(condition: Any) -> Any:
    return ast.BoolExpr(boolop=enums.BoolExprType.OR_EXPR, args=(condition, _TRUE))


def _never(condition: Any) -> Any:
    return ast.BoolExpr(boolop=enums.BoolExprType.AND_EXPR, args=(condition, _FALSE))


def _nothing(count: Any) -> Any:
    """NULL, with the same parameters."""
    number = ast.TypeCast(arg=count, typeName=_BIGINT)
    return ast.A_Expr(kind=enums.A_Expr_Kind.AEXPR_NULLIF, name=(ast.String(sval="="),), lexpr=number, rexpr=number)


def _guard_of(branch: ast.CaseWhen) -> str:
    """ "refuse stock" of a branch that is `refuse('stock')`; empty for other branches."""
    result = branch.result
    if isinstance(result, ast.FuncCall) and result.funcname[-1].sval == "refuse":
        return f"refuse {result.args[0].val.sval}"
    return ""


def _show(node: Any) -> str:
    return " ".join(str(RawStream()(node)).split())
