"""POST /games/{id}/play: every shape of game, every cap, every refusal, and draws that anybody can check."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import pytest

from tests.support.draws import hand_pick, word
from tests.support.stack import Answer, Stack
from tests.support.world import COINS, COLLECTION, EGGS, GIFTS, WHEEL, World, new_world

pytestmark = pytest.mark.asyncio(loop_scope="module")


def refused(answer: Answer) -> tuple[int, str, str]:
    return answer.http, answer.code, answer.reason


def prize_ids(answer: Answer) -> list[str]:
    return [reward["prize_id"] for reward in answer.data["rewards"]]


# -------------------------------------------------------------------- shapes


async def test_a_wheel_gives_the_prize_that_the_word_picks(world: World) -> None:
    prizes = [await world.prize(name=name, type="voucher", value=value) for name, value in (("A", 5), ("B", 7.5))]
    chances = [{"prize_id": prizes[0], "probability": 0.3}, {"prize_id": prizes[1], "probability": 0.4}]
    segments = [{"emoji": "x"}, {"prize_id": prizes[1]}, {"prize_id": prizes[0]}]
    game_id = await world.game(WHEEL, {"prizes": chances}, ui={"wheel": {"segments": segments}})
    for nth in range(30):
        told = (await world.round(game_id, client_seed=f"luck {nth} ü")).data
        index = hand_pick([0.3, 0.4], word(told["seed"], f"luck {nth} ü", 0))
        if index is None:
            assert (told["rewards"], told["metadata"]) == ([], {"slot_index": 0})
        else:
            (reward,) = told["rewards"]
            assert reward["prize_id"] == prizes[index]
            assert (reward["name"], reward["type"], reward["quantity"]) == ("AB"[index], "voucher", 1)
            assert reward["value"] == (5, 7.5)[index]
            assert told["metadata"] == {"slot_index": (2, 1)[index]}


async def test_without_segments_the_slot_is_the_prizes_index_and_a_loss_has_none(world: World) -> None:
    prizes = [await world.prize(), await world.prize()]
    chances = [{"prize_id": prize_id, "probability": 0.35} for prize_id in prizes]
    game_id = await world.game(WHEEL, {"prizes": chances})
    for _ in range(20):
        told = (await world.round(game_id)).data
        index = hand_pick([0.35, 0.35], word(told["seed"], "", 0))
        assert told["metadata"] == {"slot_index": -1 if index is None else index}


async def test_an_egg_catchers_score_chooses_the_group_and_the_word_the_prize(world: World) -> None:
    low, high = await world.prize(), [await world.prize(), await world.prize()]
    config = {
        "tiers": [{"min": 1, "max": 9, "prize_group": "low"}, {"min": 10, "max": 99, "prize_group": "high"}],
        "prize_groups": {
            "low": [{"prize_id": low, "probability": 1}],
            "high": [{"prize_id": prize_id, "probability": 0.5} for prize_id in high],
        },
        "max_score": 200,
        "max_score_per_second": 100,
    }
    game_id = await world.game(EGGS, config)

    async def score(points: int, duration_ms: int = 2000) -> Answer:
        return await world.round(game_id, payload={"score": points, "duration_ms": duration_ms})

    assert prize_ids(await score(9)) == [low]
    for _ in range(6):
        answer = await score(10)
        index = hand_pick([0.5, 0.5], word(answer.data["seed"], "", 0))
        assert index is not None
        assert prize_ids(answer) == [high[index]]
        assert answer.data["metadata"]["tier"] == 1
    for outside in (0, 100):
        assert (await score(outside)).data["rewards"] == []
    scores = await world.database.fetch("SELECT score FROM plays WHERE game_id = $1", game_id)
    assert Counter(row["score"] for row in scores) == {9: 1, 10: 6, 0: 1, 100: 1}


async def test_impossible_scores_are_refused_and_use_up_nothing(world: World) -> None:
    config = {"tiers": [], "prize_groups": {}, "max_score": 200, "max_score_per_second": 100}
    game_id = await world.game(EGGS, config)
    session = await world.session(game_id)
    for payload, reason in (
        ({"score": -1, "duration_ms": 10}, "VALIDATION"),
        ({"score": 1, "duration_ms": 0}, "VALIDATION"),
        ({"score": 1.5, "duration_ms": 10}, "VALIDATION"),
        ({"score": "1", "duration_ms": 10}, "VALIDATION"),
        ({"score": 1}, "VALIDATION"),
        ({}, "VALIDATION"),
        ({"score": 1, "duration_ms": 10, "more": 1}, "VALIDATION"),
        ({"score": 201, "duration_ms": 2000}, "IMPLAUSIBLE_SCORE"),
        ({"score": 101, "duration_ms": 1000}, "IMPLAUSIBLE_SCORE"),
        ({"score": 1, "duration_ms": 60_000}, "IMPLAUSIBLE_SCORE"),
    ):
        answer = await world.play(game_id, session, payload=payload)
        assert refused(answer) == (400, "INVALID_ARGUMENT", reason), payload
        assert all(row["field"].startswith("payload") for row in answer.envelope["data"]["violations"])
    assert await world.plays() == []
    assert (await world.play(game_id, session, payload={"score": 1, "duration_ms": 100})).data["rewards"] == []


async def test_a_gift_catcher_counts_what_was_caught_up_to_its_limit(world: World) -> None:
    gold = await world.prize(total=3)
    drops = [
        {"type": "gold", "prize_id": gold, "frequency": 3, "max_catchable": 2},
        {"type": "coal", "prize_id": "", "frequency": 1, "max_catchable": 5},
    ]
    game_id = await world.game(GIFTS, {"drops": drops, "total_items": 20, "interval_ms": 1})
    for expected in (2, 1, 0):  # of a prize that runs short as many are given as there are
        started = (await world.start(game_id)).data
        golden = [item["id"] for item in started["drop_plan"] if item["type"] == "gold"]
        assert len(golden) > 2
        told = (await world.play(game_id, started["session_id"], payload={"caught_items": golden})).data
        assert sum(reward["quantity"] for reward in told["rewards"]) == expected
        assert told["metadata"]["counted_items"] == {"gold": 2}
    assert await world.stock(gold) == (0, 3)


async def test_items_that_cannot_have_been_caught_are_refused(world: World) -> None:
    drops = [{"type": "gold", "prize_id": await world.prize(), "frequency": 1, "max_catchable": 9}]
    game_id = await world.game(GIFTS, {"drops": drops, "total_items": 3, "interval_ms": 60_000})
    session = await world.session(game_id)
    for caught, reason in (
        (["item_9"], "NOT_IN_PLAN"),
        (["item_1"], "NOT_IN_PLAN"),  # a minute away
        (["item_0", "item_0"], "VALIDATION"),
        ("item_0", "VALIDATION"),
        ([0], "VALIDATION"),
    ):
        answer = await world.play(game_id, session, payload={"caught_items": caught})
        assert refused(answer) == (400, "INVALID_ARGUMENT", reason), caught
    assert (await world.play(game_id, session, payload={"caught_items": ["item_0"]})).data["rewards"]


async def test_a_collection_credits_the_item_that_the_word_picks(world: World) -> None:
    items = [
        {"item": "leaf", "weight": 3, "quantity": 2, "slot_index": 4},
        {"item": "acorn", "weight": 1, "quantity": 5, "slot_index": 0},
    ]
    game_id = await world.game(COLLECTION, {"items": items})
    balances: Counter[str] = Counter()
    for _ in range(12):
        told = (await world.round(game_id)).data
        index = hand_pick([0.75, 0.25], word(told["seed"], "", 0))
        assert index is not None
        item = items[index]
        balances[str(item["item"])] += int(str(item["quantity"]))
        assert (told["metadata"]["item"], told["metadata"]["slot_index"]) == (item["item"], item["slot_index"])
        assert told["balances"] == [{"currency": item["item"], "balance": balances[str(item["item"])]}]
    assert await world.database.fetchval("SELECT count(*) FROM rewards WHERE game_id = $1", game_id) == 0


async def test_the_scope_of_the_wallet_says_which_games_share_it(module_stack: Stack) -> None:
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
            told = (await two.round(games[1], player=scope)).data
            assert told["balances"] == [{"currency": "coin", "balance": shared}]
        keys = {}
        for scope in ("CAMPAIGN", "MERCHANT", "TENANT"):
            wallet = await module_stack.consumer("GET", "/wallet", player=f"WALLET_SCOPE_{scope}")
            keys[scope] = {row["scope_key"] for row in wallet.data["items"]}
        assert keys == {
            "CAMPAIGN": {one.campaign_id, two.campaign_id},
            "MERCHANT": {merchant_id},
            "TENANT": {module_stack.tenant_id},
        }


async def test_points_go_to_the_wallet_and_leave_no_reward(world: World, module_stack: Stack) -> None:
    points = await world.prize(type="points", value=50, total=1)
    game_id = await world.wheel(points)
    for played in (1, 2, 3):  # it takes no stock
        told = (await world.round(game_id, player="pia")).data
        assert [reward["type"] for reward in told["rewards"]] == ["points"]
        assert told["balances"] == [{"currency": "points", "balance": 50 * played}]
    assert await world.stock(points) == (1, 0)
    assert (await module_stack.consumer("GET", "/rewards/me", player="pia")).data["items"] == []
    ledger = (await module_stack.consumer("GET", "/wallet/ledger", player="pia")).data["items"]
    assert [(entry["amount"], entry["balance_after"]) for entry in ledger] == [(50, 150), (50, 100), (50, 50)]
    assert {entry["reason"] for entry in ledger} == {"LEDGER_REASON_PLAY_REWARD"}


async def test_a_voucher_code_is_given_once_and_the_pool_is_the_stock(world: World, module_stack: Stack) -> None:
    prize_id = await world.prize(codes=["C-1", "C-2", "C-3"])
    game_id = await world.wheel(prize_id)
    players = [f"coder_{nth}" for nth in range(12)]
    answers = await asyncio.gather(*(world.round(game_id, player) for player in players))
    assert sum(len(answer.data["rewards"]) for answer in answers) == 3
    codes = []
    for player in players:
        rewards = (await module_stack.consumer("GET", "/rewards/me", player=player)).data["items"]
        codes += [reward["code"] for reward in rewards]
        assert all(reward["status"] == "REWARD_STATUS_FULFILLED" for reward in rewards)
    assert sorted(codes) == ["C-1", "C-2", "C-3"]


async def test_several_units_of_a_coded_prize_are_rewards_of_one_code_each(world: World) -> None:
    coded = await world.prize(codes=["D-1", "D-2", "D-3"])
    drops = [{"type": "gold", "prize_id": coded, "frequency": 1, "max_catchable": 2}]
    game_id = await world.game(GIFTS, {"drops": drops, "total_items": 2, "interval_ms": 1})
    quantities = []
    for _ in range(2):
        told = (await world.round(game_id, payload={"caught_items": ["item_0", "item_1"]})).data
        quantities.append([reward["quantity"] for reward in told["rewards"]])
    assert quantities == [[1, 1], [1]]


# -------------------------------------------------------------------- what is not available


async def test_a_prize_that_is_gone_loses_by_default(world: World) -> None:
    prize_id = await world.prize(total=1)
    game_id = await world.wheel(prize_id)
    assert [len((await world.round(game_id)).data["rewards"]) for _ in range(3)] == [1, 0, 0]
    assert await world.stock(prize_id) == (0, 1)


async def test_a_redraw_takes_the_next_word_over_what_is_left(world: World) -> None:
    gone, *left = [await world.prize(total=total) for total in (1, 0, 0)]
    weights = [0.8, 0.1, 0.05]
    prizes = [gone, *left]
    chances = [{"prize_id": p, "probability": w} for p, w in zip(prizes, weights, strict=True)]
    game_id = await world.game(WHEEL, {"prizes": chances}, on_unavailable="ON_UNAVAILABLE_REDRAW")
    taken = 0
    for _ in range(20):
        answer = await world.round(game_id, client_seed="again")
        seed = answer.data["seed"]
        index = hand_pick(weights, word(seed, "again", 0))
        if index == 0 and taken:
            scaled = [weight / (0.1 + 0.05) for weight in weights[1:]]
            index = 1 + (hand_pick(scaled, word(seed, "again", 1)) or 0)
        elif index == 0:
            taken = 1
        assert prize_ids(answer) == ([] if index is None else [prizes[index]])
    assert taken


async def test_a_redraw_of_nothing_is_a_loss(world: World) -> None:
    prize_id = await world.prize(total=1)
    game_id = await world.wheel(prize_id, on_unavailable="redraw")
    assert [len((await world.round(game_id)).data["rewards"]) for _ in range(2)] == [1, 0]


async def test_a_fallback_stands_in_and_may_itself_run_out(world: World) -> None:
    gone, stand_in = await world.prize(total=1), await world.prize(total=2)
    ui = {"wheel": {"segments": [{"prize_id": gone}, {"emoji": ":("}, {"prize_id": stand_in}]}}
    game_id = await world.wheel(gone, on_unavailable="fallback", fallback_prize_id=stand_in, ui=ui)
    answers = [await world.round(game_id) for _ in range(4)]
    assert [prize_ids(answer) for answer in answers] == [[gone], [stand_in], [stand_in], []]
    assert [answer.data["metadata"]["slot_index"] for answer in answers] == [0, 2, 2, 1]


async def test_a_prizes_caps_hold_for_the_player_for_ever_and_for_all_each_day(world: World) -> None:
    mine = await world.prize(constraints={"max_per_user": 2})
    game_id = await world.wheel(mine)
    assert [len((await world.round(game_id, "ann")).data["rewards"]) for _ in range(4)] == [1, 1, 0, 0]
    assert len((await world.round(game_id, "bob")).data["rewards"]) == 1
    daily = await world.prize(constraints={"max_per_day": 3})
    game_id = await world.wheel(daily)
    answers = await asyncio.gather(*(world.round(game_id, f"p{nth}") for nth in range(10)))
    assert sum(len(answer.data["rewards"]) for answer in answers) == 3
    # The next local day begins anew.
    await world.database.execute("UPDATE prize_days SET day = day - 1 WHERE prize_id = $1", daily)
    await world.database.execute("UPDATE tenants SET catalog_version = catalog_version + 1")
    assert len((await world.round(game_id, "zoe")).data["rewards"]) == 1


# -------------------------------------------------------------------- caps and turns


async def test_plays_beyond_the_caps_are_refused_with_when_they_reset(world: World) -> None:
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


async def test_all_plays_at_once_keep_the_caps_and_spend_each_turn_once(world: World) -> None:
    game_id = await world.wheel(rules={"max_plays_per_day": 2})
    await world.turns("tim", 3)
    sessions = [await world.session(game_id, "tim") for _ in range(12)]
    answers = await asyncio.gather(*(world.play(game_id, session, "tim") for session in sessions))
    assert Counter(answer.reason if answer.http != 200 else "" for answer in answers) == {"": 5, "CAP_DAY": 7}
    assert (await world.eligibility(game_id, "tim"))["remaining_turns"] == 0


async def test_a_game_that_needs_turns_spends_one_a_play(world: World) -> None:
    game_id = await world.wheel(rules={"requires_turn": True, "max_plays_per_day": 3})
    assert refused(await world.start(game_id, "una")) == (400, "FAILED_PRECONDITION", "NO_TURNS")
    await world.turns("una", 2)
    sessions = [await world.session(game_id, "una") for _ in range(4)]
    answers = await asyncio.gather(*(world.play(game_id, session, "una") for session in sessions))
    assert Counter(answer.reason if answer.http != 200 else "" for answer in answers) == {"": 2, "NO_TURNS": 2}
    await world.turns("una", 5)
    left = [session for session, answer in zip(sessions, answers, strict=True) if answer.http != 200]
    assert (await world.play(game_id, left[0], "una")).http == 200
    assert (await world.play(game_id, left[1], "una")).reason == "CAP_DAY"


async def test_yesterdays_plays_leave_todays_free(world: World) -> None:
    game_id = await world.wheel(rules={"max_plays_per_day": 1})
    assert (await world.round(game_id)).http == 200
    assert (await world.start(game_id)).reason == "CAP_DAY"
    await world.database.execute("UPDATE game_players SET day = day - 1 WHERE game_id = $1", game_id)
    await world.database.execute(
        "UPDATE plays SET played_at = played_at - interval '1 day' WHERE game_id = $1", game_id
    )
    assert (await world.round(game_id)).http == 200
    assert (await world.start(game_id)).reason == "CAP_DAY"


# -------------------------------------------------------------------- sessions


async def test_a_session_is_played_once_by_twenty_at_once(world: World) -> None:
    game_id = await world.wheel(await world.prize())
    session = await world.session(game_id)
    answers = await asyncio.gather(*(world.play(game_id, session) for _ in range(20)))
    assert Counter(answer.http for answer in answers) == {200: 1, 409: 19}
    assert {refused(answer) for answer in answers if answer.http != 200} == {(409, "ALREADY_EXISTS", "SESSION_PLAYED")}
    assert len(await world.plays()) == 1


async def test_a_session_with_any_byte_flipped_is_forged(world: World) -> None:
    game_id = await world.wheel()
    session = await world.session(game_id)
    forged = [session[:nth] + chr(ord(session[nth]) ^ 1) + session[nth + 1 :] for nth in range(len(session))]
    forged += [session[:-1], session[:-4], session + "A", "sess_", "sess_!", session.removeprefix("sess_")]
    answers = await asyncio.gather(*(world.play(game_id, token) for token in forged))
    assert {refused(answer) for answer in answers} == {(403, "PERMISSION_DENIED", "SESSION_INVALID")}
    assert (await world.play(game_id, session)).http == 200


async def test_each_session_has_one_spelling(world: World) -> None:
    game_id = await world.wheel()
    session = await world.session(game_id)
    spellings = [session.upper(), session + " ", session + "=", f" {session}", session[:9] + "\n" + session[9:]]
    spellings += [session.replace(".", ".."), session.replace(".", "%2E"), session + ".", session[:63]]
    for spelling in spellings:
        assert (await world.play(game_id, spelling)).reason == "SESSION_INVALID", spelling
    assert (await world.play(game_id, session)).http == 200


async def test_a_session_is_of_one_player_and_one_game(world: World) -> None:
    game_id, other_game_id = await world.wheel(), await world.wheel()
    session = await world.session(game_id, "ann")
    for answer in (
        await world.play(game_id, session, "bob"),
        await world.play(other_game_id, session, "ann"),
    ):
        assert refused(answer) == (403, "PERMISSION_DENIED", "SESSION_INVALID")
    # A player's session plays no game for somebody without a token.
    assert refused(await world.play(game_id, session, "")) == (401, "UNAUTHENTICATED", "TOKEN_MISSING")
    assert await world.plays() == []


async def test_a_play_asks_for_its_session_and_an_object(world: World, module_stack: Stack) -> None:
    game_id = await world.wheel()
    session = await world.session(game_id)
    for body, code in (
        ({"payload": {}}, "INVALID_ARGUMENT"),
        ({"session_id": session, "payload": []}, "INVALID_ARGUMENT"),
        ({"session_id": session, "payload": {"score": 1}}, "INVALID_ARGUMENT"),
        ({"session_id": session, "payload": {}, "player_id": "bob"}, "INVALID_ARGUMENT"),
        ({"session_id": session, "payload": {}, "client_seed": "x" * 201}, "INVALID_ARGUMENT"),
        ({"session_id": session, "payload": {}, "client_seed": "\0"}, "INVALID_ARGUMENT"),
    ):
        answer = await module_stack.consumer("POST", f"/games/{game_id}/play", body, player="ann")
        assert answer.code == code, (body, answer.envelope)
    assert await world.plays() == []


# -------------------------------------------------------------------- idempotency


async def test_fifty_plays_of_one_key_are_one_play(world: World) -> None:
    game_id = await world.wheel(await world.prize(), rules={"max_plays_per_user": 1})
    session = await world.session(game_id)
    answers = await asyncio.gather(*(world.play(game_id, session, key="k1") for _ in range(50)))
    told = Counter(answer.http for answer in answers)
    assert told[200] >= 1
    assert told[200] + told[409] == 50
    assert {answer.reason for answer in answers if answer.http == 409} <= {"IDEMPOTENCY_IN_PROGRESS"}
    replays = [await world.play(game_id, session, key="k1") for _ in range(2)]
    assert all(replay.headers["Idempotency-Replayed"] == "true" for replay in replays)
    datas = [answer.data for answer in [*answers, *replays] if answer.http == 200]
    assert all(data == datas[0] for data in datas)
    assert len(await world.plays()) == 1


async def test_a_key_with_another_body_is_refused(world: World) -> None:
    game_id = await world.wheel()
    session = await world.session(game_id)
    (await world.play(game_id, session, key="k2")).data  # noqa: B018
    for more in ({"client_seed": "x"}, {"payload": {"a": 1}}):
        answer = await world.play(game_id, session, key="k2", **more)
        assert refused(answer) == (422, "INVALID_ARGUMENT", "IDEMPOTENCY_MISMATCH")
    other = await world.play(game_id, await world.session(game_id), key="k2")
    assert refused(other) == (422, "INVALID_ARGUMENT", "IDEMPOTENCY_MISMATCH")
    # Another player's key of the same name is another key.
    assert (await world.round(game_id, "bob", key="k2")).http == 200


async def test_a_refusal_leaves_its_key_free(world: World) -> None:
    game_id = await world.wheel(rules={"requires_turn": True})
    await world.turns("rea", 1)
    one, two = [await world.session(game_id, "rea") for _ in range(2)]
    assert (await world.play(game_id, one, "rea")).http == 200
    assert (await world.play(game_id, two, "rea", key="k3")).reason == "NO_TURNS"
    await world.turns("rea", 1)
    assert (await world.play(game_id, two, "rea", key="k3")).http == 200


async def test_core_answers_a_key_by_its_row_alone(world: World, module_stack: Stack) -> None:
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


# -------------------------------------------------------------------- together


async def test_two_hundred_players_share_ten_units(world: World) -> None:
    prize_id = await world.prize(total=10)
    game_id = await world.wheel(prize_id)
    players = [f"racer_{nth}" for nth in range(200)]
    answers = await asyncio.gather(*(world.round(game_id, player) for player in players))
    assert {answer.http for answer in answers} == {200}
    assert sum(len(answer.data["rewards"]) for answer in answers) == 10
    assert await world.stock(prize_id) == (0, 10)


async def test_games_that_share_a_prize_share_its_stock(world: World) -> None:
    prize_id = await world.prize(total=7)
    games = [await world.wheel(prize_id) for _ in range(5)]
    answers = await asyncio.gather(*(world.round(games[nth % 5], f"sharer_{nth}") for nth in range(60)))
    assert sum(len(answer.data["rewards"]) for answer in answers) == 7


async def test_games_that_share_a_wallet_lose_no_credit(world: World) -> None:
    games = [await world.game(COLLECTION, COINS) for _ in range(4)]
    answers = await asyncio.gather(*(world.round(games[nth % 4], "wil") for nth in range(40)))
    assert {answer.http for answer in answers} == {200}
    balance = await world.database.fetchval(
        "SELECT balance FROM balances WHERE player_id = 'wil' AND scope_key = $1", world.campaign_id
    )
    assert balance == 80


async def test_one_bad_play_fails_none_of_its_neighbours(world: World) -> None:
    config = {"tiers": [{"min": 0, "max": 9, "prize_group": "all"}], "prize_groups": {"all": []}}
    game_id = await world.game(EGGS, config)
    sessions = [await world.session(game_id, f"n{nth}") for nth in range(10)]
    payloads: list[dict[str, Any]] = [{"score": 1, "duration_ms": 1} if nth % 3 else {"score": -1} for nth in range(10)]
    answers = await asyncio.gather(
        *(world.play(game_id, s, f"n{nth}", payload=payloads[nth]) for nth, s in enumerate(sessions))
    )
    assert [answer.http for answer in answers] == [200 if nth % 3 else 400 for nth in range(10)]


async def test_a_change_of_the_game_counts_from_the_next_play_on(world: World, module_stack: Stack) -> None:
    first, second = await world.prize(), await world.prize()
    game_id = await world.wheel(first)
    session = await world.session(game_id)
    assert prize_ids(await world.round(game_id)) == [first]
    config = {"prizes": [{"prize_id": second, "probability": 1}]}
    (await module_stack.admin("PUT", f"/admin/games/{game_id}", {"handler_config": config})).data  # noqa: B018
    assert prize_ids(await world.play(game_id, session)) == [second]
    plays = (await world.history(game_id))["items"]
    assert sorted(play["revision"] for play in plays) == [1, 2]
