"""Live rankings: a sorted set per board in the ephemeral store, which follows from rows of the durable one.

Scores are never counted here. Whatever changed, the players that it touched are counted anew by the one
statement that says what a score is (sql/leaderboards.sql, `scores`), and what it says is written over
what was there. So messages may come twice, late, or in any order. A write that saw less than an earlier
one is refused by its `version` and counted again; one by another definition of the board, by its `config`.

A board has three keys, on one node of a cluster:

    tombola:board:{tenant}:<board>:order    sorted set; member = standing (32 hex digits) + player id
    tombola:board:{tenant}:<board>:places   hash; player id -> standing + display name
    tombola:board:{tenant}:<board>:meta     hash; config, version, count, as_of

The set's scores are the negated scores, as doubles. The 32 digits are the inverted score and the time it
was reached in microseconds, so members of equal double sort by what the double lost, then by who came
first, then by player id: the order is exact for every 64-bit score, and one ZRANGE is the ranking.

Nothing here is lost for good. A set that is gone, or is not whole (`count`), is not believed: Postgres
answers, and the set is built anew. Messages that never came are made up for by catching up: whoever was
touched since `as_of` is counted again, every few seconds (runtime/streams/standings.py), and before a set
is believed whose messages may have been lost.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import structlog
from redis.exceptions import RedisError

import sql
from runtime import ids
from runtime import messages as m
from runtime.stores.database import Database
from runtime.stores.ephemeral import Ephemeral, Script
from runtime.stores.pipeline import EphemeralDown
from runtime.stores.single_flight import SingleFlight

_SQL: Final = sql.load("leaderboards")

CHUNK_PLAYERS: Final = 1_000
"""Players counted by one statement, or written by one command: bounds how long either takes."""

COUNT_SECONDS: Final = 60.0
"""How long counting a whole board may take: it is no statement of the request path."""

STALE_SECONDS: Final = 30.0
"""A set that nobody caught up for this long is caught up before it is believed."""

LATE_SECONDS: Final = 2.0
"""Followers of rows go back this far, for transactions that were just beginning when settled_at() looked."""

REFRESH_SECONDS: Final = 10.0
"""How long counting CHUNK_PLAYERS may take: one of them may have a million plays."""

KEEP_SECONDS: Final = 7 * 86_400
"""Sets that nobody catches up any more leave by themselves."""

BUILD_SECONDS: Final = 600
ATTEMPTS: Final = 10

log = structlog.get_logger(__name__)

GONE, WRITTEN, OLDER, REDEFINED = range(4)

_READ: Final = Script("""
-- KEYS order, places, meta; ARGV after's member ('' = from the top), its set score, how many, player ('' = nobody).
-- {0} where the set is not whole; else {1, as_of, rank before the first, members, places, rank of the player, place}.
local meta = redis.call('HMGET', KEYS[3], 'count', 'as_of')
local count = tonumber(meta[1])
if not count or redis.call('ZCARD', KEYS[1]) ~= count or redis.call('HLEN', KEYS[2]) ~= count then return {0} end
local start = 0
if ARGV[1] ~= '' then
  -- The place to go on from, also where that member has moved since: put it in, look, take it out.
  local added = redis.call('ZADD', KEYS[1], 'NX', ARGV[2], ARGV[1])
  start = redis.call('ZRANK', KEYS[1], ARGV[1])
  if added == 1 then redis.call('ZREM', KEYS[1], ARGV[1]) else start = start + 1 end
end
local members = redis.call('ZRANGE', KEYS[1], start, start + ARGV[3] - 1)
local players = {}
for i, member in ipairs(members) do players[i] = string.sub(member, 33) end
local places = {}
if #players > 0 then places = redis.call('HMGET', KEYS[2], unpack(players)) end
local place, rank = '', -1
if ARGV[4] ~= '' then
  place = redis.call('HGET', KEYS[2], ARGV[4]) or ''
  if place ~= '' then rank = redis.call('ZRANK', KEYS[1], string.sub(place, 1, 32) .. ARGV[4]) end
end
return {1, meta[2], start, members, places, rank, place}
""")

_WRITE: Final = Script("""
-- KEYS order, places, meta; ARGV config, version, then player, set score, standing ('' = off the board), name each.
-- 0: no whole set, 1: written, 2: an earlier write saw more, 3: the board's definition is another.
local meta = redis.call('HMGET', KEYS[3], 'config', 'version', 'count')
if not meta[1] then return 0 end
local count = tonumber(meta[3])
if redis.call('ZCARD', KEYS[1]) ~= count or redis.call('HLEN', KEYS[2]) ~= count then
  redis.call('DEL', KEYS[3])
  return 0
end
if meta[1] ~= ARGV[1] then return 3 end
if ARGV[2] < meta[2] then return 2 end
for i = 3, #ARGV, 4 do
  local player, standing = ARGV[i], ARGV[i + 2]
  local place = redis.call('HGET', KEYS[2], player)
  local was = place and string.sub(place, 1, 32) or ''
  if was ~= '' and was ~= standing then redis.call('ZREM', KEYS[1], was .. player) end
  if standing == '' then
    redis.call('HDEL', KEYS[2], player)
  else
    if was ~= standing then redis.call('ZADD', KEYS[1], ARGV[i + 1], standing .. player) end
    if place ~= standing .. ARGV[i + 3] then redis.call('HSET', KEYS[2], player, standing .. ARGV[i + 3]) end
  end
end
redis.call('HSET', KEYS[3], 'version', ARGV[2], 'count', redis.call('ZCARD', KEYS[1]))
return 1
""")

_SWAP: Final = Script("""
-- KEYS order, places, meta, new order, new places; ARGV config, version, as_of, count, seconds to keep.
-- 0: the new ones are not whole, so nothing was changed.
local count = tonumber(ARGV[4])
if redis.call('ZCARD', KEYS[4]) ~= count or redis.call('HLEN', KEYS[5]) ~= count then return 0 end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3])
redis.call('HSET', KEYS[3], 'config', ARGV[1], 'version', ARGV[2], 'as_of', ARGV[3], 'count', ARGV[4])
redis.call('EXPIRE', KEYS[3], ARGV[5])
if count > 0 then
  redis.call('RENAME', KEYS[4], KEYS[1])
  redis.call('RENAME', KEYS[5], KEYS[2])
  redis.call('EXPIRE', KEYS[1], ARGV[5])
  redis.call('EXPIRE', KEYS[2], ARGV[5])
end
return 1
""")

_MARK: Final = Script("""
-- KEYS order, places, meta; ARGV config, as_of, seconds to keep. The set has everything up to as_of.
if redis.call('HGET', KEYS[3], 'config') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[3], 'as_of', ARGV[2])
for i = 1, 3 do redis.call('EXPIRE', KEYS[i], ARGV[3]) end
return 1
""")


class Score(NamedTuple):
    """A player's score on a board, and when it was reached, in microseconds of unix time."""

    player_id: str
    display_name: str
    score: int
    achieved_us: int

    @property
    def position(self) -> tuple[int, int, str]:
        """What a cursor remembers: (score, achieved_us, player_id)."""
        return self.score, self.achieved_us, self.player_id


class Top(NamedTuple):
    """Part of a ranking. `first_rank` is the first row's; `me` the asked player's own place, if on the board."""

    first_rank: int
    scores: list[Score]
    me: m.Ranking | None


@dataclass(frozen=True, slots=True)
class Counted:
    """A board as Postgres has it: `scores` in the order of the ranking. `version`, `as_of`: what it saw, and when."""

    board_id: str
    status: str
    config: str
    version: str
    as_of: float
    scores: list[Score]

    def top(self, after: tuple[int, int, str] | None, limit: int, player_id: str) -> Top:
        """Up to `limit` places after a position."""
        start = bisect_right(self.scores, _order(after), key=lambda one: _order(one.position)) if after else 0
        mine = (i for i, one in enumerate(self.scores) if one.player_id == player_id) if player_id else iter(())
        me = next((ranking(i + 1, self.scores[i]) for i in mine), None)
        return Top(start + 1, self.scores[start : start + limit], me)


def ranking(rank: int, score: Score) -> m.Ranking:
    """A place as it is shown."""
    return m.Ranking(
        rank=rank,
        player_id=score.player_id,
        display_name=score.display_name,
        score=score.score,
        achieved_at=score.achieved_us // 1_000_000,
    )


class Rankings:
    """The live rankings of every tenant, as this process reads and writes them."""

    def __init__(self, database: Database, ephemeral: Ephemeral) -> None:
        self._database = database
        self._ephemeral = ephemeral
        self.single_flight = SingleFlight()
        # Per board: the breaker's trips when this process last made sure that nothing was missed.
        self._sure: dict[tuple[str, str], int] = {}
        self._counted: dict[tuple[str, str], Counted] = {}
        self.rebuilds = 0

    # -- reading -----------------------------------------------------------------------------

    async def top(
        self, tenant_id: str, board_id: str, after: tuple[int, int, str] | None, limit: int, player_id: str = ""
    ) -> Top | None:
        """Up to `limit` places after a position, in one call. None: ask Postgres (`counted`), then `rebuild_soon`."""
        key = (tenant_id, board_id)
        try:
            trips = self._ephemeral.trips
            reply = await self._read(tenant_id, board_id, after, limit, player_id)
            if reply[0] != 1:
                return None
            # Messages are lost with the store, and while nobody reads them.
            if self._sure.get(key) != trips or self._database.clock.now() - float(reply[1]) > STALE_SECONDS:
                await self.single_flight.share(("catch up", *key), lambda: self.catch_up(tenant_id, [board_id]))
                self._sure[key] = trips
                reply = await self._read(tenant_id, board_id, after, limit, player_id)
                if reply[0] != 1:
                    return None
        except (EphemeralDown, RedisError):
            return None
        _, _, start, members, places, rank, place = reply
        scores = [_score(member[32:], place) for member, place in zip(members, places, strict=True)]
        me = ranking(rank + 1, _score(player_id.encode(), place)) if rank >= 0 else None
        return Top(start + 1, scores, me)

    async def _read(
        self, tenant_id: str, board_id: str, after: tuple[int, int, str] | None, limit: int, player_id: str
    ) -> list[Any]:
        member, order = (_standing(after[0], after[1]) + after[2], -after[0]) if after else ("", 0)
        reply: list[Any] = await self._ephemeral.script(
            _READ, _keys(tenant_id, board_id), [member, str(order), limit, player_id]
        )
        return reply

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
        args: list[Any] = [rows[0]["config"], rows[0]["version"]]
        for row in rows:
            if row["score"] is None:
                args += (row["player_id"], 0, "", "")
            else:
                standing = _standing(row["score"], row["achieved_us"])
                args += (row["player_id"], str(-row["score"]), standing, row["display_name"])
        outcome: int = await self._ephemeral.script(_WRITE, _keys(tenant_id, board_id), args)
        return outcome

    async def drop(self, tenant_id: str, board_id: str) -> None:
        """Forgets the board's set."""
        self._sure.pop((tenant_id, board_id), None)
        self._counted.pop((tenant_id, board_id), None)
        await self._ephemeral.run("UNLINK", *_keys(tenant_id, board_id))

    async def catch_up(self, tenant_id: str, boards: Sequence[str] | None = None) -> None:
        """Makes the sets of these boards (None: the tenant's live ones) whole, whatever was missed.

        Builds those that are gone or count by an old definition; counts everybody anew who was touched
        since the others were last known to be whole.
        """
        rows = await self._database.fetch(_SQL["scores"], tenant_id, boards, None, [])
        keys = [_keys(tenant_id, row["board_id"]) for row in rows]
        metas = await asyncio.gather(*[self._ephemeral.run("HMGET", key[2], "config", "as_of") for key in keys])
        follow: dict[str, str] = {}
        since = float("inf")
        for row, (config, as_of) in zip(rows, metas, strict=True):
            if row["status"] != "active":
                await self.drop(tenant_id, row["board_id"])
            elif config is None or config.decode() != row["config"]:
                await self.rebuild(tenant_id, row["board_id"])
            else:
                follow[row["board_id"]] = row["config"]
                since = min(since, float(as_of))
        if follow:
            await self._follow(tenant_id, follow, since)

    async def _follow(self, tenant_id: str, configs: dict[str, str], since: float) -> None:
        """Counts whoever was touched since then, on boards given with the definition they have."""
        async with self._database.connection() as connection:
            row = await connection.fetchrow(_SQL["touched"], tenant_id, since - LATE_SECONDS, timeout=COUNT_SECONDS)
        assert row is not None
        await self.refresh(tenant_id, row["players"], boards=list(configs))
        as_of = repr(row["as_of"])
        await asyncio.gather(
            *[
                self._ephemeral.script(_MARK, _keys(tenant_id, board_id), [config, as_of, KEEP_SECONDS])
                for board_id, config in configs.items()
            ]
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
            await self._replace(tenant_id, counted)
            self.rebuilds += 1
            # What was written to the old set while the new one was built.
            await self._follow(tenant_id, {board_id: counted.config}, counted.as_of)
            # A change of the board drops its set: one that was swapped in after that must not stay.
            rows = await self._database.fetch(_SQL["scores"], tenant_id, [board_id], None, [])
            if rows and rows[0]["status"] == "active" and rows[0]["config"] == counted.config:
                self._sure[tenant_id, board_id] = trips
                return len(counted.scores)
        raise EphemeralDown("the board changes faster than it can be counted")

    async def _replace(self, tenant_id: str, counted: Counted) -> None:
        """Puts a new set in the place of the board's: at once, once it is whole."""
        order, places, meta = _keys(tenant_id, counted.board_id)
        nonce = ids.make("new")
        new_order, new_places = f"{order}:{nonce}", f"{places}:{nonce}"
        run = self._ephemeral.run
        for start in range(0, len(counted.scores), CHUNK_PLAYERS):
            members: list[Any] = []
            fields: list[Any] = []
            for one in counted.scores[start : start + CHUNK_PLAYERS]:
                standing = _standing(one.score, one.achieved_us)
                members += (str(-one.score), standing + one.player_id)
                fields += (one.player_id, standing + one.display_name)
            await asyncio.gather(run("ZADD", new_order, *members), run("HSET", new_places, *fields))
            if start == 0:
                await asyncio.gather(*[run("EXPIRE", key, BUILD_SECONDS) for key in (new_order, new_places)])
        swapped = await self._ephemeral.script(
            _SWAP,
            [order, places, meta, new_order, new_places],
            [counted.config, counted.version, repr(counted.as_of), len(counted.scores), KEEP_SECONDS],
        )
        if swapped != 1:
            raise EphemeralDown("the new ranking was lost while it was built")

    async def drain(self) -> None:
        """Returns when nothing is being counted or built."""
        await self.single_flight.drain()


def counted_of(rows: Sequence[Any]) -> Counted | None:
    """What `scores` said of one board; None where it knows none."""
    if not rows:
        return None
    head = rows[0]
    scores = [
        Score(row["player_id"], row["display_name"], row["score"], row["achieved_us"])
        for row in rows
        if row["score"] is not None
    ]
    return Counted(head["board_id"], head["status"], head["config"], head["version"], head["as_of"], scores)


def _keys(tenant_id: str, board_id: str) -> list[str]:
    base = f"tombola:board:{{{tenant_id}}}:{board_id}"
    return [f"{base}:order", f"{base}:places", f"{base}:meta"]


def _standing(score: int, achieved_us: int) -> str:
    """32 hex digits that sort as the ranking does: the greater score first, then who reached it first."""
    return f"{2**63 - 1 - score:016x}{max(achieved_us, 0):016x}"


def _score(player_id: bytes, place: bytes) -> Score:
    """A place as the set keeps it: standing and display name."""
    return Score(player_id.decode(), place[32:].decode(), 2**63 - 1 - int(place[:16], 16), int(place[16:32], 16))


def _order(position: tuple[int, int, str]) -> tuple[int, int, str]:
    return -position[0], position[1], position[2]
