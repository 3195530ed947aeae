import time
from collections.abc import Awaitable, Callable

import pytest
import redis.asyncio

from runtime.groups import event_stream
from runtime.operations import purging
from runtime.operations.desk import erasure
from runtime.operations.leaderboards import auto_finalize
from runtime.operations.reporting import views
from runtime.settings import Settings
from runtime.stores import publisher
from tests.support.guests import log_in
from tests.support.leaderboards import make_board
from tests.support.resources import make_campaign, make_game, play_once
from tests.support.shared import SharedService
from tests.support.stack import BROWSER
from tests.support.waiting import until


async def test_process_runs_its_background_jobs(
    bare_service: SharedService, valkey: redis.asyncio.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert auto_finalize.EVERY_SECONDS < 60, "a board is finalized within a minute of its end"
    for job in (auto_finalize, erasure):
        monkeypatch.setattr(job, "EVERY_SECONDS", 0.05)
    monkeypatch.setattr(views, "RETAIN_BATCH", 1)
    monkeypatch.setattr(publisher, "TRIM_SECONDS", 0.05)
    monkeypatch.setattr(purging, "PURGE_SECONDS", 0.05)
    # Events name players: those of yesterday must not outlive an erasure of today.
    stream = event_stream(Settings().stream_shards - 1)
    times_ms = [round((time.time() - hours * 3600) * 1000) for hours in (30, 25, 23)]
    *_, stored = [await valkey.xadd(stream, {b"e": b"{}"}, id=f"{told_ms}-0") for told_ms in times_ms]
    async with bare_service.own_stack(retention_player_idle_days=30, counting_seconds=0.05) as stack:
        campaign_id = (await make_campaign(stack))["id"]
        game = await make_game(stack, campaign_id)
        idle = await log_in(stack, contact="idle@example.com")
        await stack.database.execute("UPDATE players SET updated_at = now() - interval '31 days'")
        await play_once(stack, game["id"])
        assert (await stack.consumer("POST", f"/campaigns/{campaign_id}/views", {}, headers=BROWSER)).data == {}
        await stack.database.execute(
            "INSERT INTO campaign_views SELECT tenant_id, 'old_' || n, campaign_id, now() - make_interval(days => n),"
            " '', '', '', '', '', '', 1, 1, 1 FROM campaigns, generate_series(31, 33) AS n"
        )
        board = await make_board(stack, campaign_id)
        await stack.database.execute("UPDATE leaderboards SET end_date = now() WHERE board_id = $1", board["id"])

        async def is_finalized() -> bool:
            shown = (await stack.admin("GET", f"/admin/leaderboards/{board['id']}")).data
            return bool(shown["status"] == "LEADERBOARD_STATUS_FINALIZED")

        async def is_counted() -> bool:
            both = "(SELECT sum(plays) = 1 FROM campaign_days) AND (SELECT sum(views) = 1 FROM campaign_views)"
            return bool(await stack.database.fetchval(f"SELECT {both}"))

        async def is_erased() -> bool:
            return bool((await stack.admin("GET", f"/admin/players/{idle}")).data["player"]["erased_at"])

        async def is_trimmed() -> bool:
            return [id for id, _ in await valkey.xrange(stream, max=f"{times_ms[-1]}-0")] == [stored]

        over = "INSERT INTO revocations (tenant_id, kind, subject, expires_at) VALUES ($1, 'player', 'over', now())"
        await stack.database.execute(over, stack.tenant_id)

        async def is_purged() -> bool:
            return not await stack.database.fetchval("SELECT count(*) FROM revocations WHERE subject = 'over'")

        jobs: list[Callable[[], Awaitable[bool]]] = [is_finalized, is_counted, is_erased, is_trimmed, is_purged]
        for job_is_done in jobs:
            await until(job_is_done)
