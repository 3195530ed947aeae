"""Rivals for the same codes, over two Cores of which one is killed: each code is paid once."""

import asyncio

from ops.certification.deployment import Deployment
from ops.certification.site import STAFF, founded
from ops.history.record import Request
from ops.history.tables import connected
from tests.support import invariants

RIVALS = {"FIRST-0001": 50, **{f"OTHER-000{nth}": 5 for nth in range(1, 9)}}
TICKETS = 3


async def test_codes_are_paid_once_while_a_core_is_killed(deployment: Deployment) -> None:
    site = await founded(deployment)
    pack_id = await site.make(
        "pack", "caps", campaign_id=site.campaign, gives={"currency": "ticket", "amount": TICKETS}
    )
    added = await site.client.ask(
        "ImportPackCodes", STAFF, "POST", f"/admin/packs/{pack_id}/codes", {"codes": [*RIVALS]}, surface="admin"
    )
    assert added.data["added"] == len(RIVALS)

    async def redeem(code: str, who: str) -> Request:
        # The same key through either Core, until it is paid or refused.
        body = {"campaign_id": site.campaign, "code": code}
        key = f"{code} {who}"
        return await site.client.ask(
            "RedeemCode", who, "POST", "/codes/redeem", body, surface="core", key=key, again=True
        )

    rivals = [
        asyncio.ensure_future(redeem(code, f"{code}-{nth}")) for code, count in RIVALS.items() for nth in range(count)
    ]
    await asyncio.wait(rivals, return_when=asyncio.FIRST_COMPLETED)
    core = deployment.cores[1]
    core.kill()
    await core.start()
    found = await asyncio.gather(*rivals)
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
