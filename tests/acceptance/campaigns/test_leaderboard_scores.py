"""Leaderboards: what a score is, and who comes first."""

import random
from itertools import product
from typing import Any

from tests.support.leaderboards import NOON, Played, make_board, model, open_games, order, rankings, record, write_plays
from tests.support.stack import Stack, fields_of

METRICS = ("score", "plays", "wins", "points")
MODES = ("sum", "best", "latest")


async def test_ranking_of_every_metric_and_mode_equals_the_model(stack: Stack) -> None:
    """From Postgres, from the built set, and from a set kept up player by player: the same ranking."""
    campaign_id, game_id, other_game_id = await open_games(stack)
    engine = stack.engine
    boards = {
        (metric, mode): (await make_board(stack, campaign_id, metric=metric, mode=mode))["id"]
        for metric, mode in product(METRICS, MODES)
    }
    drawn = random.Random(7)
    plays = [
        Played(
            f"player_{drawn.randrange(12)}",
            drawn.choice([game_id, other_game_id]),
            drawn.choice([0, 0, 1, 5, 2**40]),
            drawn.randrange(3),
            drawn.choice([0, 10, 20]),
            at=index * 0.25,
        )
        for index in range(150)
    ]
    for board_id in boards.values():
        await engine.rankings.rebuild(stack.tenant_id, board_id)
    await write_plays(engine, stack.tenant_id, plays)
    for player_id in sorted({play.player_id for play in plays}):
        await engine.rankings.refresh(stack.tenant_id, [player_id], games=[game_id])
    for (metric, mode), board_id in boards.items():
        wanted = model(plays, metric, mode)
        assert await order(stack, board_id) == wanted, f"kept up: {metric} {mode}"
        counted = await engine.rankings.count(stack.tenant_id, board_id)
        assert counted is not None
        assert [(one.player_id, one.score) for one in counted.scores] == wanted, f"counted: {metric} {mode}"
        await engine.rankings.rebuild(stack.tenant_id, board_id)
        assert await order(stack, board_id) == wanted, f"built: {metric} {mode}"


async def test_ranking_breaks_ties_by_time_then_by_id(stack: Stack) -> None:
    campaign_id, game_id, _ = await open_games(stack)
    board = await make_board(stack, campaign_id)
    # Beyond 2**53 doubles are equal where the scores are not.
    big = 2**60
    plays = [
        Played("late", game_id, big, at=2),
        Played("b", game_id, big, at=1.000001),
        Played("a", game_id, big, at=1.000001),
        Played("first", game_id, big, at=1),
        Played("one_less", game_id, big - 1, at=0),
        Played("one_more", game_id, big + 1, at=3),
    ]
    await record(stack, plays)
    await stack.engine.rankings.rebuild(stack.tenant_id, board["id"])
    wanted = ["one_more", "first", "a", "b", "late", "one_less"]
    assert [player_id for player_id, _ in await order(stack, board["id"])] == wanted
    counted = await stack.engine.rankings.count(stack.tenant_id, board["id"])
    assert counted is not None
    assert [one.player_id for one in counted.scores] == wanted, "as prizes go by"
    items = (await rankings(stack, board["id"]))["items"]
    assert [int(item["achieved_at"]) - NOON for item in items] == [3, 1, 1, 1, 2, 0]


async def test_ranking_is_rebuilt_when_the_mode_changes(stack: Stack) -> None:
    campaign_id, game_id, _ = await open_games(stack)
    board = await make_board(stack, campaign_id)
    await record(stack, [Played("ann", game_id, 3), Played("ann", game_id, 4), Played("bob", game_id, 5)])
    assert await order(stack, board["id"]) == [("ann", 7), ("bob", 5)]
    await stack.admin("PUT", f"/admin/leaderboards/{board['id']}", {"mode": "best"})
    assert await order(stack, board["id"]) == [("bob", 5), ("ann", 4)]
    await stack.engine.rankings.drain()
    assert await order(stack, board["id"]) == [("bob", 5), ("ann", 4)]


async def test_ranking_pages_to_the_end_with_names_and_me(stack: Stack) -> None:
    campaign_id, game_id, _ = await open_games(stack)
    board = await make_board(stack, campaign_id)
    engine = stack.engine
    await engine.database.execute(
        "INSERT INTO players (tenant_id, player_id, display_name) VALUES ($1, 'p07', 'Zoë 🎯')", stack.tenant_id
    )
    await record(stack, [Played(f"p{n:02}", game_id, n // 2, at=n) for n in range(25)])
    await engine.rankings.drop(stack.tenant_id, board["id"])
    wanted = [f"p{n:02}" for n in sorted(range(25), key=lambda n: (-(n // 2), n))]
    for live in (False, True):
        if live:
            await engine.rankings.drain()
            assert await engine.rankings.top(stack.tenant_id, board["id"], None, 1) is not None
        found: list[dict[str, Any]] = []
        cursor = ""
        while True:
            data = await rankings(stack, board["id"], limit=10, cursor=cursor, player_id="p07")
            assert (data["me"]["rank"], data["me"]["display_name"]) == (wanted.index("p07") + 1, "Zoë 🎯")
            found += data["items"]
            cursor = data["pagination"]["next_cursor"]
            if not data["pagination"]["has_more"]:
                break
        assert [item["player_id"] for item in found] == wanted
        assert [item["rank"] for item in found] == list(range(1, 26))
    assert (await rankings(stack, board["id"], player_id="stranger")).get("me") is None
    assert fields_of(await stack.core("GET", f"/leaderboards/{board['id']}/rankings", None, limit=101)) == ["limit"]
    answer = await stack.core("GET", f"/leaderboards/{board['id']}/rankings", None, cursor="xyz")
    assert fields_of(answer) == ["cursor"]
    assert (await stack.consumer("GET", "/leaderboards/board_none/rankings")).reason == "UNKNOWN_LEADERBOARD"


async def test_ranking_cursor_goes_on_where_its_last_player_was(stack: Stack) -> None:
    campaign_id, game_id, _ = await open_games(stack)
    board = await make_board(stack, campaign_id)
    engine = stack.engine
    await write_plays(engine, stack.tenant_id, [Played(f"p{n}", game_id, 100 - n, at=n) for n in range(10)])
    await engine.rankings.rebuild(stack.tenant_id, board["id"])
    first = await rankings(stack, board["id"], limit=4)
    await write_plays(engine, stack.tenant_id, [Played("p3", game_id, 500, at=50)])
    await engine.rankings.refresh(stack.tenant_id, ["p3"], boards=[board["id"]])
    rest = await rankings(stack, board["id"], limit=10, cursor=first["pagination"]["next_cursor"])
    assert [item["player_id"] for item in rest["items"]] == [f"p{n}" for n in range(4, 10)]
