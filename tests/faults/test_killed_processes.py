import asyncio
import time
from collections import Counter, defaultdict

import asyncpg
import pytest
from aiohttp import web

from ops.certification.deployment import WORKERS, Deployment, paused
from ops.certification.judge import until
from ops.certification.load import Begin
from ops.certification.process import Process
from ops.certification.site import STAFF, Site, founded
from ops.history.record import Request
from ops.history.tables import connected
from tests.support import invariants
from tests.support.receiver import Got, Receiver
from tests.support.scenario import Scenario

READY_SECONDS = 5.0
EXIT_SECONDS = 30.0
PAUSE_SECONDS = 6.0  # An edge notices a stalled Core within 2 s.
ZONES = ("Asia/Tokyo", "America/Los_Angeles", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Asia/Kolkata", "UTC")
ATTEMPT_SECONDS = 15.5  # 15 s, and the time until the receiver sees the end.
HANG_SECONDS = 150.0
MANY = 100_000

_HASTEN = """
UPDATE tasks SET lease_until = least(lease_until, now()), next_attempt_at = least(next_attempt_at, now())
WHERE tenant_id = $1 AND status IN ('delivering', 'retry')
"""


@pytest.mark.fault(
    "Core killed (SIGKILL)", small=2, full=50, unit="kills", figure="1 play a key, ready again within 5 s"
)
async def test_killed_core_loses_or_doubles_no_play(scenario: Scenario, site: Site, load: Begin) -> None:
    ready = []
    async with load() as running:
        for _ in range(scenario.size):
            await running.more(scenario.dice.randrange(1, 40))
            core = scenario.dice.choice(site.deployment.cores)
            core.kill()
            ready.append(await core.start())
        await running.more(20)
    scenario.figure("plays", running.plays)
    scenario.seconds("ready again, at worst", max(ready), READY_SECONDS)


@pytest.mark.fault(
    "Core stopped (SIGTERM)",
    small=1,
    full=10,
    unit="rounds",
    figure="every request of an edge answered, exit code 0 within 30 s",
)
async def test_stopped_core_drops_no_accepted_request(scenario: Scenario, site: Site, load: Begin) -> None:
    took = []
    async with load() as running:
        for _ in range(scenario.size):
            for core in site.deployment.cores:
                await running.more(20)
                code, seconds = await core.stop()
                assert code == 0
                took.append(seconds)
                await running.more(10)
                await core.start()
        await running.more(20)
    # A client of Core itself finds it gone; an edge finds the other Core.
    of_edges = [one for one in site.history.attempts if not one.to.startswith("core")]
    scenario.figure("plays", running.plays)
    scenario.figure("failed requests of an edge", sum(one.http == 0 or one.http >= 500 for one in of_edges), most=0)
    scenario.seconds("exit, at worst", max(took), EXIT_SECONDS)


@pytest.mark.fault(
    "Zone moved west, clock stepped",
    small=6,
    full=100,
    unit="moves",
    figure="no request fails, the caps of each day hold",
)
async def test_moved_zone_fails_no_request(scenario: Scenario, site: Site, load: Begin) -> None:
    path = f"/admin/campaigns/{site.campaign}"
    async with load() as running:
        for nth in range(scenario.size):
            zone = {"timezone": ZONES[nth % len(ZONES)]}
            await running.manage("UpdateCampaign", "PUT", path, zone, of="campaign")
            await running.more(scenario.dice.randrange(1, 10))
    scenario.figure("plays", running.plays)
    failed = [one for one in site.history.attempts if one.http == 0 or one.http >= 500]
    scenario.figure("requests that failed", len(failed), most=0)


RIVALS = {"FIRST-0001": 50, **{f"OTHER-000{nth}": 5 for nth in range(1, 9)}}
TICKETS = 3


@pytest.mark.fault(
    "1,000 aliases of one mailbox; 50 uses of one pack code over two processes",
    size="50 uses of one code and 5 of 8 others over two Cores, one killed",
    figure="each paid once",
)
async def test_codes_are_paid_once_while_a_core_is_killed(deployment: Deployment) -> None:
    site = await founded(deployment)
    pack = await site.make("pack", "caps", campaign_id=site.campaign, gives={"currency": "ticket", "amount": TICKETS})
    added = await site.client.ask(
        "ImportPackCodes", STAFF, "POST", f"/admin/packs/{pack}/codes", {"codes": [*RIVALS]}, surface="admin"
    )
    assert added.data["added"] == len(RIVALS)

    async def redeem(code: str, who: str) -> Request:
        # The same key through either Core, until it is paid or refused.
        body = {"campaign_id": site.campaign, "code": code}
        key = f"{code} {who}"
        return await site.client.ask(
            "RedeemCode", who, "POST", "/codes/redeem", body, surface="core", key=key, again=True
        )

    tries = [asyncio.ensure_future(redeem(code, f"{code}-{n}")) for code, count in RIVALS.items() for n in range(count)]
    await asyncio.wait(tries, return_when=asyncio.FIRST_COMPLETED)
    core = deployment.cores[1]
    core.kill()
    await core.start()
    found = await asyncio.gather(*tries)
    paid = [str((one.body or {})["code"]) for one in found if one.ok]
    assert sorted(paid) == sorted(RIVALS)
    assert {one.attempts[-1].reason for one in found if not one.ok} == {"CODE_USED"}
    async with connected(deployment.settings) as database:
        row = await database.fetchrow(
            "SELECT count(*) AS entries, sum(amount) AS tickets FROM ledger_entries"
            " WHERE tenant_id = $1 AND reason = 'code'",
            site.tenant_id,
        )
        assert row is not None and tuple(row) == (len(RIVALS), TICKETS * len(RIVALS))
        await invariants.check(database)


class TestWithWorkers:
    @pytest.fixture
    def workers(self) -> tuple[str, ...]:
        return WORKERS

    @pytest.mark.nightly
    @pytest.mark.timeout(600)
    @pytest.mark.fault(
        "Edge or worker killed",
        small=1,
        full=5,
        unit="kills of each",
        figure="ready again within 5 s, every play reported under one id, nothing lost",
    )
    async def test_killed_edge_or_worker_loses_nothing(
        self, scenario: Scenario, site: Site, load: Begin, receiver: Receiver
    ) -> None:
        deployment = site.deployment
        ready = []
        async with load() as running:
            for _ in range(scenario.size):
                for process in [one for one in deployment.processes.values() if one.role != "core"]:
                    await running.more(5)
                    process.kill()
                    ready.append(await process.start())
            await running.more(20)
        scenario.figure("plays", running.plays)
        scenario.seconds("ready again, at worst", max(ready), READY_SECONDS)
        async with connected(deployment.settings) as database:
            rows = await database.fetch("SELECT play_id FROM plays WHERE tenant_id = $1", site.tenant_id)

        def reports() -> set[tuple[str, str]]:
            received = [(got.json, got.headers["webhook-id"]) for got in receiver.all]
            return {(body["data"]["play_id"], one) for body, one in received if body["type"] == "play_completed"}

        async def reported() -> bool:
            return {play for play, _ in reports()} == {row["play_id"] for row in rows}

        scenario.figure("every play reported after", await until(reported, 240), "s")
        ids = Counter(play for play, _ in reports())
        scenario.figure("plays reported under two ids", sum(count > 1 for count in ids.values()), most=0)

    @pytest.mark.nightly
    @pytest.mark.timeout(600)
    @pytest.mark.fault(
        "Process paused", small=1, full=5, unit="pauses of each", figure="plays go on while one Core stands still"
    )
    async def test_paused_process_stops_no_play(self, scenario: Scenario, site: Site, load: Begin) -> None:
        fewest: list[int] = []

        async def pause(process: Process) -> None:
            before = running.plays
            with paused(process):
                await asyncio.sleep(PAUSE_SECONDS)  # sleeps: the pause is the fault
            if process.role == "core":
                fewest.append(running.plays - before)

        async with load() as running:
            for _ in range(scenario.size):
                for process in list(site.deployment.processes.values()):
                    await running.more(5)
                    await pause(process)
            await running.more(20)
        scenario.figure("plays while a Core stood still, at least", min(fewest), least=1)


class TestWithDeliveries:
    @pytest.fixture
    def workers(self) -> tuple[str, ...]:
        return ("deliveries", "integrations")

    @pytest.mark.nightly
    @pytest.mark.fault(
        "Slow or dripping webhook",
        small=1,
        full=8,
        unit="pairs of windows of 30 s",
        figure="attempts end within 15.5 s, the plays' p99 grows by 10 % at most",
    )
    async def test_slow_receiver_slows_no_play(
        self, scenario: Scenario, site: Site, load: Begin, receiver: Receiver
    ) -> None:
        took: dict[bool, list[float]] = defaultdict(list)
        held: list[float] = []
        under_way = 0

        async def slow(got: Got) -> web.StreamResponse:
            nonlocal under_way
            began, dripping = time.monotonic(), under_way % 2 == 0
            under_way += 1
            response = web.StreamResponse(headers={"Content-Length": f"{MANY}"})
            try:
                if dripping:
                    await response.prepare(got.request)
                while got.request.transport is not None and time.monotonic() < began + HANG_SECONDS:
                    if dripping:
                        await response.write(b".")
                    await asyncio.sleep(0.1)  # sleeps: the pace of the drops
            finally:
                under_way -= 1
                held.append(time.monotonic() - began)
            return response

        async def let_go() -> bool:
            return under_way == 0

        async with load() as running:
            for nth in range(scenario.size):
                # There and back: a machine that becomes slower slows both alike.
                for slowly in (False, True) if nth % 2 else (True, False):
                    receiver.replies = [slow] * MANY if slowly else []
                    if not slowly:
                        await until(let_go)
                    began = time.monotonic()
                    await running.for_seconds(30 if scenario.full else 5)
                    plays = [one for request in site.history.of("Play") for one in request.attempts if one.http]
                    took[slowly] += [one.ended - one.began for one in plays if one.began >= began]
            receiver.replies = []
            await until(let_go)
        connection = await asyncpg.connect(site.deployment.database_url)
        await connection.execute(_HASTEN, site.tenant_id)
        await connection.close()
        beside, alone = (sorted(took[slowly])[int(len(took[slowly]) * 0.99)] for slowly in (True, False))
        scenario.figure("p99 of plays alone", alone, "s")
        scenario.figure("growth of the p99", beside / alone, most=1.1 if scenario.full else None)
        scenario.figure("attempts at slow receivers", len(held), least=1)
        scenario.seconds("longest attempt", max(held), ATTEMPT_SECONDS)
