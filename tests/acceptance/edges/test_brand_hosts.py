import asyncio
from dataclasses import replace
from typing import Any

import pytest

from runtime.http.admission import origins
from tests.support.operations import make_merchant
from tests.support.resources import make_campaign, make_game, make_prize
from tests.support.stack import Stack, fields_of
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origins, "STALE_SECONDS", 0.0)


async def allow(stack: Stack, *hosts: str) -> Any:
    return await stack.admin("PUT", f"/admin/tenants/{stack.tenant_id}", {"hosts": hosts}, roles=("platform",))


async def claim(stack: Stack, campaign_id: str, *hosts: str) -> Any:
    return await stack.admin("PUT", f"/admin/campaigns/{campaign_id}", {"hosts": hosts})


async def page(stack: Stack, host: str, path: str = "/") -> tuple[int, str]:
    async with stack.http.get(f"{stack.process.consumer_url}{path}", headers={"Host": host}) as response:
        return response.status, await response.text()


async def test_host_shows_the_page_of_its_campaign_alone(stack: Stack) -> None:
    host = f"{stack.tenant_id.replace('_', '-')}.brand.example"
    campaign_id = (await make_campaign(stack, name="Fair", status="draft"))["id"]
    game_id = (await make_game(stack, campaign_id, await make_prize(stack)))["id"]
    await make_game(stack, campaign_id, await make_prize(stack))
    assert fields_of(await claim(stack, campaign_id, host)) == ["hosts[0]"], "the operator has not allowed it"
    assert (await page(stack, host))[0] == 404
    assert (await allow(stack, host)).data["hosts"] == [host]
    assert (await claim(stack, campaign_id, host)).data["hosts"] == [host]
    assert (await page(stack, host))[0] == 404, "the campaign is a draft"
    await stack.admin("PUT", f"/admin/campaigns/{campaign_id}", {"status": "active"})
    status, shown = await page(stack, f"{host.upper()}:8443")
    assert status == 200 and f"/p/{game_id}?tenant_id={stack.tenant_id}" in shown and "<h1>Fair</h1>" in shown
    assert (await page(stack, host, f"/p/{game_id}?tenant_id={stack.tenant_id}"))[0] == 200
    assert (await page(stack, "other.brand.example"))[0] == 404
    other = await make_campaign(stack, name="Other")
    assert fields_of(await claim(stack, other["id"], host)) == ["hosts[0]"], "one host, one campaign"
    copy = (await stack.admin("POST", f"/admin/campaigns/{campaign_id}/duplicate", {"name": "Copy"})).data
    assert copy["hosts"] == []
    assert (await claim(stack, campaign_id)).data["hosts"] == []
    shop = replace(stack, merchant_id=await make_merchant(stack))
    assert fields_of(await claim(shop, (await make_campaign(shop))["id"], host)) == ["hosts"], "it is the tenant's"
    assert (await claim(stack, other["id"], host)).code == "OK"
    await until(lambda: shows(stack, host, "Other"))
    await allow(stack)
    assert (await stack.admin("GET", f"/admin/campaigns/{other['id']}")).data["hosts"] == []


async def test_tracker_needs_a_valid_id_and_a_consent_of_the_form(stack: Stack) -> None:
    entry = {"consents": [{"id": "ads", "text": {"en": "Measure my visit."}}]}
    path = f"/admin/campaigns/{(await make_campaign(stack, entry=entry))['id']}"
    ids = {"ga4": "G-1'></script>", "gtm": "gtm-abcd", "meta_pixel": "12 34567"}
    refused = await stack.admin("PUT", path, {"tracking": {**ids, "consent": "news"}})
    assert set(fields_of(refused)) == {f"tracking.{one}" for one in (*ids, "consent")}
    assert (await stack.admin("PUT", path, {"tracking": {"ga4": "G-AB12CD34EF", "consent": "ads"}})).code == "OK"
    assert fields_of(await stack.admin("PUT", path, {"entry": {}})) == ["tracking.consent"], "it would load unasked"


async def test_container_loads_only_under_the_host_of_its_campaign(stack: Stack) -> None:
    shop = replace(stack, merchant_id=await make_merchant(stack))
    campaign = await make_campaign(shop, entry={"consents": [{"id": "ads", "text": {"en": "Measure my visit."}}]})
    path, host = f"/admin/campaigns/{campaign['id']}", f"tags-{stack.tenant_id.replace('_', '-')}.example"
    body = {"tracking": {"gtm": "GTM-AB12CD3", "consent": "ads"}}
    assert fields_of(await stack.admin("PUT", path, body)) == ["tracking.gtm"], "it could read every tenant's logins"
    await allow(stack, host)
    assert (await claim(stack, campaign["id"], host)).code == "OK"
    assert fields_of(await shop.admin("PUT", path, body)) == ["tracking.gtm"], "it could read the tenant's logins"
    assert (await stack.admin("PUT", path, body)).code == "OK"
    assert (await shop.admin("PUT", path, {"name": "Fair"})).code == "OK"
    address = f"/c/{campaign['id']}?tenant_id={stack.tenant_id}"
    assert ["gtm" in (await page(stack, one, address))[1] for one in (host, "127.0.0.1")] == [True, False]


async def shows(stack: Stack, host: str, text: str) -> bool:
    return text in (await page(stack, host))[1]


async def test_host_of_another_tenant_is_refused_even_at_once(stack: Stack) -> None:
    host = f"rival-{stack.tenant_id.replace('_', '-')}.example"
    body, key = {"name": "Rival", "hosts": [f"old-{host}"]}, {"Idempotency-Key": host}
    made = [await stack.admin("POST", "/admin/tenants", body, roles=("platform",), headers=key) for _ in range(2)]
    body, paths = {"hosts": [host]}, [f"/admin/tenants/{one}" for one in (stack.tenant_id, made[1].data["id"])]
    found = await asyncio.gather(*(stack.admin("PUT", path, body, roles=("platform",)) for path in paths))
    assert sorted(one.code for one in found) == ["INVALID_ARGUMENT", "OK"]
    again = [await stack.admin("PUT", path, body, roles=("platform",)) for path in paths]
    assert [one.code for one in again] == [one.code for one in found]
    campaign_id = (await make_campaign(stack))["id"]
    theirs = f"their-{host}"
    assert (await stack.admin("PUT", paths[1], {"hosts": [theirs]}, roles=("platform",))).code == "OK"
    path = f"/c/{campaign_id}?tenant_id={stack.tenant_id}"
    shown = [(await page(stack, one, path))[0] for one in (theirs, "127.0.0.1", "any.example")]
    assert shown == [404, 200, 200], "a brand's host shows no other tenant's page"
    for wrong in ("127.0.0.1", "localhost", "https://a.example", "A.example", "a.example:80", "a.0x1"):
        assert fields_of(await allow(stack, wrong)) == fields_of(await claim(stack, campaign_id, wrong)) == ["hosts[0]"]
