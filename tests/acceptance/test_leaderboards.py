"""Leaderboards: management, what a score is, who comes first, corrections, and prizes by rank, once."""

from __future__ import annotations

import asyncio
import random
from itertools import product
from typing import Any

import aiohttp
import pytest

from runtime.actors.engine import Engine
from runtime.app import running
from runtime.operations.leaderboards import finalize
from runtime.settings import Settings
from tests.support.leaderboards import NOON, Played, model, write_plays
from tests.support.resources import make_campaign, make_game, make_prize, play_once
from tests.support.stack import OTHER_TENANT, ROLES, TENANT, Stack, fields_of

METRICS = ("score", "plays", "wins", "points")
MODES = ("sum", "best", "latest")


def engine_of(stack: Stack) -> Engine:
    return stack.engine


async def make_board(stack: Stack, campaign_id: str, **fields: Any) -> dict[str, Any]:
    body = {"campaign_id": campaign_id, "name": "Top", "metric": "score", "mode": "sum", **fields}
    return dict((await stack.admin("POST", "/admin/leaderboards", body)).data)


async def rankings(stack: Stack, board_id: str, **query: Any) -> Any:
    """Core's answer: the edge's is cached for a while."""
    return (await stack.core("GET", f"/leaderboards/{board_id}/rankings", None, **query)).data


async def order(stack: Stack, board_id: str) -> list[tuple[str, int]]:
    items = (await rankings(stack, board_id, limit=100))["items"]
    assert [item["rank"] for item in items] == list(range(1, len(items) + 1))
    return [(item["player_id"], int(item["score"])) for item in items]


async def record(stack: Stack, plays: list[Played]) -> None:
    """Writes plays, and tells the rankings as the consumer group would (tests/faults/test_rankings.py has that one)."""
    await write_plays(engine_of(stack), TENANT, plays)
    await engine_of(stack).rankings.refresh(TENANT, [p.player_id for p in plays], games=[p.game_id for p in plays])


async def world(stack: Stack) -> tuple[str, str, str]:
    """A campaign and two games of it: (campaign_id, game_id, other game_id)."""
    campaign = await make_campaign(stack)
    prize_id = await make_prize(stack)
    games = [(await make_game(stack, campaign["id"], prize_id))["id"] for _ in range(2)]
    return campaign["id"], games[0], games[1]


# -- management ------------------------------------------------------------------------------


async def test_a_board_is_made_changed_listed_and_removed(stack: Stack) -> None:
    campaign_id, game_id, _ = await world(stack)
    prize_id = await make_prize(stack)
    ranks = [{"from_rank": 1, "to_rank": 3, "prize_id": prize_id}]
    made = await make_board(stack, campaign_id, prizes=ranks, end_date=NOON)
    assert made["id"].startswith("board_")
    assert made["status"] == "LEADERBOARD_STATUS_ACTIVE"
    assert (made["metric"], made["mode"]) == ("LEADERBOARD_METRIC_SCORE", "LEADERBOARD_MODE_SUM")
    assert made["prizes"] == ranks
    changed = (
        await stack.admin("PUT", f"/admin/leaderboards/{made['id']}", {"name": "Best", "mode": "LEADERBOARD_MODE_BEST"})
    ).data
    assert (changed["name"], changed["mode"], changed["end_date"]) == ("Best", "LEADERBOARD_MODE_BEST", NOON)
    assert (await stack.admin("GET", f"/admin/leaderboards/{made['id']}")).data == changed
    listed = (await stack.admin("GET", "/admin/leaderboards", campaign=campaign_id, q="best", status="active")).data
    assert [item["id"] for item in listed["items"]] == [made["id"]]
    assert (await stack.admin("GET", "/admin/leaderboards", status="finalized")).data["items"] == []
    of_game = await make_board(stack, "", game_id=game_id)
    assert of_game["campaign_id"] == campaign_id
    assert (await stack.admin("DELETE", f"/admin/leaderboards/{made['id']}")).data["archived"] is False
    assert (await stack.admin("GET", f"/admin/leaderboards/{made['id']}")).reason == "UNKNOWN_LEADERBOARD"
    rows = await engine_of(stack).database.fetch(
        "SELECT action FROM audit_entries WHERE subject_id = $1 ORDER BY entry_id", made["id"]
    )
    assert [row["action"] for row in rows] == ["leaderboard.create", "leaderboard.update", "leaderboard.delete"]


async def test_a_board_with_history_is_archived(stack: Stack) -> None:
    campaign_id, game_id, _ = await world(stack)
    board = await make_board(stack, campaign_id)
    await record(stack, [Played("ann", game_id, 5)])
    assert (await stack.admin("DELETE", f"/admin/leaderboards/{board['id']}")).data["archived"] is True
    kept = (await stack.admin("GET", f"/admin/leaderboards/{board['id']}")).data
    assert kept["status"] == "LEADERBOARD_STATUS_ARCHIVED"
    assert (await stack.admin("GET", "/admin/leaderboards")).data["items"] == []
    answer = await stack.admin("PUT", f"/admin/leaderboards/{board['id']}", {"name": "Again"})
    assert answer.reason == "ILLEGAL_TRANSITION"
    assert await order(stack, board["id"]) == [("ann", 5)]


async def test_every_wrong_field_of_a_board_is_named(stack: Stack) -> None:
    campaign_id, _, _ = await world(stack)
    prize_id = await make_prize(stack)
    answer = await stack.admin(
        "POST",
        "/admin/leaderboards",
        {
            "name": " ",
            "start_date": NOON,
            "end_date": NOON,
            "prizes": [
                {"from_rank": 1, "to_rank": 3, "prize_id": prize_id},
                {"from_rank": 3, "to_rank": 3, "prize_id": prize_id},
                {"from_rank": 5, "to_rank": 4, "prize_id": prize_id},
                {"from_rank": 0, "to_rank": 1, "prize_id": ""},
            ],
        },
    )
    assert sorted(fields_of(answer)) == [
        "campaign_id",
        "end_date",
        "metric",
        "mode",
        "name",
        "prizes[1].from_rank",
        "prizes[2].to_rank",
        "prizes[3].from_rank",
        "prizes[3].prize_id",
    ]
    valid = {"name": "Top", "metric": "score", "mode": "sum", "campaign_id": campaign_id}
    for wrong, field in (
        ({"prizes": [{"from_rank": 1, "to_rank": 1, "prize_id": "prize_none"}]}, "prizes[0].prize_id"),
        ({"metric": "LEADERBOARD_METRIC_JOY"}, "metric"),
    ):
        assert fields_of(await stack.admin("POST", "/admin/leaderboards", {**valid, **wrong})) == [field]
    answer = await stack.admin("POST", "/admin/leaderboards", {**valid, "campaign_id": "camp_none"})
    assert answer.reason == "UNKNOWN_CAMPAIGN"
    answer = await stack.admin("POST", "/admin/leaderboards", {**valid, "campaign_id": "", "game_id": "game_none"})
    assert answer.reason == "UNKNOWN_GAME"
    other = await make_campaign(stack)
    stranger = await make_game(stack, other["id"], prize_id)
    answer = await stack.admin("POST", "/admin/leaderboards", {**valid, "game_id": stranger["id"]})
    assert fields_of(answer) == ["game_id"]


async def test_a_status_is_not_moved_by_an_update(stack: Stack) -> None:
    campaign_id, _, _ = await world(stack)
    board = await make_board(stack, campaign_id)
    assert (await stack.admin("PUT", f"/admin/leaderboards/{board['id']}", {"status": "active"})).code == "OK"
    answer = await stack.admin("PUT", f"/admin/leaderboards/{board['id']}", {"status": "finalized"})
    assert fields_of(answer) == ["status"]


async def test_a_board_of_another_tenant_is_unknown(stack: Stack) -> None:
    campaign_id, game_id, _ = await world(stack)
    board_id = (await make_board(stack, campaign_id))["id"]
    await record(stack, [Played("ann", game_id, 5)])
    assert await order(stack, board_id) == [("ann", 5)]
    foreign = Stack(stack.process, stack.http, OTHER_TENANT)
    for verb, path, body in (
        ("GET", f"/leaderboards/{board_id}", None),
        ("GET", f"/leaderboards/{board_id}/rankings", None),
        ("PUT", f"/leaderboards/{board_id}", {"leaderboard": {"name": "Mine"}}),
        ("DELETE", f"/leaderboards/{board_id}", None),
        ("POST", f"/leaderboards/{board_id}/finalize", {}),
        ("POST", f"/leaderboards/{board_id}/adjust", {"player_id": "ann", "delta": 1, "reason": "r"}),
        ("POST", f"/leaderboards/{board_id}/disqualify", {"player_id": "ann", "reason": "r"}),
    ):
        assert (await foreign.core(verb, path, body)).reason == "UNKNOWN_LEADERBOARD", (verb, path)
    assert await order(stack, board_id) == [("ann", 5)]


# -- what a score is -------------------------------------------------------------------------


async def test_every_metric_and_mode_ranks_as_the_model_does(stack: Stack) -> None:
    """From Postgres, from the built set, and from a set kept up player by player: the same ranking."""
    campaign_id, game_id, other_game_id = await world(stack)
    engine = engine_of(stack)
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
        await engine.rankings.rebuild(TENANT, board_id)
    await write_plays(engine, TENANT, plays)
    for player_id in sorted({play.player_id for play in plays}):
        await engine.rankings.refresh(TENANT, [player_id], games=[game_id])
    for (metric, mode), board_id in boards.items():
        wanted = model(plays, metric, mode)
        assert await order(stack, board_id) == wanted, f"kept up: {metric} {mode}"
        counted = await engine.rankings.count(TENANT, board_id)
        assert counted is not None
        assert [(one.player_id, one.score) for one in counted.scores] == wanted, f"counted: {metric} {mode}"
        await engine.rankings.rebuild(TENANT, board_id)
        assert await order(stack, board_id) == wanted, f"built: {metric} {mode}"


async def test_a_board_counts_its_window_and_its_game(stack: Stack) -> None:
    campaign_id, game_id, other_game_id = await world(stack)
    plays = [
        Played("ann", game_id, 1, at=-1),
        Played("ann", game_id, 2, at=0),
        Played("ann", other_game_id, 4, at=9.999999),
        Played("ann", game_id, 8, at=10),
    ]
    await record(stack, plays)
    for fields, score in (
        ({}, 15),
        ({"game_id": game_id}, 11),
        ({"start_date": NOON}, 14),
        ({"end_date": NOON}, 1),
        ({"start_date": NOON, "end_date": NOON + 10}, 6),
        ({"start_date": NOON, "end_date": NOON + 10, "game_id": game_id}, 2),
    ):
        board = await make_board(stack, campaign_id, **fields)
        assert await order(stack, board["id"]) == [("ann", score)], fields
    empty = await make_board(stack, campaign_id, end_date=NOON - 100)
    assert await order(stack, empty["id"]) == []


async def test_of_equal_scores_the_first_is_first_then_the_lesser_id(stack: Stack) -> None:
    campaign_id, game_id, _ = await world(stack)
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
    await engine_of(stack).rankings.rebuild(TENANT, board["id"])
    wanted = ["one_more", "first", "a", "b", "late", "one_less"]
    assert [player_id for player_id, _ in await order(stack, board["id"])] == wanted
    items = (await rankings(stack, board["id"]))["items"]
    assert [int(item["achieved_at"]) - NOON for item in items] == [3, 1, 1, 1, 2, 0]


async def test_a_change_of_what_counts_is_counted_anew(stack: Stack) -> None:
    campaign_id, game_id, _ = await world(stack)
    board = await make_board(stack, campaign_id)
    await record(stack, [Played("ann", game_id, 3), Played("ann", game_id, 4), Played("bob", game_id, 5)])
    assert await order(stack, board["id"]) == [("ann", 7), ("bob", 5)]
    await stack.admin("PUT", f"/admin/leaderboards/{board['id']}", {"mode": "best"})
    assert await order(stack, board["id"]) == [("bob", 5), ("ann", 4)]
    await engine_of(stack).rankings.drain()
    assert await order(stack, board["id"]) == [("bob", 5), ("ann", 4)]


async def test_rankings_page_to_the_end_and_show_names_and_me(stack: Stack) -> None:
    campaign_id, game_id, _ = await world(stack)
    board = await make_board(stack, campaign_id)
    engine = engine_of(stack)
    await engine.database.execute(
        "INSERT INTO players (tenant_id, player_id, display_name) VALUES ($1, 'p07', 'Zoë 🎯')", TENANT
    )
    await record(stack, [Played(f"p{n:02}", game_id, n // 2, at=n) for n in range(25)])
    await engine.rankings.drop(TENANT, board["id"])
    wanted = [f"p{n:02}" for n in sorted(range(25), key=lambda n: (-(n // 2), n))]
    for live in (False, True):
        if live:
            await engine.rankings.drain()
            assert await engine.rankings.top(TENANT, board["id"], None, 1) is not None
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


async def test_a_page_goes_on_where_its_last_player_was(stack: Stack) -> None:
    """The last player shown moves up: nobody is shown twice or left out but that player's own move."""
    campaign_id, game_id, _ = await world(stack)
    board = await make_board(stack, campaign_id)
    engine = engine_of(stack)
    await write_plays(engine, TENANT, [Played(f"p{n}", game_id, 100 - n, at=n) for n in range(10)])
    await engine.rankings.rebuild(TENANT, board["id"])
    first = await rankings(stack, board["id"], limit=4)
    await write_plays(engine, TENANT, [Played("p3", game_id, 500, at=50)])
    await engine.rankings.refresh(TENANT, ["p3"], boards=[board["id"]])
    rest = await rankings(stack, board["id"], limit=10, cursor=first["pagination"]["next_cursor"])
    assert [item["player_id"] for item in rest["items"]] == [f"p{n}" for n in range(4, 10)]


async def test_real_plays_count(stack: Stack) -> None:
    campaign_id, game_id, _ = await world(stack)
    board = await make_board(stack, campaign_id, metric="wins")
    for player in ("ann", "bob", "bob"):
        await play_once(stack, game_id, player)
    await engine_of(stack).rankings.catch_up(TENANT)
    assert await order(stack, board["id"]) == [("bob", 2), ("ann", 1)]


# -- corrections -----------------------------------------------------------------------------


async def test_an_adjustment_moves_a_player(stack: Stack) -> None:
    campaign_id, game_id, _ = await world(stack)
    board = await make_board(stack, campaign_id)
    await record(stack, [Played("ann", game_id, 5), Played("bob", game_id, 3)])
    path = f"/admin/leaderboards/{board['id']}/adjust"
    moved = (await stack.admin("POST", path, {"player_id": "bob", "delta": 4, "reason": "lost a round"})).data
    assert (moved["rank"], moved["player_id"], moved["score"]) == (1, "bob", 7)
    assert await order(stack, board["id"]) == [("bob", 7), ("ann", 5)]
    # Equal scores: bob reached it by the later correction.
    await stack.admin("POST", path, {"player_id": "bob", "delta": -2, "reason": "too many"})
    assert await order(stack, board["id"]) == [("ann", 5), ("bob", 5)]
    assert fields_of(await stack.admin("POST", path, {"player_id": "", "delta": 0, "reason": ""})) == [
        "player_id",
        "reason",
        "delta",
    ]
    answer = await stack.admin("POST", path, {"player_id": "nobody", "delta": 1, "reason": "r"})
    assert answer.reason == "UNKNOWN_PLAYER"
    count = await engine_of(stack).database.fetchval(
        "SELECT count(*) FROM audit_entries WHERE action = 'leaderboard.adjust' AND actor = 'staff_test'"
    )
    assert count == 2


async def test_scores_past_64_bits_stay_at_the_edge(stack: Stack) -> None:
    campaign_id, game_id, _ = await world(stack)
    board = await make_board(stack, campaign_id)
    most = 2**63 - 1
    await record(stack, [Played("ann", game_id, most), Played("bob", game_id, 1)])
    path = f"/leaderboards/{board['id']}/adjust"
    for player_id, delta, score in (("ann", most, most), ("bob", -most, 1 - most), ("bob", -most, -most - 1)):
        data = (await stack.core("POST", path, {"player_id": player_id, "delta": str(delta), "reason": "r"})).data
        assert int(data["ranking"]["score"]) == score
    await engine_of(stack).rankings.rebuild(TENANT, board["id"])
    assert await order(stack, board["id"]) == [("ann", most), ("bob", -most - 1)]


async def test_a_disqualified_player_leaves(stack: Stack) -> None:
    campaign_id, game_id, _ = await world(stack)
    board = await make_board(stack, campaign_id)
    await record(stack, [Played("ann", game_id, 5), Played("bob", game_id, 3)])
    assert [player_id for player_id, _ in await order(stack, board["id"])] == ["ann", "bob"]
    path = f"/admin/leaderboards/{board['id']}"
    first = (await stack.admin("POST", f"{path}/disqualify", {"player_id": "ann", "reason": "a bot"})).data
    assert (first["player_id"], first["reason"]) == ("ann", "a bot")
    assert (await stack.admin("POST", f"{path}/disqualify", {"player_id": "ann", "reason": "again"})).data == first
    assert await order(stack, board["id"]) == [("bob", 3)]
    await record(stack, [Played("ann", game_id, 50)])
    await engine_of(stack).rankings.refresh(TENANT, ["ann"], games=[game_id])
    assert await order(stack, board["id"]) == [("bob", 3)]
    await engine_of(stack).rankings.rebuild(TENANT, board["id"])
    assert await order(stack, board["id"]) == [("bob", 3)]
    answer = await stack.admin("POST", f"{path}/adjust", {"player_id": "ann", "delta": 1, "reason": "r"})
    assert answer.reason == "DISQUALIFIED"


# -- finalize --------------------------------------------------------------------------------


async def rewards_of(stack: Stack) -> list[tuple[str, str]]:
    rows = await engine_of(stack).database.fetch(
        "SELECT player_id, prize_id FROM rewards WHERE tenant_id = $1 ORDER BY player_id, prize_id", TENANT
    )
    return [(row["player_id"], row["prize_id"]) for row in rows]


async def assert_books_balance(stack: Stack) -> None:
    """Stock, counters, tasks and standings agree with the rewards."""
    rows = await engine_of(stack).database.fetch(
        "SELECT s.prize_id FROM stock AS s WHERE s.awarded <>"
        " (SELECT coalesce(sum(quantity), 0) FROM rewards AS r WHERE r.prize_id = s.prize_id)"
        " UNION ALL SELECT r.reward_id FROM rewards AS r WHERE NOT EXISTS"
        " (SELECT FROM tasks AS t WHERE t.reward_id = r.reward_id)"
        " UNION ALL SELECT s.player_id FROM leaderboard_standings AS s WHERE s.reward_id <> '' AND NOT EXISTS"
        " (SELECT FROM rewards AS r WHERE r.reward_id = s.reward_id AND r.player_id = s.player_id)"
    )
    assert rows == []


async def test_prizes_go_by_rank_and_again_is_the_same_answer(stack: Stack) -> None:
    campaign_id, game_id, _ = await world(stack)
    gold, silver = await make_prize(stack, name="Gold"), await make_prize(stack, name="Silver", stock={"total": 1})
    points = await make_prize(stack, name="Points", type="points", value=50)
    ranks = [(1, 1, gold), (2, 3, silver), (4, 9, points)]
    board = await make_board(
        stack, campaign_id, prizes=[{"from_rank": a, "to_rank": b, "prize_id": prize_id} for a, b, prize_id in ranks]
    )
    await record(stack, [Played(f"p{n}", game_id, 100 - n, at=n) for n in range(5)])
    path = f"/admin/leaderboards/{board['id']}"
    done = (await stack.admin("POST", f"{path}/finalize", {})).data
    assert done["status"] == "LEADERBOARD_STATUS_FINALIZED"
    found = [
        (row["rank"], row["player_id"], row["score"], row["prize_id"], bool(row["reward_id"]), row["reason"])
        for row in done["standings"]
    ]
    assert found == [
        (1, "p0", 100, gold, True, ""),
        (2, "p1", 99, silver, True, ""),
        (3, "p2", 98, silver, False, "OUT_OF_STOCK"),
        (4, "p3", 97, points, False, ""),
        (5, "p4", 96, points, False, ""),
    ]
    assert await rewards_of(stack) == [("p0", gold), ("p1", silver)]
    wallet = (await stack.core("GET", "/wallet", None, player_id="p4")).data["items"]
    assert [(row["currency"], row["scope_key"], int(row["balance"])) for row in wallet] == [("points", campaign_id, 50)]
    await record(stack, [Played("p9", game_id, 1000)])
    assert (await stack.admin("POST", f"{path}/finalize", {})).data == done
    assert len(await order(stack, board["id"])) == 5
    assert (await rankings(stack, board["id"], player_id="p2"))["me"]["rank"] == 3
    for verb, sub, body in (
        ("PUT", "", {"name": "New"}),
        ("POST", "/adjust", {"player_id": "p1", "delta": 1, "reason": "r"}),
        ("POST", "/disqualify", {"player_id": "p1", "reason": "r"}),
    ):
        answer = await stack.admin(verb, path + sub, body)
        assert (answer.code, answer.reason) == ("FAILED_PRECONDITION", "BOARD_FINALIZED")
    assert (await stack.admin("GET", path)).data["name"] == "Top"
    assert (await stack.admin("DELETE", path)).data["archived"] is True
    assert len(await order(stack, board["id"])) == 5
    assert (await stack.admin("POST", f"{path}/finalize", {})).data["standings"] == done["standings"]
    await assert_books_balance(stack)


async def test_a_finalized_board_pages_its_standings(stack: Stack) -> None:
    campaign_id, game_id, _ = await world(stack)
    board = await make_board(stack, campaign_id)
    await record(stack, [Played(f"p{n}", game_id, 100 - n) for n in range(5)])
    live = await rankings(stack, board["id"], limit=2)
    await stack.admin("POST", f"/admin/leaderboards/{board['id']}/finalize", {})
    first = await rankings(stack, board["id"], limit=2)
    assert first["items"] == live["items"]
    rest = await rankings(stack, board["id"], limit=10, cursor=first["pagination"]["next_cursor"])
    assert [item["rank"] for item in rest["items"]] == [3, 4, 5]
    old = live["pagination"]["next_cursor"]
    answer = await stack.core("GET", f"/leaderboards/{board['id']}/rankings", None, cursor=old)
    assert fields_of(answer) == ["cursor"]


async def test_two_processes_and_fifty_calls_finalize_once(stack: Stack, settings: Settings) -> None:
    campaign_id, game_id, _ = await world(stack)
    mug = await make_prize(stack, stock={"total": 7})
    board = await make_board(stack, campaign_id, prizes=[{"from_rank": 1, "to_rank": 10, "prize_id": mug}])
    await record(stack, [Played(f"p{n:02}", game_id, 100 - n) for n in range(20)])
    async with running(settings, ROLES) as second, aiohttp.ClientSession() as http:
        stacks = (stack, Stack(second, http))
        path = f"/leaderboards/{board['id']}/finalize"
        answers = await asyncio.gather(*[stacks[n % 2].core("POST", path, {}) for n in range(50)])
    assert all(answer.data == answers[0].data for answer in answers)
    assert await rewards_of(stack) == [(f"p{n:02}", mug) for n in range(7)]
    reasons = [row["reason"] for row in answers[0].data["standings"]]
    assert reasons == [""] * 7 + ["OUT_OF_STOCK"] * 3 + [""] * 10
    closed = await engine_of(stack).database.fetchval(
        "SELECT count(*) FROM audit_entries WHERE action = 'leaderboard.finalize'"
    )
    assert closed == 1
    await assert_books_balance(stack)


@pytest.mark.parametrize("given", [0, 1, 2])
async def test_a_finalize_that_was_cut_short_is_taken_up(stack: Stack, given: int) -> None:
    """The board is closed and `given` prizes are out when the process dies: the next call gives the rest, once."""
    campaign_id, game_id, _ = await world(stack)
    mug = await make_prize(stack)
    board = await make_board(stack, campaign_id, prizes=[{"from_rank": 1, "to_rank": 3, "prize_id": mug}])
    await record(stack, [Played(f"p{n}", game_id, 100 - n) for n in range(4)])
    engine, sql = engine_of(stack), finalize._SQL
    assert await finalize._close(engine, TENANT, board["id"])
    row = await engine.database.fetchrow(sql["closed_board"], TENANT, board["id"])
    assert row is not None
    prizes = finalize._Prizes(engine, TENANT, board["id"], row)
    prizes._cards = await finalize.load_prizes(engine.database, TENANT, {mug})
    owed = await engine.database.fetch(sql["owed"], TENANT, board["id"], 10)
    for standing in owed[:given]:
        await prizes._settle(standing)
    done = (await stack.core("POST", f"/leaderboards/{board['id']}/finalize", {})).data
    assert [bool(item["reward_id"]) for item in done["standings"]] == [True, True, True, False]
    assert await rewards_of(stack) == [("p0", mug), ("p1", mug), ("p2", mug)]
    await assert_books_balance(stack)


async def test_a_prize_at_its_cap_is_withheld(stack: Stack) -> None:
    campaign_id, game_id, _ = await world(stack)
    daily = await make_prize(stack, constraints={"max_per_day": 2})
    board = await make_board(stack, campaign_id, prizes=[{"from_rank": 1, "to_rank": 3, "prize_id": daily}])
    await record(stack, [Played(f"p{n}", game_id, 100 - n) for n in range(3)])
    done = (await stack.core("POST", f"/leaderboards/{board['id']}/finalize", {})).data
    assert [item["reason"] for item in done["standings"]] == ["", "", "CAP_DAY"]
    assert len(await rewards_of(stack)) == 2


async def test_a_code_goes_with_a_rank(stack: Stack) -> None:
    campaign_id, game_id, _ = await world(stack)
    voucher = await make_prize(
        stack, type="voucher", fulfillment={"channel": "voucher_code", "redemption_mode": "REDEMPTION_MODE_ON_WIN"}
    )
    database = engine_of(stack).database
    await database.execute(
        "INSERT INTO codes (tenant_id, prize_id, code_id, key_id, ciphertext, code_hash)"
        " VALUES ($1, $2, 'code_1', '1', '', '')",
        TENANT,
        voucher,
    )
    board = await make_board(stack, campaign_id, prizes=[{"from_rank": 1, "to_rank": 2, "prize_id": voucher}])
    await record(stack, [Played(f"p{n}", game_id, 100 - n) for n in range(2)])
    done = (await stack.core("POST", f"/leaderboards/{board['id']}/finalize", {})).data
    assert [item["reason"] for item in done["standings"]] == ["", "OUT_OF_STOCK"]
    holder = await database.fetchval("SELECT reward_id FROM codes WHERE tenant_id = $1", TENANT)
    assert holder == done["standings"][0]["reward_id"]


async def test_an_empty_board_is_finalized(stack: Stack) -> None:
    campaign_id, _, _ = await world(stack)
    board = await make_board(stack, campaign_id)
    done = (await stack.admin("POST", f"/admin/leaderboards/{board['id']}/finalize", {})).data
    assert done["standings"] == []
    assert (await stack.admin("POST", f"/admin/leaderboards/{board['id']}/finalize", {})).data == done
