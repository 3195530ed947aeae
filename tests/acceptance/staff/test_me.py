"""GET /admin/me: who the token is of, and which operations it opens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime.http import admin
from runtime.operations.row import PLATFORM
from tests.support.operations import make_merchant
from tests.support.stack import Stack


async def test_me_tells_staff_who_they_are_and_what_they_may(stack: Stack) -> None:
    answer = await stack.admin("GET", "/admin/me", roles=("designer", "reward_manager"))
    me = answer.data
    assert answer.headers["Cache-Control"] == "no-store"
    assert {name: me[name] for name in ("subject", "tenant_id", "merchant_id", "roles")} == {
        "subject": "staff_test",
        "tenant_id": stack.tenant_id,
        "merchant_id": "",
        "roles": ["designer", "reward_manager"],
    }
    assert me["expires_at"] > 1_700_000_000
    assert "CreateGame" in me["operations"] and "CreateTenant" not in me["operations"]


@pytest.mark.settings(role_matrix="strict")
@pytest.mark.parametrize("role", ["designer", "reward_manager", PLATFORM])
async def test_me_names_the_operations_that_a_role_opens(stack: Stack, role: str) -> None:
    may = set((await stack.admin("GET", "/admin/me", roles=(role,))).data["operations"])
    opened = may - {operation.name for operation, _ in admin.served()}
    for operation, _ in admin.served():
        path = "/admin" + operation.path.replace("{id}", "x")
        if (await stack.admin(operation.verb, path, roles=(role,))).reason != "ROLE_REQUIRED":
            opened.add(operation.name)
    assert opened == may


async def test_me_leaves_out_the_tenants_own_for_a_merchants_staff(stack: Stack) -> None:
    shop = replace(stack, merchant_id=await make_merchant(stack))
    ours, theirs = [set((await one.admin("GET", "/admin/me")).data["operations"]) for one in (stack, shop)]
    assert theirs < ours
    refused_to_shop = set()
    for operation, _ in admin.served():
        path = "/admin" + operation.path.replace("{id}", "x")
        if (await shop.admin(operation.verb, path)).envelope["message"] == "this is for the tenant's own staff":
            refused_to_shop.add(operation.name)
    assert refused_to_shop & ours == ours - theirs
