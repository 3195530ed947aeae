"""Live rankings: keeps each leaderboard's sorted set consistent with the rows in Postgres.

Scores are never incremented here. After a change, the affected players' scores are recomputed by one statement
(sql/leaderboards.sql, `scores`), and the results overwrite those in the set (runtime/stores/ranking_sets.py). So
messages may be duplicated, late or out of order: a write from an older snapshot is refused and recomputed.

Sets can always be rebuilt. A missing or incomplete set is ignored: Postgres answers and the set is rebuilt. Lost
messages are compensated by catching up: players changed since the set was last complete are recomputed, every few
seconds (runtime/streams/leaderboard_consumer.py), and before a read from a set that may have missed messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import structlog
from redis.exceptions import RedisError

import sql
from runtime.stores.database import Database
from runtime.stores.ephemeral import Ephemeral
from runtime.stores.pipeline import EphemeralDown
from runtime.stores.ranking_sets import CHUNK_PLAYERS, GONE, OLDER, REDEFINED, RankingSets
from runtime.stores.scores import Counted, Place, Top, counted_of
from runtime.stores.single_flight import SingleFlight

_SQL: Final = sql.load("leaderboards")

COUNT_SECONDS: Final = 60.0
"""Time limit for computing a whole board, which is not on the request path."""

STALE_SECONDS: Final = 30.0
"""A set without a catch-up for this long is caught up before it is read."""

LATE_SECONDS: Final = 2.0
"""Overlap of each catch-up, for transactions that were just starting when settled_at() ran."""

REFRESH_SECONDS: Final = 10.0
"""Time limit for recomputing CHUNK_PLAYERS players, one of whom may have a million plays."""

ATTEMPTS: Final = 10

log = structlog.get_logger(__name__)


class Rankings:
    """The live rankings of every tenant, as this process reads and writes them."""

    def __init__(self, database: Database, ephemeral: Ephemeral) -> None:
        self._database = database
        self._ephemeral = ephemeral
        self._sets = RankingSets(ephemeral)
        self.single_flight = SingleFlight()
        # Per board: the breaker's trip count when this process last verified that no message was missed.
        self._verified: dict[tuple[str, str], int] = {}
        self._counted: dict[tuple[str, str], Counted] = {}

    # -- reading -----------------------------------------------------------------------------

    async def top(
        self, tenant_id: str, board_id: str, after: Place | None, limit: int, player_id: str = ""
    ) -> Top | None:
        """Up to `limit` places after a position, in one call. None: use Postgres (`counted`), then `rebuild_soon`."""
        key = (tenant_id, board_id)
        try:
            trips = self._ephemeral.trips
            found = await self._sets.read(tenant_id, board_id, after, limit, player_id)
            if found is None:
                return None
            as_of, top = found
            # Messages are lost with the store, and while no consumer runs.
            if self._verified.get(key) != trips or self._database.clock.now() - as_of > STALE_SECONDS:
                await self.single_flight.share(("catch up", *key), lambda: self.catch_up(tenant_id, [board_id]))
                self._verified[key] = trips
                found = await self._sets.read(tenant_id, board_id, after, limit, player_id)
                if found is None:
                    return None
                _, top = found
        except (EphemeralDown, RedisError):
            return None
        return top

    async def counted(self, tenant_id: str, board_id: str) -> Counted | None:
        """The whole board from Postgres, computed once for concurrent callers. None: no such board.

        The result is reused for as long as computing it took. While the ephemeral store is down every read ends here,
        and this limits it to half of the time and one connection.
        """
        key = (tenant_id, board_id)
        if (cached := self._counted.get(key)) is not None:
            return cached

        async def work() -> Counted | None:
            loop = asyncio.get_running_loop()
            began = loop.time()
            counted = await self.count(tenant_id, board_id)
            if counted is not None:
                self._counted[key] = counted
                loop.call_later(loop.time() - began, self._counted.pop, key, None)
            return counted

        found: Counted | None = await self.single_flight.share(("count", *key), work)
        return found

    async def count(self, tenant_id: str, board_id: str) -> Counted | None:
        """The whole board from Postgres, computed now. None: no such board."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(_SQL["scores"], tenant_id, [board_id], None, None, timeout=COUNT_SECONDS)
        return await counted_of(rows)

    # -- writing -----------------------------------------------------------------------------

    async def refresh(
        self,
        tenant_id: str,
        players: Sequence[str],
        *,
        boards: Sequence[str] | None = None,
        games: Sequence[str] | None = None,
    ) -> None:
        """Recomputes these players, on these boards or on all boards of these games.

        Returns when the sets are updated; boards without a set are skipped. Raises EphemeralDown, RedisError or
        database errors.
        """
        wanted = sorted(set(players))
        for start in range(0, len(wanted), CHUNK_PLAYERS):
            await self._refresh(tenant_id, wanted[start : start + CHUNK_PLAYERS], boards, games)

    async def _refresh(
        self, tenant_id: str, players: list[str], boards: Sequence[str] | None, games: Sequence[str] | None
    ) -> None:
        for _ in range(ATTEMPTS):
            async with self._database.connection() as connection:
                rows = await connection.fetch(
                    _SQL["scores"], tenant_id, boards, games, players, timeout=REFRESH_SECONDS
                )
            by_board: dict[str, list[Any]] = {}
            for row in rows:
                by_board.setdefault(row["board_id"], []).append(row)
            outcomes = await asyncio.gather(*[self._write(tenant_id, *one) for one in by_board.items()])
            results = dict(zip(by_board, outcomes, strict=True))
            for board_id, outcome in results.items():
                if outcome == REDEFINED:
                    self.rebuild_soon(tenant_id, board_id)
            boards = [board_id for board_id, outcome in results.items() if outcome == OLDER]
            if not boards:
                return
        # Only a database restored to an earlier time is always older than the set.
        for board_id in boards or ():
            self.rebuild_soon(tenant_id, board_id)

    async def _write(self, tenant_id: str, board_id: str, rows: list[Any]) -> int:
        if rows[0]["status"] != "active":
            await self.drop(tenant_id, board_id)
            return GONE
        return await self._sets.write(tenant_id, board_id, rows)

    async def drop(self, tenant_id: str, board_id: str) -> None:
        """Deletes the board's set."""
        self._verified.pop((tenant_id, board_id), None)
        self._counted.pop((tenant_id, board_id), None)
        await self._sets.drop(tenant_id, board_id)

    async def forget(self, tenant_id: str, board_id: str) -> None:
        """As `drop`, but if the ephemeral store is down, the next catch-up does it."""
        try:
            await self.drop(tenant_id, board_id)
        except (EphemeralDown, RedisError) as error:
            log.info("ranking_not_dropped", board_id=board_id, why=str(error))

    async def catch_up(self, tenant_id: str, boards: Sequence[str] | None = None) -> None:
        """Brings the sets of these boards (None: the tenant's live ones) up to date with all changes.

        Rebuilds sets that are missing or use an old definition; in the others, recomputes the players changed since
        they were last complete.
        """
        rows = await self._database.fetch(_SQL["scores"], tenant_id, boards, None, [])
        metas = await asyncio.gather(*[self._sets.meta(tenant_id, row["board_id"]) for row in rows])
        follow: dict[str, str] = {}
        since = float("inf")
        for row, meta in zip(rows, metas, strict=True):
            if row["status"] != "active":
                await self.drop(tenant_id, row["board_id"])
            elif meta is None or meta.config != row["config"]:
                await self.rebuild(tenant_id, row["board_id"])
            else:
                follow[row["board_id"]] = row["config"]
                since = min(since, meta.as_of)
        if follow:
            await self._follow(tenant_id, follow, since)

    async def _follow(self, tenant_id: str, configs: dict[str, str], since: float) -> None:
        """Recomputes the players changed since then, on boards given with their definition."""
        trips = self._ephemeral.trips
        async with self._database.connection() as connection:
            row = await connection.fetchrow(_SQL["touched"], tenant_id, since - LATE_SECONDS, timeout=COUNT_SECONDS)
        assert row is not None
        await self.refresh(tenant_id, row["players"], boards=list(configs))
        if self._ephemeral.trips != trips:
            return  # After a failover the new server may lack what was written: the next catch-up writes it again.
        as_of = row["as_of"]
        await asyncio.gather(
            *[self._sets.mark(tenant_id, board_id, config, as_of) for board_id, config in configs.items()]
        )

    # -- building ----------------------------------------------------------------------------

    def rebuild_soon(self, tenant_id: str, board_id: str) -> None:
        """Starts building the board's set unless that is running. Errors are logged only: the next read tries again."""

        def ended(task: asyncio.Task[Any]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                log.warning("ranking_not_built", tenant_id=tenant_id, board_id=board_id, why=str(error))

        if self._ephemeral.up:
            task = self.single_flight.begin(("build", tenant_id, board_id), lambda: self._build(tenant_id, board_id))
            task.add_done_callback(ended)

    async def rebuild(self, tenant_id: str, board_id: str) -> int:
        """Rebuilds the board's set. Returns its number of players. Raises store errors."""
        players: int = await self.single_flight.share(
            ("build", tenant_id, board_id), lambda: self._build(tenant_id, board_id)
        )
        return players

    async def _build(self, tenant_id: str, board_id: str) -> int:
        trips = self._ephemeral.trips
        for _ in range(ATTEMPTS):
            counted = await self.count(tenant_id, board_id)
            if counted is None or counted.status != "active":
                await self.drop(tenant_id, board_id)
                return 0
            await self._sets.replace(tenant_id, counted)
            # Apply the changes written to the old set during the build.
            await self._follow(tenant_id, {board_id: counted.config}, counted.as_of)
            # A change of the board drops its set: a set swapped in after that must not stay.
            rows = await self._database.fetch(_SQL["scores"], tenant_id, [board_id], None, [])
            if rows and rows[0]["status"] == "active" and rows[0]["config"] == counted.config:
                self._verified[tenant_id, board_id] = trips
                return len(counted.scores)
        raise EphemeralDown("the board changes faster than it can be counted")

    async def drain(self) -> None:
        """Returns when nothing is being computed or built."""
        await self.single_flight.drain()
