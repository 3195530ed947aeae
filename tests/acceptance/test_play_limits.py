"""POST /games/{id}/play: what is not available, caps, and turns."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from tests.support.draws import hand_pick, word
from tests.support.stack import refused
from tests.support.world import WHEEL, World, prize_ids

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
