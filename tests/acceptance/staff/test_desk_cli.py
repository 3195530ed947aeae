"""What staff does to one thing by `tombola`, run as an operator runs it."""

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from runtime.commands.connection import EXIT_REFUSED, EXIT_UNCONFIRMED, EXIT_WAITING
from runtime.commands.environment import EXIT_USE
from tests.support.guests import log_in
from tests.support.operator import Operator
from tests.support.resources import make_campaign
from tests.support.stack import Stack
from tests.support.world import World

MANUAL = {"redemption_mode": "REDEMPTION_MODE_MANUAL", "channel": "none"}


@pytest.fixture
def tombola(stack: Stack, tmp_path: Path) -> Operator:
    return Operator(stack, tmp_path)


async def test_player_is_found_given_turns_exported_and_erased(tombola: Operator, own_world: World) -> None:
    player = await log_in(own_world.stack, contact="cli@example.com")
    [found] = (await tombola("players", "list", "cli@example.com", "--json")).json
    assert (found["id"], found["contacts"][0]["value"]) == (player, "c***@example.com")
    for _ in range(2):
        granted = await tombola(
            *("players", "grant", player, own_world.campaign_id, "2", "--reason", "sorry", "--key", "k", "--json")
        )
        assert granted.json["balance_after"] == 2
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


async def test_command_that_needs_approval_has_its_own_exit_code(
    tombola: Operator, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await stack.consumer("GET", "/players/me", player="ann")).http == 200
    monkeypatch.setattr(stack.engine, "settings", replace(stack.engine.settings, dual_adjustment_above=4))
    adjust = ("wallets", "adjust", "ann", stack.tenant_id, "coin", "5", "--reference", "ticket-1")
    result = await tombola(*adjust)
    assert (
        result.code == EXIT_WAITING
        and "APPROVAL_NEEDED" in result.err
        and "tombola approvals show approval_" in result.err
    )
    error = json.loads((await tombola(*adjust, "--json")).err)["error"]
    assert (error["reason"], error["approval"]["operation"]) == ("APPROVAL_NEEDED", "AdjustBalance")


async def test_prize_is_made_of_a_file_changed_and_its_stock_moved(tombola: Operator, own_world: World) -> None:
    (tombola.directory / "mug.yaml").write_text("name: Fair mug\ntype: goods\nvalue: 8\nstock: {total: 5}\n")
    create = ("prizes", "create", "mug.yaml", "--key", "mug", "--json")
    made, again = [(await tombola(*create)).json["prize_id"] for _ in range(2)]
    assert made == again, "the key makes one prize"
    (tombola.directory / "more.json").write_text('{"currency": "EUR", "terms": "At the stall."}')
    assert (await tombola("prizes", "update", made, "more.json")).out.strip() == f"{made} Fair mug"
    move = ("prizes", "stock", made, "--change", "7", "--reason", "delivered", "--key", "k")
    assert [(await tombola(*move)).out.strip() for _ in range(2)] == ["5 -> 12"] * 2
    below = await tombola("prizes", "stock", made, "--change", "-12", "--reason", "gone")
    assert below.code == EXIT_REFUSED and "change: must leave at least 1" in below.err
    shown = (await tombola("prizes", "show", made, "--json")).json
    assert (shown["currency"], shown["stock"]["total"], [one["reason"] for one in shown["moves"]]) == (
        *("EUR", 12),
        ["delivered"],
    )
    assert "delivered" in (await tombola("prizes", "show", made)).out
    [listed] = (await tombola("prizes", "list", "--q", "Fair mug", "--json")).json
    assert (listed["prize_id"], listed["remaining"]) == (made, 12)
    assert "12 of 12" in (await tombola("prizes", "list")).out


async def test_campaign_is_duplicated_with_dates_in_its_zone(tombola: Operator) -> None:
    dates = {"start_date": 1790000000, "end_date": 1790600000}
    campaign = await make_campaign(tombola.stack, name="Fair", timezone="Asia/Tokyo", **dates)
    duplicate = ("campaigns", "duplicate", campaign["id"])
    copy = (await tombola(*duplicate, "--start", "2030-05-01T09:00", "--name", "May", "--json")).json
    assert (copy["name"], copy["status"]) == ("May", "CAMPAIGN_STATUS_DRAFT")
    assert copy["start_date"] == int(datetime(2030, 5, 1, 9, tzinfo=ZoneInfo("Asia/Tokyo")).timestamp())
    result = await tombola(*duplicate, "--start", "2030-05-01T09:00:00+00:00", "--end", "2030-05-02T09:00:00+00:00")
    assert result.out.startswith("created the draft Fair (copy): camp_")
    made = (await tombola("campaigns", "list", "--q", "Fair (copy)", "--json")).json
    assert [(one["start_date"], one["end_date"]) for one in made] == [(1903856400, 1903942800)]
    refused = await tombola(*duplicate, "--start", "2030-05-02", "--end", "2030-05-01")
    assert refused.code == EXIT_REFUSED and "end_date" in refused.err


async def test_call_reaches_every_route_of_the_edge(tombola: Operator, own_world: World) -> None:
    wheel = await own_world.wheel(await own_world.prize())
    for _ in range(3):
        assert (await own_world.round(wheel, "ann")).code == "OK"
    first = (await tombola("call", "GET", "/players/ann/plays", "-q", "limit=2")).json
    assert len(first["items"]) == 2 and first["pagination"]["has_more"]
    assert len((await tombola("call", "GET", "/players/ann/plays", "--every")).json) == 3
    for words, why in (
        (("/players/ann/plays", "-q", "limit=2"), "Omit 'limit'"),
        (("/players/ann/plays", "-q", "q=1", "-q", "q=2"), "must not be repeated"),
        (("/me",), "'/me' is not a list"),
    ):
        result = await tombola("call", "GET", *words, "--every")
        assert result.code == EXIT_USE and why in result.err
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
    for words, said in (
        (("GET", "players"), "must be a path below /api/v1/admin"),
        (("GET", "/players?q=x"), "has no query"),
        (("GET", "/players", "-q", "limit"), "'limit' must be name=value"),
        (("POST", "/players", "--every"), "--every requires GET"),
        (("POST", "/campaigns", "-"), "must be an object"),
    ):
        result = await tombola("call", *words, stdin=b"[1]")
        assert result.code == EXIT_USE and said in result.err, words
