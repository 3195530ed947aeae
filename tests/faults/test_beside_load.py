"""Slow receivers, and a time zone that staff moves, beside the load of two Cores and both edges."""

import asyncio
import time
from collections import defaultdict

import asyncpg
import pytest
from aiohttp import web

from ops.certification.judge import until
from ops.certification.load import Begin
from ops.certification.site import Site
from tests.support.receiver import Got, Receiver
from tests.support.scenario import Scenario

ZONES = ("Asia/Tokyo", "America/Los_Angeles", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Asia/Kolkata", "UTC")
ATTEMPT_SECONDS = 16.0
HANG_SECONDS = 60.0
MANY = 100_000

_HASTEN = """
UPDATE tasks SET lease_until = least(lease_until, now()), next_attempt_at = least(next_attempt_at, now())
WHERE tenant_id = $1 AND status IN ('delivering', 'retry')
"""


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
        figure="attempts end within 16 s, the plays' p99 grows by 10 % at most",
    )
    async def test_slow_receiver_slows_no_play(
        self, scenario: Scenario, site: Site, load: Begin, hook: Receiver
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
                    hook.replies = [slow] * MANY if slowly else []
                    if not slowly:
                        await until(let_go)
                    began = time.monotonic()
                    await running.for_seconds(30 if scenario.full else 5)
                    plays = [one for request in site.history.of("Play") for one in request.attempts if one.http]
                    took[slowly] += [one.ended - one.began for one in plays if one.began >= began]
            hook.replies = []
            await until(let_go)
        connection = await asyncpg.connect(site.deployment.database_url)
        await connection.execute(_HASTEN, site.tenant_id)
        await connection.close()
        beside, alone = (sorted(took[slowly])[int(len(took[slowly]) * 0.99)] for slowly in (True, False))
        scenario.figure("p99 of plays alone", alone, "s")
        scenario.figure("growth of the p99", beside / alone, most=1.1 if scenario.full else None)
        scenario.figure("attempts at slow receivers", len(held), least=1)
        scenario.seconds("longest attempt", max(held), ATTEMPT_SECONDS)
