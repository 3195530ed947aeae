import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest

from ops.servers.base import write_private
from ops.servers.postgres import DISPOSABLE, Postgres
from runtime.errors import Fault
from runtime.stores import history
from sql.migrate import migrate
from tests.support.address import Address
from tests.support.deliveries import SECRET, working
from tests.support.directories import server_directory, small_disk
from tests.support.leaderboards import order
from tests.support.load import Load, load
from tests.support.operator import tombola
from tests.support.receiver import receiving
from tests.support.stack import AS_SHIPPED, TO_LOOPBACK, Stack, new_stack, settings_of
from tests.support.standby import replicated, replication_is
from tests.support.waiting import until
from tests.support.world import World, new_world

SETTINGS = {**DISPOSABLE, "synchronous_commit": "on", "shared_buffers": "32MB"}
SETTINGS |= {"max_wal_size": "48MB", "min_wal_size": "32MB"}


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
    await until(lambda: playing.refusals.total() > before)


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
                            switch = "select pg_logical_emit_message(false, 't', 'x'), pg_switch_wal()"
                            await asyncio.to_thread(server.psql, switch)
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
            hosts = {"address": f":{port}/tombola"}
            hosts |= {"hosts": f":{standby.port},127.0.0.1:{primary.port}/tombola?target_session_attrs=read-write"}
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


PAGE = (Path(__file__).parents[2] / "docs/how-to/back-up.md").read_text()
CODES = ("CODE-ONE", "CODE-TWO", "CODE-THREE")


def documented(nth: int, archive: Path) -> dict[str, str]:
    """Settings of docs/how-to/back-up.md: the first of a server that archives, the second of a restore."""
    block = re.findall(r"```ini\n(.*?)```", PAGE, re.DOTALL)[nth]
    settings = dict(line.split(" = ", 1) for line in block.splitlines())
    return {name: value.strip("'").replace("/archive/", f"{archive}/") for name, value in settings.items()}


def archiving(directory: Path) -> dict[str, str]:
    archive = directory / "archive"
    archive.mkdir(mode=0o777)
    archive.chmod(0o777)
    return {**DISPOSABLE, "shared_buffers": "32MB", "synchronous_commit": "on", **documented(0, archive)}


def base_backup(server: Postgres, directory: Path) -> Postgres:
    copy = Postgres(directory / "postgres", {**server.settings, "archive_mode": "off"})
    write_private(directory / "postgres.password", server.password)
    subprocess.run(
        [
            *(server.bin_dir / "pg_basebackup", "-h", "127.0.0.1", "-p", str(server.port), "-U", "postgres"),
            *("-D", copy.data_dir, "-X", "none", "-c", "fast"),
        ],
        check=True,
        env={**os.environ, "PGPASSWORD": server.password},
    )
    return copy


def restore(copy: Postgres, archive: Path, point: str) -> None:
    (copy.data_dir / "recovery.signal").touch()
    said = documented(1, archive) | {"recovery_target_time": point}
    with (copy.data_dir / "postgresql.auto.conf").open("a") as settings:
        settings.writelines(f"{name} = '{value}'\n" for name, value in said.items())
    if os.geteuid() == 0:  # The server runs as who owns its data.
        owner = archive.parent.joinpath("postgres").stat()
        for path in (copy.data_dir, *copy.data_dir.rglob("*")):
            shutil.chown(path, owner.st_uid, owner.st_gid)
    copy.start()


async def lose_all_after(point: str, server: Postgres, copy: Postgres, archive: Path, address: Address) -> None:
    written = server.psql("select pg_walfile_name(pg_current_wal_lsn())")
    server.psql("select pg_switch_wal()")
    await until(lambda: server.psql("select coalesce(last_archived_wal, '') from pg_stat_archiver") >= written)
    await asyncio.to_thread(server.kill_all)
    await asyncio.to_thread(restore, copy, archive, point)
    await until(lambda: copy.psql("select pg_is_in_recovery()") == "f")
    address.point_to(copy.port)


async def code_of(world: World, game_id: str, player: str) -> str:
    await world.round(game_id, player)
    (reward,) = (await world.stack.consumer("GET", "/rewards/me", player=player)).data["items"]
    return str(reward["code"])


async def ledger(world: World, player: str) -> int:
    query = "SELECT coalesce(sum(balance), 0) FROM balances WHERE tenant_id = $1 AND player_id = $2"
    return int(await world.database.fetchval(query, world.stack.tenant_id, player))


async def until_back(stack: Stack) -> None:
    async def back() -> bool:
        try:
            now = await history.read_history(stack.database)
        except Fault:
            return False
        held = await stack.engine.ephemeral.run("GET", history.KEY)
        return now is not None and held is not None and now.continues(history.History.parse(held.decode()))

    await until(back)


@pytest.mark.fault(
    "Disk full, crash, restore to a point in time",
    size="13 plays, 7 of them after the point",
    figure="what was before it is whole, what was after it never was",
)
async def test_restore_to_a_point_in_time_leaves_nothing_after_it(valkey_url: str, valkey_flush: None) -> None:
    with server_directory() as first, server_directory() as second:
        server = Postgres(first / "postgres", archiving(first))
        server.start()
        copy: Postgres | None = None
        try:
            server.psql("create database tombola")
            await migrate(server.url("tombola"))
            copy = await asyncio.to_thread(base_backup, server, second)
            address = Address(server.port)
            async with address.serving() as port, receiving() as receiver:
                url = server.url("tombola").replace(f":{server.port}/", f":{port}/")
                settings = settings_of(url, valkey_url, **AS_SHIPPED, **TO_LOOPBACK)
                async with (
                    new_stack(settings) as stack,
                    working(stack.engine, "deliveries", "leaderboards"),
                    new_world(stack) as world,
                ):
                    fulfillment = {"channel": "webhook", "config": {"url": receiver.url, "secret": SECRET}}
                    delivered = await world.prize(total=1000, fulfillment=fulfillment)
                    points = await world.prize(type="points", value=10)
                    game_id = await world.wheel(delivered)
                    other_id = await world.wheel(points)
                    board = await world.board()
                    for _ in range(3):
                        await world.round(game_id, "ann")
                    await world.round(other_id, "ann")
                    before = await ledger(world, "ann")
                    opened = await world.session(game_id, "ann")
                    coupon = await world.prize(fulfillment={"channel": "voucher_code"}, codes=CODES)
                    coupons_id = await world.wheel(coupon)
                    stored = await code_of(world, coupons_id, "cid")
                    point = await asyncio.to_thread(server.psql, "select clock_timestamp()")
                    # What will never have been: plays, an answer, deliveries, a changed game, places in a ranking.
                    lost = await world.play(game_id, opened, "ann", key="key_1")
                    for _ in range(4):
                        await world.round(other_id, "bob")
                    replaced = {"handler_config": {"prizes": [{"prize_id": points, "probability": 1.0}]}}
                    await stack.admin("PUT", f"/admin/games/{game_id}", replaced)
                    await world.round(game_id, "bob")
                    shown = await code_of(world, coupons_id, "dan")

                    async def known() -> bool:
                        sent = {got.headers["webhook-id"] for got in receiver.all}
                        return len(sent) == 4 and [name for name, _ in await order(stack, board)][:2] == ["ann", "bob"]

                    await until(known)
                    assert await ledger(world, "bob") == 50
                    sent = {got.headers["webhook-id"] for got in receiver.all}
                    (query,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
                    since = await world.database.fetch(re.sub(r"'2026[^']*'", f"'{point}'", query))
                    await lose_all_after(point, server, copy, first / "archive", address)
                    for row in since:
                        await asyncio.to_thread(copy.psql, row["format"], "tombola")
                    await until_back(stack)
                    assert await ledger(world, "ann") == before
                    assert await ledger(world, "bob") == 0
                    assert lost.data["play_id"] not in await world.plays()
                    # The change that never was had the same number: whoever remembers it must not take this one for it.
                    await stack.admin("PUT", f"/admin/games/{game_id}", {"name": "Renamed"})
                    again = await world.play(game_id, opened, "ann", key="key_1")
                    assert "Idempotency-Replayed" not in again.headers
                    assert again.data["seed"] == lost.data["seed"]
                    assert await world.replay(again.data["play_id"])
                    assert [reward["prize_id"] for reward in again.data["rewards"]] == [delivered]
                    won = await world.round(game_id, "bob")
                    assert [reward["prize_id"] for reward in won.data["rewards"]] == [delivered]
                    assert {stored, shown, await code_of(world, coupons_id, "eve")} == set(CODES)
                    await until(
                        lambda: order(stack, board), lambda it: dict(it) == {"ann": 5, "bob": 1, "cid": 1, "eve": 1}
                    )
                    await until(lambda: len({got.headers["webhook-id"] for got in receiver.all} - sent) >= 2)
                    rows = await world.database.fetch("SELECT task_id FROM tasks")
                    assert {it.headers["webhook-id"] for it in receiver.all} - sent <= {row["task_id"] for row in rows}
        finally:
            if copy is not None:
                copy.stop()
            server.stop()
