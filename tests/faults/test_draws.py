import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ops.certification.deployment import Deployment
from ops.certification.site import STAFF, founded
from ops.history.tables import connected
from runtime.commands.evidence.draws import verify
from tests.support.scenario import FULL, Scenario
from tests.support.waiting import until

HOLDERS = 20_000 if FULL else 2_000
PRIZES = 200
STEPS = {"close": "CLOSED", "draw": "DRAWN", "confirm": "CONFIRMED"}

_TICKETS = """
WITH met AS (
    INSERT INTO players (tenant_id, player_id) SELECT $1, 'p' || n FROM generate_series(1, $3::int) AS n
    RETURNING player_id
), entered AS (
    INSERT INTO ledger_entries (tenant_id, entry_id, seq, scope_key, currency, player_id, amount, balance_after,
                                reason, reference_id)
    SELECT $1, 'entry_' || player_id, 1, $2, 'ticket', player_id, 3, 3, 'adjustment', 'given' FROM met
)
INSERT INTO balances (tenant_id, player_id, scope_key, currency, balance, seq)
SELECT $1, player_id, $2, 'ticket', 3, 1 FROM met
"""


@pytest.mark.fault(
    "Draw killed at each step; drawn twice",
    small=2,
    full=20,
    unit="kills of a Core in each step",
    figure="one result, each prize given once",
)
async def test_draw_of_a_killed_core_has_one_result(scenario: Scenario, deployment: Deployment, tmp_path: Path) -> None:
    await deployment.mend()
    site = await founded(deployment)
    prize_id = await site.prize("car", total=PRIZES)
    async with connected(deployment.settings) as database:
        await database.execute(_TICKETS, site.tenant_id, site.campaign, HOLDERS)
    terms = {"tickets": {"currency": "ticket"}, "randomness": {"kind": "INTERNAL"}, "alternates": 5}
    prizes = [{"prize_id": prize_id, "count": PRIZES}]
    draw_id = await site.make("draw", "cars", campaign_id=site.campaign, prizes=prizes, **terms)

    async def ask(step: str) -> Any:
        """The reply of Core, or None if it died."""
        url = f"{core.url('core')}/api/v1/draws/{draw_id}/{step}"
        with suppress(aiohttp.ClientError):
            async with deployment.http.post(url, json={"scope": {"tenant_id": site.tenant_id}}) as answer:
                return await answer.json()

    core = deployment.cores[0]
    cut = 0
    for step, status in STEPS.items():
        for nth in range(scenario.size):
            asked = asyncio.ensure_future(ask(step))
            most = 0.2 if nth else 0.02  # The first kill comes before any step ends.
            await asyncio.sleep(scenario.dice.uniform(0, most))  # sleeps: until a random moment of the step
            core.kill()
            cut += await asked is None
            await core.start()
        reply = await ask(step)
        # A draw that committed before the kill refuses a second one.
        assert reply["code"] == "OK" or reply["data"]["reason"] == "ILLEGAL_TRANSITION", reply
        shown = await site.client.ask("GetDraw", STAFF, "GET", f"/admin/draws/{draw_id}", surface="admin")
        assert shown.data["status"] == f"DRAW_STATUS_{status}"
        if step == "close":
            root = shown.data["tickets_root"]
    scenario.figure("steps cut by a kill", cut, least=1)
    async with deployment.http.get(
        f"{deployment.of('consumer')[0].url('consumer')}/api/v1/draws/{draw_id}/file",
        headers={"X-Tenant-Id": site.tenant_id},
    ) as answer:
        text = await answer.text()
    path = tmp_path / "draw.jsonl"
    path.write_text(text)
    assert all(finding.ok for finding in verify(path, root))
    drawn = json.loads(text.splitlines()[-1])["result"][:PRIZES]
    async with connected(deployment.settings) as database:
        await until(
            lambda: database.fetchval("SELECT remaining FROM stock WHERE prize_id = $1", prize_id), lambda it: it == 0
        )  # The other Core may be giving some of them.
        rows = await database.fetch(
            "SELECT t.holder FROM rewards AS r JOIN draw_tickets AS t USING (tenant_id, player_id)"
            " WHERE r.tenant_id = $1 AND r.prize_id = $2 AND t.draw_id = $3",
            *(site.tenant_id, prize_id, draw_id),
        )
        assert sorted(row["holder"] for row in rows) == sorted(one["holder"] for one in drawn)
