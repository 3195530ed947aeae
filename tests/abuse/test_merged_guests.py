"""Guests that are merged, planted or farmed: nobody, and no wallet, gets more by them than one player may."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.support.guests import Guest, guest_who_played, log_in, rewards_of, wallet_of
from tests.support.login import Phone, bearer, let_resend, start, verify
from tests.support.login import log_in as log_in_by_code
from tests.support.resources import block, rung
from tests.support.rivals import begun, held, waits
from tests.support.stack import Answer, Stack, refused
from tests.support.waiting import until
from tests.support.world import COINS, COLLECTION, World

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
    rest = await stack.database.fetch("SELECT reward_id, player_id, status FROM rewards WHERE player_id <> $1", player)
    assert [row["status"] for row in rest] == ["revoked"] * (GUESTS - 1)
    for row in rest:
        assert (await claimed(stack, row["reward_id"], player)).reason == "UNKNOWN_REWARD"
        late = {"player_id": row["player_id"]}
        assert (await stack.core("POST", f"/rewards/{row['reward_id']}/claim", late)).reason == "ILLEGAL_TRANSITION"
    assert (await own_world.round(game_id, player)).data["rewards"] == []


async def test_unspent_turns_of_a_capped_prize_stay_with_the_guest(own_world: World, stack: Stack) -> None:
    prize_id = await own_world.prize(type="turns", value=10, constraints={"max_per_user": 1})
    wheel = await own_world.wheel(prize_id, access="public")
    paid = await own_world.wheel(await own_world.prize(), access="public", rules={"requires_turn": True})
    player = await log_in(stack)
    await own_world.round(wheel, player)
    guest = await guest_who_played(own_world, wheel)
    await own_world.round(paid, guest.player_id)
    assert await log_in(stack, guest) == player
    assert (await own_world.eligibility(paid, player))["remaining_turns"] == 10
    reward_id = await stack.database.fetchval("SELECT reward_id FROM rewards WHERE player_id = $1", guest.player_id)
    refused = await stack.admin("POST", f"/admin/rewards/{reward_id}/revoke", {})
    assert refused.envelope["data"] == {"reason": "INSUFFICIENT_BALANCE", "balance": 9}


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
    body = {"session_id": (await started(lenient)).data["session_id"], "payload": {}}
    assert (await stack.consumer("POST", f"/games/{lenient}/play", body, headers=guest.bearer)).code == "OK"
    assert (await stack.admin("GET", f"/admin/games/{lenient}")).data["rules"]["admits_guests"] is True
    assert (await own_world.start(closed, "shop-customer-7")).code == "OK"
    linked = {"player_id": guest.player_id, "contact": {"type": "CONTACT_TYPE_EMAIL", "value": "g@example.com"}}
    assert (await stack.core("POST", "/players/me/contacts", linked)).code == "OK"
    assert (await stack.core("POST", f"/games/{closed}/start", {"player_id": guest.player_id})).code == "OK"


async def test_session_from_before_the_login_plays_no_players_game_unidentified(own_world: World, stack: Stack) -> None:
    prize_id = await own_world.prize()
    lenient = await own_world.wheel(prize_id, rules={"admits_guests": True})
    guest = await guest_who_played(own_world, await own_world.wheel(prize_id, access="public"))
    session = (await stack.consumer("POST", f"/games/{lenient}/start", {}, headers=guest.bearer)).data["session_id"]
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
    quest_id = await own_world.quest()
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
        merge = await begun(stack, log_in(stack, guest), "merging.lock_play_counts")
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
    await until(
        lambda: stack.consumer("GET", "/players/me", headers=guest.bearer), lambda it: it.reason == "TOKEN_INVALID"
    )
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
    assert len((await stack.consumer("GET", "/rewards/me", headers=bearer(logged_in["token"]))).data["items"]) == 1
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
    assert len((await stack.consumer("GET", "/rewards/me", headers=bearer(token))).data["items"]) == 1


async def test_player_that_links_another_contact_stays_logged_in(stack: Stack) -> None:
    for value in ("ann@example.com", "ann@example.org"):
        linked = {"player_id": "player_ann", "contact": {"type": "CONTACT_TYPE_EMAIL", "value": value}}
        assert (await stack.core("POST", "/players/me/contacts", linked)).code == "OK"
    assert (await stack.consumer("GET", "/players/me", player="player_ann")).code == "OK"
    assert await stack.database.fetchval("SELECT count(*) FROM revocations") == 0


POINTS = 50
"""Of the rung `points`, which costs two coins: what one play credits."""


async def exchange(world: World, *rungs: dict[str, Any]) -> str:
    points = await world.prize(type="points", value=POINTS)
    sold = block(rung("points", 2, points), *rungs, auto_grant=False, mode="SPEND_EXCHANGE")
    return await world.game(COLLECTION, COINS, access="public", milestones=sold)


async def buy(world: World, game_id: str, who: str, *rungs: str) -> None:
    for name in rungs:
        assert (await world.redeem(game_id, name, who)).code == "OK"


async def player_who_bought(world: World, game_id: str, *rungs: str) -> str:
    player = await log_in(world.stack)
    await world.round(game_id, player)
    await buy(world, game_id, player, *rungs)
    return player


async def guest_who_bought(world: World, game_id: str, *rungs: str) -> Guest:
    guest = await guest_who_played(world, game_id)
    await buy(world, game_id, guest.player_id, *rungs)
    return guest


async def adjust(world: World, player: str, points: int) -> None:
    wallet = {"player_id": player, "scope_key": world.campaign_id, "currency": "points", "reference_id": "r"}
    assert (await world.stack.admin("POST", "/admin/wallet/adjustments", {**wallet, "amount": points})).code == "OK"


async def test_purchases_of_guest_points_are_refunded_before_points_are_taken(own_world: World, stack: Stack) -> None:
    mug = await own_world.prize(total=9, fulfillment=ON_CLAIM)
    game_id = await exchange(own_world, rung("mug", POINTS, mug, "points"))
    player = await player_who_bought(own_world, game_id, "points", "mug")
    for nth in range(1, GUESTS + 1):
        assert await log_in(stack, await guest_who_bought(own_world, game_id, "points", "mug")) == player
        assert await wallet_of(stack, player) == {"coin": 2 * nth, "points": 0}
    assert len(await rewards_of(stack, player)) == 2
    assert await own_world.stock(mug) == (8, 1)


async def test_price_is_refunded_only_with_the_points_that_it_bought(own_world: World, stack: Stack) -> None:
    game_id = await exchange(own_world, rung("mug", POINTS, await own_world.prize(total=9), "points"))
    player = await player_who_bought(own_world, game_id, "points", "mug")
    for _ in range(GUESTS):
        assert await log_in(stack, await guest_who_bought(own_world, game_id, "points", "mug")) == player
        assert await wallet_of(stack, player) == {"coin": 0, "points": 0}
    assert len(await rewards_of(stack, player)) == 2


async def test_price_of_half_spent_points_is_half_refunded(own_world: World, stack: Stack) -> None:
    game_id = await exchange(own_world, rung("pin", POINTS // 2, await own_world.prize(), "points"))
    player = await player_who_bought(own_world, game_id, "points")
    assert await wallet_of(stack, player) == {"coin": 0, "points": POINTS}
    await buy(own_world, game_id, player, "pin")
    await adjust(own_world, player, -POINTS // 2)
    assert await log_in(stack, await guest_who_bought(own_world, game_id, "points", "pin")) == player
    assert await wallet_of(stack, player) == {"coin": 1, "points": 0}


async def test_unspent_points_of_a_rung_are_taken_back(own_world: World, stack: Stack) -> None:
    ten = await own_world.prize(type="points", value=10)
    free = await own_world.game(COLLECTION, COINS, access="public", milestones=block(rung("ten", 2, ten)))
    pin, jar = await own_world.prize(), await own_world.prize()
    shop = await exchange(own_world, rung("pin", 4, pin, "points"), rung("jar", 10, jar, "points"))
    player = await log_in(stack)
    await own_world.round(free, player)
    await buy(own_world, shop, player, "jar")
    guest = await guest_who_played(own_world, free)
    await buy(own_world, shop, guest.player_id, "pin")
    assert await log_in(stack, guest) == player
    assert await wallet_of(stack, player) == {"coin": 4, "points": 0}


async def test_points_are_taken_back_at_what_they_were_won_for(own_world: World, stack: Stack) -> None:
    prize_id = await own_world.prize(type="points", value=10, constraints={"max_per_user": 1})
    wheel = await own_world.wheel(prize_id, access="public")
    player = await log_in(stack)
    await own_world.round(wheel, player)
    await adjust(own_world, player, 500)
    for value in (1_000, 1):
        guest = await guest_who_played(own_world, wheel)
        assert (await stack.admin("PUT", f"/admin/prizes/{prize_id}", {"value": value})).code == "OK"
        assert await log_in(stack, guest) == player
        assert (await stack.admin("PUT", f"/admin/prizes/{prize_id}", {"value": 10})).code == "OK"
        assert await wallet_of(stack, player) == {"points": 510}


async def test_points_of_two_rungs_are_capped_as_one_players(own_world: World, stack: Stack) -> None:
    capped = await own_world.prize(type="points", value=10, constraints={"max_per_user": 1})
    rungs = block(*(rung(name, 2, capped) for name in ("one", "other")), auto_grant=False, mode="SPEND_EXCHANGE")
    game_id = await own_world.game(COLLECTION, COINS, access="public", milestones=rungs)
    wheel = await own_world.wheel(capped, access="public")
    player = await player_who_bought(own_world, game_id, "one")
    assert await log_in(stack, await guest_who_bought(own_world, game_id, "other")) == player
    assert await wallet_of(stack, player) == {"coin": 2, "points": 10}
    guest = await guest_who_bought(own_world, game_id, "one")
    path = f"/admin/prizes/{capped}"
    assert (await stack.admin("PUT", path, {"constraints": {"max_per_user": 2}})).code == "OK"
    await own_world.round(wheel, guest.player_id)
    assert (await wallet_of(stack, guest.player_id))["points"] == 20
    assert (await stack.admin("PUT", path, {"constraints": {"max_per_user": 1}})).code == "OK"
    other = await log_in(stack, guest, "bob@example.com")
    assert await wallet_of(stack, other) == {"coin": 0, "points": 20}, "won before the cap was lowered"


@pytest.mark.settings(rate_limits=True, rate_guest_per_second=0.001, rate_guest_burst=GUESTS)
async def test_goods_bought_with_free_rung_points_are_kept_by_each_guest(own_world: World, stack: Stack) -> None:
    ten = await own_world.prize(type="points", value=10)
    free = await own_world.game(COLLECTION, COINS, access="public", milestones=block(rung("ten", 2, ten)))
    goods = [rung(f"good{nth}", 10, await own_world.prize(fulfillment=ON_CLAIM), "points") for nth in range(5)]
    shop = await own_world.game(
        COLLECTION, COINS, access="public", milestones=block(*goods, auto_grant=False, mode="SPEND_EXCHANGE")
    )
    player = await log_in(stack)
    for nth in range(GUESTS):
        guest = await guest_who_played(own_world, free)
        await buy(own_world, shop, guest.player_id, f"good{nth}")
        assert len(await rewards_of(stack, guest.player_id)) == 2  # Which it keeps, whether it logs in or not.
        assert await log_in(stack, guest) == player
    won = Counter(row["milestone_id"] for row in await rewards_of(stack, player))
    assert won == {"ten": 1, **{f"good{nth}": 1 for nth in range(GUESTS)}}
    assert await wallet_of(stack, player) == {"coin": 2 * GUESTS, "points": 0}
    assert refused(await own_world.start(free, "")) == (429, "RESOURCE_EXHAUSTED", "RATE_LIMITED")
    await own_world.round(free, player)
    assert (await own_world.redeem(shop, f"good{GUESTS}", player)).reason == "THRESHOLD_NOT_REACHED"
