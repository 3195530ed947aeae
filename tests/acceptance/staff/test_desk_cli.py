"""What staff does to one thing by `tombola`, run as an operator runs it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from runtime.commands.connection import EXIT_REFUSED, EXIT_UNCONFIRMED, EXIT_WAITING
from runtime.commands.environment import EXIT_USE
from tests.support.guests import guest_who_played, log_in
from tests.support.operations import make_approval
from tests.support.operator import Operator
from tests.support.resources import make_campaign
from tests.support.stack import Stack, fields_of
from tests.support.world import COINS, COLLECTION, World

MANUAL = {"redemption_mode": "REDEMPTION_MODE_MANUAL", "channel": "none"}


@pytest.fixture
def tombola(stack: Stack, tmp_path: Path) -> Operator:
    return Operator(stack, tmp_path)


async def test_player_is_found_given_turns_exported_and_erased(tombola: Operator, own_world: World) -> None:
    player = await log_in(own_world.stack, contact="cli@example.com")
    [found] = (await tombola("players", "list", "cli@example.com", "--json")).json
    assert (found["id"], found["contacts"][0]["value"]) == (player, "c***@example.com")
    for _ in range(2):
        given = await tombola(
            *("players", "grant", player, own_world.campaign_id, "2", "--reason", "sorry", "--key", "k", "--json")
        )
        assert given.json["balance_after"] == 2
    assert (await tombola("players", "export", player, "out.jsonl", "--json")).json["items"] > 2
    lines = (tombola.directory / "out.jsonl").read_text().splitlines()
    assert "cli@example.com" in str([json.loads(line) for line in lines])
    erase = ("players", "erase", player, "--reason", "asked for")
    assert (await tombola(*erase)).code == EXIT_UNCONFIRMED
    done = await tombola(*erase, "--yes")
    assert (done.code, done.out.strip()) == (0, f"{player} is erased")
    unknown = await tombola("players", "show", "player_none")
    assert unknown.code == EXIT_REFUSED and "UNKNOWN_PLAYER" in unknown.err


async def test_rewards_are_moved_and_failures_exit_1(tombola: Operator, own_world: World) -> None:
    game = await own_world.wheel(await own_world.prize(fulfillment=MANUAL))
    one, two = [(await own_world.round(game)).data["rewards"][0]["reward_id"] for _ in range(2)]
    assert (await tombola("rewards", "fulfill", one, "--reason", "handed over")).out.strip() == "1 done"
    moved = await tombola("rewards", "revoke", one, two, "nothing", "--reason", "a script", "--yes")
    assert (moved.code, moved.out.strip()) == (EXIT_REFUSED, "2 done")
    assert "nothing: UNKNOWN_REWARD" in moved.err
    listed = (await tombola("rewards", "list", "--status", "revoked", "--json")).json
    assert {row["id"] for row in listed} == {one, two}


async def test_prize_with_claim_fields_shows_the_answers_of_its_reward(tombola: Operator, own_world: World) -> None:
    size = {"key": "size", "label": "Size", "kind": "choice", "options": ["S", "M"], "required": True}
    mug = {"name": "Mug", "type": "goods", "fulfillment": MANUAL, "claim_fields": [size]}
    (tombola.directory / "mug.yaml").write_text(json.dumps(mug))
    prize_id = (await tombola("prizes", "create", "mug.yaml", "--json")).json["prize_id"]
    assert "label: Size" in (await tombola("prizes", "show", prize_id)).out
    reward = (await own_world.round(await own_world.wheel(prize_id))).data["rewards"][0]["reward_id"]
    assert (await tombola("rewards", "show", reward, "--json")).json["answers"] == []
    body = {"answers": {"size": "M"}}
    claimed = await own_world.stack.consumer("POST", f"/rewards/{reward}/claim", body, player="ann")
    assert claimed.code == "OK"
    assert "answers:\n  Size: M" in (await tombola("rewards", "show", reward)).out
    assert "delivery" not in (await tombola("rewards", "show", reward)).out, "it waits for an operator's hand"
    await tombola("rewards", "fulfill", reward)
    told = (await tombola("rewards", "show", reward)).out
    assert "delivery:" in told and "status: TASK_STATUS_DELIVERED" in told
    (tombola.directory / "none.yaml").write_text("claim_fields: []")
    assert (await tombola("prizes", "update", prize_id, "none.yaml", "--json")).json["claim_fields"] == []
    unknown = await tombola("rewards", "show", "reward_none")
    assert unknown.code == EXIT_REFUSED and "UNKNOWN_REWARD" in unknown.err


async def test_approvals_are_listed_shown_and_decided(tombola: Operator, stack: Stack) -> None:
    kept = [await make_approval(stack, "player_ann", stack.tenant_id, "") for _ in range(2)]
    assert (await stack.consumer("GET", "/players/me", player="player_ann")).http == 200
    waiting = (await tombola("approvals", "list", "--status", "waiting", "--json")).json
    assert [(one["id"], one["operation"]) for one in waiting] == [(id, "AdjustBalance") for id in reversed(kept)]
    assert json.loads((await tombola("approvals", "show", kept[0])).out)["asked_by"] == "somebody"
    assert (await tombola("approvals", "approve", kept[0])).code == EXIT_UNCONFIRMED
    done = await tombola("approvals", "approve", kept[0], "--yes", "--reason", "seen")
    assert (done.code, done.out.strip()) == (0, f"{kept[0]} is done")
    assert (await tombola("approvals", "reject", kept[1], "--reason", "no", "--json")).json["reason"] == "no"
    own = await tombola("approvals", "withdraw", kept[1])
    assert own.code == EXIT_REFUSED and "FORBIDDEN" in own.err


async def test_command_that_needs_approval_has_its_own_exit_code(
    tombola: Operator, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await stack.consumer("GET", "/players/me", player="ann")).http == 200
    monkeypatch.setattr(stack.engine, "settings", replace(stack.engine.settings, dual_adjustment_above=4))
    adjust = ("wallets", "adjust", "ann", stack.tenant_id, "coin", "5", "--reference", "ticket-1")
    told = await tombola(*adjust)
    assert (
        told.code == EXIT_WAITING and "APPROVAL_NEEDED" in told.err and "tombola approvals show approval_" in told.err
    )
    error = json.loads((await tombola(*adjust, "--json")).err)["error"]
    assert (error["reason"], error["approval"]["operation"]) == ("APPROVAL_NEEDED", "AdjustBalance")


async def test_token_is_made_used_and_revoked(tombola: Operator) -> None:
    made = await tombola("tokens", "create", "ci", "--role", "designer", "--days", "3")
    secret = made.out.strip()
    assert secret.startswith("tmb_"), made.err
    mine = await tombola("token", "me", "--json", TOMBOLA_TOKEN=secret)
    listing = await tombola("tokens", "list", "--made-by", "operator_ines", "--json")
    assert secret not in listing.out
    [listed] = listing.json
    assert (mine.json["subject"], mine.json["roles"]) == (f"ci ({listed['id']})", ["designer"])
    revoke = ("tokens", "revoke", listed["id"])
    assert (await tombola(*revoke)).code == EXIT_UNCONFIRMED
    assert (await tombola(*revoke, "--yes")).out.strip() == f"{listed['id']} is revoked"
    refused = await tombola("campaigns", "list", TOMBOLA_TOKEN=secret)
    assert refused.code == EXIT_REFUSED and "TOKEN_INVALID" in refused.err


async def test_prize_is_made_of_a_file_changed_and_its_stock_moved(tombola: Operator, own_world: World) -> None:
    (tombola.directory / "mug.yaml").write_text("name: Fair mug\ntype: goods\nvalue: 8\nstock: {total: 5}\n")
    made = (await tombola("prizes", "create", "mug.yaml", "--json")).json["prize_id"]
    (tombola.directory / "more.json").write_text('{"currency": "EUR", "terms": "At the stall."}')
    assert (await tombola("prizes", "update", made, "more.json")).out.strip() == f"{made} Fair mug"
    move = ("prizes", "stock", made, "--change", "7", "--reason", "delivered", "--key", "k")
    assert [(await tombola(*move)).out.strip() for _ in range(2)] == ["5 -> 12"] * 2
    below = await tombola("prizes", "stock", made, "--change", "-12", "--reason", "gone")
    assert below.code == EXIT_REFUSED and "change: would leave none" in below.err
    shown = (await tombola("prizes", "show", made, "--json")).json
    assert (shown["currency"], shown["stock"]["total"], [one["reason"] for one in shown["moves"]]) == (
        *("EUR", 12),
        ["delivered"],
    )
    assert "delivered" in (await tombola("prizes", "show", made)).out
    [listed] = (await tombola("prizes", "list", "--q", "Fair mug", "--json")).json
    assert (listed["prize_id"], listed["remaining"]) == (made, 12)
    assert "12 of 12" in (await tombola("prizes", "list")).out


SENT = {"channel": "webhook", "config": {"url": "https://shop.example/won"}}


async def test_guest_is_merged_and_a_contact_unlinked(tombola: Operator, own_world: World) -> None:
    game = await own_world.game(COLLECTION, COINS, access="public")
    guest = await guest_who_played(own_world, game)
    player = await log_in(own_world.stack, contact="cli@example.com")
    merge = ("players", "merge", player, guest.player_id)
    asked = await tombola(*merge, "--dry-run")
    assert asked.out.strip() == f"{guest.player_id} would be {player}: 1 plays, 0 rewards, 1 balances, 0 turns"
    assert (await tombola(*merge)).code == EXIT_UNCONFIRMED
    assert (await tombola("players", "show", player, "--json")).json["counts"]["plays"] == 0
    assert (await tombola(*merge, "--yes", "--json")).json["merged"] is True
    shown = (await tombola("players", "show", player, "--json")).json
    assert shown["counts"]["plays"] == 1
    assert "coin" in (await tombola("wallets", "show", player)).out
    [contact] = shown["player"]["contacts"]
    unlink = ("players", "unlink", player, contact["id"])
    assert (await tombola(*unlink)).code == EXIT_UNCONFIRMED
    assert (await tombola(*unlink, "--yes")).out.strip() == f"{contact['id']} is no contact of {player}"
    assert (await tombola("players", "show", player, "--json")).json["player"]["contacts"] == []


async def test_campaign_is_duplicated_with_dates_in_its_zone(tombola: Operator) -> None:
    dates = {"start_date": 1790000000, "end_date": 1790600000}
    campaign = await make_campaign(tombola.stack, name="Fair", timezone="Asia/Tokyo", **dates)
    duplicate = ("campaigns", "duplicate", campaign["id"])
    copy = (await tombola(*duplicate, "--start", "2030-05-01T09:00", "--name", "May", "--json")).json
    assert (copy["name"], copy["status"]) == ("May", "CAMPAIGN_STATUS_DRAFT")
    assert copy["start_date"] == int(datetime(2030, 5, 1, 9, tzinfo=ZoneInfo("Asia/Tokyo")).timestamp())
    told = await tombola(*duplicate, "--start", "2030-05-01T09:00:00+00:00", "--end", "2030-05-02T09:00:00+00:00")
    assert told.out.startswith("Fair (copy) is made, as a draft: camp_")
    made = (await tombola("campaigns", "list", "--q", "Fair (copy)", "--json")).json
    assert [(one["start_date"], one["end_date"]) for one in made] == [(1903856400, 1903942800)]
    refused = await tombola(*duplicate, "--start", "2030-05-02", "--end", "2030-05-01")
    assert refused.code == EXIT_REFUSED and "end_date" in refused.err


async def test_deliveries_and_rewards_are_found_by_contact_and_day(tombola: Operator, own_world: World) -> None:
    ada = await log_in(own_world.stack, contact="ada.parcel@example.com")
    wheel = await own_world.wheel(await own_world.prize(fulfillment=SENT))
    hers = (await own_world.round(wheel, ada)).data["rewards"][0]["reward_id"]
    await own_world.round(wheel, "ann")
    today = datetime.now(UTC)
    tomorrow, yesterday = ((today + timedelta(days=days)).strftime("%Y-%m-%d") for days in (1, -1))

    async def found(kind: str, *asked: str) -> list[str]:
        reward = "reward_id" if kind == "deliveries" else "id"
        return [one[reward] for one in (await tombola(kind, "list", *asked, "--json")).json]

    for kind in ("deliveries", "rewards"):
        assert await found(kind, "--contact", "Ada.Parcel@example.com") == [hers]
        assert len(await found(kind, "--since", yesterday, "--until", tomorrow)) == 2
        assert await found(kind, "--until", yesterday) == await found(kind, "--since", tomorrow) == []
        assert await found(kind, "--contact", "ada.parcel@example.com", "--since", tomorrow) == []
    for name in ("since", "until"):
        refused = await own_world.stack.admin("GET", "/admin/fulfillment/tasks", **{name: -1})
        assert fields_of(refused) == [name]


async def test_call_reaches_every_route_of_the_edge(tombola: Operator, own_world: World) -> None:
    wheel = await own_world.wheel(await own_world.prize())
    for _ in range(3):
        assert (await own_world.round(wheel, "ann")).code == "OK"
    first = (await tombola("call", "GET", "/players/ann/plays", "-q", "limit=2")).json
    assert len(first["items"]) == 2 and first["pagination"]["has_more"]
    assert len((await tombola("call", "GET", "/players/ann/plays", "--every")).json) == 3
    for asked, why in (
        (("/players/ann/plays", "-q", "limit=2"), "'limit' is for one"),
        (("/players/ann/plays", "-q", "q=1", "-q", "q=2"), "given once"),
        (("/me",), "'/me' is no list"),
    ):
        told = await tombola("call", "GET", *asked, "--every")
        assert told.code == EXIT_USE and why in told.err
    made = await tombola("call", "POST", "/campaigns", "-", stdin=b'{"name": "By call"}')
    (tombola.directory / "named.yaml").write_text("name: Renamed\n")
    path = f"/campaigns/{made.json['id']}"
    assert (await tombola("call", "PUT", path, "named.yaml")).json["name"] == "Renamed"
    turns = {"campaign_id": own_world.campaign_id, "amount": 2, "reason": "sorry"}
    for _ in range(2):
        sent = await tombola("call", "POST", "/players/ann/turns", "-", "--key", "k", stdin=json.dumps(turns).encode())
        assert sent.json["balance_after"] == 2
    mug = await own_world.prize()
    assert (await tombola("call", "DELETE", f"/prizes/{mug}")).code == EXIT_UNCONFIRMED
    assert (await tombola("call", "DELETE", f"/prizes/{mug}", "--yes")).json["id"] == mug
    refused = await tombola("call", "POST", "/campaigns", "-", "--json", stdin=b'{"name": ""}')
    assert refused.code == EXIT_REFUSED
    assert [row["field"] for row in json.loads(refused.err)["error"]["violations"]] == ["name"]


async def test_call_with_wrong_arguments_is_refused_before_it_is_sent(tombola: Operator) -> None:
    for asked, said in (
        (("GET", "players"), "no path below /api/v1/admin"),
        (("GET", "/players?q=x"), "has no query"),
        (("GET", "/players", "-q", "limit"), "'limit' is not name=value"),
        (("POST", "/players", "--every"), "--every is for lists"),
        (("POST", "/campaigns", "-"), "must hold an object"),
    ):
        told = await tombola("call", *asked, stdin=b"[1]")
        assert told.code == EXIT_USE and said in told.err, asked
