import asyncio
from typing import Any

import pytest

from runtime import ids
from runtime import messages as m
from runtime.events import Event
from runtime.operations import BY_NAME
from runtime.operations.budget_alerts import thresholds
from tests.support.rivals import begun, held
from tests.support.stack import Stack, fields_of, make_tenant
from tests.support.world import World, new_world

EUR = {"currency": "EUR"}


@pytest.fixture
async def shop(module_stack: Stack) -> Any:
    async with new_world(await make_tenant(module_stack, ids.make("tenant"))) as world:
        yield world


@pytest.fixture(autouse=True)
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds, "REST", 0.0)


async def look(world: World) -> list[tuple[str, Any]]:
    events = await thresholds.check(world.stack.engine, world.stack.tenant_id, every_seconds=0)
    return [(one.type, part(one)) for one in events]


def part(event: Event) -> Any:
    data: Any = event.data
    return data.percent if event.type == "campaign.budget_reached" else data.remaining


async def budget(world: World, amount: float, currency: str = "EUR") -> dict[str, Any]:
    body = {"budget": {"amount": amount, "currency": currency}}
    answer = await world.stack.admin("PUT", f"/admin/campaigns/{world.campaign_id}", body)
    assert answer.code == "OK", answer.envelope
    return dict(answer.data["budget"])


async def campaign(world: World) -> dict[str, Any]:
    return dict((await world.stack.admin("GET", f"/admin/campaigns/{world.campaign_id}")).data)


async def test_budget_counts_what_was_given_in_its_currency(shop: World) -> None:
    """Which rewards count: tests/sql/test_limit_rows.py."""
    game = await shop.wheel(await shop.prize(value=10, **EUR))
    await shop.round(await shop.wheel(await shop.prize(value=50, currency="USD")))
    assert (await campaign(shop))["budget"] is None
    await budget(shop, 1000)
    assert (await campaign(shop))["budget"] == {"amount": 1000.0, "currency": "EUR", "used": 0.0, "used_at": 0}
    for _ in range(3):
        await shop.round(game)
    assert await look(shop) == []
    found = (await campaign(shop))["budget"]
    assert found["used"] == 30 and found["used_at"] > 0
    [listed] = (await shop.stack.admin("GET", "/admin/campaigns")).data["items"]
    assert listed["budget"] == found
    copy = (await shop.stack.admin("POST", f"/admin/campaigns/{shop.campaign_id}/duplicate", {})).data["budget"]
    assert copy == {**found, "used": 0.0, "used_at": 0}
    unset = await shop.stack.admin("PUT", f"/admin/campaigns/{shop.campaign_id}", {"budget": {}})
    assert unset.data["budget"] is None


async def notices(world: World) -> list[Any]:
    query = "SELECT type, data FROM notices WHERE tenant_id = $1 ORDER BY noticed_at, (data ->> 'percent')::int"
    return await world.database.fetch(query, world.stack.tenant_id)


async def test_budget_with_a_wrong_field_names_it(shop: World) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"amount": -1, "currency": "EUR"}, "budget.amount"),
        *(({"amount": 1e16, "currency": "EUR"}, "budget.amount"), ({"amount": 5}, "budget.currency")),
        ({"amount": 5, "currency": "euro"}, "budget.currency"),
    ]
    for wrong, field in cases:
        answer = await shop.stack.admin("PUT", f"/admin/campaigns/{shop.campaign_id}", {"budget": wrong})
        assert fields_of(answer) == [field], wrong


async def test_alerts_fire_once_from_processes_that_check_at_once(shop: World) -> None:
    game = await shop.wheel(await shop.prize(value=10, total=5, low_stock_at=4, **EUR))
    await budget(shop, 10)
    await shop.round(game)
    events = sorted(one for found in await asyncio.gather(*(look(shop) for _ in range(6))) for one in found)
    assert events == [("campaign.budget_reached", 80), ("campaign.budget_reached", 100), ("prizes.low_stock", 4)]


async def test_check_that_waited_for_a_rival_sees_what_the_rival_fired(shop: World) -> None:
    """A snapshot from before the wait would fire a fall again that is over."""
    prize_id = await shop.prize(total=4, low_stock_at=2)
    game = await shop.wheel(prize_id)
    for _ in range(2):
        await shop.round(game)
    assert await look(shop) == [("prizes.low_stock", 2)]
    stack, tenant_id = shop.stack, shop.stack.tenant_id
    hold = "INSERT INTO limit_marks VALUES ($1, now()) ON CONFLICT (tenant_id) DO UPDATE SET next_at = now()"
    async with held(stack, hold, tenant_id) as rival:
        late = await begun(stack, look(shop), "limits.lock_mark")
        raised = await stack.admin("POST", f"/admin/prizes/{prize_id}/stock", {"change": 10, "reason": "more"})
        assert raised.code == "OK"
        await rival.execute("DELETE FROM low_prizes WHERE tenant_id = $1", tenant_id)
    assert await late == []


async def test_failed_check_fires_nothing_and_the_next_one_does(shop: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await shop.prize(total=1, low_stock_at=1)
    failing = "SELECT 1 / 0 FROM limit_marks WHERE tenant_id = $1 AND $2::float8 > 0"
    statements = {**thresholds._SQL, "delay_next": failing}
    with monkeypatch.context() as broken:
        broken.setattr(thresholds, "_SQL", statements)
        with pytest.raises(Exception, match="division by zero"):
            await look(shop)
    assert await notices(shop) == []
    assert await look(shop) == [("prizes.low_stock", 1)]


async def test_live_view_shows_used_budgets_and_low_prizes(shop: World) -> None:
    prize_id = await shop.prize(value=9, total=3, low_stock_at=2, name="Mug", **EUR)
    await budget(shop, 10)
    await shop.round(await shop.wheel(prize_id))
    await look(shop)
    [listed] = (await shop.stack.admin("GET", "/admin/prizes")).data["items"]
    assert listed["low"] is (await shop.stack.admin("GET", f"/admin/prizes/{prize_id}")).data["low"] is True
    request = m.GetLiveRequest(scope=m.Scope(tenant_id=shop.stack.tenant_id), stock=True)
    reply: Any = await shop.stack.process.core.call(BY_NAME["GetLive"], request)
    [used], [mug] = reply.budgets, reply.low_prizes
    assert (used.campaign_id, used.amount, used.currency, used.used) == (shop.campaign_id, 10, "EUR", 9)
    assert (mug.prize_id, mug.name, mug.remaining, mug.low_stock_at) == (prize_id, "Mug", 2, 2)
