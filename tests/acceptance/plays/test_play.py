"""POST /games/{id}/play: every shape of game, limits, keys, turns, and draws that anybody can check."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import pytest

from tests.support.leaderboards import make_board
from tests.support.milestones import block, rung
from tests.support.stack import Answer, Stack, fields_of, refused
from tests.support.world import COINS, COLLECTION, EGGS, GIFTS, TIMED, World, new_world


@pytest.fixture(scope="module", params=[True, False], ids=["short_path", "aiohttp"])
def module_extra_settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Runs the tests of a shared process on both ways to answer a POST."""
    return {"short_path": request.param}


async def test_impossible_score_is_refused_and_uses_up_nothing(world: World) -> None:
    config = {"tiers": [], "prize_groups": {}, "max_score": 200, "max_score_per_second": 100}
    game_id = await world.game(EGGS, config, rules=TIMED)
    session = await world.session(game_id)
    for payload, reason, message in (
        ({"score": -1, "duration_ms": 10}, "VALIDATION", "payload.score"),
        ({}, "VALIDATION", "payload.score"),
        ({"score": 201, "duration_ms": 2000}, "IMPLAUSIBLE_SCORE", "at most 200, the highest score"),
        ({"score": 101, "duration_ms": 1000}, "IMPLAUSIBLE_SCORE", "at most 100 in 1000 ms: .* 100 a second"),
        ({"score": 1, "duration_ms": 60_000}, "IMPLAUSIBLE_SCORE", r"verify_timing.*at most 2\d\d\d"),
    ):
        answer = await world.play(game_id, session, payload=payload)
        assert refused(answer) == (400, "INVALID_ARGUMENT", reason), payload
        assert re.search(message, answer.envelope["message"]), answer.envelope
        assert all(row["field"].startswith("payload") for row in answer.envelope["data"]["violations"])
    assert await world.plays() == []
    assert (await world.play(game_id, session, payload={"score": 1, "duration_ms": 100})).data["rewards"] == []


async def test_clock_decides_only_where_a_game_verifies_timing(world: World) -> None:
    drops = [{"type": "gold", "prize_id": await world.prize(), "frequency": 1, "max_catchable": 9}]
    limits = {"tiers": [], "prize_groups": {}, "max_score_per_second": 1}
    for shape, config, payload, reason in (
        (EGGS, limits, {"score": 5, "duration_ms": 30_000}, "IMPLAUSIBLE_SCORE"),
        (GIFTS, {"drops": drops, "total_items": 3, "interval_ms": 60_000}, {"caught_items": ["item_1"]}, "NOT_IN_PLAN"),
    ):
        for verifies in (False, True):
            game_id = await world.game(shape, config, rules={"verify_timing": verifies})
            answers = [await world.round(game_id, payload=payload) for _ in range(2)]
            assert [answer.reason for answer in answers] == [reason if verifies else ""] * 2


async def test_wallet_scope_decides_which_games_share_a_wallet(module_stack: Stack) -> None:
    merchant = await module_stack.admin("POST", "/admin/merchants", {"name": "Shop"})
    merchant_id = merchant.data["id"]
    async with (
        new_world(module_stack, merchant_id=merchant_id) as one,
        new_world(module_stack, merchant_id=merchant_id) as two,
    ):
        for scope, shared in (
            ("WALLET_SCOPE_CAMPAIGN", 2),
            ("WALLET_SCOPE_MERCHANT", 4),
            ("WALLET_SCOPE_TENANT", 4),
        ):
            games = [await world.game(COLLECTION, COINS, wallet_scope=scope) for world in (one, two)]
            await one.round(games[0], player=scope)
            reply = (await two.round(games[1], player=scope)).data
            assert reply["balances"] == [{"currency": "coin", "balance": shared}]
        keys = {}
        for scope in ("CAMPAIGN", "MERCHANT", "TENANT"):
            wallet = await module_stack.consumer("GET", "/wallet", player=f"WALLET_SCOPE_{scope}")
            keys[scope] = {row["scope_key"] for row in wallet.data["items"]}
        assert keys == {
            "CAMPAIGN": {one.campaign_id, two.campaign_id},
            "MERCHANT": {merchant_id},
            "TENANT": {module_stack.tenant_id},
        }


async def test_play_beyond_a_cap_is_refused_with_its_reset_time(world: World) -> None:
    game_id = await world.wheel(rules={"max_plays_per_day": 2, "max_plays_per_user": 3})
    sessions = [await world.session(game_id) for _ in range(4)]
    answers = [await world.play(game_id, session) for session in sessions]
    assert [answer.http for answer in answers] == [200, 200, 400, 400]
    assert refused(answers[2]) == (400, "FAILED_PRECONDITION", "CAP_DAY")
    midnight = (int(time.time()) // 86400 + 1) * 86400
    assert answers[2].envelope["data"]["resets_at"] == midnight
    assert refused(await world.start(game_id)) == (400, "FAILED_PRECONDITION", "CAP_DAY")
    # Turns go beyond the free plays of a day, within the cap that is for ever. The refused sessions are still good.
    await world.turns("ann", 5)
    assert (await world.play(game_id, sessions[2])).http == 200
    last = await world.play(game_id, sessions[3])
    assert (last.reason, last.envelope["data"]["resets_at"]) == ("CAP_USER", 0)
    left = await world.eligibility(game_id)
    assert (left["remaining_turns"], left["reason"]) == (4, "CAP_USER")


async def test_key_of_a_refused_play_stays_free(world: World) -> None:
    game_id = await world.wheel(rules={"requires_turn": True})
    await world.turns("rea", 1)
    one, two = [await world.session(game_id, "rea") for _ in range(2)]
    assert (await world.play(game_id, one, "rea")).http == 200
    assert (await world.play(game_id, two, "rea", key="k3")).reason == "NO_TURNS"
    await world.turns("rea", 1)
    assert (await world.play(game_id, two, "rea", key="k3")).http == 200


async def test_key_is_answered_by_core_from_the_row_alone(world: World, module_stack: Stack) -> None:
    """Core has no ephemeral answers: what it replays, it replays from the play's row."""
    game_id = await world.wheel(await world.prize(), rules={"max_plays_per_user": 1})
    session = (await module_stack.core("POST", f"/games/{game_id}/start", {"player_id": "kim"})).data["session_id"]
    body = {"player_id": "kim", "session_id": session, "payload": {}, "idempotency_key": "k4"}
    answers = await asyncio.gather(*(module_stack.core("POST", f"/games/{game_id}/play", body) for _ in range(50)))
    assert all(answer.data == answers[0].data for answer in answers)
    assert len(await world.plays()) == 1
    other = await module_stack.core("POST", f"/games/{game_id}/play", {**body, "client_seed": "x"})
    assert refused(other) == (422, "INVALID_ARGUMENT", "IDEMPOTENCY_MISMATCH")
    unkeyed = await module_stack.core("POST", f"/games/{game_id}/play", {**body, "idempotency_key": ""})
    assert refused(unkeyed) == (409, "ALREADY_EXISTS", "SESSION_PLAYED")


async def test_history_shows_a_play_as_it_was_answered(own_world: World) -> None:
    game_id = await own_world.wheel(await own_world.prize())
    session = await own_world.session(game_id)
    reply = (await own_world.play(game_id, session, client_seed="luck")).data
    (play,) = (await own_world.history(game_id))["items"]
    shared = ("rewards", "metadata", "seed", "seed_hash")
    assert {name: play[name] for name in shared} == {name: reply[name] for name in shared}
    assert (play["id"], play["game_id"], play["session_id"]) == (reply["play_id"], game_id, session)
    assert (play["client_seed"], play["revision"]) == ("luck", 1)
    assert play["played_at"] > 0


FULFILLED = "REWARD_STATUS_FULFILLED"


async def three_turns(world: World, **fields: Any) -> str:
    return await world.prize(name="Three turns", type="turns", value=3, **fields)


async def turns_of(world: World, player: str) -> int:
    items = (await world.stack.consumer("GET", "/players/me/turns", player=player)).data["items"]
    return sum(row["balance"] for row in items if row["campaign_id"] == world.campaign_id)


async def entries_of(world: World, player: str) -> list[tuple[int, int, str, str]]:
    """(amount, balance after, reason, reference) of each, the oldest first."""
    items = (await world.stack.admin("GET", f"/admin/players/{player}/turns/ledger")).data["items"]
    named = [(row["amount"], row["balance_after"], row["reason"], row["reference_id"]) for row in items]
    return [(amount, after, reason.removeprefix("TURN_REASON_"), about) for amount, after, reason, about in named][::-1]


async def revoke(world: World, reward_id: str) -> Answer:
    return await world.stack.admin("POST", f"/admin/rewards/{reward_id}/revoke", {"reason": "a cheat"})


async def test_turns_are_given_by_rungs(world: World) -> None:
    prize_id = await three_turns(world)
    crossed = await world.game(COLLECTION, COINS, milestones=block(rung("up", 2, prize_id)))
    played = (await world.round(crossed)).data
    (granted,) = played["milestones_granted"]
    assert (await entries_of(world, "ann"))[-1] == (3, 3, "PRIZE", granted["reward_id"])
    shop = await world.game(
        COLLECTION, COINS, milestones=block(rung("buy", 2, prize_id), auto_grant=False, mode="SPEND_EXCHANGE")
    )
    await world.round(shop)
    bought = (await world.redeem(shop, "buy")).data["reward"]
    assert (bought["type"], bought["value"], bought["status"]) == ("turns", 3, FULFILLED)
    assert await turns_of(world, "ann") == 6
    assert (await revoke(world, bought["id"])).data["status"] == "REWARD_STATUS_REVOKED"
    held = (await world.stack.consumer("GET", "/wallet", player="ann", scope_key=world.campaign_id)).data["items"]
    assert (await turns_of(world, "ann"), held[0]["balance"]) == (3, 4)
    await world.check()


async def test_turns_are_given_by_rank(world: World) -> None:
    prize_id = await three_turns(world)
    ranks = [{"from_rank": 1, "to_rank": 2, "prize_id": prize_id}]
    board = await make_board(world.stack, world.campaign_id, metric="plays", prizes=ranks)
    game_id = await world.wheel()
    await world.turns("first", 2)
    for player in ("first", "first", "second", "third", "second", "first"):
        await world.round(game_id, player)
    done = await world.stack.admin("POST", f"/admin/leaderboards/{board['id']}/finalize", {})
    rewards = [row["reward_id"] for row in done.data["standings"]]
    assert (await entries_of(world, "first"))[-1] == (3, 5, "PRIZE", rewards[0])
    assert (await entries_of(world, "second")) == [(3, 3, "PRIZE", rewards[1])]
    assert await turns_of(world, "third") == 0
    again = await world.stack.admin("POST", f"/admin/leaderboards/{board['id']}/finalize", {})
    assert again.data["standings"] == done.data["standings"]
    assert await turns_of(world, "first") == 5
    await world.check()


async def test_prize_that_could_give_no_turns_is_refused(module_stack: Stack) -> None:
    named = []
    wrongs: tuple[dict[str, Any], ...] = (
        *({"value": value} for value in (0, 1001, 2.5)),
        *({"fulfillment": wrong} for wrong in ({"channel": "manual"}, {"redemption_mode": "on_claim"})),
    )
    for wrong in wrongs:
        body = {"name": "Turns", "type": "turns", "value": 3, **wrong}
        made = await module_stack.admin("POST", "/admin/prizes", body)
        goods = await module_stack.admin("POST", "/admin/prizes", {**body, "type": "goods"})
        become = await module_stack.admin("PUT", f"/admin/prizes/{goods.data['id']}", {"type": "turns"})
        assert fields_of(made) == fields_of(become), wrong
        named += fields_of(made)
    assert named == ["value"] * 3 + ["fulfillment.channel", "fulfillment.redemption_mode"]
