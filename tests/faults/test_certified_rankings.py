"""The judge of ops/certify finds a live ranking that is not what the plays' rows say."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ops.certification.rankings import counted, kept_unlike
from runtime.actors.engine import Engine
from runtime.settings import Key, Settings
from runtime.stores.database import Database
from runtime.stores.ephemeral import Ephemeral
from runtime.stores.publisher import Publisher
from tests.support.leaderboards import Played, write_plays
from tests.support.stack import PATIENT

TENANT, GAME, BOARD = "tenant_r", "game_r", "board_r"
SET = f"tombola:board:{{{TENANT}}}:{BOARD}"


@pytest.fixture
async def engine(database_url: str, valkey_url: str, valkey_flush: None) -> AsyncIterator[Engine]:
    """With a board on which ann has two plays, bob and cid one each, in their order."""
    keys = (Key("1", bytes(32)),)
    settings = Settings(
        database_url=database_url, redis_url=valkey_url, server_keys=keys, code_keys=keys, metrics_port=0
    )
    database = Database(settings.database_url, size=4, acquire_seconds=5, statement_seconds=10)
    ephemeral = Ephemeral(settings.redis_url, timeout_seconds=PATIENT["redis_timeout_seconds"])
    await database.start()
    await ephemeral.start()
    engine = Engine(settings, database, ephemeral, Publisher(ephemeral, shards=1, length_max=1000))
    for statement in (
        "INSERT INTO tenants (tenant_id, name) VALUES ('tenant_r', 'r')",
        "INSERT INTO campaigns (tenant_id, campaign_id, name, status) VALUES ('tenant_r', 'camp_r', 'r', 'active')",
        "INSERT INTO games (tenant_id, game_id, campaign_id, name, type)"
        " VALUES ('tenant_r', 'game_r', 'camp_r', 'r', 'x')",
        "INSERT INTO leaderboards (tenant_id, board_id, campaign_id, name, metric, mode)"
        " VALUES ('tenant_r', 'board_r', 'camp_r', 'r', 'plays', 'sum')",
    ):
        await database.execute(statement)
    plays = [Played(who, GAME, 0) for who in ("ann", "bob", "cid", "ann")]
    await write_plays(engine, TENANT, plays, since=engine.clock.now())
    await engine.rankings.rebuild(TENANT, BOARD)
    try:
        yield engine
    finally:
        await engine.rankings.drain()
        await ephemeral.close()
        await database.close()


async def found(engine: Engine) -> str:
    boards = await counted(engine.database, TENANT)
    return "\n".join(await kept_unlike(engine.ephemeral, TENANT, BOARD, boards[BOARD]))


async def test_a_ranking_that_is_as_the_rows_are_is_right(engine: Engine) -> None:
    assert [one.player_id for one in (await counted(engine.database, TENANT))[BOARD]] == ["ann", "bob", "cid"]
    assert await found(engine) == ""


async def test_a_play_that_is_not_in_the_ranking_is_found(engine: Engine) -> None:
    await write_plays(engine, TENANT, [Played("cid", GAME, 0)], since=engine.clock.now())
    assert "rank 2" in await found(engine)


async def test_a_play_that_is_in_the_ranking_alone_is_found(engine: Engine) -> None:
    await engine.database.execute("DELETE FROM plays WHERE player_id = 'bob'")
    assert "rank 2" in await found(engine)


async def test_a_place_that_is_gone_or_a_set_is_found(engine: Engine) -> None:
    (member,) = await engine.ephemeral.run("ZRANGE", f"{SET}:order", 0, 0)
    await engine.ephemeral.run("ZREM", f"{SET}:order", member)
    assert "no whole set" in await found(engine)
    await engine.ephemeral.run("UNLINK", f"{SET}:order", f"{SET}:places", f"{SET}:meta")
    assert "no whole set" in await found(engine)
