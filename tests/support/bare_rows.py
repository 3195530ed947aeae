"""Rows of which a test says what it is about, and nothing else."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import asyncpg

from tests.support.statements import ask_of_t, undone

BARE: Final = """
DO $$
DECLARE
    alteration text;
BEGIN
    FOR alteration IN
        SELECT format('ALTER TABLE %s %s', c.oid::regclass, string_agg(
            format('ALTER %I SET DEFAULT %L', a.attname, CASE
                WHEN a.attname = 'tenant_id' THEN 't'
                WHEN b.typname IN ('int4', 'int8', 'float8') THEN '1'
                WHEN b.typcategory = 'A' OR b.typname IN ('json', 'jsonb') THEN '{}'
                WHEN b.typname = 'bool' THEN 'false'
                WHEN b.typname IN ('date', 'timestamptz') THEN '2026-01-01'
                ELSE '' END), ', '))
        FROM pg_class AS c
        JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND a.attnotnull AND NOT a.atthasdef
        JOIN pg_type AS y ON y.oid = a.atttypid
        JOIN pg_type AS b ON b.oid = coalesce(nullif(y.typbasetype, 0), y.oid)
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
        GROUP BY c.oid
    LOOP
        EXECUTE alteration;
    END LOOP;
END $$;
ALTER TABLE rewards ALTER type SET DEFAULT 'goods';
ALTER TABLE tasks ALTER status SET DEFAULT 'pending';
ALTER TABLE contacts ALTER type SET DEFAULT 'email';
ALTER TABLE leaderboards ALTER metric SET DEFAULT 'score', ALTER mode SET DEFAULT 'sum';
ALTER TABLE prizes ALTER created_at SET DEFAULT '2026-01-01', ALTER updated_at SET DEFAULT '2026-01-01';
"""
"""A scene: a row of the tenant t may be made of its keys alone; numbers are 1, times the beginning of 2026."""

MERGED: Final = f"""{BARE}
+ players player_id merged_into: ann - | bob - | gus ann | gea ann | gil gus | gal nobody | gor ann;
+ games game_id: g1 | g2;
"""


_ROWS: Final = re.compile(r"^[ \t]*\+ (\w+) ((?:'[^']*'|[^;'])*);", re.M)
_TOKEN: Final = re.compile(r"(?:[\w.]+=)?(?:'(?:[^']|'')*'|\((?:[^()]|\([^()]*\))*\)):?|[^\s|]+|\|")


def bare(text: str) -> str:
    """A scene in which rows need no more than their keys (BARE)."""
    return BARE + text


def scene(text: str) -> str:
    """SQL of a text that has rows as tables, amid other statements:

    + rewards player_id=ann reward_id status won_at: r1 won - | r2 expired (now()) | r3 'of two' -;

    A column may have its value in the head. `-` is NULL; parentheses hold an expression, quotes a value with spaces.
    """
    return _ROWS.sub(lambda found: _insert(found[1], _TOKEN.findall(found[2])), text)


def _insert(table: str, tokens: list[str]) -> str:
    ends = next(nth for nth, token in enumerate(tokens) if token.endswith(":"))
    columns = [column.partition("=")[::2] for column in (*tokens[:ends], tokens[ends][:-1])]
    rows = []
    for row in _split(tokens[ends + 1 :]):
        values = iter(row)
        rows.append(", ".join(_value(fixed or next(values)) for _, fixed in columns))
        assert not [*values], (table, row)
    return f"INSERT INTO {table} ({', '.join(name for name, _ in columns)}) VALUES ({'), ('.join(rows)});"


def _split(tokens: list[str]) -> Iterator[list[str]]:
    while "|" in tokens:
        yield tokens[: tokens.index("|")]
        tokens = tokens[tokens.index("|") + 1 :]
    yield tokens


def _value(token: str) -> str:
    return "NULL" if token == "-" else token if token[0] in "'(" or token == "DEFAULT" else f"'{token}'"


Case = tuple[str, str, str]


async def hold_to(connection: asyncpg.Connection, file: str, cases: Mapping[str, Case], *columns: int) -> None:
    """Each statement of the file, asked about the keys of its own rows, names what it should: those columns.

    A line of the expected has a row, or several with "; " between them.
    """
    expected = {
        name: sorted(filter(None, re.split(r"; |\n *", found.strip()))) for name, (_, _, found) in cases.items()
    }
    shown = {}
    for name, (rows, keys, _) in cases.items():
        async with undone(connection):
            await connection.execute(scene(rows))
            answer = await ask_of_t(connection, f"{file}.{name}", keys.split(","))
        shown[name] = sorted("|".join(str(row[column]) for column in columns) for row in answer)
    assert shown == expected
