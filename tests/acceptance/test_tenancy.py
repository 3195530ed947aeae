"""Tenants and merchants."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.resources import make_campaign, make_game, make_prize
from tests.support.stack import fields_of

PLATFORM = ("admin", "platform")


async def test_tenant_is_made_and_found_by_the_platform_alone(stack: Any) -> None:
    made = (await stack.admin("POST", "/admin/tenants", {"name": "Orchard"}, roles=PLATFORM)).data
    assert made["id"].startswith("tenant_")
    assert made["status"] == "TENANT_STATUS_ACTIVE"
    found = (await stack.admin("GET", "/admin/tenants", roles=PLATFORM, q="orch")).data["items"]
    assert found == [made]
    assert (await stack.admin("POST", "/admin/tenants", {"name": "Mine"})).http == 403
    assert fields_of(await stack.admin("POST", "/admin/tenants", {"name": ""}, roles=PLATFORM)) == ["name"]


async def test_merchants_belong_to_their_tenant(stack: Any) -> None:
    made = (await stack.admin("POST", "/admin/merchants", {"name": "Shop"})).data
    assert made["tenant_id"] == stack.tenant_id
    assert made["status"] == "MERCHANT_STATUS_ACTIVE"
    assert (await stack.admin("GET", "/admin/merchants")).data["items"] == [made]
    other = type(stack)(stack.process, stack.http, "tenant_other")
    assert (await other.admin("GET", "/admin/merchants")).data["items"] == []
    nobody = type(stack)(stack.process, stack.http, "tenant_nowhere")
    refused = await nobody.core("POST", "/merchants", {"merchant": {"name": "Shop"}})
    assert refused.reason == "UNKNOWN_TENANT"
    assert (await nobody.core("POST", "/campaigns", {"campaign": {"name": "x"}})).reason == "UNKNOWN_TENANT"


@pytest.mark.parametrize(
    ("verb", "path", "body"),
    [
        ("GET", "/campaigns/{campaign}", None),
        ("PUT", "/campaigns/{campaign}", {"campaign": {"name": "x"}}),
        ("POST", "/campaigns/{campaign}/duplicate", {}),
        ("GET", "/campaigns/{campaign}/analytics", None),
        ("GET", "/public/campaigns/{campaign}", None),
        ("GET", "/games/{game}", None),
        ("PUT", "/games/{game}", {"game": {"name": "x"}}),
        ("DELETE", "/games/{game}", None),
        ("GET", "/games/{game}/render", None),
        ("GET", "/prizes/{prize}", None),
        ("PUT", "/prizes/{prize}", {"prize": {"stock": {"total": 1}}}),
        ("DELETE", "/prizes/{prize}", None),
    ],
)
async def test_another_tenant_is_answered_as_for_an_unknown_id(
    stack: Any, verb: str, path: str, body: dict[str, Any] | None
) -> None:
    campaign = await make_campaign(stack)
    prize_id = await make_prize(stack)
    game = await make_game(stack, campaign["id"], prize_id)
    other = type(stack)(stack.process, stack.http, "tenant_other")
    before = await stack.database.fetch("SELECT * FROM audit_entries ORDER BY entry_id")
    ids = {"campaign": campaign["id"], "game": game["id"], "prize": prize_id}
    foreign = await other.core(verb, path.format(**ids), body)
    unknown = await other.core(verb, path.format(**dict.fromkeys(ids, "nobody_has_this")), body)
    assert (foreign.http, foreign.code, foreign.reason) == (unknown.http, unknown.code, unknown.reason)
    assert foreign.http == 404
    told = foreign.envelope["message"]
    for identifier in ids.values():
        told = told.replace(identifier, "nobody_has_this")
    assert told == unknown.envelope["message"]
    assert await stack.database.fetch("SELECT * FROM audit_entries ORDER BY entry_id") == before


async def test_what_names_another_tenants_things_is_refused(stack: Any) -> None:
    campaign = await make_campaign(stack)
    prize_id = await make_prize(stack)
    merchant = (await stack.admin("POST", "/admin/merchants", {"name": "Shop"})).data
    other = type(stack)(stack.process, stack.http, "tenant_other")
    game = {
        "name": "Wheel",
        "campaign_id": campaign["id"],
        "reward_handler": "probability",
        "handler_config": {"prizes": [{"prize_id": prize_id, "probability": 1}]},
    }
    refused = await other.core("POST", "/games", {"game": game})
    assert fields_of(refused) == ["campaign_id", "handler_config.prizes[0].prize_id"]
    refused = await other.core("POST", "/prizes", {"prize": {"name": "Mug", "campaign_id": campaign["id"]}})
    assert fields_of(refused) == ["campaign_id"]
    refused = await other.core("POST", "/campaigns", {"campaign": {"name": "x", "merchant_id": merchant["id"]}})
    assert fields_of(refused) == ["merchant_id"]
