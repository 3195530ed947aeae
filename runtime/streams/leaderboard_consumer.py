"""The consumer group `leaderboards`: updates the live rankings after plays.

A message only names the players to recompute (runtime/stores/rankings.py), so duplicate, late or reordered messages do
no harm. Lost messages are compensated: every few seconds each tenant's boards are caught up, and missing sets are
built.
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
from runtime.stores.database import StoreUnavailable, at
from runtime.stores.pipeline import EphemeralDown
from runtime.streams.consumer import Consumer, Message
from runtime.streams.servers import Servers

CATCH_UP_SECONDS: Final = 10.0
"""How long a play with a lost message may be missing from the rankings."""

JOB: Final = "rankings"

_TENANTS: Final = sql.load("leaderboards")["tenants"]

log = structlog.get_logger(__name__)


class _EventHead(msgspec.Struct):
    """The parts of an event (runtime/events.py) that are used here."""

    type: str
    tenant_id: str
    data: dict[str, Any]


class Standings:
    """Handles play_completed; ignores other events."""

    def __init__(self, engine: Engine) -> None:
        self._rankings = engine.rankings
        self._is_alone = len(engine.database.parts) == 1
        self._decoder = msgspec.json.Decoder(_EventHead)

    async def handle(self, messages: list[Message]) -> set[str]:
        """Recomputes the messages' players, tenant by tenant. Returns the ids of malformed messages."""
        garbage: set[str] = set()
        touched: dict[str, tuple[set[str], set[str]]] = {}
        for message in messages:
            try:
                event = self._decoder.decode(message.fields[b"e"])
            except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
                garbage.add(message.id)
                continue
            player_id, game_id = event.data.get("player_id"), event.data.get("game_id")
            # An event emitted by an admin may lack fields.
            if event.type == PlayCompleted.TYPE and isinstance(player_id, str) and isinstance(game_id, str):
                players, games = touched.setdefault(event.tenant_id, (set(), set()))
                players.add(player_id)
                games.add(game_id)
        for tenant_id, (players, games) in touched.items():
            await self._refresh(tenant_id, players, games)
        return garbage

    async def _refresh(self, tenant_id: str, players: set[str], games: set[str]) -> None:
        try:
            refresh = self._rankings.refresh(tenant_id, sorted(players), games=sorted(games))
            await at(tenant_id, refresh)
        except StoreUnavailable as error:
            if self._is_alone:
                raise
            # Not retried: the messages of tenants in other databases would wait. `catch_up` recomputes the players.
            log.info("rankings_wait", tenant_id=tenant_id, why=str(error))
        except RedisError as error:
            # The store is full or a slot is migrating: retry the messages; none of them is at fault.
            raise EphemeralDown(str(error)) from error
        except asyncpg.DataError as error:
            log.warning("event_of_no_player", tenant_id=tenant_id, why=str(error))


async def run(engine: Engine, stop: asyncio.Event) -> None:
    """Reads every shard's events and catches up until `stop`."""
    streams = LEADERBOARDS.streams(engine.settings.stream_shards)
    work = partial(_catch_up_or_wait, engine)
    keeper = asyncio.gather(
        *(at(part, repeat(JOB, work, CATCH_UP_SECONDS, at_once=True)) for part in engine.database.parts)
    )
    try:
        await Consumer(Servers(engine.settings), LEADERBOARDS.name, streams, Standings(engine).handle).run(stop)
    finally:
        keeper.cancel()
        with suppress(asyncio.CancelledError):
            await keeper


async def _catch_up_or_wait(engine: Engine) -> None:
    try:
        await engine.leases.run(JOB, partial(catch_up, engine))
    except (Fault, RedisError, asyncpg.PostgresError) as error:
        log.info("rankings_wait", why=str(error))


async def catch_up(engine: Engine) -> None:
    """Catches up every tenant's boards.

    Two processes may do so at once: a set refuses writes from an older snapshot (runtime/stores/ranking_sets.py).
    """
    for tenant_id in await engine.database.tenants(_TENANTS, "", ""):
        await at(tenant_id, engine.rankings.catch_up(tenant_id))
