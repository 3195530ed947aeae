import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from ops.servers.postgres import Postgres
from runtime.errors import Fault
from runtime.stores.database import Database, StoreUnavailable
from sql import connections
from sql.migrate import REMOVAL_LOCK_KEY
from tests.support.locks import somebody_waits
from tests.support.stack import AS_SHIPPED, Stack, new_stack, settings_of
from tests.support.waiting import HANG_SECONDS, until
from tests.support.world import COINS, COLLECTION, World, new_world

pytestmark = pytest.mark.settings(**AS_SHIPPED, database_pool_size=4)


@pytest.fixture(scope="module")
def module_database_url(server: Postgres) -> str:
    return server.url("tombola")


@pytest.mark.fault(
    "Postgres backend frozen", size="a pool of one", figure="503 with Retry-After, then 200 while it is frozen"
)
async def test_frozen_backend_is_abandoned_and_its_slot_freed(module_database_url: str, valkey_url: str) -> None:
    settings = settings_of(module_database_url, valkey_url, **{**AS_SHIPPED, "database_pool_size": 1})
    async with new_stack(settings) as stack, new_world(stack) as world:
        game_id = await world.wheel(await world.prize())
        session = await world.session(game_id)
        pid = await world.database.fetchval("SELECT pg_backend_pid()")
        os.kill(pid, signal.SIGSTOP)
        try:
            async with asyncio.timeout(HANG_SECONDS):
                refused = await world.play(game_id, session, key="frozen")
                assert (refused.http, refused.reason) == (503, "STORE_UNAVAILABLE")
                assert int(refused.headers["Retry-After"]) >= 1
                again = await world.play(game_id, session, key="frozen")
        finally:
            os.kill(pid, signal.SIGCONT)
        assert again.http == 200
        await until(lambda: gone(world, pid))
        assert len(await world.plays()) == 1


async def test_start_waits_for_a_slow_database(module_database_url: str, valkey_url: str) -> None:
    settings = settings_of(module_database_url, valkey_url, database_statement_timeout_seconds=0.3)
    rival, tried = await asyncpg.connect(module_database_url), set[int | None]()

    async def start() -> None:
        async with new_stack(settings):
            pass

    async def tried_twice() -> bool:
        tried.add(await rival.fetchval("SELECT max(pid) FROM pg_locks WHERE NOT granted"))
        return starting.done() or len(tried - {None}) > 1

    try:
        async with rival.transaction():
            await rival.execute("SELECT pg_advisory_xact_lock($1)", REMOVAL_LOCK_KEY)
            starting = asyncio.ensure_future(start())
            await until(tried_twice)
        await starting
    finally:
        await rival.close()


async def gone(world: World, pid: int) -> bool:
    return not await world.database.fetchval("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", pid)


async def test_transaction_sends_no_more_to_a_frozen_backend(server: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """No rollback either: it would wait for another statement timeout."""
    database = Database(server.url("tombola"), size=1, acquire_seconds=60, statement_seconds=0.5)
    execute, queries, pids = asyncpg.Connection.execute, list[tuple[int, str]](), list[int]()

    async def record_query(connection: asyncpg.Connection, query: str, *args: Any, **more: Any) -> str:
        queries.append((connection.get_server_pid(), query))
        return str(await execute(connection, query, *args, **more))

    async def work(connection: asyncpg.Connection) -> None:
        pids.append(connection.get_server_pid())
        os.kill(pids[0], signal.SIGSTOP)
        await connection.execute("SELECT 1")

    monkeypatch.setattr(asyncpg.Connection, "execute", record_query)
    try:
        with pytest.raises(Fault):
            await database.transaction(work)
        assert [query for pid, query in queries if pid in pids] == ["BEGIN;", "SELECT 1"]
        assert await database.fetchval("SELECT 2") == 2
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        await database.close()


@pytest.mark.fault("Process paused", size="a transaction that stops", figure="its lock is free, then 503")
async def test_idle_transaction_is_ended_with_its_locks(server: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.2)
    database, locked = Database(server.url("tombola"), size=2, acquire_seconds=60, statement_seconds=60), list[int]()

    async def work(connection: asyncpg.Connection) -> None:
        await connection.execute("SELECT pg_advisory_xact_lock(7)")
        locked.append(await database.execute("SELECT pg_advisory_xact_lock(7)"))
        await connection.execute("SELECT 1")

    with pytest.raises(StoreUnavailable):
        await database.transaction(work)
    assert locked == [1]
    await database.close()


@asynccontextmanager
async def every_connection_held(world: World) -> AsyncIterator[None]:
    database = world.database
    held = [database.connection() for _ in range(database.size)]
    for connection in held:
        await connection.__aenter__()
    try:
        yield
    finally:
        for connection in held:
            await connection.__aexit__(None, None, None)


@pytest.mark.fault("Pool exhausted", size="20 plays", figure="20 answers 503, then 20 answers 200")
async def test_exhausted_pool_is_503_and_no_request_waits_for_ever(world: World, module_stack: Stack) -> None:
    game_id = await world.wheel()
    sessions = [await world.session(game_id) for _ in range(20)]
    async with every_connection_held(world), asyncio.timeout(HANG_SECONDS):
        answers = await asyncio.gather(*(world.play(game_id, session) for session in sessions))
        assert Counter((answer.http, answer.reason) for answer in answers) == {(503, "STORE_UNAVAILABLE"): 20}
        assert all(int(answer.headers["Retry-After"]) >= 1 for answer in answers)
        async with module_stack.http.get(f"{module_stack.process.core_url}/readyz") as ready:
            assert (ready.status, ready.headers["X-Failed-Check"]) == (503, "database")
        async with module_stack.http.get(f"{module_stack.process.core_url}/healthz") as alive:
            assert alive.status == 200
    answers = await asyncio.gather(*(world.play(game_id, session) for session in sessions))
    assert {answer.http for answer in answers} == {200}


async def test_abandoned_statement_is_cancelled_in_the_database(world: World) -> None:
    mug = await world.prize(total=5)
    game_id = await world.wheel(mug)
    session = await world.session(game_id)
    async with world.database.connection() as connection, connection.transaction():
        await connection.execute("SELECT FROM stock WHERE prize_id = $1 FOR UPDATE", mug)
        refused = await world.play(game_id, session, key="held")
        assert (refused.http, refused.reason) == (503, "STORE_UNAVAILABLE")
        await until(lambda: somebody_waits(world.database), lambda it: not it)
    assert (await world.play(game_id, session, key="held")).data["rewards"]
    assert await world.stock(mug) == (4, 1)


class Cutter:
    """A TCP proxy before Postgres that can lose a statement, or the answer to it.

    lose: "statement" or "answer", once, of the next statement that has `marked` among its arguments.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.lose = ""
        self.marked = b""
        self.lost = 0

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)  # they were cancelled

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._port)
        cutting = False

        async def down() -> None:
            while data := await upstream_reader.read(65536):
                if cutting:
                    return  # the database has done it, and nobody hears of it
                writer.write(data)
                await writer.drain()
            writer.close()

        downstream = asyncio.ensure_future(down())
        try:
            while data := await reader.read(65536):
                if self.lose and self.marked in data:
                    mode, self.lose = self.lose, ""
                    self.lost += 1
                    if mode == "statement":
                        return
                    cutting = True
                    upstream_writer.write(data)
                    await downstream
                    return
                upstream_writer.write(data)
                await upstream_writer.drain()
        finally:
            downstream.cancel()
            for each in (writer, upstream_writer):
                each.close()


@pytest.fixture
async def cutter(server: Postgres) -> AsyncIterator[Cutter]:
    cutter = Cutter(server.port)
    yield cutter
    await cutter.stop()


@pytest.fixture
async def cut_world(
    cutter: Cutter, server: Postgres, module_database_url: str, valkey_url: str
) -> AsyncIterator[World]:
    port = await cutter.start()
    url = module_database_url.replace(f":{server.port}/", f":{port}/")
    async with new_stack(settings_of(url, valkey_url)) as stack, new_world(stack) as world:
        yield world


async def test_commit_whose_answer_is_lost_is_found_without_a_key(cut_world: World, cutter: Cutter) -> None:
    """Without a key, this request cannot be distinguished from others of the session."""
    game_id = await cut_world.wheel(await cut_world.prize(total=5))
    session = await cut_world.session(game_id)
    cutter.lose, cutter.marked = "answer", session.encode()
    answer = await cut_world.play(game_id, session)
    assert (answer.http, answer.reason) in ((200, ""), (409, "SESSION_PLAYED"))
    assert cutter.lost == len(await cut_world.plays()) == 1


async def test_commit_lost_before_the_server_is_503_and_can_be_retried(cut_world: World, cutter: Cutter) -> None:
    prize_id = await cut_world.prize(total=5)
    game_id = await cut_world.wheel(prize_id)
    session = await cut_world.session(game_id)
    cutter.lose, cutter.marked = "statement", session.encode()
    refused = await cut_world.play(game_id, session, key="k2")
    assert (refused.http, refused.reason, cutter.lost) == (503, "STORE_UNAVAILABLE", 1)
    assert await cut_world.plays() == []
    assert (await cut_world.play(game_id, session, key="k2")).data["rewards"]
    assert await cut_world.stock(prize_id) == (4, 1)


async def test_batch_of_unknown_fate_is_resolved_play_by_play(cut_world: World, cutter: Cutter) -> None:
    prize_id = await cut_world.prize(total=100)
    game_id = await cut_world.wheel(prize_id)
    sessions = [await cut_world.session(game_id, f"p{nth}") for nth in range(30)]
    cutter.lose, cutter.marked = "answer", sessions[0].encode()
    first = await asyncio.gather(
        *(cut_world.play(game_id, session, f"p{nth}", key="b") for nth, session in enumerate(sessions))
    )
    assert cutter.lost == 1
    assert {answer.http for answer in first} == {200}
    again = await asyncio.gather(
        *(cut_world.play(game_id, session, f"p{nth}", key="b") for nth, session in enumerate(sessions))
    )
    assert {answer.http for answer in again} == {200}
    for one, two in zip(first, again, strict=True):
        assert one.data == two.data
    assert await cut_world.stock(prize_id) == (70, 30)


async def test_redeem_whose_answer_is_lost_is_found_by_its_key(cut_world: World, cutter: Cutter) -> None:
    mug = await cut_world.prize(total=5)
    rungs = [{"id": "mug", "name": "", "currency": "coin", "threshold": 2, "prize_id": mug}]
    exchange = {"mode": "MILESTONE_MODE_SPEND_EXCHANGE", "rungs": rungs}
    game_id = await cut_world.game(COLLECTION, COINS, milestones=exchange)
    await cut_world.round(game_id)
    cutter.lose, cutter.marked = "answer", b"milestone_spend"
    reply = (await cut_world.redeem(game_id, "mug", key="r")).data
    assert cutter.lost == 1
    assert reply["balances"] == [{"currency": "coin", "balance": 0}]
    assert (await cut_world.redeem(game_id, "mug", key="r")).data == reply
    assert await cut_world.stock(mug) == (4, 1)
