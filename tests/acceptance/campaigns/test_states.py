import time
from typing import Any

from tests.support.stack import refused
from tests.support.world import WHEEL, World, prize_ids

HOUR = 3_600


async def states(world: World, game_id: str, **campaign: Any) -> tuple[str, str, str]:
    """The states of the campaign and of the game, and the reason of a player's eligibility."""
    if campaign:
        changed = await world.stack.admin("PUT", f"/admin/campaigns/{world.campaign_id}", campaign)
        assert changed.http == 200, changed.data
    # Core's views: the edges cache theirs for two seconds, in which plays may change it.
    around = (await world.stack.core("GET", f"/public/campaigns/{world.campaign_id}")).data
    render = (await world.stack.core("GET", f"/games/{game_id}/render")).data["render"]
    standing = await world.eligibility(game_id)
    assert standing["reason"] == render["reason"]
    assert standing["can_play"] == ((await world.start(game_id)).http == 200)
    shown = [around["state"], *(game["state"] for game in around["games"] if game["id"] == game_id), render["state"]]
    assert render["state"] == shown[-2], "the campaign's list and the game's own view agree"
    return shown[0].removeprefix("CAMPAIGN_STATE_"), shown[-1].removeprefix("CAMPAIGN_STATE_"), render["reason"]


async def test_state_is_the_same_in_each_view(world: World) -> None:
    mug = await world.prize(total=1, fulfillment={"redemption_mode": "manual"})
    pen, car = await world.prize(), await world.prize()
    odds = {"prizes": [{"prize_id": car, "probability": 0}, {"prize_id": mug, "probability": 1}]}
    game_id = await world.game(WHEEL, odds, on_unavailable="fallback", fallback_prize_id=pen)
    now = int(time.time())
    assert await states(world, game_id) == ("RUNNING", "RUNNING", "")
    won = await world.round(game_id)
    assert prize_ids(won) == [mug]
    assert await states(world, game_id) == ("SOLD_OUT", "SOLD_OUT", "SOLD_OUT")
    render = (await world.stack.core("GET", f"/games/{game_id}/render")).data["render"]
    assert ([prize["available"] for prize in render["prizes"]], render["timezone"]) == ([False, True], "UTC")
    assert prize_ids(await world.round(game_id)) == [pen], "a sold-out game still gives its consolation"
    assert (await world.stack.admin("PUT", f"/admin/prizes/{mug}", {"stock": {"total": 2}})).http == 200
    assert await states(world, game_id) == ("RUNNING", "RUNNING", "")
    assert await states(world, game_id, status="paused") == ("PAUSED", "PAUSED", "PAUSED")
    dates = {"status": "active", "start_date": now + HOUR, "end_date": now + 2 * HOUR}
    assert await states(world, game_id, **dates) == ("ANNOUNCED", "ANNOUNCED", "NOT_STARTED")
    dates = {"start_date": now - 2 * HOUR, "end_date": now - HOUR, "redeem_until": now + HOUR}
    assert await states(world, game_id, **dates) == ("CLAIMS_OPEN", "CLAIMS_OPEN", "ENDED")
    reward_id = won.data["rewards"][0]["reward_id"]
    claimed = await world.stack.consumer("POST", f"/rewards/{reward_id}/claim", {}, player="ann")
    assert claimed.data["status"] == "REWARD_STATUS_CLAIMED", "a winner can claim after the end"
    assert await states(world, game_id, redeem_until=now - 1) == ("ENDED", "ENDED", "ENDED")


async def test_game_with_dates_of_its_own_is_played_between_them(world: World) -> None:
    now = int(time.time())
    early = await world.wheel(await world.prize(), start_date=now - 2 * HOUR, end_date=now - HOUR)
    open_now = await world.wheel(await world.prize(), start_date=now - HOUR, end_date=now + HOUR)
    late = await world.wheel(await world.prize(), start_date=now + HOUR)
    assert await states(world, early) == ("RUNNING", "ENDED", "ENDED")
    assert await states(world, open_now) == ("RUNNING", "RUNNING", "")
    assert await states(world, late) == ("RUNNING", "ANNOUNCED", "NOT_STARTED")
    assert (await world.eligibility(late))["starts_at"] == now + HOUR
    for game_id, fact in ((early, "closed_at"), (late, "opens_at")):
        answer = await world.start(game_id)
        assert refused(answer)[2] == "GAME_INACTIVE" and answer.envelope["data"][fact]
    session = await world.session(open_now)
    assert (await world.stack.admin("PUT", f"/admin/games/{open_now}", {"end_date": now - 1})).http == 200
    assert (await world.play(open_now, session)).reason == "GAME_INACTIVE", "a session does not outlast the game"
    assert (await world.stack.admin("PUT", f"/admin/games/{late}", {"start_date": now, "end_date": now})).http == 400
    copy = await world.stack.admin(
        "POST", f"/admin/campaigns/{world.campaign_id}/duplicate", {"start_date": now + 10 * 24 * HOUR}
    )
    listed = (await world.stack.admin("GET", "/admin/games", campaign_id=copy.data["id"])).data["items"]
    starts = sorted(int(game["start_date"]) for game in listed)
    assert starts == sorted(at + copy.data["shift_days"] * 24 * HOUR for at in (now - 2 * HOUR, now - HOUR, now + HOUR))
    body = {"start_date": now - HOUR, "end_date": now + HOUR}
    assert (await world.stack.admin("PUT", f"/admin/campaigns/{world.campaign_id}", body)).http == 200
    found = await world.stack.admin("GET", f"/admin/campaigns/{world.campaign_id}/launch-check")
    fields = {item["field"] for item in found.data["items"] if item["level"] == "LAUNCH_LEVEL_PROBLEM"}
    assert f"games/{late}.start_date" in fields and f"games/{early}.end_date" in fields
