"""A new version rolled out under load, with a schema of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import asyncpg

from ops.certification.node import ROOT
from ops.certification.row import row
from ops.certification.run import Run
from sql.locks import LOCK_ORDER
from sql.migrate import migrate

EXPAND = "".join(f"ALTER TABLE {table} ADD COLUMN added_later text NOT NULL DEFAULT '';\n" for table in LOCK_ORDER)
"""A column more of whatever is written, in the order in which everybody takes locks."""

MIGRATION = "0002_expand.sql"


@row("rolling-upgrade", fault="Rolling upgrade", quick=1, full=3, unit="upgrades")
async def rolling_upgrade(run: Run) -> None:
    """The schema of a next version is applied under load, and every process replaced, one after another."""
    stack = run.stack
    newer = stack.directory / "newer"
    if not newer.exists():
        _copy(newer)
    plays = 0
    for nth in range(run.size):
        try:
            async with run.loaded(prefix=f"p{nth}-", players=4, think_seconds=0.1) as load:
                await load.more(20)
                applied = await migrate(stack.database_url, directory=newer / "sql/migrations")
                run.figure("migrations applied beside plays", len(applied), exactly=1)
                run.note("the schema is the next version's")
                await load.more(20)
                # A crash in the middle of it: the version before is started beside the new schema, too.
                stack.cores[1].kill()
                await stack.cores[1].start(stack.http)
                for node in list(stack.nodes.values()):
                    node.directory = newer
                    await stack.restart(node)
                    run.note(f"{node.name} is the next version")
                    await load.more(5)
                await load.more(20)
                plays += load.plays
        finally:
            await _back(run)
    run.figure("plays", plays)


def _copy(newer: Path) -> None:
    """A checkout of the version after this one: it has a migration more."""
    for room in ("runtime", "sql"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / room, newer / room, symlinks=True, ignore=ignored)
    (newer / "sql/migrations" / MIGRATION).write_text(EXPAND)


async def _back(run: Run) -> None:
    """This version again, with its schema: as no operator would go back."""
    nodes = list(run.stack.nodes.values())
    for node in reversed(nodes):
        await node.stop()
        node.directory = ROOT
    connection = await asyncpg.connect(run.stack.database_url)
    try:
        for table in LOCK_ORDER:
            await connection.execute(f"ALTER TABLE {table} DROP COLUMN IF EXISTS added_later")
        await connection.execute("DELETE FROM schema_migration WHERE name = $1", MIGRATION)
    finally:
        await connection.close()
    for node in nodes:
        await node.start(run.stack.http)
