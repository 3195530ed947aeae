"""What becomes of work whose client, or whose server, went away; and what the model leaves open as Postgres does."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

import sql
from ops.simulation.network import Calm
from ops.simulation.postgres import ModelDatabase, ModelServer, NotModelled
from runtime.stores.database import StoreUnavailable

TENANCY = sql.load("tenancy")
RAISE = TENANCY["raise_catalog_version"]
TENANT = "tenant_a"


class Faulty(Calm):
    """Loses, or holds up, the next command of a name on its way there (`lost`, `late`) or back (`unanswered`)."""

    def __init__(self, **faults: str) -> None:
        self.faults = faults
        self.arrives = asyncio.Event()

    async def before(self, kind: str, what: str) -> None:
        if self.faults.get("lost") == what:
            raise ConnectionResetError
        if self.faults.get("late") == what:
            await self.arrives.wait()

    async def after(self, kind: str, what: str) -> None:
        if self.faults.get("unanswered") == what:
            raise ConnectionResetError


def database(server: ModelServer, network: Calm | None = None, *, seconds: float = 5.0) -> ModelDatabase:
    return ModelDatabase(server, size=4, acquire_seconds=1.0, statement_seconds=seconds, network=network)


async def furnished(seed: int = 0) -> ModelServer:
    server = ModelServer(random=Random(seed))
    await database(server).execute(TENANCY["insert_tenant"], TENANT, "A", "active", [])
    return server


def version(server: ModelServer) -> int:
    return int(server.rows("tenants")[0]["catalog_version"])


async def raised(connection: Any) -> Any:
    return await connection.fetchval(RAISE, TENANT)


async def test_what_is_lost_on_its_way_there_never_happens() -> None:
    server = await furnished()
    with pytest.raises(StoreUnavailable) as caught:
        await database(server, Faulty(lost="tenancy.raise_catalog_version")).fetchval(RAISE, TENANT)
    assert caught.value.sent
    assert version(server) == 1


async def test_what_is_lost_on_its_way_back_has_happened() -> None:
    server = await furnished()
    with pytest.raises(StoreUnavailable):
        await database(server, Faulty(unanswered="tenancy.raise_catalog_version")).fetchval(RAISE, TENANT)
    assert version(server) == 2


@pytest.mark.parametrize(("word", "then"), [("BEGIN", 1), ("tenancy.raise_catalog_version", 1), ("COMMIT", 2)])
async def test_a_transaction_whose_answer_is_lost_is_undone_but_for_its_commit(word: str, then: int) -> None:
    server = await furnished()
    with pytest.raises(StoreUnavailable):
        await database(server, Faulty(unanswered=word)).transaction(raised)
    assert version(server) == then
    assert server.busy == []


async def test_what_a_client_sent_before_it_gave_up_may_arrive_or_not() -> None:
    seen = set()
    for seed in range(20):
        server = await furnished(seed)
        network = Faulty(late="tenancy.raise_catalog_version")
        with pytest.raises(StoreUnavailable):
            await database(server, network, seconds=0.01).fetchval(RAISE, TENANT)
        assert version(server) == 1
        network.arrives.set()
        while server.busy:
            await asyncio.sleep(0)
        seen.add(version(server))
    assert seen == {1, 2}


async def test_a_process_that_crashes_leaves_no_lock_behind() -> None:
    server = await furnished()
    first, second = database(server), database(server)
    held = asyncio.Event()

    async def hold(connection: Any) -> None:
        await raised(connection)
        held.set()
        await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(first.transaction(hold))
    await held.wait()
    waiting = asyncio.create_task(second.fetchval(RAISE, TENANT))
    while not any(tx.waits_for for tx in server.store.running):
        await asyncio.sleep(0)
    first.crash()
    assert await waiting == 2, "what the crashed one did is undone"
    task.cancel()


async def test_a_server_that_goes_away_undoes_what_is_open_and_keeps_what_is_committed() -> None:
    server = await furnished()
    first = database(server)
    await first.fetchval(RAISE, TENANT)

    async def work(connection: Any) -> None:
        await raised(connection)
        server.stop()
        await raised(connection)

    with pytest.raises(StoreUnavailable):
        await first.transaction(work)
    with pytest.raises(StoreUnavailable) as caught:
        await first.fetchval(RAISE, TENANT)
    assert not caught.value.sent
    server.start()
    assert await first.fetchval(RAISE, TENANT) == 3


async def test_a_commit_that_the_server_did_not_live_to_make_is_none() -> None:
    server = await furnished()

    class Stopping(Calm):
        async def point(self, what: str) -> None:
            if what == "commit" and version(server) == 2:
                server.stop()

    store = database(server, Stopping())
    await store.fetchval(RAISE, TENANT)
    with pytest.raises(StoreUnavailable) as caught:
        await store.fetchval(RAISE, TENANT)
    assert caught.value.sent
    assert version(server) == 2
    assert not server.store.running


async def test_rows_without_an_order_come_in_several() -> None:
    server = await furnished()
    store = database(server)
    for nth in range(5):
        await store.execute(sql.load("players")["meet"], TENANT, f"player_{nth}")
        await store.execute(sql.load("merging")["end_guest"], TENANT, f"player_{nth}", "somebody")
    merged = sql.load("players")["merged"]
    names = [f"player_{nth}" for nth in range(5)]
    orders = {tuple(row["player_id"] for row in await store.fetch(merged, TENANT, names)) for _ in range(20)}
    assert len(orders) > 5
    assert {tuple(sorted(order)) for order in orders} == {tuple(names)}


async def test_a_statement_without_a_model_is_refused_by_its_name() -> None:
    with pytest.raises(NotModelled, match=r"challenges\.charge"):
        await database(await furnished()).fetch(sql.load("challenges")["charge"], TENANT)


async def test_a_commit_on_a_connection_that_was_cut_is_no_commit() -> None:
    server = await furnished()

    async def cut_off(connection: Any) -> None:
        await raised(connection)
        server.stop()
        server.start()

    with pytest.raises(StoreUnavailable):
        await database(server).transaction(cut_off)
    assert version(server) == 1
