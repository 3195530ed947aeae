"""A farmer of guests: an unplayed guest leaves no row and costs no query, and an address makes few of them."""

from typing import Any

import pytest

from tests.support.world import World


async def test_guest_gets_a_row_only_by_playing(world: World) -> None:
    game_id = await world.wheel(await world.prize(), access="public")
    before = await world.count("players")
    trips = world.database.round_trips
    for _ in range(20):
        started = (await world.start(game_id, "")).data
        assert (await world.eligibility(game_id, ""))["can_play"]
    assert await world.count("players") == before
    assert world.database.round_trips - trips < 20  # What is remembered of the game is compared once a second.
    token = {"Authorization": f"Bearer {started['guest_token']}"}
    again = (await world.start(game_id, "", **token)).data  # Known by its token, and still without a play.
    assert await world.count("players") == before
    assert (await world.play(game_id, again["session_id"], "", headers=token)).http == 200
    assert (await world.play(game_id, started["session_id"], "")).http == 200
    rows = await world.database.fetch(
        "SELECT auth_method, plays FROM players JOIN game_players USING (tenant_id, player_id) WHERE game_id = $1",
        game_id,
    )
    assert [tuple(row) for row in rows] == [("guest", 2)]


async def test_guest_session_adds_no_database_query(world: World) -> None:
    game_id = await world.wheel(await world.prize(), access="public")
    await world.round(game_id, "")
    trips = []
    for _ in range(4):  # Background jobs of the service ask the database as well, now and then.
        before = world.database.round_trips
        started = (await world.start(game_id, "")).data
        assert (await world.play(game_id, started["session_id"], "")).http == 200
        trips.append(world.database.round_trips - before)
    assert min(trips) <= 3  # A look, a commit, and the look of a second that has passed.


@pytest.mark.parametrize("first", ["profile", "quest", "login"])
async def test_guest_is_recorded_as_a_guest_whatever_its_first_action(world: World, first: str) -> None:
    game_id = await world.wheel(await world.prize(), access="public")
    started = (await world.start(game_id, "")).data
    token = {"Authorization": f"Bearer {started['guest_token']}"}
    guest = started["session_id"].rpartition(".")[2]
    match first:
        case "profile":
            assert (
                await world.stack.consumer("PUT", "/players/me", {"display_name": "Gus"}, headers=token)
            ).http == 200
        case "quest":
            quest = {"campaign_id": world.campaign_id, "name": "Q", "turns": 1, "type": "one_time", "status": "active"}
            quest_id = (await world.stack.admin("POST", "/admin/quests", quest)).data["id"]
            assert (await world.stack.consumer("POST", f"/quests/{quest_id}/complete", {}, headers=token)).http == 200
        case "login":
            contact = {"type": "CONTACT_TYPE_EMAIL", "value": f"{guest}@example.com"}
            body = {"contact": contact, "guest_player_id": guest}
            assert (await world.stack.core("POST", "/players/resolve", body)).http == 200
    row = await world.database.fetchrow("SELECT auth_method, merged_into FROM players WHERE player_id = $1", guest)
    assert row is not None and row["auth_method"] == "guest"
    assert (row["merged_into"] is not None) == (first == "login")


@pytest.fixture
def extra_settings() -> dict[str, Any]:
    return {"rate_limits": True, "rate_guest_per_second": 0.001, "rate_guest_burst": 5}


async def test_new_guests_of_one_address_are_limited_to_the_rate_of_one_player(own_world: World) -> None:
    game_id = await own_world.wheel(access="public")
    answers = [await own_world.start(game_id, "") for _ in range(8)]
    assert [answer.http for answer in answers] == [200] * 5 + [429] * 3
    assert (answers[-1].reason, answers[-1].envelope["data"]["policy"]) == ("RATE_LIMITED", "guest")
    assert int(answers[-1].headers["Retry-After"]) > 1
    token = {"Authorization": f"Bearer {answers[0].data['guest_token']}"}
    assert (await own_world.start(game_id, "", **token)).http == 200
    assert (await own_world.start(game_id, "ann")).http == 200
