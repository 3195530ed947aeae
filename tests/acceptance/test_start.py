"""POST /games/{id}/start: a session, a promise of the draw, and a plan that tells nothing of it."""

from __future__ import annotations

import hashlib
import time

import pytest

from tests.support.draws import hand_pick, plan_word
from tests.support.stack import OTHER_TENANT, Stack
from tests.support.world import GIFTS, World


async def test_a_start_promises_a_draw_and_says_when_it_ends(own_world: World) -> None:
    game_id = await own_world.wheel(await own_world.prize())
    started = (await own_world.start(game_id)).data
    assert started.keys() == {"session_id", "seed_hash", "expires_at", "commitment", "revision_hash"}
    assert started["session_id"].startswith("sess_")
    assert len(bytes.fromhex(started["seed_hash"])) == 32
    assert 890 <= started["expires_at"] - time.time() <= 910
    played = (await own_world.play(game_id, started["session_id"])).data
    assert hashlib.sha256(bytes.fromhex(played["seed"])).hexdigest() == started["seed_hash"] == played["seed_hash"]


async def test_a_start_writes_no_play_and_makes_the_player(own_world: World) -> None:
    game_id = await own_world.wheel()
    sessions = {await own_world.session(game_id) for _ in range(5)}
    assert len(sessions) == 5
    assert await own_world.count("plays") == 0
    assert await own_world.database.fetchval("SELECT auth_method FROM players WHERE player_id = 'ann'") == "external"


async def test_the_plan_of_a_gift_catcher_follows_from_a_key_of_its_own(own_world: World) -> None:
    drops = [
        {"type": "gold", "prize_id": await own_world.prize(), "frequency": 1, "max_catchable": 2},
        {"type": "coal", "prize_id": "", "frequency": 3, "max_catchable": 9},
    ]
    game_id = await own_world.game(GIFTS, {"drops": drops, "total_items": 40, "interval_ms": 50})
    started = (await own_world.start(game_id)).data
    plan = started["drop_plan"]
    assert [item["at_ms"] for item in plan] == [50 * j for j in range(40)]
    assert len({item["id"] for item in plan}) == 40
    seed = (await own_world.play(game_id, started["session_id"], payload={"caught_items": []})).data["seed"]
    by_hand = [drops[hand_pick([0.25, 0.75], plan_word(seed, j)) or 0]["type"] for j in range(40)]
    assert [item["type"] for item in plan] == by_hand


async def test_a_guest_of_a_public_game_gets_a_token_that_is_its_own(own_world: World, stack: Stack) -> None:
    game_id = await own_world.wheel(await own_world.prize(), access="public", rules={"max_plays_per_user": 1})
    started = (await own_world.start(game_id, player="")).data
    bearer = {"Authorization": f"Bearer {started['guest_token']}"}
    # The session names the guest: no token is needed beside it.
    assert (await own_world.play(game_id, started["session_id"], player="")).data["rewards"]
    again = await stack.consumer("POST", f"/games/{game_id}/start", {}, headers=bearer)
    assert (again.code, again.reason) == ("FAILED_PRECONDITION", "CAP_USER")
    mine = await stack.consumer("GET", f"/games/{game_id}/history/me", headers=bearer)
    assert len(mine.data["items"]) == 1
    # The next one without a token is another guest.
    assert (await own_world.start(game_id, player="")).data["guest_token"] != started["guest_token"]


async def test_nobody_starts_a_players_game(own_world: World) -> None:
    answer = await own_world.start(await own_world.wheel(), player="")
    assert (answer.http, answer.code, answer.reason) == (401, "UNAUTHENTICATED", "TOKEN_MISSING")
    assert await own_world.count("players") == 0


async def test_a_paused_game_does_not_start(own_world: World) -> None:
    answer = await own_world.start(await own_world.wheel(status="paused"))
    assert (answer.http, answer.code, answer.reason) == (400, "FAILED_PRECONDITION", "GAME_INACTIVE")


@pytest.mark.parametrize(
    "closed",
    [
        {"status": "CAMPAIGN_STATUS_PAUSED"},
        {"status": "CAMPAIGN_STATUS_ENDED"},
        {"start_date": 4_000_000_000},
        {"end_date": 1_000_000_000},
    ],
)
async def test_a_closed_campaign_starts_nothing_and_plays_nothing(
    own_world: World, stack: Stack, closed: dict[str, object]
) -> None:
    game_id = await own_world.wheel()
    session = await own_world.session(game_id)
    (await stack.admin("PUT", f"/admin/campaigns/{own_world.campaign_id}", closed)).data  # noqa: B018
    for answer in (await own_world.start(game_id), await own_world.play(game_id, session)):
        assert (answer.code, answer.reason) == ("FAILED_PRECONDITION", "CAMPAIGN_CLOSED")
    assert await own_world.count("plays") == 0


async def test_a_game_of_another_tenant_is_unknown(own_world: World, stack: Stack) -> None:
    game_id = await own_world.wheel()
    session = await own_world.session(game_id)
    bearer = {
        "Authorization": f"Bearer {stack.token('ann', tenant_id=OTHER_TENANT)}",
        "X-Tenant-Id": OTHER_TENANT,
    }
    theirs = await stack.consumer("POST", f"/games/{game_id}/start", {}, headers=bearer)
    nobodys = await stack.consumer("POST", "/games/game_none/start", {}, headers=bearer)
    assert (theirs.http, theirs.code, theirs.reason) == (404, "NOT_FOUND", "UNKNOWN_GAME")
    assert (nobodys.http, nobodys.code, nobodys.reason) == (theirs.http, theirs.code, theirs.reason)
    body = {"session_id": session, "payload": {}}
    play = await stack.consumer("POST", f"/games/{game_id}/play", body, headers=bearer)
    assert (play.http, play.reason) == (403, "SESSION_INVALID")


async def test_a_session_tells_nothing_of_its_seed(own_world: World) -> None:
    game_id = await own_world.wheel()
    started = (await own_world.start(game_id)).data
    played = (await own_world.play(game_id, started["session_id"])).data
    for part in (played["seed"][:16], played["seed"][-16:]):
        assert part not in started["session_id"] + started["seed_hash"]


async def test_over_core_the_same_fields_come_back(own_world: World, stack: Stack) -> None:
    game_id = await own_world.wheel(await own_world.prize())
    started = (await stack.core("POST", f"/games/{game_id}/start", {"player_id": "ann"})).data
    assert started["expires_at"] == str(int(started["expires_at"]))
    body = {"player_id": "ann", "session_id": started["session_id"], "payload": {}}
    played = (await stack.core("POST", f"/games/{game_id}/play", body)).data
    assert played["seed_hash"] == started["seed_hash"]
    assert len(played["rewards"]) == 1
