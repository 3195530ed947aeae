"""Admins change everything while players play: nobody waits for another in a circle, and play goes on.

That there was no deadlock is asserted at the end of the session, of every test at once (tests/conftest.py).
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.support.guests import guest_who_played, log_in
from tests.support.leaderboards import make_board
from tests.support.stack import Stack
from tests.support.waiting import until
from tests.support.world import COINS, COLLECTION, World

PLAYS = 480
PLAYERS = 8
PLAYS_PER_ACT = 120
"""Each admin acts once in so many plays: there are more admins' acts than in any campaign, and time left to play."""


async def plays_per_second(world: World, games: list[str], played: Counter[str]) -> float:
    """How fast players play, each waiting for every answer; `played` counts, and every one is answered in the end."""
    told: Counter[str] = Counter()

    async def player(nth: int) -> None:
        for number in range(PLAYS // PLAYERS):
            while True:
                answer = await world.start(games[number % len(games)], f"p{nth}")
                if answer.code == "OK":
                    body = answer.data["session_id"]
                    answer = await world.play(games[number % len(games)], body, f"p{nth}")
                told[answer.code if answer.code == "OK" else answer.reason] += 1
                if answer.code == "OK":
                    played["plays"] += 1
                    break

    began = time.monotonic()
    await asyncio.gather(*(player(nth) for nth in range(PLAYERS)))
    seconds = time.monotonic() - began
    # A game that is changed between start and play asks for another start; nothing else refuses anybody.
    assert set(told) <= {"OK", "GAME_CHANGED"}, told
    return PLAYS / seconds


@pytest.mark.fault(
    "Admin against play",
    size="5 kinds of acts in 10 loops, 480 plays",
    figure="no deadlock, a fifth of the rate",
    smaller="a fifth for half",
)
async def test_admins_in_loops_do_not_stop_players(own_world: World, stack: Stack) -> None:
    prizes = [
        await own_world.prize(total=10_000, fulfillment={"redemption_mode": "on_claim", "channel": "none"})
        for _ in range(3)
    ]
    wheel = await own_world.wheel(*prizes, access="public")
    collection = await own_world.game(COLLECTION, COINS, access="public")
    done, played, stop = Counter[str](), Counter[str](), asyncio.Event()
    alone = await plays_per_second(own_world, [wheel, collection], Counter())

    async def revoke(nth: int) -> None:
        rewards = await stack.database.fetch(
            "SELECT reward_id FROM rewards WHERE status = 'won' ORDER BY reward_id LIMIT 2 OFFSET $1", 2 * nth
        )
        for row in rewards:
            answer = await stack.admin("POST", f"/admin/rewards/{row['reward_id']}/revoke", {"reason": "a test"})
            assert answer.code == "OK" or answer.reason == "ILLEGAL_TRANSITION"  # The other admin was first.
            done["revoked"] += answer.code == "OK"

    async def update_prize(nth: int) -> None:
        total = 10_000 + done["update_prize"]
        assert (await stack.admin("PUT", f"/admin/prizes/{prizes[nth]}", {"stock": {"total": total}})).code == "OK"

    async def update_campaign(nth: int) -> None:
        body = {"settings": {"changed": done["update_campaign"]}}
        assert (await stack.admin("PUT", f"/admin/campaigns/{own_world.campaign_id}", body)).code == "OK"

    async def finalize(nth: int) -> None:
        ranks = [{"from_rank": 1, "to_rank": 3, "prize_id": prizes[nth]}]
        board = await make_board(stack, own_world.campaign_id, metric="plays", prizes=ranks)
        assert (await stack.admin("POST", f"/admin/leaderboards/{board['id']}/finalize", {})).code == "OK"

    async def merge(nth: int) -> None:
        guest = await guest_who_played(own_world, wheel)
        await log_in(stack, guest, f"p{nth}@example.com")

    async def loop(work: Callable[[int], Awaitable[Any]], nth: int) -> None:
        for act in range(PLAYS // PLAYS_PER_ACT):
            await until(lambda due=act * PLAYS_PER_ACT: _is(played["plays"] >= due or stop.is_set()))  # type: ignore[misc]
            await work(nth)
            done[work.__name__] += 1

    kinds = (revoke, update_prize, update_campaign, finalize, merge)
    admins = [asyncio.ensure_future(loop(work, nth)) for work in kinds for nth in range(2)]
    beside = await plays_per_second(own_world, [wheel, collection], played)
    stop.set()
    await asyncio.gather(*admins)
    assert done["revoked"] and all(done[work.__name__] for work in kinds), done
    # Half is due on a machine that does nothing else. One deadlock a second leaves less than a tenth.
    assert beside >= alone / 5, (alone, beside, done)


async def _is(fact: bool) -> bool:
    return fact
