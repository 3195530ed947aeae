"""Leaderboards: prizes by rank, once."""

from __future__ import annotations

import asyncio

import aiohttp

from runtime.app import running
from runtime.settings import Settings
from tests.support.leaderboards import Played, make_board, open_games, order, rankings, record
from tests.support.resources import make_prize
from tests.support.rivals import held, waits
from tests.support.stack import ROLES, Stack
from tests.support.waiting import until


async def rewards_of(stack: Stack) -> list[tuple[str, str]]:
    rows = await stack.database.fetch(
        "SELECT player_id, prize_id FROM rewards WHERE tenant_id = $1 AND type <> 'points' ORDER BY 1, 2",
        stack.tenant_id,
    )
    return [(row["player_id"], row["prize_id"]) for row in rows]


async def assert_books_balance(stack: Stack) -> None:
    rows = await stack.database.fetch(
        "SELECT s.prize_id FROM stock AS s WHERE s.awarded <>"
        " (SELECT coalesce(sum(quantity), 0) FROM rewards AS r WHERE r.prize_id = s.prize_id AND r.type <> 'points')"
        " UNION ALL SELECT r.reward_id FROM rewards AS r WHERE r.type <> 'points' AND NOT EXISTS"
        " (SELECT FROM tasks AS t WHERE t.reward_id = r.reward_id)"
        " UNION ALL SELECT s.player_id FROM leaderboard_standings AS s WHERE s.reward_id <> '' AND NOT EXISTS"
        " (SELECT FROM rewards AS r WHERE r.reward_id = s.reward_id AND r.player_id = s.player_id)"
    )
    assert rows == []


async def test_finalize_gives_prizes_by_rank_and_repeats_its_answer(stack: Stack) -> None:
    campaign_id, game_id, _ = await open_games(stack)
    gold, silver = await make_prize(stack, name="Gold"), await make_prize(stack, name="Silver", stock={"total": 1})
    points = await make_prize(stack, name="Points", type="points", value=50)
    ranks = [(1, 1, gold), (2, 3, silver), (4, 9, points)]
    board = await make_board(
        stack, campaign_id, prizes=[{"from_rank": a, "to_rank": b, "prize_id": prize_id} for a, b, prize_id in ranks]
    )
    await record(stack, [Played(f"p{n}", game_id, 100 - n if n < 5 else 0, at=n) for n in range(6)])
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
        (4, "p3", 97, points, True, ""),
        (5, "p4", 96, points, True, ""),
        (6, "p5", 0, "", False, ""),
    ]
    assert await rewards_of(stack) == [("p0", gold), ("p1", silver)]
    wallet = (await stack.core("GET", "/wallet", None, player_id="p4")).data["items"]
    assert [(row["currency"], row["scope_key"], int(row["balance"])) for row in wallet] == [("points", campaign_id, 50)]
    (mine,) = (await stack.core("GET", "/rewards/me", None, player_id="p4")).data["items"]
    assert (mine["id"], mine["type"], mine["status"]) == (
        done["standings"][4]["reward_id"],
        "points",
        "REWARD_STATUS_FULFILLED",
    )
    await record(stack, [Played("p9", game_id, 1000)])
    assert (await stack.admin("POST", f"{path}/finalize", {})).data == done
    assert len(await order(stack, board["id"])) == 6
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
    assert (await stack.admin("POST", f"{path}/finalize", {})).data["standings"] == done["standings"]
    await assert_books_balance(stack)


async def test_tied_players_get_prizes_in_the_order_of_their_scores_then_of_their_ids(stack: Stack) -> None:
    campaign_id, game_id, _ = await open_games(stack)
    gold, silver = await make_prize(stack, name="Gold"), await make_prize(stack, name="Silver")
    board = await make_board(
        stack,
        campaign_id,
        prizes=[
            {"from_rank": 1, "to_rank": 1, "prize_id": gold},
            {"from_rank": 2, "to_rank": 2, "prize_id": silver},
        ],
    )
    # Of four with 100 points, "c" was first; "a" and "b" reached them at the same instant, "d" a second later.
    await record(stack, [Played(player, game_id, 100, at=at) for player, at in zip("dbac", (7, 6, 6, 5), strict=True)])
    done = (await stack.admin("POST", f"/admin/leaderboards/{board['id']}/finalize", {})).data
    assert [(row["rank"], row["player_id"], row["prize_id"]) for row in done["standings"]] == [
        (1, "c", gold),
        (2, "a", silver),
        (3, "b", ""),
        (4, "d", ""),
    ]
    assert sorted(await rewards_of(stack)) == [("a", silver), ("c", gold)]


async def test_finalize_by_fifty_calls_to_two_processes_happens_once(stack: Stack, settings: Settings) -> None:
    campaign_id, game_id, _ = await open_games(stack)
    mug = await make_prize(stack, stock={"total": 7})
    board = await make_board(stack, campaign_id, prizes=[{"from_rank": 1, "to_rank": 10, "prize_id": mug}])
    await record(stack, [Played(f"p{n:02}", game_id, 100 - n) for n in range(20)])
    async with running(settings, ROLES) as second, aiohttp.ClientSession() as http:
        stacks = (stack, Stack(second, http, stack.tenant_id))
        path = f"/leaderboards/{board['id']}/finalize"
        answers = await asyncio.gather(*[stacks[n % 2].core("POST", path, {}) for n in range(50)])
    assert all(answer.data == answers[0].data for answer in answers)
    assert await rewards_of(stack) == [(f"p{n:02}", mug) for n in range(7)]
    reasons = [row["reason"] for row in answers[0].data["standings"]]
    assert reasons == [""] * 7 + ["OUT_OF_STOCK"] * 3 + [""] * 10
    closed = await stack.database.fetchval("SELECT count(*) FROM audit_entries WHERE action = 'leaderboard.finalize'")
    assert closed == 1
    await assert_books_balance(stack)


async def test_finalize_gives_the_last_prize_to_the_better_rank_of_a_guest_who_logs_in(stack: Stack) -> None:
    """The guest is being merged when its prize is to be given: the rank is the player's, and before the next one."""
    campaign_id, game_id, _ = await open_games(stack)
    mug = await make_prize(stack, stock={"total": 2})
    board = await make_board(stack, campaign_id, prizes=[{"from_rank": 1, "to_rank": 4, "prize_id": mug}])
    await record(stack, [Played(f"p{n}", game_id, 100 - n) for n in range(4)])
    await stack.database.execute(
        "INSERT INTO players (tenant_id, player_id) VALUES ($1, 'p1'), ($1, 'zed')", stack.tenant_id
    )
    await stack.database.execute("UPDATE players SET auth_method = 'guest' WHERE player_id = 'p1'")
    async with held(stack, "UPDATE players SET merged_into = 'zed' WHERE player_id = 'p1'"):
        finalizing = asyncio.create_task(stack.core("POST", f"/leaderboards/{board['id']}/finalize", {}))
        await until(lambda: waits(stack, "commit"))
    standings = (await finalizing).data["standings"]
    assert [item["reason"] for item in standings] == ["", "", "OUT_OF_STOCK", "OUT_OF_STOCK"]
    assert await rewards_of(stack) == [("p0", mug), ("zed", mug)]


async def test_finalize_skips_only_the_winner_whose_wallet_is_full(stack: Stack) -> None:
    campaign_id, game_id, _ = await open_games(stack)
    points = await make_prize(stack, type="points", value=5)
    board = await make_board(stack, campaign_id, prizes=[{"from_rank": 1, "to_rank": 4, "prize_id": points}])
    await record(stack, [Played(f"p{n}", game_id, 100 - n) for n in range(4)])
    await stack.database.execute("INSERT INTO players (tenant_id, player_id) VALUES ($1, 'p1')", stack.tenant_id)
    given = {"player_id": "p1", "scope_key": campaign_id, "currency": "points", "reference_id": "r"}
    for amount, answer in ((2**63 - 5, "OK"), (5, "INVALID_ARGUMENT")):
        assert (await stack.admin("POST", "/admin/wallet/adjustments", {**given, "amount": amount})).code == answer
    for _ in range(2):
        done = (await stack.core("POST", f"/leaderboards/{board['id']}/finalize", {})).data
        assert [item["reason"] for item in done["standings"]] == ["", "BALANCE_FULL", "", ""]
    balances = await stack.database.fetch("SELECT player_id, balance FROM balances ORDER BY 1")
    assert [tuple(row) for row in balances] == [("p0", 5), ("p1", 2**63 - 5), ("p2", 5), ("p3", 5)]


async def test_finalize_withholds_a_prize_at_its_cap(stack: Stack) -> None:
    campaign_id, game_id, _ = await open_games(stack)
    daily = await make_prize(stack, constraints={"max_per_day": 2})
    board = await make_board(stack, campaign_id, prizes=[{"from_rank": 1, "to_rank": 3, "prize_id": daily}])
    await record(stack, [Played(f"p{n}", game_id, 100 - n) for n in range(3)])
    done = (await stack.core("POST", f"/leaderboards/{board['id']}/finalize", {})).data
    assert [item["reason"] for item in done["standings"]] == ["", "", "CAP_DAY"]
    assert len(await rewards_of(stack)) == 2


async def test_finalize_of_an_empty_board_has_no_standings(stack: Stack) -> None:
    campaign_id, _, _ = await open_games(stack)
    board = await make_board(stack, campaign_id)
    done = (await stack.admin("POST", f"/admin/leaderboards/{board['id']}/finalize", {})).data
    assert done["standings"] == []
    assert (await stack.admin("POST", f"/admin/leaderboards/{board['id']}/finalize", {})).data == done
