"""Postgres's own machine: its disk full, and its standby promoted. No answer without its row, and play goes on."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest

from ops.servers.postgres import DISPOSABLE, Postgres
from sql.migrate import migrate
from tests.support.address import Address
from tests.support.directories import small_disk
from tests.support.load import Load, load
from tests.support.operator import tombola
from tests.support.stack import AS_SHIPPED, new_stack, settings_of
from tests.support.standby import replicated, replication_is
from tests.support.waiting import until
from tests.support.world import World, new_world

SETTINGS = {
    **DISPOSABLE,
    "synchronous_commit": "on",
    "shared_buffers": "32MB",
    "max_wal_size": "48MB",
    "min_wal_size": "32MB",
}


@asynccontextmanager
async def played(database_url: str, valkey_url: str) -> AsyncIterator[tuple[World, Load]]:
    settings = settings_of(database_url, valkey_url, **AS_SHIPPED)
    async with new_stack(settings) as stack, new_world(stack) as world:
        game_id = await world.wheel(await world.prize(total=100_000))
        async with load(stack.process.core_url, stack.tenant_id, game_id, players=4) as playing:
            await playing.plays(20)
            yield world, playing
            await playing.plays(20)
        await playing.check(world.database)
    assert {status for status, _ in playing.refusals} == {503}
    assert {reason for _, reason in playing.refusals} <= {"STORE_UNAVAILABLE", "OVERLOADED"}


async def refused(playing: Load) -> None:
    before = playing.refusals.total()

    async def more() -> bool:
        return playing.refusals.total() > before

    await until(more)


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        for size in (1 << 20, 4096):
            with suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass
    try:
        yield
    finally:
        filler.unlink()


@pytest.mark.fault(
    "Disk full, crash, restore to a point in time",
    size="a disk of 224 MiB, full twice, every process killed",
    figure="each 200 has its row",
)
async def test_full_disk_is_503_and_loses_no_answered_play(valkey_url: str, valkey_flush: None) -> None:
    with small_disk(mebibytes=224) as disk:
        server = Postgres(disk / "postgres", SETTINGS)
        server.start()
        try:
            server.psql("create database tombola")
            await migrate(server.url("tombola"))
            async with played(server.url("tombola"), valkey_url) as (_, playing):
                with filled(disk):
                    await refused(playing)
                await playing.plays(20)
                with filled(disk):
                    # Until there is no room for what every commit writes first, either: the server crashes.
                    with suppress(subprocess.CalledProcessError):
                        for _ in range(20):
                            await asyncio.to_thread(
                                server.psql, "select pg_logical_emit_message(false, 't', 'x'), pg_switch_wal()"
                            )
                    await refused(playing)
                    await asyncio.to_thread(server.kill_all)
                await asyncio.to_thread(server.start)
        finally:
            server.stop()
        assert server.deadlocks() == []


@pytest.mark.parametrize("found_by", ["address", "hosts"])
@pytest.mark.fault(
    "Disk full, crash, restore to a point in time", size="a synchronous standby promoted", figure="each 200 has its row"
)
async def test_promoted_standby_has_every_answered_play(valkey_url: str, valkey_flush: None, found_by: str) -> None:
    async with replicated(SETTINGS, {}) as (primary, standby):
        primary.psql("alter system set synchronous_standby_names = '*'")
        primary.psql("select pg_reload_conf()")
        await replication_is(primary, "sync")
        address = Address(primary.port)
        async with address.serving() as port:
            # A balancer's address, or both hosts, the standby first.
            hosts = {
                "address": f":{port}/tombola",
                "hosts": f":{standby.port},127.0.0.1:{primary.port}/tombola?target_session_attrs=read-write",
            }
            url = primary.url("").replace(f":{primary.port}/", hosts[found_by])
            for command in [("migrate",), ("migrate", "--dry-run"), ("audit",)] if found_by == "hosts" else []:
                code, _, err = await tombola(*command, DATABASE_URL=url, REDIS_URL=valkey_url)
                assert code == 0, err
            async with played(url, valkey_url) as (world, playing):
                await asyncio.to_thread(primary.kill_all)
                # First a standby still, which reads and refuses to write: that is no answer but "try again".
                address.point_to(standby.port)
                await refused(playing)
                if found_by == "address":
                    assert await world.database.fetchval("SELECT pg_is_in_recovery()")
                standby.psql("select pg_promote()")
