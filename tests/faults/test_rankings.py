import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import asyncpg
import pytest

import sql
from ops.servers.valkey import Valkey
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.commands.groups.leaderboards import rebuild_all
from runtime.groups import event_stream
from runtime.operations.leaderboards.rankings import list_rankings
from runtime.settings import Key, Settings
from runtime.stores.ranking_sets import OLDER, WRITTEN
from runtime.stores.rankings import LATE_SECONDS
from runtime.stores.scores import Score
from runtime.streams import leaderboard_consumer
from runtime.streams.consumer import Message
from tests.support.deliveries import working
from tests.support.leaderboards import Played, events_of, write_plays
from tests.support.rewards import core
from tests.support.stack import PATIENT
from tests.support.waiting import until

TENANT, GAME, BOARD = "tenant_r", "game_r", "board_r"


@pytest.fixture
def settings(database_url: str, valkey_url: str, valkey_flush: None) -> Settings:
    keys = (Key("1", bytes(32)),)
    settings = Settings(database_url=database_url, redis_url=valkey_url, server_keys=keys, code_keys=keys)
    return replace(settings, stream_shards=2, metrics_port=0, redis_timeout_seconds=PATIENT["redis_timeout_seconds"])


@pytest.fixture
async def engine(settings: Settings) -> AsyncIterator[Engine]:
    async with core(settings, shards=2) as process:
        engine = process.engine
        for statement in (
            "INSERT INTO tenants (tenant_id, name) VALUES ('tenant_r', 'r')",
            "INSERT INTO campaigns (tenant_id, campaign_id, name, status) VALUES ('tenant_r', 'camp_r', 'r', 'active')",
            "INSERT INTO games (tenant_id, game_id, campaign_id, name, type) "
            "VALUES ('tenant_r', 'game_r', 'camp_r', 'r', 'x')",
            "INSERT INTO leaderboards (tenant_id, board_id, campaign_id, name, metric, mode)"
            " VALUES ('tenant_r', 'board_r', 'camp_r', 'r', 'score', 'sum')",
        ):
            await engine.database.execute(statement)
        yield engine


async def played_now(engine: Engine, plays: list[Played], *, tell: bool = False) -> None:
    await write_plays(engine, TENANT, plays, since=engine.clock.now(), tell=tell)


async def shown(engine: Engine) -> list[Score] | None:
    top = await engine.rankings.top(TENANT, BOARD, None, 100)
    return top.scores if top is not None else None


async def by_rows(engine: Engine) -> list[Score]:
    return (await engine.rankings.count(TENANT, BOARD)).scores


async def listed(engine: Engine) -> list[tuple[str, int]]:
    reply = await list_rankings(engine, m.ListRankingsRequest(scope=m.Scope(tenant_id=TENANT), id=BOARD, limit=100))
    return [(item.player_id, item.score) for item in reply.items]


async def test_plays_reach_the_ranking_by_their_messages(engine: Engine, settings: Settings) -> None:
    async with core(settings, shards=2) as reader, working(reader.engine, "leaderboards"):
        await until(lambda: shown(engine), lambda it: it == [])
        await played_now(engine, [Played(f"p{n}", GAME, n) for n in range(20)], tell=True)
        await until(lambda: listed(engine), lambda it: it == [(f"p{n}", n) for n in range(19, -1, -1)])
        assert await shown(engine) == await by_rows(engine)


async def test_ranking_messages_may_come_twice_and_in_any_order(engine: Engine) -> None:
    await engine.rankings.rebuild(TENANT, BOARD)
    plays = [Played(f"p{n % 7}", GAME, n) for n in range(40)]
    await write_plays(engine, TENANT, plays)
    handler = leaderboard_consumer.Standings(engine)
    stream = event_stream(0)
    encode = engine.publisher._encoder.encode
    messages = [Message(stream, f"{n}-0", {b"e": encode(event)}) for n, event in enumerate(events_of(TENANT, plays))]
    for batch in (messages[20:], messages[:20], messages[::-1], messages[5:6]):
        assert await handler.handle(list(batch)) == set()
    assert await shown(engine) == await by_rows(engine)


async def test_message_that_is_not_an_event_fails_alone(engine: Engine) -> None:
    await engine.rankings.rebuild(TENANT, BOARD)
    await write_plays(engine, TENANT, [Played("ann", GAME, 5)])
    encode = engine.publisher._encoder.encode
    [event] = events_of(TENANT, [Played("ann", GAME, 5)])
    bodies = [b"{", b"[]", b"\xff", encode({"type": "play_completed", "tenant_id": TENANT, "data": {}}), encode(event)]
    messages = [Message(event_stream(0), f"{n}-0", {b"e": body}) for n, body in enumerate(bodies)]
    messages.append(Message(event_stream(0), "9-0", {b"x": b"y"}))
    assert await leaderboard_consumer.Standings(engine).handle(messages) == {"0-0", "1-0", "2-0", "9-0"}
    assert await shown(engine) == await by_rows(engine)


async def test_stale_write_is_refused(engine: Engine) -> None:
    rankings = engine.rankings
    await rankings.rebuild(TENANT, BOARD)
    scores = sql.load("leaderboards")["scores"]
    await write_plays(engine, TENANT, [Played("ann", GAME, 5)])
    slow = await engine.database.fetch(scores, TENANT, [BOARD], None, ["ann"])
    await write_plays(engine, TENANT, [Played("ann", GAME, 7)])
    fast = await engine.database.fetch(scores, TENANT, [BOARD], None, ["ann"])
    assert await rankings._write(TENANT, BOARD, fast) == WRITTEN
    assert await rankings._write(TENANT, BOARD, slow) == OLDER
    assert await listed(engine) == [("ann", 12)]


async def test_rival_plays_and_refreshes_end_equal_to_the_rows(engine: Engine, settings: Settings) -> None:
    await engine.rankings.rebuild(TENANT, BOARD)

    async def play(process: Engine, n: int) -> None:
        player_id = f"p{n % 5}"
        await played_now(process, [Played(player_id, GAME, n)])
        await process.rankings.refresh(TENANT, [player_id], games=[GAME])
        if n % 20 == 0:
            await process.rankings.rebuild(TENANT, BOARD)

    async def play_on(process: Engine, first: int) -> None:
        for n in range(first, 100, 8):
            await play(process, n)

    async with core(settings, shards=2) as second:
        await asyncio.gather(*[play_on((engine, second.engine)[first % 2], first) for first in range(8)])
    assert await shown(engine) == await by_rows(engine)


@pytest.mark.fault("FLUSHALL", size="30 players", figure="rankings equal")
@pytest.mark.parametrize("lost", ["all", "order", "places", "meta"])
async def test_lost_ranking_is_answered_from_rows_and_rebuilt(engine: Engine, valkey_server: Valkey, lost: str) -> None:
    await played_now(engine, [Played(f"p{n}", GAME, n) for n in range(30)])
    await engine.rankings.rebuild(TENANT, BOARD)
    wanted = await listed(engine)
    if lost == "all":
        valkey_server.command("FLUSHALL")
    else:
        valkey_server.command("DEL", f"tombola:board:{{{TENANT}}}:{BOARD}:{lost}")
        await engine.rankings.refresh(TENANT, ["p1"], games=[GAME])
    assert await shown(engine) is None
    assert await listed(engine) == wanted
    await engine.rankings.drain()
    assert await shown(engine) == await by_rows(engine)


async def test_messages_lost_while_the_store_was_frozen_are_caught_up(engine: Engine, valkey_server: Valkey) -> None:
    """The set survives the freeze but lacks later messages, so it is caught up before it is served."""
    await played_now(engine, [Played("ann", GAME, 5)])
    await engine.rankings.rebuild(TENANT, BOARD)
    assert await listed(engine) == [("ann", 5)]
    valkey_server.freeze()
    try:
        await played_now(engine, [Played("bob", GAME, 9)], tell=True)
        await until(lambda: engine.ephemeral.ping(), lambda it: not engine.ephemeral.up)
        assert await listed(engine) == [("bob", 9), ("ann", 5)]
    finally:
        valkey_server.thaw()
    await until(lambda: engine.ephemeral.up)
    assert await listed(engine) == [("bob", 9), ("ann", 5)]
    assert await shown(engine) == await by_rows(engine)


async def test_lost_message_is_caught_up_by_the_group(engine: Engine, settings: Settings) -> None:
    async with core(settings, shards=2) as reader, working(reader.engine, "leaderboards"):
        await until(lambda: shown(engine), lambda it: it == [])
        await played_now(engine, [Played("ann", GAME, 5)], tell=False)
        await until(lambda: listed(engine), lambda it: it == [("ann", 5)])


async def test_catch_up_over_a_failover_is_repeated(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    await engine.rankings.rebuild(TENANT, BOARD)
    before, trips = await engine.rankings._sets.meta(TENANT, BOARD), iter(range(99))
    monkeypatch.setattr(type(engine.ephemeral), "trips", property(lambda _: next(trips)))
    await engine.rankings.catch_up(TENANT)
    assert await engine.rankings._sets.meta(TENANT, BOARD) == before


async def test_play_that_commits_late_is_not_missed(engine: Engine) -> None:
    await engine.rankings.rebuild(TENANT, BOARD)
    began, caught_up = asyncio.Event(), asyncio.Event()

    async def slow(connection: asyncpg.Connection) -> None:
        await connection.execute(
            "INSERT INTO leaderboard_adjustments (tenant_id, entry_id, board_id, player_id, delta, reason)"
            " VALUES ('tenant_r', 'entry_1', 'board_r', 'ann', 5, 'r')"
        )
        began.set()
        await caught_up.wait()

    task = asyncio.create_task(engine.database.transaction(slow))
    await began.wait()
    # sleeps: longer than LATE_SECONDS, for what is looked back by anyway proves nothing
    await engine.database.execute("SELECT pg_sleep($1)", LATE_SECONDS + 0.5)
    await engine.rankings.catch_up(TENANT)
    assert await shown(engine) == []
    caught_up.set()
    await task
    await engine.rankings.catch_up(TENANT)
    assert await listed(engine) == [("ann", 5)]


async def test_rebuild_builds_every_live_board(engine: Engine, settings: Settings, valkey_server: Valkey) -> None:
    await played_now(engine, [Played("ann", GAME, 5)])
    assert await rebuild_all(settings) == 1
    assert [one.player_id for one in await shown(engine) or []] == ["ann"]
    valkey_server.command("FLUSHALL")
    assert await rebuild_all(settings, tenant="tenant_none") == 0
    assert await rebuild_all(settings, board=BOARD) == 1
    assert await shown(engine) == await by_rows(engine)
