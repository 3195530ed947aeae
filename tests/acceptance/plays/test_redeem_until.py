"""What players have earned by a campaign's end is redeemed until its `redeem_until`, and no longer."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from runtime.operations.files import kinds
from tests.support.milestones import block, rung
from tests.support.resources import make_campaign
from tests.support.stack import Stack, fields_of, refused
from tests.support.world import COINS, COLLECTION, World

HOUR, DAY = 3_600, 86_400
CLOSED = (400, "FAILED_PRECONDITION", "CAMPAIGN_CLOSED")


def ago(seconds: int) -> int:
    return int(time.time()) - seconds


async def earned(world: World, *, players: tuple[str, ...] = ("ann",), **fields: Any) -> str:
    prize_id = await world.prize(**fields)
    rungs = block(rung("one", 2, prize_id), rung("two", 2, prize_id), auto_grant=False)
    game_id = await world.game(COLLECTION, COINS, milestones=rungs)
    for player in players:
        await world.round(game_id, player)
    return game_id


async def put(stack: Stack, world: World, **fields: Any) -> dict[str, Any]:
    return dict((await stack.admin("PUT", f"/admin/campaigns/{world.campaign_id}", fields)).data)


@pytest.mark.parametrize("ended", ["by its date", "by hand", "paused before its date"])
async def test_redeem_is_open_after_the_end_until_redeem_until(own_world: World, stack: Stack, ended: str) -> None:
    game_id = await earned(own_world, total=1)
    until = ago(-HOUR)
    if ended == "by hand":
        await put(stack, own_world, status="CAMPAIGN_STATUS_ENDED", redeem_until=until)
    else:
        paused = {"status": "CAMPAIGN_STATUS_PAUSED"} if ended.startswith("paused") else {}
        await put(stack, own_world, end_date=ago(HOUR), redeem_until=until, **paused)
    assert refused(await own_world.start(game_id)) == CLOSED
    assert (await own_world.redeem(game_id, "one")).data["milestone"]["status"] == "MILESTONE_STATUS_GRANTED"
    # As before the end: what is gone is gone, and a rung is granted once.
    assert (await own_world.redeem(game_id, "two")).reason == "OUT_OF_STOCK"
    assert (await own_world.redeem(game_id, "one")).reason == "ALREADY_GRANTED"


async def test_redeem_after_redeem_until_is_refused_with_closed_at(own_world: World, stack: Stack) -> None:
    game_id = await earned(own_world, total=5)
    until = ago(60)
    await put(stack, own_world, end_date=ago(HOUR), redeem_until=until)
    late = await own_world.redeem(game_id, "one")
    assert refused(late) == CLOSED
    assert late.envelope["data"]["closed_at"] == until
    assert await own_world.database.fetchval("SELECT awarded FROM stock") == 0
    # Staff may give more time, though the campaign has ended.
    assert (await put(stack, own_world, redeem_until=ago(-HOUR)))["status"] == "CAMPAIGN_STATUS_ENDED"
    assert (await own_world.redeem(game_id, "one")).http == 200


async def test_claim_is_open_after_redeem_until(own_world: World, stack: Stack) -> None:
    """Claims know no end but the reward's own, `expires_at`."""
    claimed = {"channel": "none", "redemption_mode": "REDEMPTION_MODE_ON_CLAIM"}
    (won,) = (await own_world.round(await own_world.wheel(await own_world.prize(fulfillment=claimed)))).data["rewards"]
    await put(stack, own_world, end_date=ago(2 * HOUR), redeem_until=ago(HOUR))
    claim = await stack.consumer("POST", f"/rewards/{won['reward_id']}/claim", {}, player="ann")
    assert claim.data["status"] == "REWARD_STATUS_FULFILLED"


async def test_redeem_until_is_read_as_it_was_set(own_world: World, stack: Stack) -> None:
    end, until = ago(-HOUR), ago(-2 * HOUR)
    assert (await put(stack, own_world, end_date=end, redeem_until=until))["redeem_until"] == until
    path = f"/campaigns/{own_world.campaign_id}"
    assert (await stack.admin("GET", f"/admin{path}")).data["redeem_until"] == until
    assert (await stack.consumer("GET", f"/public{path}")).data["redeem_until"] == until
    [listed] = (await stack.admin("GET", "/admin/campaigns")).data["items"]
    assert listed["redeem_until"] == until
    assert (await put(stack, own_world, name="Other"))["redeem_until"] == until, "what is left out stays"
    assert (await put(stack, own_world, redeem_until=0))["redeem_until"] == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"end_date": 2_000_000_000, "redeem_until": 1_999_999_999},
        {"start_date": 2_000_000_000, "redeem_until": 1_999_999_999},
        {"redeem_until": -1},
        {"redeem_until": 10**15},
    ],
)
async def test_redeem_until_before_the_end_is_refused(stack: Stack, fields: dict[str, Any]) -> None:
    body = {"name": "Autumn", **fields}
    assert fields_of(await stack.admin("POST", "/admin/campaigns", body)) == ["redeem_until"]
    made = await make_campaign(stack)
    assert fields_of(await stack.admin("PUT", f"/admin/campaigns/{made['id']}", fields)) == ["redeem_until"]
    # A later end leaves none of it behind unnoticed.
    dated = await make_campaign(stack, end_date=1_000, redeem_until=1_000)
    moved = await stack.admin("PUT", f"/admin/campaigns/{dated['id']}", {"name": "On"})
    assert moved.data["redeem_until"] == 1_000
    early = await make_campaign(stack, end_date=ago(-HOUR), redeem_until=ago(-2 * HOUR))
    later = await stack.admin("PUT", f"/admin/campaigns/{early['id']}", {"end_date": ago(-DAY)})
    assert fields_of(later) == ["redeem_until"]


async def test_redeem_until_shifts_with_the_dates_of_a_duplicate(stack: Stack) -> None:
    zone = "Europe/Berlin"
    start = ago(200 * DAY + HOUR)
    dates = {"start_date": start, "end_date": start + 30 * DAY, "redeem_until": start + 60 * DAY}
    campaign = await make_campaign(stack, timezone=zone, **dates)
    copy = (await stack.admin("POST", f"/admin/campaigns/{campaign['id']}/duplicate", {})).data

    def local(seconds: int) -> datetime:
        return datetime.fromtimestamp(seconds, ZoneInfo(zone))

    moved = {(local(copy[name]).date() - local(campaign[name]).date()).days for name in dates}
    assert len(moved) == 1
    assert local(copy["redeem_until"]).time() == local(campaign["redeem_until"]).time()


def test_redeem_until_is_a_date_in_campaign_files() -> None:
    assert "redeem_until" in kinds.CAMPAIGN.settable and "redeem_until" in kinds.TIMES
