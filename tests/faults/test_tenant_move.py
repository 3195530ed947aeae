import asyncio
import os
import sys
import time
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import asyncpg
import pytest
import redis.asyncio

from ops.servers.postgres import DISPOSABLE, Postgres
from runtime.operations.conservation.checks import audit
from runtime.stores.database import at
from runtime.stores.databases import FOLLOW_SECONDS
from runtime.stores.moving import PAUSE_SECONDS, Move, NotMoved
from sql.migrate import migrate
from tests.support.directories import serving_postgres
from tests.support.resources import make_campaign, make_game, make_prize
from tests.support.scenario import Scenario
from tests.support.stack import Stack, make_tenant, new_stack, settings_of
from tests.support.tables import rows_of
from tests.support.waiting import until

LOGICAL = {**DISPOSABLE, "wal_level": "logical", "max_sync_workers_per_subscription": "4"}
STOCK = 100_000


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with serving_postgres(LOGICAL) as server:
        for name in ("home", "eu"):
            server.psql(f"create database {name}")
        yield server


@pytest.fixture
async def stack(server: Postgres, valkey_url: str, valkey_flush: None) -> AsyncIterator[Stack]:
    for name in ("home", "eu"):
        await migrate(server.url(name))
    settings = settings_of(server.url("home"), valkey_url, databases=(("eu", server.url("eu")),))
    async with new_stack(settings) as stack:
        yield stack


class Players:
    """Players of a tenant's game, who play without a pause and retry what was UNAVAILABLE."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.plays = 0
        self.refused: list[str] = []
        self.longest = 0.0  # Seconds for which a request was UNAVAILABLE, retries included.
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self, count: int = 4) -> None:
        campaign_id = (await make_campaign(self.stack))["id"]
        self.prize_id = await make_prize(self.stack, campaign_id=campaign_id, stock={"total": STOCK})
        self.game_id = (await make_game(self.stack, campaign_id, self.prize_id))["id"]
        self._tasks = [asyncio.create_task(self._play(f"player_{nth}")) for nth in range(count)]

    async def end(self) -> None:
        self._stop.set()
        await asyncio.gather(*self._tasks)

    async def have_played(self, more: int) -> None:
        wanted = self.plays + more
        while self.plays < wanted:
            await asyncio.sleep(0.01)
            assert not any(task.done() for task in self._tasks)

    async def _play(self, player: str) -> None:
        nth = 0
        while not self._stop.is_set():
            nth += 1
            started = await self._ask(f"/games/{self.game_id}/start", {}, player, f"start-{nth}")
            body = {"session_id": started["session_id"], "payload": {}}
            await self._ask(f"/games/{self.game_id}/play", body, player, f"play-{nth}")
            self.plays += 1

    async def _ask(self, path: str, body: dict[str, Any], player: str, key: str) -> dict[str, Any]:
        began = 0.0
        while True:
            answer = await self.stack.consumer("POST", path, body, player=player, headers={"Idempotency-Key": key})
            if answer.code != "UNAVAILABLE":
                self.longest = max(self.longest, time.monotonic() - began if began else 0.0)
                return dict(answer.data)
            began = began or time.monotonic()
            self.refused.append(answer.reason)
            await asyncio.sleep(0.02)


async def left_over(server: Postgres, *names: str) -> list[str]:
    """Publications, subscriptions and slots."""
    found = []
    for name in names:
        for table, column in (("publication", "pubname"), ("subscription", "subname")):
            found += server.psql(f"select {column} from pg_{table}", name).split()
    return found + server.psql("select slot_name from pg_replication_slots").split()


async def is_whole(players: Players, server: Postgres, place: str, other: str) -> None:
    """Every answered play is in `place`, nothing is in the other, and the tenant's data are consistent."""
    stack, database = players.stack, players.stack.engine.database
    await until(lambda: database.of(stack.tenant_id).name == place)  # A process follows the directory within a second.
    rows = await rows_of(server.url(place), stack.tenant_id)
    assert rows["plays"] == rows["rewards"] == players.plays
    part = database.of(stack.tenant_id)
    assert await part.fetchval("SELECT awarded FROM stock WHERE prize_id = $1", players.prize_id) == players.plays
    assert await at(part, audit(database, stack.tenant_id)) == (0, set())
    assert await rows_of(server.url(other), stack.tenant_id) == {}
    assert await left_over(server, "home", "eu") == []


@pytest.mark.fault(
    "Tenant moved between databases", small=2, full=20, unit="moves", figure="a pause of at most 2 s, no play lost"
)
async def test_tenant_moves_while_it_plays(scenario: Scenario, stack: Stack, server: Postgres) -> None:
    players = Players(await make_tenant(stack, "tenant_moved"))
    await players.begin()
    try:
        pauses = []
        for nth in range(scenario.size):
            await players.have_played(50)
            move = Move(stack.process.settings, players.stack.tenant_id, ("eu", "home")[nth % 2], print)
            assert await move.run() > 0
            pauses.append(move.pause_seconds)
            await players.have_played(50)
            assert set(players.refused) <= {"STORE_UNAVAILABLE"}
        scenario.figure("longest pause of the mover", max(pauses), "s")
        scenario.seconds("longest pause of a player", players.longest, PAUSE_SECONDS)
        assert players.longest
    finally:
        await players.end()
    await is_whole(players, server, "home", "eu")
    assert await Move(stack.process.settings, players.stack.tenant_id, "home", print).run() == 0


@pytest.mark.fault("Tenant moved between databases", size="broken off at each step", figure="whole in one database")
@pytest.mark.parametrize(
    ("broken", "place"),
    [("_copy", "home"), ("_rows", "home"), ("_clear_cache", "home"), ("_finish", "eu"), ("_remove_rows", "eu")],
)
async def test_interrupted_move_leaves_the_tenant_whole_in_one_database(
    stack: Stack, server: Postgres, monkeypatch: pytest.MonkeyPatch, broken: str, place: str
) -> None:
    tenant_id = f"tenant_interrupted{broken}"
    players = Players(await make_tenant(stack, tenant_id))
    await players.begin(2)
    settings = stack.process.settings
    work = getattr(Move, broken)

    async def killed(self: Move, *args: Any) -> None:
        if broken == "_copy":
            await work(self, *args)
        if broken != "_remove_rows" or (self._source_name == "home" and self.pause_seconds):
            raise InterruptedError(broken)
        await work(self, *args)

    async def nothing(self: Move, target: str) -> None:
        """A killed process cleans nothing up."""

    try:
        await players.have_played(10)
        with monkeypatch.context() as patch:
            patch.setattr(Move, broken, killed)
            patch.setattr(Move, "_give_up", nothing)
            with pytest.raises(InterruptedError):
                await Move(settings, tenant_id, "eu", print).run()
        seconds = "coalesce(extract(epoch FROM paused_until - changed_at), 0)::float8 AS seconds"
        query = f"SELECT database, {seconds} FROM tenant_databases WHERE tenant_id = $1"
        row = await stack.engine.database.parts[0].fetchrow(query, tenant_id)
        assert row is not None and row["database"] == place and row["seconds"] + FOLLOW_SECONDS <= PAUSE_SECONDS
        await players.have_played(10)  # A process has ended the pause.
        await Move(settings, tenant_id, "eu", print).run()
        await players.have_played(10)
    finally:
        await players.end()
    await is_whole(players, server, "eu", "home")


STEPS = (b"pausing", b"removing the old", b"copying")


@pytest.mark.fault(
    "Tenant moved between databases", small=2, full=20, unit="movers killed (SIGKILL)", figure="whole in one database"
)
async def test_killed_mover_leaves_the_tenant_whole(scenario: Scenario, stack: Stack, server: Postgres) -> None:
    players = Players(await make_tenant(stack, "tenant_killed"))
    await players.begin(2)
    try:
        for nth in range(scenario.size):
            target, step = ("eu", "home")[nth % 2], STEPS[nth % len(STEPS)]
            mover = await begin_command(stack, "tenants", "move", "tenant_killed", "--to", target)
            while step not in (line := await mover.stdout.readline()):
                assert line, "the move ended"
            mover.kill()
            await players.have_played(10)
            await Move(stack.process.settings, "tenant_killed", target, print).run()
            await players.have_played(10)
    finally:
        await players.end()
    await is_whole(players, server, target, ("home", "eu")[nth % 2])


@pytest.mark.parametrize(
    ("step", "part", "change", "why"),
    [
        ("_copy", 1, "UPDATE stock SET total = total + 1, remaining = remaining + 1", "the copy differs in stock"),
        ("_switch", 0, "UPDATE tenants SET name = 'Late'", "rows were written to tenants in home after they were"),
    ],
)
async def test_move_is_given_up_if_rows_change_beside_it(
    stack: Stack, server: Postgres, monkeypatch: pytest.MonkeyPatch, step: str, part: int, change: str, why: str
) -> None:
    players = Players(await make_tenant(stack, f"tenant_changed{step}"))
    await players.begin(1)
    await players.have_played(5)
    await players.end()
    move = Move(stack.process.settings, players.stack.tenant_id, "eu", print)
    work = getattr(move, step)

    async def then_change() -> Any:
        done = await work()
        await stack.engine.database.parts[part].execute(change)
        return done

    monkeypatch.setattr(move, step, then_change)
    with pytest.raises(NotMoved, match=why):
        await move.run()
    assert (await rows_of(server.url("home"), players.stack.tenant_id))["tenants"] == 1
    if step == "_copy":
        await is_whole(players, server, "home", "eu")
    else:
        await Move(stack.process.settings, players.stack.tenant_id, "eu", print).run()
        await is_whole(players, server, "eu", "home")


async def test_move_is_given_up_if_a_process_does_not_acknowledge_the_pause(stack: Stack, server: Postgres) -> None:
    tenant_id = "tenant_unread"
    players = Players(await make_tenant(stack, tenant_id))
    await players.begin(1)
    await players.have_played(5)
    home = stack.engine.database.parts[0]
    await home.execute(
        "INSERT INTO processes (tenant_id, process_id, process, migration, directory_at)"
        " VALUES ('', 'hung', 'a hung process', '', now())"
    )
    with pytest.raises(NotMoved, match="did not acknowledge the pause: a hung process"):
        await Move(stack.process.settings, tenant_id, "eu", print).run()
    await home.execute("DELETE FROM processes WHERE process_id = 'hung'")
    await players.have_played(5)
    await players.end()
    await is_whole(players, server, "home", "eu")


@pytest.mark.parametrize("step", ["moving_to", "moved_from"])
async def test_only_rows_of_a_tenant_are_kept(stack: Stack, server: Postgres, step: str) -> None:
    stack = await make_tenant(stack, f"tenant_{step}")
    query = f"UPDATE tenant_databases SET database = 'eu', {step} = 'home' WHERE tenant_id = $1"
    await stack.engine.database.parts[0].execute(query, stack.tenant_id)
    with pytest.raises(NotMoved, match="lives in eu, which lacks it"):
        await Move(stack.process.settings, stack.tenant_id, "eu", print).run()
    assert await rows_of(server.url("home"), stack.tenant_id) == {"tenants": 1}


async def test_target_lost_during_a_move_leaves_no_slot(stack: Stack, server: Postgres) -> None:
    stack = await make_tenant(stack, "tenant_target_lost")

    def lose_target(step: str) -> None:
        if step == "pausing":
            move._urls["eu"] = server.url("lost")
            raise InterruptedError

    move = Move(stack.process.settings, stack.tenant_id, "eu", lose_target)
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await move.run()
    assert await left_over(server) == []
    await Move(stack.process.settings, stack.tenant_id, "eu", print).run()


async def begin_command(stack: Stack, *words: str) -> asyncio.subprocess.Process:
    settings = stack.process.settings
    environ = {**os.environ, "DATABASE_URL": settings.database_url, "REDIS_URL": settings.redis_url}
    environ |= {"DATABASES": " ".join(f"{name}={url}" for name, url in settings.databases), "PYTHONUNBUFFERED": "1"}
    command = (sys.executable, "-m", "runtime", *words)
    return await asyncio.create_subprocess_exec(*command, env=environ, stdout=PIPE, stderr=STDOUT)


async def test_commands_migrate_each_database_and_move_a_tenant(stack: Stack, valkey: redis.asyncio.Redis) -> None:
    tenant_id = "tenant_by_command"
    await make_tenant(stack, tenant_id)
    views, board = f"{{{tenant_id}}}views:counts", f"tombola:board:{{{tenant_id}}}:board_1:meta"
    await valkey.mset({views: "1", board: "1"})

    async def said(*words: str) -> tuple[int | None, str]:
        command = await begin_command(stack, *words)
        output, _ = await command.communicate()
        return command.returncode, output.decode()

    assert await said("migrate") == (0, "nothing to apply\neu: nothing to apply\n")
    code, output = await said("tenants", "move", tenant_id, "--to", "eu")
    assert (code, output.splitlines()[-1]) == (0, f"{tenant_id} lives in eu; rows moved: 1"), output
    assert [await valkey.exists(key) for key in (views, board)] == [1, 0]
    assert await said("tenants", "move", tenant_id, "--to", "eu") == (0, f"{tenant_id} lives in eu already\n")
    code, output = await said("tenants", "move", tenant_id, "--to", "mars")
    assert (code, output) == (1, "tombola tenants move: there is no database 'mars'; there are home, eu\n")


async def test_refusal_names_the_remedy(stack: Stack, valkey_url: str, make_database: Any, database_url: str) -> None:
    settings = stack.process.settings
    with pytest.raises(NotMoved, match="no database 'mars'; there are home, eu"):
        await Move(settings, "tenant_test", "mars", print).run()
    with pytest.raises(NotMoved, match="no tenant 'tenant_none' in home"):
        await Move(settings, "tenant_none", "eu", print).run()
    replica = replace(settings, database_url=database_url, databases=(("eu", make_database()),))
    async with new_stack(replica) as other:
        with pytest.raises(NotMoved, match="ALTER SYSTEM SET wal_level = logical"):
            await Move(replica, other.tenant_id, "eu", print).run()
