"""Copies of rows that differ in one key: a statement that forgets this key changes the copies too."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import asyncpg

from runtime.stores.database import Database

TENANT: Final = "tenant_id"
PLAYER: Final = "player_id"

_TABLES: Final = """
    SELECT c.relname::text AS table,
           array_agg(a.attname::text ORDER BY a.attnum) AS columns,
           array_agg(format_type(coalesce(nullif(y.typbasetype, 0), y.oid), NULL) ORDER BY a.attnum) AS types,
           array_agg(a.attname::text ORDER BY a.attnum) FILTER (WHERE a.attnum = ANY(p.indkey)) AS key,
           coalesce(array_agg(a.attname::text) FILTER (
               WHERE EXISTS (SELECT FROM pg_index AS u WHERE u.indrelid = c.oid AND u.indisunique AND NOT u.indisprimary
                             AND a.attnum = ANY(u.indkey))
           ), '{}') AS once
    FROM pg_class AS c
    JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
    JOIN pg_type AS y ON y.oid = a.atttypid
    JOIN pg_index AS p ON p.indrelid = c.oid AND p.indisprimary
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
    GROUP BY c.oid, c.relname ORDER BY c.relname
"""
"""The tables, with their columns, and those of primary keys and of other unique indexes."""

_OTHER: Final = {
    "text": "\"{}\" || '~'",
    "bytea": "\"{}\" || '\\x7e'",
    "date": '"{}" + 100',
    "integer": '"{}" + 100',
    "bigint": '"{}" + 100',
}
"""Another value of a column, by its type."""

_TOLD: Final = frozenset({"text", "boolean", "integer", "bigint", "double precision", "date"})

_UNLIKE: Final = re.compile(r"(_id|_at|_until|_key|_hash|seq|hash|name|text|config|session|nonce|event|seed|outcome)$")
"""Columns whose values differ from one run to the next."""

_AN_ID: Final = r"[a-z]+_[0-9a-hjkmnp-tv-z]{26}"
"""An id of ours, wherever it is written: it differs too."""

Shape = dict[str, Counter[tuple[Any, ...]]]


@dataclass(frozen=True)
class Neighbours:
    """The copies, as they were made: by table, each row as text and how often it is there."""

    rows: dict[str, Counter[str]]

    async def changed(self, database: Database) -> dict[str, list[str]]:
        found = {}
        for table, rows in self.rows.items():
            there = Counter(row[0] for row in await database.fetch(f'SELECT t::text FROM "{table}" AS t'))
            if missing := rows - there:
                found[table] = sorted(missing.elements())
        return found


async def surround(
    database: Database, tenant_id: str, *, by: Sequence[str] = (TENANT, PLAYER), spare: Sequence[str] = ()
) -> Neighbours:
    """Gives each of the tenant's rows a copy by each of these columns: with another value there, and else alike.

    Other unique columns differ too where a unique index requires it. spare: tables that get none.
    """

    async def work(connection: asyncpg.Connection) -> dict[str, Counter[str]]:
        made: dict[str, Counter[str]] = {}
        # Without triggers: what is counted of rows is copied too.
        await connection.execute("SET LOCAL session_replication_role = 'replica'")
        for table in await connection.fetch(_TABLES):
            before = await connection.fetchval(f'SELECT max(ctid) FROM "{table["table"]}"')
            for column in by:
                if table["table"] in spare or before is None or column not in table["columns"]:
                    continue
                own = {column} if column in table["key"] else {column, table["key"][-1]}
                rows = await _copy(connection, table, tenant_id, own, before)
                unique = own | {*table["once"]} - {TENANT, "type"}
                rows = rows or await _copy(connection, table, tenant_id, unique, before)
                made.setdefault(table["table"], Counter()).update(rows)
        return made

    return Neighbours(await database.transaction(work))


async def _copy(
    connection: asyncpg.Connection, table: Any, tenant_id: str, changed: set[str], before: Any
) -> list[str]:
    """Copies the tenant's rows up to `before` with other values in these columns; the copies as text."""
    values = [
        (_OTHER.get(kind, '"{}"') if column in changed else '"{}"').format(column)
        for column, kind in zip(table["columns"], table["types"], strict=True)
    ]
    names = ", ".join(f'"{column}"' for column in table["columns"])
    rows = await connection.fetch(
        f'INSERT INTO "{table["table"]}" AS t ({names}) SELECT {", ".join(values)} FROM "{table["table"]}"'
        f" WHERE tenant_id = $1 AND ctid <= $2 ON CONFLICT DO NOTHING RETURNING t::text",
        *(tenant_id, before),
    )
    return [row[0] for row in rows]


async def shape(database: Database, tenant_id: str) -> Shape:
    """What the tenant's own rows are, and its players', but for what differs from one run to the next."""
    found: Shape = {}
    for table in await database.fetch(_TABLES):
        columns = [
            column
            for column, kind in zip(table["columns"], table["types"], strict=True)
            if kind in _TOLD and (column == PLAYER or not _UNLIKE.search(column))
        ]
        if TENANT not in table["columns"]:
            continue
        listed = ", ".join(f"regexp_replace(\"{column}\"::text, '{_AN_ID}', 'id', 'g')" for column in columns) or "1"
        where = f"tenant_id = $1 AND {PLAYER} NOT LIKE '%~'" if PLAYER in table["columns"] else "tenant_id = $1"
        rows = await database.fetch(f'SELECT {listed} FROM "{table["table"]}" WHERE {where}', tenant_id)
        found[table["table"]] = Counter(tuple(row) for row in rows)
    return found
