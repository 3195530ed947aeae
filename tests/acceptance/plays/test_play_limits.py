"""POST /games/{id}/play: what is not available, caps, and turns."""

from __future__ import annotations

import time

from tests.support.stack import refused
from tests.support.world import World, prize_ids


async def test_fallback_stands_in_and_may_itself_run_out(world: World) -> None:
    gone, stand_in = await world.prize(total=1), await world.prize(total=2)
    ui = {"wheel": {"segments": [{"prize_id": gone}, {"emoji": ":("}, {"prize_id": stand_in}]}}
    game_id = await world.wheel(gone, on_unavailable="fallback", fallback_prize_id=stand_in, ui=ui)
    answers = [await world.round(game_id) for _ in range(4)]
    assert [prize_ids(answer) for answer in answers] == [[gone], [stand_in], [stand_in], []]
    assert [answer.data["metadata"]["slot_index"] for answer in answers] == [0, 2, 2, 1]


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
