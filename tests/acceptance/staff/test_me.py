"""Whom an edge takes a request to be from, what a token opens, and tenants and merchants."""

from dataclasses import replace
from typing import Any

import pytest

from runtime.http import admin, consumer
from runtime.http.login.rows import LINK, LOGOUT
from runtime.operations.row import MANAGEMENT, PLATFORM
from tests.support.login import bearer
from tests.support.operations import make_merchant
from tests.support.stack import Stack, fields_of, refused


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


async def test_player_in_a_query_is_ignored(stack: Stack) -> None:
    mine = await stack.consumer("GET", "/players/me", player="player_a", player_id="player_b")
    assert mine.data["id"] == "player_a"


BOTH = ("admin", "platform")


async def test_tenant_is_made_and_found_by_the_platform_alone(stack: Any) -> None:
    made = (await stack.admin("POST", "/admin/tenants", {"name": "Orchard"}, roles=BOTH)).data
    assert made["id"].startswith("tenant_")
    assert made["status"] == "TENANT_STATUS_ACTIVE"
    found = (await stack.admin("GET", "/admin/tenants", roles=BOTH, q="orch")).data["items"]
    assert found == [made]
    assert (await stack.admin("POST", "/admin/tenants", {"name": "Mine"})).http == 403
    assert fields_of(await stack.admin("POST", "/admin/tenants", {"name": ""}, roles=BOTH)) == ["name"]


async def test_core_makes_nothing_for_an_unknown_tenant(stack: Stack) -> None:
    nobody = replace(stack, tenant_id="tenant_nowhere")
    for kind, its in (("merchants", "merchant"), ("campaigns", "campaign")):
        assert (await nobody.core("POST", f"/{kind}", {its: {"name": "Shop"}})).reason == "UNKNOWN_TENANT"


@pytest.mark.settings(header_fallback=True)
async def test_unknown_tenant_of_a_header_is_refused_by_every_route(stack: Stack) -> None:
    tenant = {"X-Tenant-Id": "tenant_none"}
    player, staff = {**tenant, "X-Player-Id": "ann"}, {**tenant, "X-Roles": ",".join(sorted(MANAGEMENT | {PLATFORM}))}
    token = bearer(stack.token("boss", ("admin", PLATFORM)))
    asks = [(stack.consumer, row.verb, row.path, {"headers": player}) for row, _ in consumer.served()]
    asks += [(stack.consumer, "POST", row.path, {"headers": player}) for row in (LINK, LOGOUT)]
    for row, _ in admin.served():
        asks += [
            (stack.admin, row.verb, f"/admin{row.path}", {"headers": one, "roles": ()})
            for one in (staff, token | tenant)
        ]
    asks += [(stack.admin, "GET", path, {"headers": staff, "roles": ()}) for path in ("/admin/me", "/admin/live")]
    assert "X-Player-Id" in (await stack.consumer("GET", "/players/me")).envelope["message"]
    assert "X-Roles" in (await stack.admin("GET", "/admin/games", roles=())).envelope["message"]
    wrong = []
    for ask, verb, path, options in asks:
        answer = await ask(verb, path.replace("{id}", "x"), {} if verb in ("POST", "PUT") else None, **options)
        wrong += [] if refused(answer) == (404, "NOT_FOUND", "UNKNOWN_TENANT") else [(verb, path, answer.envelope)]
    assert wrong == []
