"""`tombola audit`, beside a running service."""

import json
from typing import Any

from tests.support.operator import tombola
from tests.support.stack import Stack
from tests.support.world import World


async def audited(stack: Stack, *arguments: str) -> tuple[int, str, str]:
    settings = stack.process.settings
    return await tombola("audit", *arguments, DATABASE_URL=settings.database_url, REDIS_URL=settings.redis_url)


async def test_audit_of_sound_data_exits_with_0(own_world: World, stack: Stack) -> None:
    await own_world.round(await own_world.wheel(await own_world.prize(total=3)))
    code, out, err = await audited(stack)
    assert (code, err) == (0, "")
    assert "no discrepancies" in out and "1 of kind play" in out


async def test_audit_exits_with_1_until_each_violation_is_closed(own_world: World, stack: Stack) -> None:
    prize_id = await own_world.prize(total=3)
    await own_world.round(await own_world.wheel(prize_id))
    wrong = "UPDATE stock SET awarded = awarded + $2, remaining = remaining - $2 WHERE prize_id = $1"
    await stack.database.execute(wrong, prize_id, 1)
    code, out, err = await audited(stack, "--json")
    assert code == 1 and "prize_awarded" in err, "what is found anew is logged, and not into the JSON"
    output: dict[str, Any] = json.loads(out)
    code, out, _ = await audited(stack)
    assert code == 1
    assert "prize_awarded" in out and prize_id in out
    (shown,) = output["open"]
    assert (shown["check"], shown["subject_id"], shown["expected"], shown["found"]) == (
        "prize_awarded",
        prize_id,
        "1",
        "2",
    )
    assert output["looked_at"]["play"] == 1
    # Another tenant's audit does not show it.
    assert (await audited(stack, "--tenant", "tenant_other"))[0] == 0
    code, out, err = await audited(stack, "--tenant", "tenant_mistyped")
    assert (code, out, err) == (2, "", "tombola audit: there is no tenant 'tenant_mistyped'\n")
    # A violation of repaired data stays open until it is closed.
    await stack.database.execute(wrong, prize_id, -1)
    assert (await audited(stack))[0] == 1
    path = f"/admin/violations/{shown['id']}/close"
    assert (await stack.admin("POST", path, {"reason": "put right by hand"})).data["gone_at"] > 0
    assert (await audited(stack))[0] == 0


async def test_audit_of_a_missing_database_exits_with_4(stack: Stack) -> None:
    code, _, err = await tombola(
        "audit", DATABASE_URL="postgresql://127.0.0.1:1/none", REDIS_URL="redis://127.0.0.1:1/0"
    )
    assert code == 4
    assert err.startswith("tombola audit: ") and "Traceback" not in err
