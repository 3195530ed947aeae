import asyncio
import re
from collections import Counter
from typing import Any

import pytest
import redis.asyncio

from runtime.operations import purging
from runtime.operations.games import trials
from tests.support.stack import OTHER_TENANT, Answer, fields_of, make_tenant
from tests.support.tables import contents, everything_in
from tests.support.world import GIFTS, WHEEL, World


async def tried(world: World, game_id: str, **body: Any) -> Answer:
    return await world.stack.admin("POST", f"/admin/games/{game_id}/test-plays", body)


async def test_test_plays_change_their_own_table_and_the_audit_log_alone(world: World, valkey_url: str) -> None:
    """Of a game with everything that a play moves: stock, a code, caps, points, a rung, a board, a turn."""
    mug = await world.prize(total=1, constraints={"max_per_user": 1, "max_per_day": 1})
    code = await world.prize(codes=["ONE"])
    points = await world.prize(type="points", value=7)
    rung = {"name": "First", "currency": "points", "threshold": 1, "prize_id": mug}
    game_id = await world.wheel(
        *(mug, code, points, await world.prize(type="turns", value=3)),
        rules={"max_plays_per_user": 1, "max_plays_per_day": 1, "requires_turn": True},
        milestones={"mode": "cumulative_unlock", "auto_grant": True, "rungs": [rung]},
    )
    await world.board(game_id=game_id)
    tenant_id = world.stack.tenant_id
    async with redis.asyncio.from_url(valkey_url) as valkey:

        async def ephemeral() -> dict[str, Any]:
            """The tenant's keys and what they hold; of shared streams, how often they name the tenant."""
            found, named = await everything_in(valkey), re.compile(rf"\b{tenant_id}\b")
            held = {key: value if named.search(key) else len(named.findall(value)) for key, value in found.items()}
            return {key: value for key, value in held.items() if value}

        before, held = await contents(world.database, tenant_id), await ephemeral()
        run = (await tried(world, game_id, times=1000)).data
        after = await contents(world.database, tenant_id)
        # Nothing is added or changed. What the set-up left may expire meanwhile.
        assert (await ephemeral()).items() <= held.items()
    assert {name for name in before if after[name] != before[name]} == {"test_runs", "audit_entries"}
    [entry] = [row for row in after["audit_entries"] if row not in before["audit_entries"]]
    assert (entry["action"], entry["subject_id"], entry["after"]["times"]) == ("game.test", game_id, 1000)
    # Of one mug and one code: what is left of them is not asked.
    assert {it["prize_id"]: it["outcome"] for it in run["frequencies"]}.items() >= {mug: "prize", code: "prize"}.items()
    assert all(row["count"] > 150 for row in run["frequencies"] if row["prize_id"])


async def test_test_play_frequencies_fit_the_declared_odds(world: World) -> None:
    """A share of 1,000 plays lies within five standard deviations of its chance."""
    rare, usual = await world.prize(name="Rare"), await world.prize(name="Usual")
    odds = [{"prize_id": rare, "probability": 0.1}, {"prize_id": usual, "probability": 0.6}]
    segments = [{"prize_id": usual}, {"emoji": "🍃"}, {"prize_id": rare}]
    game_id = await world.game(WHEEL, {"prizes": odds}, ui={"wheel": {"segments": segments}}, status="draft")
    run = (await tried(world, game_id, times=1000)).data
    rows = {row["prize_id"]: row for row in run["frequencies"]}
    found = {id_: (row["name"], row["slot_index"]) for id_, row in rows.items()}
    assert found == {rare: ("Rare", 2), usual: ("Usual", 0), "": ("", 1)}
    assert {id_: round(row["declared"], 9) for id_, row in rows.items()} == {rare: 0.1, usual: 0.6, "": 0.3}
    for row in rows.values():
        assert row["share"] == row["count"] / 1000
        assert abs(row["share"] - row["declared"]) < 5 * (row["declared"] * (1 - row["declared"]) / 1000) ** 0.5
    assert sum(row["count"] for row in rows.values()) == 1000
    assert len(run["plays"]) == trials.SHOWN_MAX < run["times"]


async def test_test_play_is_marked_and_decided_by_its_seed(world: World) -> None:
    game_id = await world.wheel(*[await world.prize() for _ in range(5)])
    run = (await tried(world, game_id, times=3, client_seed="clover")).data
    assert run["test"] and run["id"].startswith("testrun_")
    assert all(play["test"] and play["id"].startswith("testplay_") for play in run["plays"])
    assert len({play["seed"] for play in run["plays"]}) == 3
    for play in run["plays"]:
        [again] = (await tried(world, game_id, seed=play["seed"], client_seed="clover")).data["plays"]
        assert (again["rewards"], again["metadata"]) == (play["rewards"], play["metadata"])
        assert (await world.stack.core("POST", f"/plays/{play['id']}/replay", {})).reason == "UNKNOWN_PLAY"


async def test_test_play_of_a_plan_is_started_and_played_with_what_was_caught(world: World) -> None:
    gift = await world.prize()
    drops = [
        {"type": "gift", "prize_id": gift, "frequency": 1, "max_catchable": 2},
        {"type": "bomb", "frequency": 1, "max_catchable": 9},
    ]
    game_id = await world.game(GIFTS, {"drops": drops, "total_items": 12, "interval_ms": 500})
    started = (await tried(world, game_id, start=True)).data
    [start] = started["plays"]
    assert started["id"] == start["id"] == "" and len(start["drop_plan"]) == 12
    caught = {"caught_items": [drop["id"] for drop in start["drop_plan"] if drop["type"] == "gift"][:1]}
    [play] = (await tried(world, game_id, seed=start["seed"], payload=caught)).data["plays"]
    assert play["drop_plan"] == start["drop_plan"] and play["payload"] == caught
    assert [(won["prize_id"], won["quantity"]) for won in play["rewards"]] == [(gift, 1)]
    wrong = await tried(world, game_id, seed=start["seed"], payload={"caught_items": ["item_99"]})
    assert (wrong.http, wrong.reason, fields_of(wrong)) == (400, "NOT_IN_PLAN", ["payload.caught_items[0]"])
    # Without a payload all is caught: in 200 plays of 12 drops each, no fewer than half win two of it.
    [row] = [row for row in (await tried(world, game_id, times=200)).data["frequencies"] if row["prize_id"]]
    assert row["declared"] == -1 and 200 < row["quantity"] <= 400
    assert (await world.stack.admin("GET", f"/admin/games/{game_id}/test-plays")).data["items"][0]["times"] == 200


async def test_test_play_with_a_wrong_field_is_refused(world: World) -> None:
    game_id = await world.wheel()
    for body, field in (
        *(({"times": 1001}, "times"), ({"times": -1}, "times"), ({"seed": "ab"}, "seed")),
        *(({"seed": "0" * 64, "times": 2}, "seed"), ({"payload": {"score": 1}}, "payload.score")),
    ):
        answer = await tried(world, game_id, **body)
        assert (answer.http, fields_of(answer)) == (400, [field]), body
    assert (await tried(world, "game_none")).reason == "UNKNOWN_GAME"


async def test_test_plays_are_listed_for_staff_for_a_day(world: World) -> None:
    stack = world.stack
    game_id = await world.wheel(await world.prize())
    run = (await tried(world, game_id, times=2)).data
    path = f"/admin/games/{game_id}/test-plays"
    assert (await stack.admin("GET", path)).data["items"] == [run]
    assert (await (await make_tenant(stack, OTHER_TENANT)).admin("GET", path)).reason == "UNKNOWN_GAME"
    assert (await stack.consumer("GET", f"/games/{game_id}/test-plays", player="ann")).http == 404
    assert (await world.history(game_id))["items"] == []
    aged = "UPDATE test_runs SET created_at = now() - interval '25 hours' WHERE run_id = $1"
    await world.database.execute(aged, run["id"])
    assert (await stack.admin("GET", path)).data["items"] == []
    kept_one = (await tried(world, game_id)).data["id"]
    await purging.purge(stack.engine)
    left = await world.database.fetch("SELECT run_id FROM test_runs WHERE game_id = $1", game_id)
    assert [row["run_id"] for row in left] == [kept_one]


async def test_test_plays_leave_the_loop_to_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "SLICE_SECONDS", 0.0)
    turns, seen, draw, done = Counter[str](), set(), trials._seed, asyncio.Event()

    async def neighbour() -> None:
        while not done.is_set():
            turns["taken"] += 1
            await asyncio.sleep(0)

    def drawn(request: Any) -> bytes:
        seen.add(turns["taken"])
        return draw(request)

    monkeypatch.setattr(trials, "_seed", drawn)
    game_id = await world.wheel(await world.prize())
    going_on = asyncio.ensure_future(neighbour())
    await tried(world, game_id, times=1000)
    done.set()
    await going_on
    assert len(seen) == 1000
