from dataclasses import replace
from typing import Any

import pytest

from runtime.http import admin, consumer
from runtime.http.login.rows import LINK, LOGOUT
from runtime.operations.row import MANAGEMENT, PLATFORM
from tests.support.guests import guest_who_played, log_in
from tests.support.login import Phone, bearer, refresh
from tests.support.login import log_in as log_in_by_code
from tests.support.operations import make_merchant
from tests.support.resources import make_campaign
from tests.support.stack import Answer, Stack, fields_of, refused
from tests.support.waiting import until
from tests.support.world import COINS, COLLECTION, World


async def player_of(stack: Stack, contact: str, **profile: Any) -> str:
    player_id = await log_in(stack, contact=contact)
    if profile:
        assert (await stack.consumer("PUT", "/players/me", profile, player=player_id)).http == 200
    return player_id


async def last_entry(stack: Stack, player_id: str) -> dict[str, Any]:
    return dict((await stack.admin("GET", "/admin/audit", subject_id=player_id)).data["items"][0])


async def test_player_search_masks_contacts_and_pages(module_stack: Stack) -> None:
    ids = [await player_of(module_stack, f"veil{n}@example.com", display_name=f"Veil {n}") for n in range(3)]
    answer = await module_stack.admin("GET", "/admin/players", q="veil ", limit=2)
    assert "veil0@" not in str(answer.envelope) and "v***@example.com" in str(answer.envelope)
    cursor = answer.data["pagination"]["next_cursor"]
    rest = await module_stack.admin("GET", "/admin/players", q="veil ", limit=2, cursor=cursor)
    assert [player["id"] for player in answer.data["items"] + rest.data["items"]] == sorted(ids, reverse=True)
    shown = (await module_stack.admin("GET", f"/admin/players/{ids[0]}")).data["player"]["contacts"]
    assert [(contact["value"], contact["type"]) for contact in shown] == [("v***@example.com", "CONTACT_TYPE_EMAIL")]


async def test_player_identity_is_refused_to_a_merchants_staff(module_stack: Stack) -> None:
    player_id = await player_of(module_stack, "private@example.com", display_name="Private")
    shop = replace(module_stack, merchant_id=await make_merchant(module_stack))
    for path in ("", f"/{player_id}", f"/{player_id}/sessions"):
        answer = await shop.admin("GET", f"/admin/players{path}")
        assert refused(answer) == (403, "PERMISSION_DENIED", "FORBIDDEN"), path


async def test_player_page_has_everything_of_the_player(world: World) -> None:
    stack, player = world.stack, await player_of(world.stack, "whole@example.com")
    prize = await world.prize(name="Mug")
    wheel, coins = await world.wheel(prize), await world.game(COLLECTION, COINS)
    won = [(await world.round(wheel, player)).data["play_id"], (await world.round(coins, player)).data["play_id"]]
    await world.turns(player, 3)

    async def items(what: str, **query: Any) -> list[dict[str, Any]]:
        return list((await stack.admin("GET", f"/admin/players/{player}/{what}", **query)).data["items"])

    plays = await items("plays")
    assert [play["id"] for play in plays] == won[::-1]
    assert plays[1]["rewards"][0]["prize_id"] == prize
    assert [row["balance"] for row in await items("wallet")] == [2]
    assert [(row["amount"], row["reference_id"]) for row in await items("ledger")] == [(2, won[1])]
    assert [row["balance"] for row in await items("turns")] == [3]
    assert [(row["amount"], row["reason"]) for row in await items("turns/ledger")] == [(3, "TURN_REASON_QUEST")]
    assert [(row["name"], row["turns"]) for row in await items("quests")] == [("Q", 3)]
    for what in ("plays", "wallet", "ledger", "turns", "turns/ledger", "quests"):
        assert await items(what, campaign_id=world.campaign_id)
        assert await items(what, campaign_id="camp_none") == [], what
    counts = (await stack.admin("GET", f"/admin/players/{player}")).data["counts"]
    assert (counts["plays"], counts["rewards"], counts["sessions"]) == (2, 1, 0)
    assert counts["last_played_at"] == plays[0]["played_at"]
    first = await stack.admin("GET", f"/admin/players/{player}/plays", limit=1)
    rest = await items("plays", limit=1, cursor=first.data["pagination"]["next_cursor"])
    assert [play["id"] for play in (*first.data["items"], *rest)] == won[::-1]


async def give(world: World, player: str, key: str = "", **body: Any) -> Answer:
    sent = {"campaign_id": world.campaign_id, "amount": 2, "reason": "the app broke off a play", **body}
    return await world.stack.admin("POST", f"/admin/players/{player}/turns", sent, key=key)


async def test_turns_are_given_once_for_a_key_and_noted(world: World) -> None:
    player = await player_of(world.stack, "turns@example.com")
    first, again = await give(world, player, "k1"), await give(world, player, "k1")
    assert (first.data["amount"], first.data["balance_after"], again.data) == (2, 2, first.data)
    assert refused(await give(world, player, "k1", amount=3))[0] == 422
    assert (await give(world, player, "k2", amount=1)).data["balance_after"] == 3
    game = await world.wheel(await world.prize(), rules={"requires_turn": True})
    assert (await world.round(game, player)).code == "OK"
    entry = await last_entry(world.stack, player)
    assert (entry["action"], entry["after"]["why"]) == ("player.grant_turns", "the app broke off a play")
    await give(world, player, "k3", amount=1)
    path = f"/admin/players/{player}/turns/ledger"
    first = await world.stack.admin("GET", path, limit=2)
    rest = await world.stack.admin("GET", path, limit=2, cursor=first.data["pagination"]["next_cursor"])
    assert [row["amount"] for row in (*first.data["items"], *rest.data["items"])] == [1, -1, 1, 2]


async def test_turns_with_a_wrong_field_are_refused(world: World) -> None:
    player = await player_of(world.stack, "noturns@example.com")
    for wrong in ({"amount": 0}, {"amount": -5}, {"amount": 1_000_001}, {"reason": " "}, {"campaign_id": ""}):
        assert fields_of(await give(world, player, **wrong)) == list(wrong), wrong
    assert refused(await give(world, player, campaign_id="camp_none")) == (404, "NOT_FOUND", "UNKNOWN_CAMPAIGN")
    assert refused(await give(world, "player_none")) == (404, "NOT_FOUND", "UNKNOWN_PLAYER")
    assert (await world.stack.admin("GET", f"/admin/players/{player}/turns")).data["items"] == []


async def test_turns_are_given_by_a_merchants_staff_in_its_own_campaigns_only(world: World) -> None:
    player = await player_of(world.stack, "shopturns@example.com")
    merchant_id = await make_merchant(world.stack)
    shop = World(replace(world.stack, merchant_id=merchant_id), world.campaign_id)
    assert refused(await give(shop, player)) == (403, "PERMISSION_DENIED", "FORBIDDEN")
    own = (await make_campaign(world.stack, merchant_id=merchant_id))["id"]
    assert (await give(shop, player, campaign_id=own)).data["balance_after"] == 2


async def merge(world: World, player: str, guest_id: str, **body: Any) -> Answer:
    return await world.stack.admin("POST", f"/admin/players/{player}/merge", {"guest_id": guest_id, **body})


async def test_merge_moves_once_and_its_preview_moves_nothing(world: World) -> None:
    player = await player_of(world.stack, "merged@example.com")
    guest = await guest_who_played(world, await world.wheel(await world.prize(), access="public"))
    said = (await merge(world, player, guest.player_id, preview=True)).data
    assert (said["merged"], said["plays"], said["rewards"]) == (False, 1, 1)
    assert (await world.stack.admin("GET", f"/admin/players/{player}/plays")).data["items"] == []
    assert (await merge(world, player, guest.player_id)).data == {**said, "merged": True}
    assert len((await world.stack.admin("GET", f"/admin/players/{player}/plays")).data["items"]) == 1
    assert (await world.stack.admin("GET", f"/admin/players/{guest.player_id}")).data["player"]["merged_into"] == player
    assert refused(await merge(world, player, guest.player_id)) == (400, "FAILED_PRECONDITION", "ILLEGAL_TRANSITION")
    entry = await last_entry(world.stack, player)
    assert (entry["action"], entry["after"]["guest_id"]) == ("player.merge", guest.player_id)


async def test_merge_of_a_player_that_is_no_guest_is_refused(world: World) -> None:
    player, other = [await player_of(world.stack, f"nobodys{n}@example.com") for n in range(2)]
    for who, status in ((other, 400), (player, 400), ("guest_none", 404), ("", 400)):
        assert (await merge(world, player, who)).http == status, who
    assert (await merge(world, "player_none", other)).reason == "UNKNOWN_PLAYER"


async def test_sign_out_of_a_player_ends_every_token(module_stack: Stack, phone: Phone) -> None:
    stack, contact = module_stack, "+12025550177"
    logged_in = await log_in_by_code(stack, phone, contact)
    player = logged_in["player"]["id"]
    path = f"/admin/players/{player}"
    assert len((await stack.admin("GET", f"{path}/sessions")).data["items"]) == 1
    assert (await stack.admin("POST", f"{path}/logout", {"reason": "stolen"})).data == {"ended": 1}
    assert (await stack.admin("GET", f"{path}/sessions")).data["items"] == []
    assert (await refresh(stack, logged_in["refresh_token"])).reason == "TOKEN_INVALID"
    token = bearer(logged_in["token"])
    await until(lambda: stack.consumer("GET", "/players/me", headers=token), lambda it: it.http == 401)
    entry = await last_entry(stack, player)
    assert (entry["action"], entry["after"]) == ("player.sign_out", {"ended": 1, "reason": "stolen"})
    assert (await stack.admin("POST", f"{path}/logout", {})).data == {"ended": 0}


async def test_unlinked_contact_ends_logins_and_is_free_for_another_player(module_stack: Stack, phone: Phone) -> None:
    stack, contact = module_stack, "+12025550178"
    logged_in = await log_in_by_code(stack, phone, contact)
    player = logged_in["player"]["id"]
    path = f"/admin/players/{player}"
    [shown] = (await stack.admin("GET", path)).data["player"]["contacts"]
    assert shown["value"] == "+12***78"
    other = await player_of(stack, "keeper@example.com")
    wrong = await stack.admin("DELETE", f"/admin/players/{other}/contacts", contact_id=shown["id"])
    assert refused(wrong) == (404, "NOT_FOUND", "UNKNOWN_CONTACT")
    done = await stack.admin("DELETE", f"{path}/contacts", contact_id=shown["id"])
    assert (done.data["id"], done.data["contacts"]) == (player, [])
    assert (await refresh(stack, logged_in["refresh_token"])).reason == "TOKEN_INVALID"
    assert contact not in str((await stack.admin("GET", "/admin/audit", subject_id=player)).envelope)
    body = {"contact": {"type": "CONTACT_TYPE_PHONE", "value": contact}}
    assert (await stack.core("POST", "/players/resolve", body)).data["player"]["id"] != player


async def test_sign_out_of_a_guest_ends_its_token(world: World) -> None:
    game = await world.wheel(await world.prize(), access="public")
    guest = await guest_who_played(world, game)
    assert (await world.stack.admin("POST", f"/admin/players/{guest.player_id}/logout", {})).http == 200
    await until(lambda: world.start(game, "", **guest.bearer), lambda it: it.http == 401)
    until_when = "SELECT issued_until IS NULL FROM revocations WHERE subject = $1"
    assert await world.database.fetchval(until_when, guest.player_id), "a retry of its first request issues a token"


async def test_me_tells_staff_who_they_are_and_what_they_may(stack: Stack) -> None:
    answer = await stack.admin("GET", "/admin/me", roles=("designer", "reward_manager"))
    me = answer.data
    assert answer.headers["Cache-Control"] == "no-store"
    found = [me[name] for name in ("subject", "tenant_id", "merchant_id", "roles")]
    assert found == ["staff_test", stack.tenant_id, "", ["designer", "reward_manager"]]
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
    assert (await stack.admin("GET", "/admin/tenants", roles=BOTH, q="orch")).data["items"] == [made]
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
        tokens = (staff, token | tenant)
        asks += [(stack.admin, row.verb, f"/admin{row.path}", {"headers": one, "roles": ()}) for one in tokens]
    asks += [(stack.admin, "GET", path, {"headers": staff, "roles": ()}) for path in ("/admin/me", "/admin/live")]
    assert "X-Player-Id" in (await stack.consumer("GET", "/players/me")).envelope["message"]
    assert "X-Roles" in (await stack.admin("GET", "/admin/games", roles=())).envelope["message"]
    wrong = []
    for ask, verb, path, options in asks:
        answer = await ask(verb, path.replace("{id}", "x"), {} if verb in ("POST", "PUT") else None, **options)
        wrong += [] if refused(answer) == (404, "NOT_FOUND", "UNKNOWN_TENANT") else [(verb, path, answer.envelope)]
    assert wrong == []
