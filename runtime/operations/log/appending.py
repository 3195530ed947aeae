"""Appends a tenant's rows to its log, and signs checkpoints of it.

A pass takes the lock of the tenant's log, so that two processes cannot append different leaves at one index. It reads
rows up to a watermark before which no new row can appear (sql/analytics.sql, `horizon`), except those that have a leaf:
so a pass that is repeated after a crash appends nothing twice. Rows are appended in batches, each in a transaction. The
last batch of a pass adds a mark, which says that every row from before the watermark is in the log, and the signed
checkpoint. A log without new rows gets a mark every half hour, so a witness notices a log that stands still. Plays
write nothing extra. A pass ends at its deadline even if the log is behind. The next round begins at once then.

A tenant without new rows is skipped, except for the mark and the check of older rows.

Each pass also checks some of the older rows, in turn. One of them without a leaf was inserted with an earlier time.
It is appended too, after the pass's mark, which contradicts its time: the audit and every witness notice.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Final, NamedTuple

import asyncpg

import sql
from runtime import events
from runtime.actors.engine import Engine
from runtime.background import attempt
from runtime.operations.conservation.checks import CONSERVATION
from runtime.rules.log.entries import write_entry
from runtime.rules.log.notes import Checkpoint, SigningKey, origin_of, sign_checkpoint
from runtime.rules.log.tree import HASH_BYTES, MerkleTree, hash_leaf
from runtime.settings import Key
from runtime.stores.database import at

_SQL: Final = sql.load("log")
_ANALYTICS: Final = sql.load("analytics")

JOB: Final = "log"
EVERY_SECONDS: Final = 30.0
"""The interval of passes, and so of a tenant's checkpoints."""

PASS_SECONDS: Final = 15.0
"""How long a pass appends to one log that is behind; the next round goes on. Logs of other tenants must not wait."""

BATCH: Final = 2_000
"""Rows of each kind in one transaction. Only their hashes are read into memory."""

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

NOW_SECONDS: Final = 5.0
NOW_PAUSE_SECONDS: Final = 0.3
"""The limit of `append_now`, and its pause between passes. The watermark is a second behind."""

_UNKNOWN: Final = datetime.min.replace(tzinfo=UTC)


class Appender:
    """Appends to the logs of all tenants. Create one per process: it remembers how far it has swept each log."""

    def __init__(self) -> None:
        self._swept: dict[str, str] = {}
        self._rests_until: dict[str, float] = {}  # By time.monotonic.

    async def append_all(self, engine: Engine) -> None:
        """Appends to the log of every tenant with new rows, in rounds while one is behind.

        One tenant's failure does not block the others. A process that lost the job's lease finds the locks taken by the
        new holder, so its rounds end.
        """
        is_due = bool(engine.settings.merkle_log)
        while is_due:
            behind: set[str] = set()
            grown = await engine.database.transaction(_grown)
            for tenant_id in await engine.database.tenants(_ANALYTICS["tenants"]):
                if tenant_id in grown or not self._rests(tenant_id):
                    await attempt(JOB, at(tenant_id, self._pass(engine, tenant_id, behind)), tenant_id=tenant_id)
            is_due = bool(behind)

    def _rests(self, tenant_id: str) -> bool:
        return time.monotonic() < self._rests_until.get(tenant_id, 0.0)

    async def _pass(self, engine: Engine, tenant_id: str, behind: set[str]) -> None:
        """behind: receives the tenant if its log is behind still."""
        found: list[str] = []
        swept = before = self._swept.get(tenant_id, "")
        rests = self._rests(tenant_id)
        if not rests:
            found, swept = await sweep(engine, tenant_id, before)
        settled = await settle(engine, tenant_id, found, deadline=time.monotonic() + PASS_SECONDS)
        if settled.is_behind:
            behind.add(tenant_id)
        if rests or (found and settled.until == _UNKNOWN):
            return  # Another process appends: the back-dated rows are swept again.
        self._swept[tenant_id] = swept
        if not swept:
            self._rests_until[tenant_id] = time.monotonic() + SWEEP_PAUSE_SECONDS


async def _grown(connection: asyncpg.Connection) -> frozenset[str]:
    await connection.execute(_SQL["probe_indexes"])
    return frozenset(row["tenant_id"] for row in await connection.fetch(_SQL["grown"]))


async def sweep(engine: Engine, tenant_id: str, after: str) -> tuple[list[str], str]:
    """The back-dated rows (kind and id) among the next SWEPT after this one, and the last one that it checked."""
    async with engine.database.connection() as connection:
        about = (tenant_id, after, SWEPT)
        rows = await connection.fetch(CONSERVATION["walk_logged"], *about, timeout=STATEMENT_SECONDS)
        keys = [row["id"] for row in rows]
        missing = await connection.fetch(CONSERVATION["logged_leaf"], tenant_id, keys, timeout=STATEMENT_SECONDS)
    return [row["id"] for row in missing], keys[-1] if len(keys) == SWEPT else ""


async def append_now(engine: Engine, tenant_id: str) -> None:
    """Appends the rows of now to the log, and signs a checkpoint if there are any. Concurrent callers share its passes.

    Gives up after NOW_SECONDS: a running transaction, or a log that is behind, takes as long as it does.
    """
    if not engine.settings.merkle_log:
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(NOW_SECONDS):
            now = await engine.database.fetchval("SELECT clock_timestamp()")
            a_pass = partial(settle, engine, tenant_id, deadline=time.monotonic() + NOW_SECONDS)
            while (await engine.log_passes.share(tenant_id, a_pass)).until < now:  # noqa: ASYNC110 - the database's clock.
                await asyncio.sleep(NOW_PAUSE_SECONDS)


async def append(engine: Engine, tenant_id: str, backdated: Sequence[str] = ()) -> int:
    """Appends every settled row to the log, and the back-dated ones. Returns the new checkpoint's size; 0: none."""
    checkpoint = (await settle(engine, tenant_id, backdated)).checkpoint
    return 0 if checkpoint is None else int(checkpoint["size"])


async def settle(
    engine: Engine, tenant_id: str, backdated: Sequence[str] = (), *, deadline: float = math.inf
) -> Settled:
    """As `append`. Returns until when rows are in the log now, and the new checkpoint.

    deadline: by time.monotonic; the batch that ends after it is the last, however far the log is behind.
    """
    await engine.database.execute(_SQL["create_tree"], tenant_id)
    window = WINDOW_SECONDS
    while True:
        batch = partial(append_batch, engine, tenant_id, backdated, window, deadline=deadline)
        found = await engine.database.transaction(batch)
        if not isinstance(found, Part):
            break
        window = max(window / 4, WINDOW_SECONDS_MIN) if found.is_full else window * 2
    if found.checkpoint is not None:
        engine.publisher.events([checkpoint_event(tenant_id, found.checkpoint)])
    return found


class Settled(NamedTuple):
    """Every row from before `until` is in the log. checkpoint: the new one; None: the log has not grown. is_behind: the
    deadline came before the newest rows.
    """

    until: datetime
    checkpoint: asyncpg.Record | None
    is_behind: bool = False


class Part(NamedTuple):
    """A batch that was appended, with more to come. is_full: the time window had more rows than a batch."""

    is_full: bool


async def append_batch(
    engine: Engine,
    tenant_id: str,
    backdated: Sequence[str],
    window_seconds: float,
    connection: asyncpg.Connection,
    *,
    deadline: float = math.inf,
) -> Part | Settled:
    """Appends a batch, of rows at most so long after the watermark. The last one returns Settled, as does a batch while
    another process appends, until then unknown. deadline: as for `settle`.
    """
    state = await connection.fetchrow(_SQL["lock_tree"], tenant_id)
    if state is None:
        return Settled(_UNKNOWN, None)
    horizon: datetime = await connection.fetchval(_ANALYTICS["horizon"])
    until = min(horizon, state["since"] + timedelta(seconds=min(window_seconds, WINDOW_SECONDS_MAX)))
    tree = MerkleTree(state["size"], _split(state["frontier"]))
    await connection.execute(_SQL["probe_indexes"])
    # A separate statement: its snapshot must be newer than the horizon, or rows committed in between are lost.
    found = await connection.fetchrow(
        *(_SQL["append_rows"], tenant_id, until, BATCH, tree.size), timeout=STATEMENT_SECONDS
    )
    assert found is not None  # An aggregate.
    nodes = tree.add_hashes(_split(found["hashes"]))
    is_behind = until < horizon or found["full_from"] is not None
    is_last = not is_behind or time.monotonic() > deadline
    until, newest = found["full_from"] or until, found["newest"]
    if is_last:
        swept: list[asyncpg.Record] = []
        if backdated:
            swept = await connection.fetch(_SQL["backdated"], tenant_id, list(backdated), timeout=STATEMENT_SECONDS)
        if not (tree.size > state["checkpoint"] or swept or state["is_idle"] or is_behind):
            return Settled(until, None)
        # With the present time if that is later: a witness names rows that waited.
        mark = f"{_micro(until)} {tree.size}" + (f" {_micro(horizon)}" if is_behind else "")
        # The mark precedes the swept rows: the one before it may be older than they claim to be.
        leaves = [("mark", mark, hash_leaf(write_entry("mark", mark, {})), None, None), *map(tuple, swept)]
        columns = [[leaf[i] for leaf in leaves] for i in range(5)]
        indexes = list(range(tree.size, tree.size + len(leaves)))
        await connection.execute(_SQL["append_leaves"], tenant_id, indexes, *columns, timeout=STATEMENT_SECONDS)
        nodes += tree.add_hashes(leaf[2] for leaf in leaves)
        newest = max(until, newest or until) if swept else newest
    if nodes:
        levels, numbers = zip(*(node for node, _ in nodes), strict=True)
        await connection.execute(_SQL["append_nodes"], tenant_id, levels, numbers, [held for _, held in nodes])
    times = (until, horizon, newest)
    await connection.execute(_SQL["grow"], tenant_id, tree.size, b"".join(tree.frontier), *times)
    if not is_last:
        return Part(found["full_from"] is not None)
    origin = origin_of(engine.settings.merkle_log, tenant_id)
    note = sign_checkpoint(Checkpoint(origin, tree.size, tree.digest()), signing_keys(origin, engine.keyring.server))
    return Settled(until, await connection.fetchrow(_SQL["add_checkpoint"], tenant_id, tree.size, note), is_behind)


def checkpoint_event(tenant_id: str, row: asyncpg.Record) -> events.Event:
    """log.checkpoint, from a stored checkpoint. The backfill makes the same one."""
    data = events.LogCheckpoint(size=row["size"], root=row["note"].split("\n")[2], note=row["note"])
    at: float = row["at"].timestamp()
    return events.event_of(data, occurred_at=at, tenant_id=tenant_id, merchant_id="", campaign_id="", trace_id="")


def _micro(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000)


def _split(frontier: bytes) -> list[bytes]:
    return [frontier[i : i + HASH_BYTES] for i in range(0, len(frontier), HASH_BYTES)]


@lru_cache(maxsize=1_000)
def signing_keys(origin: str, keys: tuple[Key, ...]) -> tuple[SigningKey, ...]:
    """A log's keys: one for each of SERVER_KEYS, the one in use first."""
    return tuple(SigningKey(origin, key.secret) for key in keys)
