"""Clocks that are wrong, keys that are changed and zones that are moved, under load."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import aiohttp
from aiohttp import web

from ops.certification import skewed
from ops.certification.agreement import delivered
from ops.certification.catalogue import DAILY, STAFF, TOKEN_SECONDS
from ops.certification.load import Load
from ops.certification.node import ROOT
from ops.certification.row import row
from ops.certification.rows.network import make_crossing, play_crossing
from ops.certification.run import Run
from ops.history.reading import Reading
from ops.history.tables import connected, read
from runtime import ids
from runtime.http.auth.tokens import Tokens
from runtime.operations import API
from runtime.settings import Settings

SKEW_SECONDS = 600
OFF_MAX = 15.0
"""How far a session's end may be from what the database's clock says: what a busy machine takes to answer."""
OFF_MIN = 500.0
"""By how much the clock of a worker that is called wrong must be: less, and it was not."""

PARCELS = 20
LEASED_SECONDS = 0.2
"""How long a receiver takes, so that a lease can be seen."""

ZONES = ("Asia/Tokyo", "America/Los_Angeles", "Europe/Berlin", "Pacific/Honolulu", "Asia/Kolkata", "America/New_York")
FAR_ZONES = ("Pacific/Kiritimati", "Pacific/Pago_Pago")


# -- a wrong clock -----------------------------------------------------------------------------


@row("clock-skewed", fault="Clock skew of a Core process", quick=60, full=400, unit="plays either way")
async def clock_skewed(run: Run) -> None:
    """A Core and one of two delivery workers are 10 minutes ahead, then behind; caps, days, leases and order stay."""
    stack = run.stack
    path = f"{Path(skewed.__file__).parent}:{ROOT}"
    began = await _now(run)
    await make_crossing(run)
    run.receiver.reply = _take_time
    rival = stack.add("deliveries-2", "worker deliveries")
    leases: list[_Leases] = []
    try:
        await rival.start(stack.http)
        for seconds in (SKEW_SECONDS, -SKEW_SECONDS):
            for node in (stack.cores[0], stack.worker("deliveries")):
                await stack.restart(node, PYTHONPATH=path, SKEW_SECONDS=str(seconds))
            run.note(f"a Core and a delivery worker are {seconds} s off")
            word = "ahead" if seconds > 0 else "behind"
            async with run.loaded(prefix=f"{word}-") as load, _watched(run) as seen:
                for nth in range(PARCELS):  # One after the other: what comes together is leased by one of them.
                    await play_crossing(run, f"parcel-{word}-{nth}", run.world.client)
                await load.more(run.size)
                await run.until(lambda: delivered(run))
            leases.append(seen)
            run.figure(f"plays at {seconds:+} s", load.plays)
    finally:
        await stack.remove(rival)
    run.receiver.reply = None
    await run.until(lambda: delivered(run))
    ended = await _now(run)
    off = [[abs(one) for one in seen.off() if abs(one) > SKEW_SECONDS / 2] for seen in leases]
    right = [[one for one in seen.off() if abs(one) <= OFF_MAX] for seen in leases]
    run.figure("leases by the worker whose clock is off, of either way at least", min(map(len, off)), least=1)
    run.figure("its clock off by, at least", min((one for way in off for one in way), default=0.0), "s", least=OFF_MIN)
    run.figure("leases by the other worker, of either way at least", min(map(len, right)), least=1)
    run.figure("plays out of their time or day", await _out_of_time(run, began, ended), exactly=0)
    run.figure("ends of sessions off by", _ends_off(run), "s", most=OFF_MAX)
    run.figure("ids that the wrong clocks made", await _ids_off(run), least=1)
    run.figure("messages that came twice", sum(count > 1 for count in run.receiver.got.values()), exactly=0)
    run.figure("lists out of order", await _out_of_order(run), exactly=0)


async def _take_time(_: web.Request, __: str) -> web.StreamResponse:
    """Answers a delivery after a moment."""
    await asyncio.sleep(LEASED_SECONDS)
    return web.Response(status=204)


@dataclass
class _Leases:
    """Leases as they were seen under way. names: each one's, with the database's time when it was seen first."""

    names: dict[str, float] = field(default_factory=dict)

    def off(self) -> list[float]:
        """Seconds by which the clock of each lease's worker is ahead: it names its leases by its own."""
        return [ids.unix_ms(name.partition("_")[2]) / 1000 - seen for name, seen in self.names.items()]


@asynccontextmanager
async def _watched(run: Run) -> AsyncIterator[_Leases]:
    """The leases that there are in the length of the block."""
    leases = _Leases()
    under_way = "SELECT lease_owner, extract(epoch FROM clock_timestamp())::float8 AS at FROM tasks"

    async def watch() -> None:
        async with connected(run.stack.settings) as database:
            while True:
                found = f"{under_way} WHERE tenant_id = $1 AND lease_owner <> ''"
                for row in await database.fetch(found, run.world.tenant_id):
                    leases.names.setdefault(row["lease_owner"], row["at"])
                await asyncio.sleep(LEASED_SECONDS / 4)

    watching = asyncio.ensure_future(watch())
    try:
        yield leases
    finally:
        watching.cancel()
        await asyncio.wait([watching])


async def _now(run: Run) -> float:
    async with connected(run.stack.settings) as database:
        return float(await database.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8"))


async def _out_of_time(run: Run, began: float, ended: float) -> int:
    """Plays that the rows say were at another time, and days that were counted but are not the row's."""
    async with connected(run.stack.settings) as database:
        plays = await database.fetchval(
            "SELECT count(*) FROM plays WHERE tenant_id = $1"
            " AND extract(epoch FROM played_at) NOT BETWEEN $2::float8 AND $3::float8",
            run.world.tenant_id,
            began,
            ended,
        )
        days = await database.fetchval(
            "SELECT count(*) FROM game_players WHERE tenant_id = $1 AND day NOT BETWEEN"
            " (to_timestamp($2::float8) AT TIME ZONE 'UTC')::date"
            " AND (to_timestamp($3::float8) AT TIME ZONE 'UTC')::date",
            run.world.tenant_id,
            began,
            ended,
        )
    return int(plays) + int(days)


async def _ids_off(run: Run) -> int:
    """Ids of what was won and moved whose time is minutes off: without any, no clock was wrong."""
    async with connected(run.stack.settings) as database:
        rows = await database.fetch(
            "SELECT reward_id AS id, won_at AS at FROM rewards WHERE tenant_id = $1"
            " UNION ALL SELECT entry_id, created_at FROM ledger_entries WHERE tenant_id = $1"
            " UNION ALL SELECT entry_id, created_at FROM turn_entries WHERE tenant_id = $1",
            run.world.tenant_id,
        )
    return sum(abs(ids.unix_ms(row["id"].partition("_")[2]) / 1000 - row["at"].timestamp()) > 300 for row in rows)


def _ends_off(run: Run) -> float:
    """By how much an end of a session differs from its start's time and SESSION_TTL_SECONDS."""
    # The database is on this machine: its clock is this process's.
    ahead = time.time() - time.monotonic()
    life = Settings().session_ttl_seconds
    starts = [one for asked in run.history.of("Start") for one in asked.attempts if one.ok]
    return max(abs(float(one.data["expires_at"]) - (one.ended + ahead + life)) for one in starts)


async def _out_of_order(run: Run) -> int:
    """Ledgers and histories of players that are not newest first."""
    wrong = 0
    everybody = sorted({asked.who for asked in run.history.of("Play") if asked.ok})
    for who in everybody[:40]:
        ledger = await run.world.client.ask("ListLedger", who, "GET", "/wallet/ledger?limit=100")
        entries: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for entry in ledger.data["items"]:
            entries[entry["currency"]].append(entry)
        for own in entries.values():
            wrong += any(
                newer["balance_after"] - newer["amount"] != older["balance_after"]
                for newer, older in itertools.pairwise(own)
            )
        path = f"/games/{run.world.ids['wheel']}/history/me?limit=100"
        plays = (await run.world.client.ask("ListPlays", who, "GET", path)).data["items"]
        times = [play["played_at"] for play in plays]
        wrong += times != sorted(times, reverse=True)
    return wrong


# -- keys that are changed ---------------------------------------------------------------------


@row("keys-changed", fault="Rolling upgrade", quick=1, full=3, unit="changes of every key")
async def keys_changed(run: Run) -> None:
    """Keys of sessions and codes and secrets of tokens are changed, a process at a time, as docs/deploy.md has it."""
    stack = run.stack
    sealed = taken = 0
    used: dict[str, list[str]] = {"JWT_SECRET": [], "JWT_STAFF_SECRET": []}
    async with run.loaded(players=3, think_seconds=0.3) as load:
        for _ in range(run.size):
            old = dict(stack.environment)
            number = str(int(old["CODE_KEYS"].partition(":")[0]) + 1)
            made = {name: f"{number}:{secrets.token_hex(32)}" for name in ("SERVER_KEYS", "CODE_KEYS")}
            tokens = {name: secrets.token_hex(32) for name in used}
            stack.environment |= {name: f"{key},{old[name].partition(',')[0]}" for name, key in made.items()}
            # The next secret is taken everywhere before anybody makes tokens with it, and those of before as long as
            # their tokens last, which is longer than this takes.
            stack.environment |= {_olds(name): ",".join([secret, *used[name]]) for name, secret in tokens.items()}
            await _roll(run, load)
            run.note("every process has the new keys")
            taken += await _answered(run, tokens, 200)
            code, said = await _command(run, "keys", "rotate")
            run.figure("exit code of `tombola keys rotate`", code, exactly=0)
            run.note(said)
            stack.environment |= {"CODE_KEYS": made["CODE_KEYS"], **tokens}
            for name in tokens:
                used[name].append(old[name])
            stack.environment |= {_olds(name): ",".join(before) for name, before in used.items()}
            await _roll(run, load)
            run.note("the old key of codes is gone")
            taken += await _answered(run, tokens, 200)
            sealed += await _sealed_otherwise(run, number)
    withdrawn = [dict(zip(used, values, strict=True)) for values in zip(*used.values(), strict=True)]
    before = sum([await _answered(run, each, 200) for each in withdrawn])
    stack.environment |= {_olds(name): "" for name in used}
    await _roll(run)
    run.note("the secrets of before are gone")
    refused = sum([await _answered(run, each, 401) for each in withdrawn])
    edges = len((*stack.consumers, *stack.admins))
    run.figure("plays", load.plays)
    run.figure("codes under an old key", sealed, exactly=0)
    run.figure("edges that took a token under a new secret", taken, exactly=2 * edges * run.size)
    run.figure("edges that took one under an old secret", before, exactly=edges * run.size)
    run.figure("edges that refused one with 401 once it was withdrawn", refused, exactly=edges * run.size)
    # Everybody has tokens of the last secret now.
    kept = Tokens.of(stack.settings)
    run.world.client.tokens = lambda surface, who: _token(run, kept, surface, who)


def _token(run: Run, tokens: Tokens, surface: str, who: str) -> str:
    roles = ("admin",) if surface == "admin" else ()
    return tokens.mint(who, tenant_id=run.world.tenant_id, seconds=TOKEN_SECONDS, roles=roles)


async def _answered(run: Run, under: Mapping[str, str], status: int) -> int:
    """How many edges answer so to a token that is made now, under these secrets."""
    stack = run.stack
    olds = {_olds(name): "" for name in under}
    tokens = Tokens.of(Settings.from_env({**stack.environment, "CORE_RPC_ADDRESSES": "", **under, **olds}))
    count = 0
    for surface, who, path, edges in (
        ("consumer", "holder", "/wallet", stack.consumers),
        ("admin", STAFF, f"/admin/campaigns/{run.world.campaign}", stack.admins),
    ):
        for edge in edges:
            token = _token(run, tokens, surface, who)
            count += await _status(stack.http, f"{edge.url(surface)}{API}{path}", token) == status
    return count


async def _status(http: aiohttp.ClientSession, url: str, token: str) -> int:
    async with http.get(url, headers={"Authorization": f"Bearer {token}"}) as answer:
        await answer.read()
        return answer.status


def _olds(name: str) -> str:
    return name.replace("_SECRET", "_OLD_SECRETS")


async def _roll(run: Run, load: Load | None = None) -> None:
    """Each process in turn gets the stack's settings, while the others go on."""
    for node in list(run.stack.nodes.values()):
        await run.stack.restart(node)
        if load is not None:
            await load.more(3)


async def _command(run: Run, *command: str) -> tuple[int, str]:
    """A command of `tombola` that ends by itself: (exit code, what it said)."""
    environment = {"PYTHONPATH": str(ROOT), **run.stack.environment}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "runtime", *command),
        env=environment,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


async def _sealed_otherwise(run: Run, key_id: str) -> int:
    async with connected(run.stack.settings) as database:
        return int(await database.fetchval("SELECT count(*) FROM codes WHERE key_id <> $1", key_id))


# -- zones that are moved ----------------------------------------------------------------------


@row("zone-moved", fault="Zone moved west, clock stepped", quick=10, full=100, unit="moves")
async def zone_moved(run: Run) -> None:
    """The campaign's zone is moved west and east, within the day and over midnight; nobody is refused for it."""
    path = f"/admin/campaigns/{run.world.campaign}"
    beyond = 0
    async with run.loaded() as load:

        async def move(zones: Sequence[str]) -> None:
            for nth in range(run.size // 2):
                zone = zones[nth % len(zones)]
                await load.manage("UpdateCampaign", "PUT", path, {"timezone": zone}, of="campaign")
                run.note(f"the campaign is in {zone}")
                await load.more(10)

        today = datetime.now(ZoneInfo("UTC")).date()
        await move([zone for zone in ZONES if datetime.now(ZoneInfo(zone)).date() == today])
        if datetime.now(ZoneInfo("UTC")).date() == today:
            beyond = await _beyond_the_day(run)
        await move([*ZONES, *FAR_ZONES])
    failed = [one for one in run.history.attempts if one.http == 0 or one.http >= 500]
    run.figure("plays", load.plays)
    run.figure("requests that failed", len(failed), exactly=0)
    run.figure("players with more free plays than a day has", beyond, exactly=0)
    run.figure("players with more free plays than their days have", await _beyond_their_days(run), exactly=0)


async def _beyond_the_day(run: Run) -> int:
    """Players who have played the daily game more often than is free, without a turn for each further play."""
    return sum(count > DAILY for count in (await _free_plays(run)).values())


async def _beyond_their_days(run: Run) -> int:
    """The same, over all the local days that the zones gave each of them."""
    async with connected(run.stack.settings) as database:
        tables = await read(database, run.world.tenant_id)
    return beyond_their_days(Reading(run.history, tables, run.world.terms), await _free_plays(run))


def beyond_their_days(reading: Reading, free: Mapping[str, int]) -> int:
    """How many players have more free plays of the daily game than their days gave them. free: how many each has."""
    wrong = 0
    for player, count in free.items():
        times = [time for one in reading.plays[player] for time in (one.began, one.ended)]
        wrong += count > DAILY * reading.days(min(times), max(times)).begun
    return wrong


async def _free_plays(run: Run) -> dict[str, int]:
    """Of each player, the plays of the daily game that took no turn."""
    async with connected(run.stack.settings) as database:
        rows = await database.fetch(
            "SELECT p.player_id, count(*) AS plays FROM plays AS p LEFT JOIN turn_entries AS t"
            " ON t.tenant_id = p.tenant_id AND t.player_id = p.player_id AND t.reference_id = p.play_id"
            " WHERE p.tenant_id = $1 AND p.game_id = $2 AND t.reference_id IS NULL"
            " GROUP BY p.player_id",
            run.world.tenant_id,
            run.world.ids["daily"],
        )
    return {row["player_id"]: row["plays"] for row in rows}
