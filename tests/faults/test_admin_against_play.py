import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.guests import guest_who_played, log_in
from tests.support.rivals import begun, held
from tests.support.scenario import FULL, Scenario
from tests.support.stack import Stack
from tests.support.waiting import until
from tests.support.world import COINS, COLLECTION, World, new_world

PLAYS = 960 if FULL else 480
PLAYERS = 8
PLAYS_PER_ACT = 240
"""Each admin acts once in so many plays: there are more admins' acts than in any campaign, and time left to play."""
LEAST, ROUNDS = 0.5, 6

Act = Callable[["Scene", int], Awaitable[Any]]


@dataclass
class Scene:
    world: World
    prizes: list[str] = field(default_factory=list)
    games: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    @property
    def stack(self) -> Stack:
        return self.world.stack

    async def furnish(self) -> None:
        claimed = {"redemption_mode": "on_claim", "channel": "none"}
        self.prizes = [await self.world.prize(total=10_000, fulfillment=claimed) for _ in range(3)]
        self.games = [
            await self.world.wheel(*self.prizes, access="public"),
            await self.world.game(COLLECTION, COINS, access="public"),
        ]


async def revoke(scene: Scene, nth: int) -> None:
    query = "SELECT reward_id FROM rewards WHERE tenant_id = $1 AND status = 'won' ORDER BY reward_id LIMIT 2 OFFSET $2"
    for row in await scene.stack.database.fetch(query, scene.stack.tenant_id, 2 * nth):
        answer = await scene.stack.admin("POST", f"/admin/rewards/{row['reward_id']}/revoke", {"reason": "a test"})
        assert answer.code == "OK" or answer.reason == "ILLEGAL_TRANSITION"  # The other admin was first.
        scene.done["revoked"] += answer.code == "OK"


async def update_prize(scene: Scene, nth: int) -> None:
    body = {"stock": {"total": 10_000 + scene.done["update_prize"]}}
    assert (await scene.stack.admin("PUT", f"/admin/prizes/{scene.prizes[nth]}", body)).code == "OK"


async def update_campaign(scene: Scene, nth: int) -> None:
    body = {"settings": {"changed": scene.done["update_campaign"]}}
    assert (await scene.stack.admin("PUT", f"/admin/campaigns/{scene.world.campaign_id}", body)).code == "OK"


async def finalize(scene: Scene, nth: int) -> None:
    board_id = await scene.world.board(prizes=[{"from_rank": 1, "to_rank": 3, "prize_id": scene.prizes[nth]}])
    assert (await scene.stack.admin("POST", f"/admin/leaderboards/{board_id}/finalize", {})).code == "OK"


async def merge(scene: Scene, nth: int) -> None:
    await log_in(scene.stack, await guest_who_played(scene.world, scene.games[0]), f"p{nth}@example.com")


ACTS: tuple[Act, ...] = (revoke, update_prize, update_campaign, finalize, merge)


async def play_all(scene: Scene, played: Counter[str]) -> float:
    outcomes: Counter[str] = Counter()

    async def player(nth: int) -> None:
        for number in range(PLAYS // PLAYERS):
            game_id = scene.games[number % len(scene.games)]
            while True:
                answer = await scene.world.start(game_id, f"p{nth}")
                if answer.code == "OK":
                    answer = await scene.world.play(game_id, answer.data["session_id"], f"p{nth}")
                outcomes[answer.code if answer.code == "OK" else answer.reason] += 1
                if answer.code == "OK":
                    played["plays"] += 1
                    break

    began = time.monotonic()
    await asyncio.gather(*(player(nth) for nth in range(PLAYERS)))
    # A game that is changed between start and play asks for another start; nothing else refuses anybody.
    assert set(outcomes) <= {"OK", "GAME_CHANGED"}, outcomes
    return time.monotonic() - began


async def seconds_beside(scene: Scene, *acts: Act) -> float:
    """The seconds that PLAYS take, while two admins for each of these acts change the tenant."""
    played, stop = Counter[str](), asyncio.Event()

    async def loop(act: Act, nth: int) -> None:
        for number in range(PLAYS // PLAYS_PER_ACT):
            due = number * PLAYS_PER_ACT
            await until(lambda due=due: played["plays"] >= due or stop.is_set())  # type: ignore[misc]
            await act(scene, nth)
            scene.done[act.__name__] += 1

    admins = [asyncio.ensure_future(loop(act, nth)) for act in acts for nth in range(2)]
    seconds = await play_all(scene, played)
    stop.set()
    await asyncio.gather(*admins)
    return seconds


async def judge(scene: Scene) -> None:
    """Fails below LEAST of the rate of plays alone, measured by turns: machine speed cancels out."""
    beside = alone = 0.0
    for _ in range(ROUNDS):  # A second or two are little beside other tests: what is too slow stays so for longer.
        beside += await seconds_beside(scene, *ACTS)
        alone += await seconds_beside(scene)
        if alone / beside >= LEAST:
            return
    raise AssertionError(f"plays took {beside:.2f} s beside acts, and {alone:.2f} s alone")


@pytest.mark.fault(
    "Admin against play",
    small=1,
    full=8,
    unit="rounds of 480 (960) plays beside 5 kinds of acts and alone, by turns",
    figure="no deadlock, at least half of the rate of plays alone",
)
async def test_admin_loops_leave_half_of_the_play_rate(scenario: Scenario, stack: Stack) -> None:
    for _ in range(scenario.size):
        async with new_world(stack) as world:  # A new one: a board is ranked from all plays of its campaign.
            scene = Scene(world)
            await scene.furnish()
            await judge(scene)
        assert scene.done["revoked"] and all(scene.done[act.__name__] for act in ACTS), scene.done


async def test_changes_of_boards_and_quests_keep_the_catalogue_version(own_world: World) -> None:
    """Otherwise every game of the tenant would be read again and pending plays decided again."""
    stack, version = own_world.stack, "SELECT catalog_version FROM tenants WHERE tenant_id = $1"
    prize_id = await own_world.prize()
    before = await stack.database.fetchval(version, stack.tenant_id)
    top = await own_world.board(prizes=[{"from_rank": 1, "to_rank": 1, "prize_id": prize_id}])
    for kind, identifier in {"leaderboards": top, "quests": await own_world.quest()}.items():
        assert (await stack.admin("PUT", f"/admin/{kind}/{identifier}", {"name": "Renamed"})).code == "OK"
        assert (await stack.admin("DELETE", f"/admin/{kind}/{identifier}")).code == "OK"
    assert await stack.database.fetchval(version, stack.tenant_id) == before


async def test_board_creation_waits_for_a_concurrent_archiving_of_its_prize(own_world: World) -> None:
    stack, prize_id = own_world.stack, await own_world.prize()
    board = {"name": "B", "campaign_id": own_world.campaign_id, "metric": "plays", "mode": "sum"}
    body = {**board, "prizes": [{"from_rank": 1, "to_rank": 1, "prize_id": prize_id}]}
    change = "UPDATE tenants SET catalog_version = catalog_version + 1 WHERE tenant_id = $1"
    async with held(stack, change, stack.tenant_id) as rival:
        request = await begun(stack, stack.admin("POST", "/admin/leaderboards", body), "tenancy.lock_catalog")
        await rival.execute("UPDATE prizes SET status = 'archived' WHERE prize_id = $1", prize_id)
    answer = await request
    assert (answer.http, answer.reason) == (400, "VALIDATION")
