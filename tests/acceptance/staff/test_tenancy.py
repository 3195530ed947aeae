"""Tenants and merchants."""

from __future__ import annotations

from typing import Any

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


async def test_merchant_belongs_to_its_tenant(stack: Any) -> None:
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
