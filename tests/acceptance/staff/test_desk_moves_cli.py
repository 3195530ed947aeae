"""`tombola players|deliveries|integrations|call`: what staff does to one thing, run as an operator runs it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from runtime.commands.connection import EXIT_REFUSED, EXIT_UNCONFIRMED
from runtime.commands.environment import EXIT_USE
from tests.support.guests import guest_who_played, log_in
from tests.support.operator import Operator
from tests.support.resources import make_campaign
from tests.support.stack import Stack, fields_of
from tests.support.world import COINS, COLLECTION, World

SENT = {"channel": "webhook", "config": {"url": "https://shop.example/won"}}


@pytest.fixture
def tombola(stack: Stack, tmp_path: Path) -> Operator:
    return Operator(stack, tmp_path)


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
