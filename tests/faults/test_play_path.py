import asyncio
from collections import Counter
from typing import Any

import pytest
from structlog.testing import capture_logs

from runtime import messages as m
from runtime.actors.game.batch import CONTRADICTIONS, process_batch
from runtime.actors.game.cache import GameCache
from runtime.actors.mailbox import Work
from runtime.errors import Fault
from runtime.operations import BY_NAME
from tests.support.rivals import held
from tests.support.stack import Stack
from tests.support.waiting import until
from tests.support.world import GIFTS, World, new_world

PLAYED_ELSEWHERE = """
    INSERT INTO plays (tenant_id, play_id, game_id, player_id, session_id, revision, seed, client_seed, payload,
                       outcome, score, wins, points)
    VALUES ($1, $2, $3, 'twice', $4, 1, '', '', '{}', '{"rewards": []}', 0, 0, 0)
"""
CURSE = """
    CREATE OR REPLACE FUNCTION curse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
        PERFORM refuse(\'\'plays\'\') WHERE new.player_id = \'\'cursed\'\'; RETURN new; END';
    CREATE TRIGGER curse BEFORE INSERT ON game_players FOR EACH ROW EXECUTE FUNCTION curse()
"""
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


async def waiting(world: World, count: int) -> None:
    await until(lambda: world.database.fetchval(WAITING), lambda it: it >= count)


def actor_of(world: World, game_id: str) -> GameCache:
    return GameCache(world.stack.engine, (world.stack.tenant_id, game_id))


def together(actor: GameCache, *requests: Any) -> list[asyncio.Future[Any]]:
    works: list[Work[Any]] = [Work(request, asyncio.get_running_loop().create_future()) for request in requests]
    batch = asyncio.ensure_future(process_batch(actor, works))
    return [asyncio.ensure_future(_answer_of(work.future, batch)) for work in works]


async def _answer_of(answer: asyncio.Future[Any], batch: asyncio.Future[None]) -> Any:
    await batch
    return await answer


async def test_refused_commit_leaves_its_neighbours_reads_intact(world: World) -> None:
    game_id = await world.wheel(await world.prize())
    core = world.stack.process.core
    scope = m.Scope(tenant_id=world.stack.tenant_id)

    def play(player: str, session_id: str) -> asyncio.Future[m.PlayReply]:
        request = m.PlayRequest(scope=scope, id=game_id, player_id=player, session_id=session_id)
        return asyncio.ensure_future(core.call(BY_NAME["Play"], request))

    twice = await world.session(game_id, "twice")
    known = await world.session(game_id, "known")
    async with held(
        world.stack, "INSERT INTO players (tenant_id, player_id) VALUES ($1, 'new')", world.stack.tenant_id
    ):
        async with held(world.stack, PLAYED_ELSEWHERE, world.stack.tenant_id, f"play_{twice[5:31]}", game_id, twice):
            again = play("twice", twice)  # its commit waits
            await waiting(world, 1)
            new = asyncio.ensure_future(
                core.call(BY_NAME["Start"], m.StartRequest(scope=scope, id=game_id, player_id="new"))
            )
            neighbour = play("known", known)  # the neighbours' look waits
            await waiting(world, 2)
        await until(lambda: world.database.fetchval(WAITING), lambda it: it <= 1)
        await world.database.fetchval("SELECT 1")  # What the refusal sets off has happened by then.
    with pytest.raises(Fault, match="SESSION_PLAYED"):
        await again
    await new
    assert (await neighbour).rewards
    await world.database.execute("DELETE FROM plays WHERE session_id = $1", twice)  # It counted nothing.


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "elsewhere"])
async def test_play_in_flight_stays_counted_when_the_zone_moves_west(module_stack: Stack, elsewhere: bool) -> None:
    async with new_world(module_stack, timezone="Pacific/Kiritimati") as world:
        game_id = await world.wheel(rules={"max_plays_per_day": 3})
        scope = m.Scope(tenant_id=world.stack.tenant_id)
        first, second, third, fourth = [await world.session(game_id) for _ in range(4)]
        assert (await world.play(game_id, first)).http == 200
        actor = actor_of(world, game_id)
        onlooker = actor_of(world, game_id) if elsewhere else actor
        play_id = f"play_{second[5:31]}"
        elsewhere_too = (world.stack.tenant_id, play_id, game_id, second)
        # Its commit has seen the catalogue, and waits before it counts.
        async with held(world.stack, PLAYED_ELSEWHERE, *elsewhere_too, undone=True):
            [playing] = together(actor, m.PlayRequest(scope=scope, id=game_id, player_id="ann", session_id=second))
            await waiting(world, 1)
            moved = {"timezone": "Pacific/Niue"}
            assert (await world.stack.admin("PUT", f"/admin/campaigns/{world.campaign_id}", moved)).http == 200
            compared = onlooker.compared_in
            [request] = together(onlooker, m.EligibilityRequest(scope=scope, id=game_id, player_id="ann"))
            if elsewhere:
                await request
            while onlooker.compared_in == compared:  # It has the new catalogue,
                await asyncio.sleep(0.01)
            for _ in range(200):  # and would have read and answered by then, did it not wait.
                await world.database.fetchval("SELECT 1")
            assert request.done() is elsewhere
        assert (await playing).play_id == play_id
        assert (await request).can_play
        assert (await world.play(game_id, third)).http == 200
        assert (await world.play(game_id, fourth)).reason == "CAP_DAY"


@pytest.mark.fault(
    "Zone moved west, clock stepped",
    size="Kiritimati to Pago Pago",
    figure="under 15 round trips, the caps of each day",
)
async def test_zone_moved_west_causes_no_retry_loop_and_keeps_the_caps(module_stack: Stack) -> None:
    async with new_world(module_stack, timezone="Pacific/Kiritimati") as world:
        game_id = await world.wheel(rules={"max_plays_per_day": 3})
        sessions = [await world.session(game_id) for _ in range(4)]
        for session in sessions[:3]:
            assert (await world.play(game_id, session)).http == 200
        body = {"timezone": "Pacific/Pago_Pago"}
        moved = await module_stack.admin("PUT", f"/admin/campaigns/{world.campaign_id}", body)
        assert moved.http == 200  # A day or two back: the counter's day is still to come.
        before = world.database.round_trips
        assert (await world.play(game_id, sessions[3])).reason == "CAP_DAY"
        assert (await world.eligibility(game_id))["free_plays_remaining"] == 0
        assert world.database.round_trips - before < 15
        # The next local day, as the zone has it now.
        await world.database.execute("UPDATE game_players SET day = day - 1 WHERE game_id = $1", game_id)
        change = "UPDATE plays SET played_at = played_at - interval '1 day' WHERE game_id = $1"
        await world.database.execute(change, game_id)
        assert (await world.eligibility(game_id))["free_plays_remaining"] == 3
        answers = [await world.play(game_id, sessions[3]), *[await world.round(game_id) for _ in range(2)]]
        assert [answer.http for answer in answers] == [200] * 3


async def test_guard_refusal_that_a_fresh_read_contradicts_is_an_error_and_is_counted(world: World) -> None:
    game_id = await world.wheel()
    sessions = {player: await world.session(game_id, player) for player in ("cursed", "blessed")}
    counted = CONTRADICTIONS.labels("plays")._value
    counts, before = counted.get(), world.database.round_trips
    await world.database.execute(CURSE)
    try:
        with capture_logs() as logs:
            answers = await asyncio.gather(*(world.play(game_id, sessions[player], player) for player in sessions))
    finally:
        await world.database.execute("DROP TRIGGER curse ON game_players")
    assert [(answer.http, answer.reason) for answer in answers] == [(500, "INTERNAL"), (200, "")]
    assert [log["guard"] for log in logs if log["event"] == "guard_contradicted"] == ["plays"]
    assert counted.get() == counts + 1
    assert world.database.round_trips - before < 30


@pytest.mark.fault("Double submits", size="6 players, 400 plays of others", figure="400 answers OK")
async def test_duplicate_submissions_of_six_players_change_no_other_answer(world: World) -> None:
    game_id = await world.wheel(await world.prize())
    outcomes: Counter[str] = Counter()
    over = asyncio.Event()

    async def play(player: str, session_id: str) -> str:
        body = {"player_id": player, "session_id": session_id}
        return (await world.stack.core("POST", f"/games/{game_id}/play", body)).reason

    async def submits_twice(player: str) -> None:
        while not over.is_set():
            session = await world.session(game_id, player)
            assert sorted(await asyncio.gather(*(play(player, session) for _ in range(2)))) == ["", "SESSION_PLAYED"]

    async def plays(player: str) -> None:
        for nth in range(10):
            name = player if nth % 2 else f"{player}_{nth}"
            outcomes[await play(name, await world.session(game_id, name))] += 1

    twice = [asyncio.ensure_future(submits_twice(f"twice_{nth}")) for nth in range(6)]
    await asyncio.gather(*(plays(f"once_{nth}") for nth in range(40)))
    over.set()
    await asyncio.gather(*twice)
    assert outcomes == {"": 400}


async def gifts_of(world: World) -> str:
    drops = [{"type": "star", "prize_id": await world.prize(), "frequency": 3, "max_catchable": 5}]
    return await world.game(GIFTS, {"drops": drops, "total_items": 12, "interval_ms": 1})


async def second_plan(world: World) -> tuple[str, Any, m.StartRequest, m.StartReply, m.PlayRequest]:
    game_id = await gifts_of(world)
    assert (await world.round(game_id, payload={"caught_items": []})).code == "OK"
    actor, who = actor_of(world, game_id), {"scope": m.Scope(tenant_id=world.stack.tenant_id), "id": game_id}
    start = m.StartRequest(**who, player_id="ann")
    opened: m.StartReply = await together(actor, start)[0]
    play = m.PlayRequest(**who, player_id="ann", session_id=opened.session_id, payload={"caught_items": []})
    return game_id, actor, start, opened, play


@pytest.mark.parametrize("batches", ["one", "two"])
async def test_start_beside_a_rolled_back_play_shows_the_next_plan(world: World, batches: str) -> None:
    """Otherwise the start would give a session that can never be played."""
    game_id, actor, start, opened, play = await second_plan(world)
    async with held(world.stack, "SELECT FROM game_players WHERE game_id = $1 FOR UPDATE", game_id):
        if batches == "one":
            played, started = together(actor, play, start)
            await waiting(world, 1)
        else:
            (played,) = together(actor, play)
            await waiting(world, 1)
            (started,) = together(actor, start)
            while not actor.deciding.locked() and not started.done():
                await asyncio.sleep(0)
        # Ends a connection that waits for a lock, as a failing store does.
        await world.database.fetchval("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted LIMIT 1")
        with pytest.raises(Fault, match="STORE_UNAVAILABLE"):
            await played
    again = await started
    assert again.drop_plan == opened.drop_plan
    assert (await together(actor, play)[0]).play_id
    play.session_id = again.session_id
    with pytest.raises(Fault, match="SESSION_PLAYED"):
        await together(actor, play)[0]


async def test_start_after_plays_through_another_core_shows_a_playable_plan(world: World) -> None:
    game_id = await gifts_of(world)
    actor, who = actor_of(world, game_id), {"scope": m.Scope(tenant_id=world.stack.tenant_id), "id": game_id}
    start = m.StartRequest(**who, player_id="ann")
    await together(actor, start)[0]
    assert (await world.round(game_id, payload={"caught_items": []})).code == "OK"
    session_id = (await together(actor, start)[0]).session_id
    play = m.PlayRequest(**who, player_id="ann", session_id=session_id, payload={"caught_items": []})
    assert (await together(actor, play)[0]).play_id
