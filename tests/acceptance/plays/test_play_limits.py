"""POST /games/{id}/play: what is not available, caps, and turns."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from tests.support.stack import refused
from tests.support.world import World, prize_ids


async def test_fallback_stands_in_and_may_itself_run_out(world: World) -> None:
    gone, stand_in = await world.prize(total=1), await world.prize(total=2)
    ui = {"wheel": {"segments": [{"prize_id": gone}, {"emoji": ":("}, {"prize_id": stand_in}]}}
    game_id = await world.wheel(gone, on_unavailable="fallback", fallback_prize_id=stand_in, ui=ui)
    answers = [await world.round(game_id) for _ in range(4)]
    assert [prize_ids(answer) for answer in answers] == [[gone], [stand_in], [stand_in], []]
    assert [answer.data["metadata"]["slot_index"] for answer in answers] == [0, 2, 2, 1]


async def test_prize_caps_hold_per_player_and_per_day(world: World) -> None:
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


async def test_game_that_requires_turns_spends_one_a_play(world: World) -> None:
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


async def test_free_plays_of_a_day_begin_anew_the_next_day(world: World) -> None:
    game_id = await world.wheel(rules={"max_plays_per_day": 1})
    assert (await world.round(game_id)).http == 200
    assert (await world.start(game_id)).reason == "CAP_DAY"
    await world.database.execute("UPDATE game_players SET day = day - 1 WHERE game_id = $1", game_id)
    await world.database.execute(
        "UPDATE plays SET played_at = played_at - interval '1 day' WHERE game_id = $1", game_id
    )
    assert (await world.round(game_id)).http == 200
    assert (await world.start(game_id)).reason == "CAP_DAY"
