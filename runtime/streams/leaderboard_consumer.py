"""The consumer group `leaderboards`: keeps the live rankings up to the plays.

A message says only whose scores to count anew (runtime/stores/rankings.py), so one that comes twice, late
or out of order does no harm. One that never comes is made up for: every few seconds the boards of each
tenant are caught up with whoever was touched since, and sets that are gone are built.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any, Final

import asyncpg
import msgspec
import structlog
from redis.exceptions import RedisError

import sql
from runtime.actors.engine import Engine
from runtime.background import repeat
from runtime.errors import Fault
from runtime.events import PlayCompleted
from runtime.groups import LEADERBOARDS
from runtime.stores.pipeline import EphemeralDown
from runtime.streams.consumer import Consumer, Message
from runtime.streams.servers import Servers

CATCH_UP_SECONDS: Final = 10.0
"""How long a play whose message was lost may be missing from the rankings."""

_TENANTS: Final = sql.load("leaderboards")["tenants"]

log = structlog.get_logger(__name__)


class _Told(msgspec.Struct):
    """What matters here of an event (runtime/events.py)."""

    type: str
    tenant_id: str
    data: dict[str, Any]


class Standings:
    """Handles play_completed; passes other events by."""

    def __init__(self, engine: Engine) -> None:
        self._rankings = engine.rankings
        self._decoder = msgspec.json.Decoder(_Told)

    async def handle(self, messages: list[Message]) -> set[str]:
        """Counts the players of these messages anew, tenant by tenant. The ids of messages that are no events."""
        garbage: set[str] = set()
        touched: dict[str, tuple[set[str], set[str]]] = {}
        for message in messages:
            try:
                told = self._decoder.decode(message.fields[b"e"])
            except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
                garbage.add(message.id)
                continue
            player_id, game_id = told.data.get("player_id"), told.data.get("game_id")
            # An event that an admin emitted by hand may lack what a real one has.
            if told.type == PlayCompleted.TYPE and isinstance(player_id, str) and isinstance(game_id, str):
                players, games = touched.setdefault(told.tenant_id, (set(), set()))
                players.add(player_id)
                games.add(game_id)
        for tenant_id, (players, games) in touched.items():
            await self._refresh(tenant_id, players, games)
        return garbage

    async def _refresh(self, tenant_id: str, players: set[str], games: set[str]) -> None:
        try:
            await self._rankings.refresh(tenant_id, sorted(players), games=sorted(games))
        except RedisError as error:
            # A store that is full or is moving: the messages wait, none is to blame.
            raise EphemeralDown(str(error)) from error
        except asyncpg.DataError as error:
            log.warning("event_of_no_player", tenant_id=tenant_id, why=str(error))


async def run(engine: Engine, stop: asyncio.Event) -> None:
    """Reads every shard's events, and catches up, until `stop`."""
    streams = LEADERBOARDS.streams(engine.settings.stream_shards)
    keeper = asyncio.create_task(repeat("rankings", partial(_catch_up_or_wait, engine), CATCH_UP_SECONDS, at_once=True))
    try:
        await Consumer(Servers(engine.settings), LEADERBOARDS.name, streams, Standings(engine).handle).run(stop)
    finally:
        keeper.cancel()
        with suppress(asyncio.CancelledError):
            await keeper


async def _catch_up_or_wait(engine: Engine) -> None:
    try:
        await catch_up(engine)
    except (Fault, RedisError, asyncpg.PostgresError) as error:
        log.info("rankings_wait", why=str(error))


async def catch_up(engine: Engine) -> None:
    """Catches up the boards of every tenant that no other process has just caught up."""
    for row in await engine.database.fetch(_TENANTS, "", ""):
        tenant_id = row["tenant_id"]
        lease = f"tombola:board:{{{tenant_id}}}:caught_up"
        lease_ms = int(CATCH_UP_SECONDS * 900)
        if await engine.ephemeral.run("SET", lease, "1", "NX", "PX", lease_ms) is not None:
            await engine.rankings.catch_up(tenant_id)
