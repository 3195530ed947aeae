"""Appends a tenant's rows to its log, and signs checkpoints of it.

A pass takes the lock of the tenant's log, so that two processes cannot append different leaves at one index. It reads
rows up to a watermark before which no new row can appear (sql/analytics.sql, `horizon`), except those that have a leaf:
so a pass that is repeated after a crash appends nothing twice. Rows are appended in batches, each in a transaction. The
last batch of a pass adds a mark, which says that every row from before the watermark is in the log, and the signed
checkpoint. A log without new rows gets a mark every half hour, so a witness notices a log that stands still. Plays
write nothing extra.

A tenant without new rows is skipped, except for the mark and the check of older rows.

Each pass also checks some of the older rows, in turn. One of them without a leaf was inserted with an earlier time.
It is appended too, after the pass's mark, which contradicts its time: the audit and every witness notice.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache, partial
from itertools import groupby
from typing import Any, Final, NamedTuple

import asyncpg

import sql
from runtime import events
from runtime.actors.engine import Engine
from runtime.background import attempt
from runtime.operations.conservation.checks import CONSERVATION
from runtime.rules.log.entries import write_entry
from runtime.rules.log.notes import Checkpoint, SigningKey, origin_of, sign_checkpoint
from runtime.rules.log.tree import HASH_BYTES, MerkleTree, Node, hash_leaf
from runtime.settings import Key
from runtime.stores.database import at

_SQL: Final = sql.load("log")
_ANALYTICS: Final = sql.load("analytics")

JOB: Final = "log"
EVERY_SECONDS: Final = 30.0
"""The interval of passes, and so of a tenant's checkpoints."""

BATCH: Final = 2_000
"""Rows of each kind in one transaction: some ten thousand at most are in memory."""

SWEPT: Final = 5_000
"""Older rows that a pass checks for a leaf."""

SWEEP_PAUSE_SECONDS: Final = 300.0
"""The pause after all rows of a tenant were checked: most tenants have fewer than SWEPT."""

WINDOW_SECONDS: Final = 86_400.0
WINDOW_SECONDS_MIN: Final = 1.0
WINDOW_SECONDS_MAX: Final = 1e9
"""The time that a batch reads after the watermark, of a log that is behind: shorter after one with too many rows. Few
tables have an index that gives rows in the order of time."""

STATEMENT_SECONDS: Final = 120.0


class Appender:
    """Appends to the logs of all tenants. Create one per process: it remembers how far it has swept each log."""

    def __init__(self) -> None:
        self._swept: dict[str, str] = {}
        self._rests_until: dict[str, float] = {}  # By time.monotonic.

    async def append_all(self, engine: Engine) -> None:
        """Appends to the log of every tenant with new rows. One tenant's failure does not block the others."""
        if not engine.settings.merkle_log:
            return
        grown = frozenset(await engine.database.tenants(_SQL["grown"]))
        for tenant_id in await engine.database.tenants(_ANALYTICS["tenants"]):
            if tenant_id in grown or not self._rests(tenant_id):
                await attempt(JOB, at(tenant_id, self._pass(engine, tenant_id)), tenant_id=tenant_id)

    def _rests(self, tenant_id: str) -> bool:
        return time.monotonic() < self._rests_until.get(tenant_id, 0.0)

    async def _pass(self, engine: Engine, tenant_id: str) -> None:
        found: list[str] = []
        if not self._rests(tenant_id):
            found, self._swept[tenant_id] = await sweep(engine, tenant_id, self._swept.get(tenant_id, ""))
            if not self._swept[tenant_id]:
                self._rests_until[tenant_id] = time.monotonic() + SWEEP_PAUSE_SECONDS
        await append(engine, tenant_id, found)


async def sweep(engine: Engine, tenant_id: str, after: str) -> tuple[list[str], str]:
    """The back-dated rows (kind and id) among the next SWEPT after this one, and the last one that it checked."""
    async with engine.database.connection() as connection:
        about = (tenant_id, after, SWEPT)
        rows = await connection.fetch(CONSERVATION["walk_logged"], *about, timeout=STATEMENT_SECONDS)
        keys = [row["id"] for row in rows]
        missing = await connection.fetch(CONSERVATION["logged_leaf"], tenant_id, keys, timeout=STATEMENT_SECONDS)
    return [row["id"] for row in missing], keys[-1] if len(keys) == SWEPT else ""


async def append(engine: Engine, tenant_id: str, backdated: Sequence[str] = ()) -> int:
    """Appends every settled row to the log, and the back-dated ones. Returns the new checkpoint's size; 0: none."""
    await engine.database.execute(_SQL["create_tree"], tenant_id)
    window = WINDOW_SECONDS
    while True:
        found = await engine.database.transaction(partial(append_batch, engine, tenant_id, backdated, window))
        if not isinstance(found, Part):
            break
        window = max(window / 4, WINDOW_SECONDS_MIN) if found.is_full else window * 2
    if found is None:
        return 0
    engine.publisher.events([checkpoint_event(tenant_id, found)])
    return int(found["size"])


class Part(NamedTuple):
    """A batch that was appended, with more to come. is_full: the time window had more rows than a batch."""

    is_full: bool


async def append_batch(
    engine: Engine, tenant_id: str, backdated: Sequence[str], window_seconds: float, connection: asyncpg.Connection
) -> Part | asyncpg.Record | None:
    """Appends a batch, of rows at most so long after the watermark. The last one returns the new checkpoint; None: the
    log has not grown, or another process appends.
    """
    state = await connection.fetchrow(_SQL["lock_tree"], tenant_id)
    if state is None:
        return None
    horizon: datetime = await connection.fetchval(_ANALYTICS["horizon"])
    until = min(horizon, state["since"] + timedelta(seconds=min(window_seconds, WINDOW_SECONDS_MAX)))
    # A separate statement: its snapshot must be newer than the horizon, or rows committed in between are lost.
    rows = await connection.fetch(_SQL["unlogged"], tenant_id, until, BATCH, timeout=STATEMENT_SECONDS)
    full = [found[-1]["at"] for found in _by_kind(rows) if len(found) == BATCH]
    is_last = until == horizon and not full
    if full:
        until = min(full)  # From that time on there may be more rows of the kind.
    leaves = _leaves(rows)
    if is_last:
        swept: list[asyncpg.Record] = []
        if backdated:
            swept = await connection.fetch(_SQL["backdated"], tenant_id, list(backdated), timeout=STATEMENT_SECONDS)
        if not rows and not swept and state["size"] == state["checkpoint"] and not state["is_idle"]:
            return None
        mark = f"{round(until.timestamp() * 1_000_000)} {state['size'] + len(leaves)}"
        # The mark precedes the swept rows: the one before it may be older than they claim to be.
        leaves += [("mark", mark, hash_leaf(write_entry("mark", mark, {})), None, None), *_leaves(swept)]
    tree = MerkleTree(state["size"], _split(state["frontier"]))
    nodes: list[tuple[Node, bytes]] = []
    for leaf in leaves:
        nodes += tree.add_hash(leaf[2])
    indexes = list(range(state["size"], tree.size))
    columns = [[leaf[i] for leaf in leaves] for i in range(5)]
    await connection.execute(_SQL["append_leaves"], tenant_id, indexes, *columns, timeout=STATEMENT_SECONDS)
    if nodes:
        levels, numbers = zip(*(node for node, _ in nodes), strict=True)
        await connection.execute(_SQL["append_nodes"], tenant_id, levels, numbers, [held for _, held in nodes])
    await connection.execute(_SQL["grow"], tenant_id, tree.size, b"".join(tree.frontier), until)
    if not is_last:
        return Part(bool(full))
    origin = origin_of(engine.settings.merkle_log, tenant_id)
    note = sign_checkpoint(Checkpoint(origin, tree.size, tree.digest()), signing_keys(origin, engine.keyring.server))
    return await connection.fetchrow(_SQL["add_checkpoint"], tenant_id, tree.size, note)


def checkpoint_event(tenant_id: str, row: asyncpg.Record) -> events.Event:
    """log.checkpoint, from a stored checkpoint. The backfill makes the same one."""
    data = events.LogCheckpoint(size=row["size"], root=row["note"].split("\n")[2], note=row["note"])
    at: float = row["at"].timestamp()
    return events.event_of(data, occurred_at=at, tenant_id=tenant_id, merchant_id="", campaign_id="", trace_id="")


def _leaves(rows: Sequence[asyncpg.Record]) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in ("kind", "row_id", "hash", "sent", "salt")) for row in rows]


def _by_kind(rows: Sequence[asyncpg.Record]) -> list[list[Any]]:
    """The rows of each kind, in their order."""
    return [list(found) for _, found in groupby(sorted(rows, key=lambda row: row["kind"]), lambda row: row["kind"])]


def _split(frontier: bytes) -> list[bytes]:
    return [frontier[i : i + HASH_BYTES] for i in range(0, len(frontier), HASH_BYTES)]


@lru_cache(maxsize=1_000)
def signing_keys(origin: str, keys: tuple[Key, ...]) -> tuple[SigningKey, ...]:
    """A log's keys: one for each of SERVER_KEYS, the one in use first."""
    return tuple(SigningKey(origin, key.secret) for key in keys)
