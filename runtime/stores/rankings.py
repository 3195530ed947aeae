"""Live rankings: keeps the sorted set of each leaderboard up to the rows that its scores follow from.

Scores are never counted here. Whatever changed, the players that it touched are counted anew by the one
statement that says what a score is (sql/leaderboards.sql, `scores`), and what it says is written over
what the set (runtime/stores/ranking_sets.py) had. So messages may come twice, late, or in any order: a
write that saw less than an earlier one is refused and counted again.

Nothing in a set is lost for good. One that is gone, or is not whole, is not believed: Postgres answers,
and the set is built anew. Messages that never came are made up for by catching up: whoever was touched
since the set was last known to be whole is counted again, every few seconds (runtime/streams/leaderboard_consumer.py),
and before a set is believed whose messages may have been lost.
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
"""How long counting a whole board may take: it is no statement of the request path."""

STALE_SECONDS: Final = 30.0
"""A set that nobody caught up for this long is caught up before it is believed."""

LATE_SECONDS: Final = 2.0
"""Followers of rows go back this far, for transactions that were just beginning when settled_at() looked."""

REFRESH_SECONDS: Final = 10.0
"""How long counting CHUNK_PLAYERS may take: one of them may have a million plays."""

ATTEMPTS: Final = 10

log = structlog.get_logger(__name__)


class Rankings:
    """The live rankings of every tenant, as this process reads and writes them."""

    def __init__(self, database: Database, ephemeral: Ephemeral) -> None:
        self._database = database
        self._ephemeral = ephemeral
        self._sets = RankingSets(ephemeral)
        self.single_flight = SingleFlight()
        # Per board: the breaker's trips when this process last made sure that nothing was missed.
        self._sure: dict[tuple[str, str], int] = {}
        self._counted: dict[tuple[str, str], Counted] = {}

    # -- reading -----------------------------------------------------------------------------

    async def top(
        self, tenant_id: str, board_id: str, after: Place | None, limit: int, player_id: str = ""
    ) -> Top | None:
        """Up to `limit` places after a position, in one call. None: ask Postgres (`counted`), then `rebuild_soon`."""
        key = (tenant_id, board_id)
        try:
            trips = self._ephemeral.trips
            found = await self._sets.read(tenant_id, board_id, after, limit, player_id)
            if found is None:
                return None
            as_of, top = found
            # Messages are lost with the store, and while nobody reads them.
            if self._sure.get(key) != trips or self._database.clock.now() - as_of > STALE_SECONDS:
                await self.single_flight.share(("catch up", *key), lambda: self.catch_up(tenant_id, [board_id]))
                self._sure[key] = trips
                found = await self._sets.read(tenant_id, board_id, after, limit, player_id)
                if found is None:
                    return None
                _, top = found
        except (EphemeralDown, RedisError):
            return None
        return top

    async def counted(self, tenant_id: str, board_id: str) -> Counted | None:
        """The whole board by Postgres, counted once for all who ask meanwhile. None: there is no such board.

        It is shown again for as long as counting it took: with the ephemeral store away everybody reads by
        this, and it may take no more than half of the time, nor more than one connection.
        """
        key = (tenant_id, board_id)
        if (kept := self._counted.get(key)) is not None:
            return kept

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
        """The whole board by Postgres, now. None: there is no such board."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(_SQL["scores"], tenant_id, [board_id], None, None, timeout=COUNT_SECONDS)
        return counted_of(rows)

    # -- writing -----------------------------------------------------------------------------

    async def refresh(
        self,
        tenant_id: str,
        players: Sequence[str],
        *,
        boards: Sequence[str] | None = None,
        games: Sequence[str] | None = None,
    ) -> None:
        """Counts these players anew, on these boards or on all that one of these games counts for.

        Returns when the sets have them; a board without a set is passed by. Raises EphemeralDown, RedisError,
        or what the database says.
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
        # Only a database that was put back in time is always older than what the set saw.
        for board_id in boards or ():
            self.rebuild_soon(tenant_id, board_id)

    async def _write(self, tenant_id: str, board_id: str, rows: list[Any]) -> int:
        if rows[0]["status"] != "active":
            await self.drop(tenant_id, board_id)
            return GONE
        return await self._sets.write(tenant_id, board_id, rows)

    async def drop(self, tenant_id: str, board_id: str) -> None:
        """Forgets the board's set."""
        self._sure.pop((tenant_id, board_id), None)
        self._counted.pop((tenant_id, board_id), None)
        await self._sets.drop(tenant_id, board_id)

    async def forget(self, tenant_id: str, board_id: str) -> None:
        """As `drop`; but where the ephemeral store is away, catching up does it later."""
        try:
            await self.drop(tenant_id, board_id)
        except (EphemeralDown, RedisError) as error:
            log.info("ranking_not_dropped", board_id=board_id, why=str(error))

    async def catch_up(self, tenant_id: str, boards: Sequence[str] | None = None) -> None:
        """Makes the sets of these boards (None: the tenant's live ones) whole, whatever was missed.

        Builds those that are gone or count by an old definition; counts everybody anew who was touched
        since the others were last known to be whole.
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
        """Counts whoever was touched since then, on boards given with the definition they have."""
        async with self._database.connection() as connection:
            row = await connection.fetchrow(_SQL["touched"], tenant_id, since - LATE_SECONDS, timeout=COUNT_SECONDS)
        assert row is not None
        await self.refresh(tenant_id, row["players"], boards=list(configs))
        as_of = row["as_of"]
        await asyncio.gather(
            *[self._sets.mark(tenant_id, board_id, config, as_of) for board_id, config in configs.items()]
        )

    # -- building ----------------------------------------------------------------------------

    def rebuild_soon(self, tenant_id: str, board_id: str) -> None:
        """Begins to build the board's set, unless that is under way. What goes wrong is logged: reading asks again."""

        def ended(task: asyncio.Task[Any]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                log.warning("ranking_not_built", tenant_id=tenant_id, board_id=board_id, why=str(error))

        if self._ephemeral.up:
            task = self.single_flight.begin(("build", tenant_id, board_id), lambda: self._build(tenant_id, board_id))
            task.add_done_callback(ended)

    async def rebuild(self, tenant_id: str, board_id: str) -> int:
        """Builds the board's set anew; how many players it has. Raises what the stores say."""
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
            # What was written to the old set while the new one was built.
            await self._follow(tenant_id, {board_id: counted.config}, counted.as_of)
            # A change of the board drops its set: one that was swapped in after that must not stay.
            rows = await self._database.fetch(_SQL["scores"], tenant_id, [board_id], None, [])
            if rows and rows[0]["status"] == "active" and rows[0]["config"] == counted.config:
                self._sure[tenant_id, board_id] = trips
                return len(counted.scores)
        raise EphemeralDown("the board changes faster than it can be counted")

    async def drain(self) -> None:
        """Returns when nothing is being counted or built."""
        await self.single_flight.drain()
