"""A farmer opens many sessions, waits once, and submits them all: the one wait pays for one of them."""

import asyncio
from collections import Counter

from runtime import messages as m
from runtime.actors.game.sessions import issue
from runtime.errors import Fault
from runtime.operations import BY_NAME
from runtime.rules import NETWORK_SLACK_MS
from tests.support.guests import log_in, new_guest
from tests.support.rewards import core as running_core
from tests.support.stack import Answer, refused
from tests.support.world import EGGS, TIMED, World

A_SECOND = 10
GAME_SECONDS = 30
SLACK_SECONDS = NETWORK_SLACK_MS / 1000


async def catcher(world: World, **fields: object) -> str:
    enough = A_SECOND * GAME_SECONDS
    config = {"tiers": [{"min": enough, "max": enough, "prize_group": "all"}]}
    config |= {"prize_groups": {"all": [{"prize_id": await world.prize(), "probability": 1}]}}
    config |= {"max_score_per_second": A_SECOND}
    return await world.game(EGGS, config, rules=TIMED, **fields)


async def opened(world: World, game_id: str, seconds_ago: float, player: str = "ann") -> str:
    engine, revision = world.stack.engine, (await world.start(game_id, player)).data["revision_hash"]
    now = engine.clock.now() - seconds_ago
    return issue(engine.keyring.server, world.stack.tenant_id, game_id, player, now, revision).token


async def submit(world: World, game_id: str, session: str, seconds: float, player: str = "ann", **more: str) -> Answer:
    payload = {"score": int(A_SECOND * seconds), "duration_ms": int(1000 * seconds)}
    return await world.play(game_id, session, player, payload=payload, **more)


async def test_waiting_time_pays_for_one_of_sixty_sessions(world: World) -> None:
    game_id = await catcher(world)
    sessions = [await opened(world, game_id, GAME_SECONDS, "sly") for _ in range(60)]
    answers = await asyncio.gather(*(submit(world, game_id, one, GAME_SECONDS, "sly") for one in sessions))
    won = [answer for answer in answers if answer.http == 200]
    assert [len(answer.data["rewards"]) for answer in won] == [1]
    lost = [answer for answer in answers if answer.http != 200]
    assert {refused(answer) for answer in lost} == {(400, "INVALID_ARGUMENT", "IMPLAUSIBLE_SCORE")}
    assert {answer.envelope["data"]["violations"][0]["field"] for answer in lost} == {"payload.duration_ms"}
    unplayed = [one for one, answer in zip(sessions, answers, strict=True) if answer.http != 200]
    assert (await submit(world, game_id, unplayed[0], GAME_SECONDS, "sly")).reason == "IMPLAUSIBLE_SCORE"
    assert (await submit(world, game_id, unplayed[0], SLACK_SECONDS, "sly")).http == 200


async def test_waiting_time_is_spent_once_across_rival_cores(world: World) -> None:
    game_id = await catcher(world)
    sessions = [await opened(world, game_id, GAME_SECONDS, "two") for _ in range(12)]
    async with running_core(world.stack.process.settings) as other:
        cores = (world.stack.process.core, other)
        who = {"scope": m.Scope(tenant_id=world.stack.tenant_id), "id": game_id, "player_id": "two"}
        for core in cores:  # Each remembers a player who has taken no time.
            assert (await core.call(BY_NAME["GetEligibility"], m.EligibilityRequest(**who))).can_play

        async def play(nth: int, session: str) -> str:
            payload = {"score": A_SECOND * GAME_SECONDS, "duration_ms": 1000 * GAME_SECONDS}
            request = m.PlayRequest(**who, session_id=session, payload=payload)
            try:
                return "won" if (await cores[nth % 2].call(BY_NAME["Play"], request)).rewards else "lost"
            except Fault as fault:
                return fault.reason

        answers = Counter(await asyncio.gather(*(play(nth, one) for nth, one in enumerate(sessions))))
    assert answers == {"won": 1, "IMPLAUSIBLE_SCORE": len(sessions) - 1}


async def test_waiting_time_counts_per_game(world: World) -> None:
    game_id = await catcher(world)
    sessions = [await opened(world, game_id, 2 * GAME_SECONDS, "fair") for _ in range(3)]
    answers = [await submit(world, game_id, one, GAME_SECONDS, "fair") for one in sessions]
    assert [answer.http for answer in answers] == [200, 200, 400]
    assert (await submit(world, game_id, await opened(world, game_id, GAME_SECONDS, "bob"), GAME_SECONDS, "bob")).data
    other = await catcher(world)
    assert (await submit(world, other, await opened(world, other, GAME_SECONDS, "fair"), GAME_SECONDS, "fair")).data


async def test_guest_time_is_charged_to_the_player_after_login(own_world: World) -> None:
    game_id = await catcher(own_world, access="public")
    guest = await new_guest(own_world, game_id)
    player = await log_in(own_world.stack)
    mine = await opened(own_world, game_id, GAME_SECONDS, player)
    guests = await opened(own_world, game_id, GAME_SECONDS, guest.player_id)
    assert (await submit(own_world, game_id, guests, GAME_SECONDS, guest.player_id)).http == 200
    assert await log_in(own_world.stack, guest) == player
    assert (await submit(own_world, game_id, mine, GAME_SECONDS, player)).reason == "IMPLAUSIBLE_SCORE"


async def test_rolled_back_commit_spends_no_time(world: World) -> None:
    game_id = await catcher(world)
    session = await opened(world, game_id, GAME_SECONDS, "una")
    await world.database.execute("UPDATE tenants SET catalog_version = catalog_version + 1")
    assert (await submit(world, game_id, session, GAME_SECONDS, "una")).http == 200
    taken = (
        "SELECT plays, busy_until <= 1000 * extract(epoch FROM clock_timestamp()) FROM game_players WHERE game_id = $1"
    )
    assert tuple(await world.database.fetchrow(taken, game_id) or ()) == (1, True)


async def test_clock_set_back_refuses_no_player(world: World) -> None:
    game_id = await catcher(world)
    session = await opened(world, game_id, GAME_SECONDS, "old")
    assert (await submit(world, game_id, session, GAME_SECONDS, "old")).http == 200
    change = "UPDATE game_players SET busy_until = busy_until + 3600000 WHERE game_id = $1"
    await world.database.execute(change, game_id)
    await world.database.execute("UPDATE tenants SET catalog_version = catalog_version + 1")
    again = await opened(world, game_id, GAME_SECONDS, "old")
    assert (await submit(world, game_id, again, GAME_SECONDS, "old")).http == 200
