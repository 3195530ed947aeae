"""Guests that are merged, planted or farmed: nobody gets more by them than one player may."""

import asyncio
from typing import Any

from tests.support.guests import Guest, guest_who_played, log_in, rewards_of
from tests.support.login import Phone, bearer, let_resend, start, verify
from tests.support.login import log_in as log_in_by_code
from tests.support.quests import open_quest
from tests.support.rivals import held, waits
from tests.support.stack import Answer, Stack, refused
from tests.support.waiting import until
from tests.support.world import World

GUESTS = 3
ON_CLAIM = {"redemption_mode": "on_claim", "channel": "none"}


async def farmed(world: World, game_id: str, *, guests: int = GUESTS) -> str:
    for _ in range(guests):
        player = await log_in(world.stack, await guest_who_played(world, game_id))
    return player


async def claimed(stack: Stack, reward_id: str, player: str) -> Answer:
    return await stack.consumer("POST", f"/rewards/{reward_id}/claim", {}, player=player)


async def test_merged_guests_hold_no_more_of_a_prize_than_one_player_may(own_world: World, stack: Stack) -> None:
    cap = {"constraints": {"max_per_user": 1}, "fulfillment": ON_CLAIM}
    prize_id = await own_world.prize(total=9, **cap)
    game_id = await own_world.wheel(prize_id, access="public")
    player = await farmed(own_world, game_id)
    (reward,) = await rewards_of(stack, player)
    assert (await claimed(stack, reward["id"], player)).code == "OK"
    assert await own_world.stock(prize_id) == (8, 1)
    others = await stack.database.fetch(
        "SELECT reward_id, player_id, status FROM rewards WHERE player_id <> $1", player
    )
    assert [row["status"] for row in others] == ["revoked"] * (GUESTS - 1)
    for row in others:
        assert (await claimed(stack, row["reward_id"], player)).reason == "UNKNOWN_REWARD"
        late = {"player_id": row["player_id"]}
        assert (await stack.core("POST", f"/rewards/{row['reward_id']}/claim", late)).reason == "ILLEGAL_TRANSITION"
    assert (await own_world.round(game_id, player)).data["rewards"] == []


async def test_voucher_codes_that_guests_were_shown_stay_used(own_world: World, stack: Stack) -> None:
    codes = [f"CODE-{n}" for n in range(5)]
    prize_id = await own_world.prize(codes=codes, constraints={"max_per_user": 1})
    player = await farmed(own_world, await own_world.wheel(prize_id, access="public"))
    assert len([row for row in await rewards_of(stack, player) if row["code"]]) == 1
    free = "SELECT count(*) FROM codes WHERE prize_id = $1 AND reward_id IS NULL"
    assert await stack.database.fetchval(free, prize_id) == len(codes) - GUESTS


async def test_guest_is_refused_by_a_game_for_players(own_world: World, stack: Stack) -> None:
    prize_id = await own_world.prize()
    public = await own_world.wheel(prize_id, access="public")
    closed, lenient = [await own_world.wheel(prize_id, rules={"admits_guests": admits}) for admits in (False, True)]
    guest = await guest_who_played(own_world, public)

    async def started(game_id: str) -> Any:
        return await stack.consumer("POST", f"/games/{game_id}/start", {}, headers=guest.bearer)

    refused = await started(closed)
    assert (refused.http, refused.code, refused.reason) == (403, "PERMISSION_DENIED", "LOGIN_REQUIRED")
    shown = (await stack.consumer("GET", f"/games/{closed}/eligibility", headers=guest.bearer)).data
    assert (shown["can_play"], shown["reason"]) == (False, "LOGIN_REQUIRED")
    session = (await started(lenient)).data["session_id"]
    body = {"session_id": session, "payload": {}}
    assert (await stack.consumer("POST", f"/games/{lenient}/play", body, headers=guest.bearer)).code == "OK"
    assert (await stack.admin("GET", f"/admin/games/{lenient}")).data["rules"]["admits_guests"] is True
    assert (await own_world.start(closed, "shop-customer-7")).code == "OK"
    linked = {"player_id": guest.player_id, "contact": {"type": "CONTACT_TYPE_EMAIL", "value": "g@example.com"}}
    assert (await stack.core("POST", "/players/me/contacts", linked)).code == "OK"
    assert (await stack.core("POST", f"/games/{closed}/start", {"player_id": guest.player_id})).code == "OK"


async def test_session_of_a_guest_who_logged_in_plays_no_players_game_without_a_credential(
    own_world: World, stack: Stack
) -> None:
    prize_id = await own_world.prize()
    lenient = await own_world.wheel(prize_id, rules={"admits_guests": True})
    guest = await guest_who_played(own_world, await own_world.wheel(prize_id, access="public"))
    started = await stack.consumer("POST", f"/games/{lenient}/start", {}, headers=guest.bearer)
    session = started.data["session_id"]
    assert (await own_world.play(lenient, session, "")).reason == "TOKEN_MISSING"
    player = await log_in(stack, guest)
    refused = await own_world.play(lenient, session, "")
    assert (refused.http, refused.reason) == (401, "TOKEN_MISSING")
    assert (await own_world.play(lenient, session, player)).code == "OK"


async def test_suspended_guest_stays_suspended_by_logging_in(own_world: World, stack: Stack) -> None:
    game_id = await own_world.wheel(await own_world.prize(fulfillment=ON_CLAIM), access="public")
    guest = await guest_who_played(own_world, game_id)
    path = f"/admin/players/{guest.player_id}"
    assert (await stack.admin("PUT", path, {"status": "PLAYER_STATUS_SUSPENDED"})).code == "OK"
    player = await log_in(stack, guest)
    assert player != guest.player_id and await rewards_of(stack, player) == []
    assert await stack.database.fetchval("SELECT count(*) FROM rewards WHERE player_id = $1", guest.player_id) == 1
    assert (await stack.admin("PUT", path, {"status": "PLAYER_STATUS_ACTIVE"})).code == "OK"
    assert await log_in(stack, guest) == player
    assert len(await rewards_of(stack, player)) == 1


async def test_suspension_by_a_merged_guests_id_suspends_the_player(own_world: World, stack: Stack) -> None:
    game_id = await own_world.wheel(await own_world.prize(), access="public")
    quest_id = await open_quest(stack, own_world.campaign_id, type="one_time")
    guest = await guest_who_played(own_world, game_id)
    player = await log_in(stack, guest)
    path = f"/admin/players/{guest.player_id}"
    done = (await stack.admin("PUT", path, {"status": "PLAYER_STATUS_SUSPENDED", "reason": "a script"})).data
    assert (done["id"], done["status"]) == (player, "PLAYER_STATUS_SUSPENDED")
    entries = await stack.database.fetchval("SELECT subject_id FROM audit_entries WHERE action = 'player.set_status'")
    assert entries == player
    for who in (player, guest.player_id):
        assert (await stack.core("POST", f"/games/{game_id}/start", {"player_id": who})).http == 403
        assert (await stack.core("POST", f"/quests/{quest_id}/complete", {"player_id": who})).reason == "SUSPENDED"
    assert (await stack.admin("PUT", path, {"status": "PLAYER_STATUS_ACTIVE"})).data["id"] == player
    assert (await own_world.start(game_id, player)).code == "OK"


async def test_guest_suspended_during_its_login_is_suspended_as_the_player(own_world: World, stack: Stack) -> None:
    game_id = await own_world.wheel(await own_world.prize(), access="public")
    guest = await guest_who_played(own_world, game_id)
    async with held(stack, "SELECT FROM game_players WHERE player_id = $1 FOR UPDATE", guest.player_id):
        merge = asyncio.ensure_future(log_in(stack, guest))
        await until(lambda: waits(stack, "merging.lock_play_counts"))
        body = {"status": "PLAYER_STATUS_SUSPENDED"}
        suspend = asyncio.ensure_future(stack.admin("PUT", f"/admin/players/{guest.player_id}", body))
        await until(lambda: waits(stack, "players.set_status"))
    player = await merge
    assert (await suspend).data["id"] == player
    assert (await own_world.start(game_id, player)).reason == "SUSPENDED"


EMAIL = "victim@example.com"


async def planted(world: World) -> Guest:
    return await guest_who_played(world, await world.wheel(await world.prize(), access="public"))


async def opens_nothing(stack: Stack, guest: Guest) -> None:
    async def is_refused() -> bool:
        return (await stack.consumer("GET", "/players/me", headers=guest.bearer)).reason == "TOKEN_INVALID"

    await until(is_refused)
    for path in ("/players/me", "/rewards/me", "/wallet", "/players/me/turns"):
        assert (await stack.consumer("GET", path, headers=guest.bearer)).reason == "TOKEN_INVALID", path


async def test_guest_may_not_link_a_contact_but_logs_in_with_it(own_world: World, stack: Stack, phone: Phone) -> None:
    guest = await planted(own_world)
    challenge_id = (await start(stack, EMAIL, "email")).data["challenge_id"]
    code = phone.code(EMAIL)
    body = {"type": "email", "value": EMAIL, "challenge_id": challenge_id, "code": code}
    refusal = await stack.consumer("POST", "/players/me/contacts", body, headers=guest.bearer)
    assert refused(refusal) == (403, "PERMISSION_DENIED", "LOGIN_REQUIRED")
    logged_in = (await verify(stack, challenge_id, code, headers=guest.bearer)).data
    assert logged_in["player"]["id"] != guest.player_id
    rewards = await stack.consumer("GET", "/rewards/me", headers=bearer(logged_in["token"]))
    assert len(rewards.data["items"]) == 1
    await opens_nothing(stack, guest)


async def test_guest_given_a_contact_by_core_loses_its_tokens(own_world: World, stack: Stack, phone: Phone) -> None:
    guest = await planted(own_world)
    linked = {"player_id": guest.player_id, "contact": {"type": "CONTACT_TYPE_EMAIL", "value": EMAIL}}
    for _ in range(2):
        assert (await stack.core("POST", "/players/me/contacts", linked)).code == "OK"
    await opens_nothing(stack, guest)
    assert await log_in(stack, contact=EMAIL) == guest.player_id
    token = (await log_in_by_code(stack, phone, EMAIL, "email"))["token"]
    await let_resend(stack)
    challenge_id = (await start(stack)).data["challenge_id"]
    body = {"type": "phone", "value": "+15550100", "challenge_id": challenge_id, "code": phone.code()}
    assert (await stack.consumer("POST", "/players/me/contacts", body, headers=bearer(token))).code == "OK"
    items = (await stack.consumer("GET", "/rewards/me", headers=bearer(token))).data["items"]
    assert len(items) == 1


async def test_player_that_links_another_contact_stays_logged_in(stack: Stack) -> None:
    for value in ("ann@example.com", "ann@example.org"):
        linked = {"player_id": "player_ann", "contact": {"type": "CONTACT_TYPE_EMAIL", "value": value}}
        assert (await stack.core("POST", "/players/me/contacts", linked)).code == "OK"
    assert (await stack.consumer("GET", "/players/me", player="player_ann")).code == "OK"
    assert await stack.database.fetchval("SELECT count(*) FROM revocations") == 0
