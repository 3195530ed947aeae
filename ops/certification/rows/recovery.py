"""Postgres's disk full, Postgres restored to a point in time, and from a backup."""

from __future__ import annotations

import asyncio
import math
import os
import re
import subprocess
import time
from dataclasses import replace
from pathlib import Path

from ops.certification.agreement import all_told
from ops.certification.measuring import errors_ended, failing
from ops.certification.node import ROOT
from ops.certification.row import NotRun, row
from ops.certification.run import Run
from ops.certification.standing_in import SMALL_WAL, base_backup, filled, move, restore, size_of, small_disk, successor
from ops.history.record import NOT_YET
from ops.history.tables import broken, connected
from ops.servers.postgres import Postgres
from ops.servers.valkey import Valkey
from runtime.operations import OPERATIONS
from runtime.stores import history
from sql.migrate import migrate

SETTLED_SECONDS = 5.0
"""What was delivered so long before the point is known there to be delivered."""

UNKNOWN_AFTER = (
    *(f"UNKNOWN_{row.subject.upper()}" for row in OPERATIONS if row.subject),
    *("SESSION_EXPIRED", "ILLEGAL_TRANSITION", "STOCK_BELOW_AWARDED", "VALIDATION", "CHALLENGE_EXISTS"),
)
"""What anybody may hear who goes on with what never was: a session too is of the play after one that was not kept."""

ROOM_BYTES = 160 << 20
"""How much room the small disk has beside the data."""

FAULT = "Disk full, crash, restore to a point in time"


# -- restored to a point in time ---------------------------------------------------------------


@row("postgres-point-in-time", fault=FAULT, quick=1, full=3, unit="restores")
async def postgres_point_in_time(run: Run) -> None:
    """Postgres crashes under load and is restored to a moment before; what was until then is whole, and agrees."""
    undone: list[tuple[float, float]] = []
    for nth in range(run.size):
        undone.append(await _lose_and_restore(run, nth, undone))
    told_after = await run.until(lambda: all_told(run))
    run.figure("the webhook had been told of each play after", told_after, "s")


async def _lose_and_restore(run: Run, nth: int, undone: list[tuple[float, float]]) -> tuple[float, float]:
    """From when to when nothing that was told is known to have been. undone: what the restores before gave."""
    stack, point = run.stack, f"before_it_went_wrong_{nth}"
    archive = stack.directory / f"archive-{nth}"
    archive.mkdir(mode=0o777)
    archive.chmod(0o777)
    server = stack.postgres
    server.settings |= {"archive_mode": "on", "archive_command": f"cp %p {archive}/%f"}
    await stack.blocking(server.restart_immediately)
    copy = successor(server, stack.directory / f"restored-{nth}", {"archive_mode": "off"})
    await stack.blocking(base_backup, server, copy)
    async with run.loaded(prefix=f"p{nth}-", players=4) as load:
        await load.more(30)
        await load.for_seconds(SETTLED_SECONDS)
        pointed = time.monotonic()
        await stack.blocking(server.psql, f"SELECT pg_create_restore_point('{point}')")
        run.note("the point")
        await stack.blocking(_archived, server)
        await load.more(30)
        await stack.blocking(server.kill_all)
        # An edge may repeat what never was until Valkey is emptied: docs/deploy.md has them stopped.
        for edge in (*stack.consumers, *stack.admins):
            await edge.stop()
        run.note("postgres is gone, and the edges are stopped")
        await stack.blocking(restore, copy, server, archive, point)
        stack.servers.postgres = copy
        await run.until(lambda: _forgotten(run))
        restored = time.monotonic()
        run.note("restored")
        for edge in (*stack.consumers, *stack.admins):
            await edge.start(stack.http)
        # Else what awaits a callback that came after the point would wait until it is overdue (docs/deploy.md).
        run.receiver.call_again(pointed - SETTLED_SECONDS)
        await load.more(30)
    lost = _never_was(run, pointed, restored)
    run.figure("answers that never were", lost, least=1)
    settled = pointed - SETTLED_SECONDS
    before = {
        one
        for at, one, _ in run.receiver.posted
        if at < settled and not any(since <= at <= until for since, until in undone)
    }
    again = {one for at, one, _ in run.receiver.posted if at > restored}
    run.figure("messages delivered well before the point and again after it", len(before & again), exactly=0)
    return settled, restored


def _archived(server: Postgres) -> None:
    """Returns once everything that is written by now is in the archive."""
    written = server.psql("SELECT pg_walfile_name(pg_current_wal_lsn())")
    server.psql("SELECT pg_switch_wal()")
    while server.psql("SELECT coalesce(last_archived_wal, '') FROM pg_stat_archiver") < written:
        time.sleep(0.05)


async def _forgotten(run: Run) -> bool:
    """Whether Valkey is of the database's history by now."""
    said = await run.stack.blocking(run.stack.valkey.command, "GET", history.KEY)
    async with connected(run.stack.settings) as database:
        now = await history.look(database)
        recovering = await database.fetchval("SELECT pg_is_in_recovery()")
    held = said.split(b"\r\n")[1].decode() if said.startswith(b"$") and b"\r\n" in said else ""
    return not recovering and now is not None and now.goes_on(history.History.parse(held))


def _never_was(run: Run, pointed: float, restored: float) -> int:
    """Takes from the history what was answered between the point and the restore: how many answers."""
    lost = 0
    for asked in run.history.asked:
        asked.facts["refusals"] = (*asked.facts.get("refusals", ()), *UNKNOWN_AFTER)
        for one in asked.attempts:
            if one.http and one.ended > pointed and one.began < restored:
                lost += one.ok
                one.http, one.code, one.reason, one.data, one.ended = 0, "", "", None, NOT_YET
    return lost


# -- its disk full -----------------------------------------------------------------------------


@row("postgres-disk-full", fault=FAULT, quick=2, full=10, unit="times full")
async def postgres_disk_full(run: Run) -> None:
    """Nothing more goes onto Postgres's disk; the last time it is killed while that is so."""
    stack = run.stack
    disk = stack.directory / "small-disk"
    with small_disk(disk, size_of(stack.postgres) + ROOM_BYTES) as why_not:
        if why_not:
            raise NotRun(f"no file system may be mounted here ({why_not})")
        await stack.blocking(move, stack, disk, SMALL_WAL)
        times = []
        try:
            async with run.loaded() as load:
                for nth in range(run.size):
                    await load.more(20)
                    began = time.monotonic()
                    with filled(disk):
                        run.note("the disk is full")
                        await run.until(lambda began=began: _refused(run, began))  # type: ignore[misc]
                        await load.for_seconds(1.0)
                        if nth == run.size - 1:
                            await stack.blocking(stack.postgres.kill_all)
                    if nth == run.size - 1:
                        await stack.blocking(stack.postgres.start)
                    times.append((began, time.monotonic()))
                    run.note("there is room again")
                await load.more(30)
        finally:
            await stack.blocking(move, stack, stack.directory / "after-small-disk", {})
    next_one = [began for began, _ in times[1:]] + [math.inf]
    ended = [errors_ended(run.history, back, until) for (_, back), until in zip(times, next_one, strict=True)]
    run.figure("plays", load.plays)
    run.figure("refused while it was full", sum(len(failing(run.history, *one)) for one in times), least=run.size)
    run.figure("errors ended after there was room", max(ended), "s", slowness=await run.slowness.read())


async def _refused(run: Run, began: float) -> bool:
    return any(one.http == 503 for one in run.history.attempts if one.began > began)


# -- a backup ----------------------------------------------------------------------------------


@row("backup-restored", fault=FAULT, quick=1, full=3, unit="backups")
async def backup_restored(run: Run) -> None:
    """A backup by the commands of docs/deploy.md is taken under load; restored elsewhere it is whole, and plays on."""
    missing, wrong, played = 0, 0, 0
    for nth in range(run.size):
        place = run.stack.directory / f"backup-{nth}"
        place.mkdir()
        async with run.loaded(prefix=f"p{nth}-") as load:
            await load.more(40)
            answered = {one.data["play_id"] for one in run.history.of("Play") if one.ok}
            await _documented(run, "pg_dump", run.stack.database_url, place)
            await load.more(20)
        name = f"restored_{nth}"
        await run.stack.blocking(run.stack.postgres.psql, f"CREATE DATABASE {name}")
        url = run.stack.postgres.url(name)
        await _documented(run, "pg_restore", url, place)
        run.figure("migrations that were missing in it", len(await migrate(url)), exactly=0)
        async with connected(replace(run.stack.settings, database_url=url)) as database:
            rows = await database.fetch("SELECT play_id FROM plays WHERE tenant_id = $1", run.world.tenant_id)
            missing += len(answered - {row["play_id"] for row in rows})
            wrong += sum(map(len, (await broken(database, run.world.tenant_id)).values()))
        played += await _plays_on(run, url, nth)
        await run.stack.blocking(run.stack.postgres.psql, f"DROP DATABASE {name} WITH (FORCE)")
    run.figure("plays answered before it that it lacks", missing, exactly=0)
    run.figure("conservation in it", wrong, "rows", exactly=0)
    run.figure("plays from it", played, exactly=run.size)


async def _documented(run: Run, program: str, url: str, place: Path) -> None:
    """Runs the line of docs/deploy.md, "Backups", that begins with `program`."""
    section = (ROOT / "docs/deploy.md").read_text().split("\n## Backups\n")[1].split("\n## ")[0]
    lines = [line for block in re.findall(r"```sh\n(.*?)```", section, re.DOTALL) for line in block.splitlines()]
    command = next(line for line in lines if line.startswith(program))
    path = f"{run.stack.postgres.bin_dir}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "DATABASE_URL": url}
    await asyncio.to_thread(subprocess.run, command, shell=True, check=True, cwd=place, env=environment)


async def _plays_on(run: Run, url: str, nth: int) -> int:
    """Plays that a Core of its own answers from that database, beside a Valkey of its own."""
    valkey = Valkey(run.stack.directory / f"beside-{nth}" / "valkey")
    valkey.data_dir.parent.mkdir()
    await run.stack.blocking(valkey.start)
    core = run.stack.add(f"restored-{nth}", "restored core", DATABASE_URL=url, REDIS_URL=valkey.url)
    core.role = "core"
    try:
        await core.start(run.stack.http)
        game = f"{core.core_url}/api/v1/games/{run.world.ids['wheel']}"
        who = {"scope": {"tenant_id": run.world.tenant_id}, "player_id": "after-the-restore"}
        async with run.stack.http.post(f"{game}/start", json=who) as answer:
            session = (await answer.json())["data"]["session_id"]
        async with run.stack.http.post(f"{game}/play", json={**who, "session_id": session, "payload": {}}) as answer:
            return int(answer.status == 200)
    finally:
        await run.stack.remove(core)
        await run.stack.blocking(valkey.stop)
