import asyncio
import time
from dataclasses import replace
from typing import Any, Final

import aiohttp
import pytest

from ops.certification.judge import until
from ops.certification.load import Begin
from ops.certification.process import Process
from ops.certification.site import Site
from ops.history.tables import broken, connected
from runtime.operations.campaigns import analytics
from runtime.operations.log import appending
from runtime.operations.reporting import counting
from runtime.rules.log.digest import PlaysDigest
from tests.support.leaderboards import Played, write_plays
from tests.support.rewards import core
from tests.support.scenario import Scenario

PLAYS: Final = 6_000
OVER: Final = """
WITH old AS (
    INSERT INTO games (tenant_id, game_id, campaign_id, name, type) VALUES ($1, 'g_old', 'c_old', '', '')
), begun AS (
    UPDATE tenants SET created_at = now() - interval '90 days' WHERE tenant_id = $1
)
INSERT INTO campaigns (tenant_id, campaign_id, name, status, end_date, updated_at)
VALUES ($1, 'c_old', '', 'ended', now() - interval '50 days', now() - interval '50 days')
"""


@pytest.mark.fault(
    "Archive killed (SIGKILL)", small=2, full=20, unit="kills", figure="each play deleted once, no other"
)
async def test_killed_archive_goes_on(scenario: Scenario, site: Site, load: Begin) -> None:
    deployment, tenant_id, count = site.deployment, site.tenant_id, PLAYS * scenario.size
    async with connected(deployment.settings) as database, load() as running:
        await running.more(10)
        await database.execute(OVER, tenant_id)
        async with core(replace(deployment.settings, merkle_log="promo.example.com")) as here:
            old = [Played(f"p{n % 100}", "g_old", at=n / 100) for n in range(count)]
            await write_plays(here.engine, tenant_id, old, since=time.time() - 60 * 86_400)
            await appending.append(here.engine, tenant_id)
            await analytics.count(here.engine, tenant_id, "c_old")
            await counting.count(here.engine, tenant_id)
        query = (
            "SELECT leaf_index, hash FROM log_leaves AS l JOIN plays AS p ON p.play_id = l.row_id"
            " WHERE l.tenant_id = $1 AND p.game_id = 'g_old' ORDER BY leaf_index"
        )
        digest, leaves = PlaysDigest(), await database.fetch(query, tenant_id)
        for leaf in leaves:
            digest.add(*leaf)
        body = {"scope": {"tenant_id": tenant_id}, "file_sha256": "a" * 64, "plays": count, "digest": digest.hex()}
        body |= {"first_leaf": leaves[0][0], "last_leaf": leaves[-1][0]}
        for process in deployment.cores:
            await deployment.restart(process, MERKLE_LOG="promo.example.com")

        async def archive(process: Process) -> Any:
            """Asks the Core until it is done, or dies."""
            while True:
                try:
                    url = f"{process.url('core')}/api/v1/campaigns/c_old/archive"
                    async with deployment.http.post(url, json=body) as answer:
                        if answer.status == 503:  # Busy, as it may be at its start.
                            continue
                        done = (await answer.json())["data"]["archive"]
                except aiohttp.ClientError:
                    return None
                if done and done["finished_at"] != "0":
                    return done

        async def deleted() -> int:
            query = "SELECT counted FROM play_archives WHERE tenant_id = $1 AND entry_id <> ''"
            return await database.fetchval(query, tenant_id) or 0

        for nth in range(scenario.size + 1):
            tasks = [asyncio.create_task(archive(process)) for process in deployment.cores]
            if nth == scenario.size:
                break

            async def is_amid(least: int = nth * count // (scenario.size + 2)) -> bool:
                return await deleted() > least

            await until(is_amid)
            for process in deployment.cores:
                process.kill()
            assert await asyncio.gather(*tasks) == [None, None] and await deleted() < count
            for process in deployment.cores:
                await process.start()
        for done in await asyncio.gather(*tasks):
            assert done["plays"] == done["deleted"] == count
        await running.more(10)
        assert await database.fetchval("SELECT count(*) FROM plays WHERE game_id = 'g_old'") == 0
        assert await broken(database, tenant_id) == {}
