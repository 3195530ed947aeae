"""Leaderboard sorted sets in the ephemeral store: one per board, read and written by scripts.

A board has three keys, on one node of a cluster:

    tombola:board:{tenant}:<board>:order    sorted set; member = sort key (32 hex digits) + player id
    tombola:board:{tenant}:<board>:places   hash; player id -> sort key + display name
    tombola:board:{tenant}:<board>:meta     hash; config, version, count, as_of

The set's scores are the negated scores, as doubles. The 32 digits are the inverted score and the time it was reached in
microseconds, so members with equal doubles sort by the lost precision, then by time, then by player id. The order is
therefore exact for every 64-bit score, and one ZRANGE returns the ranking.

A missing or incomplete set (`count`) is not read. A write from an older snapshot is refused by its `version`, one for
another definition of the board by its `config`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from runtime import ids
from runtime.stores.ephemeral import Ephemeral, Script
from runtime.stores.pipeline import EphemeralDown
from runtime.stores.scores import Counted, Place, Score, Top, ranking

PREFIX: Final = "tombola:board:"

CHUNK_PLAYERS: Final = 1_000
"""Players per statement or command, which bounds how long either takes."""

KEEP_SECONDS: Final = 7 * 86_400
"""Expiry of sets that are no longer caught up."""

BUILD_SECONDS: Final = 600

GONE, WRITTEN, OLDER, REDEFINED = range(4)

_READ: Final = Script("""
-- KEYS order, places, meta; ARGV after's member ('' = from the top), its set score, how many, player ('' = none).
-- {0} if the set is incomplete; else {1, as_of, rank before the first, members, places, rank of the player, place}.
local meta = redis.call('HMGET', KEYS[3], 'count', 'as_of')
local count = tonumber(meta[1])
if not count or redis.call('ZCARD', KEYS[1]) ~= count or redis.call('HLEN', KEYS[2]) ~= count then return {0} end
local start = 0
if ARGV[1] ~= '' then
  -- Start after a member that may have moved since: insert it, read its rank, remove it.
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
-- KEYS order, places, meta; ARGV config, version, then player, set score, sort key ('' = off the board), name each.
-- 0: no complete set, 1: written, 2: an earlier write is newer, 3: the board's definition has changed.
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
  local player, sort_key = ARGV[i], ARGV[i + 2]
  local place = redis.call('HGET', KEYS[2], player)
  local was = place and string.sub(place, 1, 32) or ''
  if was ~= '' and was ~= sort_key then redis.call('ZREM', KEYS[1], was .. player) end
  if sort_key == '' then
    redis.call('HDEL', KEYS[2], player)
  else
    if was ~= sort_key then redis.call('ZADD', KEYS[1], ARGV[i + 1], sort_key .. player) end
    if place ~= sort_key .. ARGV[i + 3] then redis.call('HSET', KEYS[2], player, sort_key .. ARGV[i + 3]) end
  end
end
redis.call('HSET', KEYS[3], 'version', ARGV[2], 'count', redis.call('ZCARD', KEYS[1]))
return 1
""")

_SWAP: Final = Script("""
-- KEYS order, places, meta, new order, new places; ARGV config, version, as_of, count, seconds to keep.
-- 0: the new ones are incomplete; nothing was changed.
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
-- KEYS order, places, meta; ARGV config, as_of, seconds to keep. The set is complete up to as_of.
if redis.call('HGET', KEYS[3], 'config') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[3], 'as_of', ARGV[2])
for i = 1, 3 do redis.call('EXPIRE', KEYS[i], ARGV[3]) end
return 1
""")


class Meta(NamedTuple):
    """A set's board definition, and the time up to which it is complete."""

    config: str
    as_of: float


class RankingSets:
    """The sorted sets of every board. Each method raises EphemeralDown or RedisError."""

    def __init__(self, ephemeral: Ephemeral) -> None:
        self._ephemeral = ephemeral

    async def read(
        self, tenant_id: str, board_id: str, after: Place | None, limit: int, player_id: str
    ) -> tuple[float, Top] | None:
        """Up to `limit` places after a position, and the time up to which they are complete. None: no complete set."""
        member, order = "", 0
        if after is not None:
            member, order = _sort_key(after.score, after.achieved_us) + after.player_id, -after.score
        reply: list[Any] = await self._ephemeral.script(
            _READ, _keys(tenant_id, board_id), [member, str(order), limit, player_id]
        )
        _, *found = reply
        if not found:  # The script answers {0}.
            return None
        as_of, start, members, places, rank, place = found
        scores = [_score(member[32:], place) for member, place in zip(members, places, strict=True)]
        me = ranking(rank + 1, _score(player_id.encode(), place)) if rank >= 0 else None
        return float(as_of), Top(start + 1, scores, me)

    async def meta(self, tenant_id: str, board_id: str) -> Meta | None:
        """The metadata of the board's set. None: no set."""
        config, as_of = await self._ephemeral.run("HMGET", _keys(tenant_id, board_id).meta, "config", "as_of")
        return None if config is None else Meta(config.decode(), float(as_of))

    async def write(self, tenant_id: str, board_id: str, rows: Sequence[Any]) -> int:
        """Writes players' rows of the statement `scores`. Returns GONE, WRITTEN, OLDER or REDEFINED."""
        args: list[Any] = [rows[0]["config"], rows[0]["version"]]
        for row in rows:
            if row["score"] is None:
                args += (row["player_id"], 0, "", "")
            else:
                sort_key = _sort_key(row["score"], row["achieved_us"])
                args += (row["player_id"], str(-row["score"]), sort_key, row["display_name"])
        outcome: int = await self._ephemeral.script(_WRITE, _keys(tenant_id, board_id), args)
        return outcome

    async def mark(self, tenant_id: str, board_id: str, config: str, as_of: float) -> None:
        """Marks the set as complete up to `as_of`, if it still has this definition."""
        await self._ephemeral.script(_MARK, _keys(tenant_id, board_id), [config, repr(as_of), KEEP_SECONDS])

    async def drop(self, tenant_id: str, board_id: str) -> None:
        """Deletes the board's set."""
        await self._ephemeral.run("UNLINK", *_keys(tenant_id, board_id))

    async def replace(self, tenant_id: str, counted: Counted) -> None:
        """Builds a new set and swaps it in atomically once it is complete."""
        order, places, meta = _keys(tenant_id, counted.board_id)
        nonce = ids.make("new")
        new_order, new_places = f"{order}:{nonce}", f"{places}:{nonce}"
        run = self._ephemeral.run
        for start in range(0, len(counted.scores), CHUNK_PLAYERS):
            members: list[Any] = []
            fields: list[Any] = []
            for one in counted.scores[start : start + CHUNK_PLAYERS]:
                sort_key = _sort_key(one.score, one.achieved_us)
                members += (str(-one.score), sort_key + one.player_id)
                fields += (one.player_id, sort_key + one.display_name)
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


class BoardKeys(NamedTuple):
    """The keys of a board's set, in the scripts' order."""

    order: str
    places: str
    meta: str


def _keys(tenant_id: str, board_id: str) -> BoardKeys:
    base = f"{PREFIX}{{{tenant_id}}}:{board_id}"
    return BoardKeys(f"{base}:order", f"{base}:places", f"{base}:meta")


def _sort_key(score: int, achieved_us: int) -> str:
    """32 hex digits in ranking order: the greater score first, then the earlier time."""
    return f"{2**63 - 1 - score:016x}{max(achieved_us, 0):016x}"


def _score(player_id: bytes, place: bytes) -> Score:
    """Parses a stored place: sort key and display name."""
    return Score(player_id.decode(), place[32:].decode(), 2**63 - 1 - int(place[:16], 16), int(place[16:32], 16))
