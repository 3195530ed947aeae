"""Leaderboards: management, corrections, and prizes by rank, once."""

import asyncio
from typing import Any

import aiohttp

from runtime.app import running
from runtime.settings import Settings
from tests.support.guests import log_in
from tests.support.leaderboards import NOON, Played, make_board, open_games, order, rankings, record
from tests.support.resources import make_campaign, make_game, make_prize
from tests.support.rivals import held, waits
from tests.support.stack import ROLES, Stack, fields_of
from tests.support.waiting import until


async def test_board_is_made_changed_listed_and_removed(stack: Stack) -> None:
    campaign_id, game_id, _ = await open_games(stack)
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
    rows = await stack.database.fetch(
        "SELECT action FROM audit_entries WHERE subject_id = $1 ORDER BY entry_id", made["id"]
    )
    assert [row["action"] for row in rows] == ["leaderboard.create", "leaderboard.update", "leaderboard.delete"]


async def test_board_with_wrong_fields_names_all_of_them(stack: Stack) -> None:
    campaign_id, _, _ = await open_games(stack)
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
        *("campaign_id", "end_date", "metric", "mode", "name", "prizes[1].from_rank", "prizes[2].to_rank"),
        *("prizes[3].from_rank", "prizes[3].prize_id"),
    ]
    stranger = await make_game(stack, (await make_campaign(stack))["id"], prize_id)
    valid = {"name": "Top", "metric": "score", "mode": "sum", "campaign_id": campaign_id}
    for wrong, field in (
        ({"prizes": [{"from_rank": 1, "to_rank": 1, "prize_id": "prize_none"}]}, "prizes[0].prize_id"),
        ({"metric": "LEADERBOARD_METRIC_JOY"}, "metric"),
        ({"game_id": stranger["id"]}, "game_id"),
    ):
        assert fields_of(await stack.admin("POST", "/admin/leaderboards", {**valid, **wrong})) == [field]
    answer = await stack.admin("POST", "/admin/leaderboards", {**valid, "campaign_id": "camp_none"})
    assert answer.reason == "UNKNOWN_CAMPAIGN"
    answer = await stack.admin("POST", "/admin/leaderboards", {**valid, "campaign_id": "", "game_id": "game_none"})
    assert answer.reason == "UNKNOWN_GAME"
    board = await make_board(stack, campaign_id)
    assert (await stack.admin("PUT", f"/admin/leaderboards/{board['id']}", {"status": "active"})).code == "OK"
    moved = await stack.admin("PUT", f"/admin/leaderboards/{board['id']}", {"status": "finalized"})
    assert fields_of(moved) == ["status"]


async def test_adjustment_moves_a_player(stack: Stack) -> None:
    campaign_id, game_id, _ = await open_games(stack)
    board = await make_board(stack, campaign_id)
    await record(stack, [Played("ann", game_id, 5), Played("bob", game_id, 3)])
    path = f"/admin/leaderboards/{board['id']}/adjust"
    moved = (await stack.admin("POST", path, {"player_id": "bob", "delta": 4, "reason": "lost a round"})).data
    assert (moved["rank"], moved["player_id"], moved["score"]) == (1, "bob", 7)
    assert await order(stack, board["id"]) == [("bob", 7), ("ann", 5)]
    await stack.admin("POST", path, {"player_id": "bob", "delta": -2, "reason": "too many"})
    assert await order(stack, board["id"]) == [("ann", 5), ("bob", 5)]
    assert fields_of(await stack.admin("POST", path, {"player_id": "", "delta": 0, "reason": ""})) == [
        "player_id",
        "reason",
        "delta",
    ]
    answer = await stack.admin("POST", path, {"player_id": "nobody", "delta": 1, "reason": "r"})
    assert answer.reason == "UNKNOWN_PLAYER"
    count = await stack.database.fetchval(
        "SELECT count(*) FROM audit_entries WHERE action = 'leaderboard.adjust' AND actor = 'staff_test'"
    )
    assert count == 2


async def test_scores_saturate_at_64_bits(stack: Stack) -> None:
    campaign_id, game_id, _ = await open_games(stack)
    board = await make_board(stack, campaign_id)
    most = 2**63 - 1
    await record(stack, [Played("ann", game_id, most), Played("bob", game_id, 1)])
    path = f"/leaderboards/{board['id']}/adjust"
    for player_id, delta, score in (("ann", most, most), ("bob", -most, 1 - most), ("bob", -most, -most - 1)):
        data = (await stack.core("POST", path, {"player_id": player_id, "delta": str(delta), "reason": "r"})).data
        assert int(data["ranking"]["score"]) == score
    await stack.engine.rankings.rebuild(stack.tenant_id, board["id"])
    assert await order(stack, board["id"]) == [("ann", most), ("bob", -most - 1)]


async def test_disqualified_player_leaves_the_board(stack: Stack) -> None:
    campaign_id, game_id, _ = await open_games(stack)
    board = await make_board(stack, campaign_id)
    await record(stack, [Played("ann", game_id, 5), Played("bob", game_id, 3)])
    assert [player_id for player_id, _ in await order(stack, board["id"])] == ["ann", "bob"]
    path = f"/admin/leaderboards/{board['id']}"
    first = (await stack.admin("POST", f"{path}/disqualify", {"player_id": "ann", "reason": "a bot"})).data
    assert (first["player_id"], first["reason"]) == ("ann", "a bot")
    assert (await stack.admin("POST", f"{path}/disqualify", {"player_id": "ann", "reason": "again"})).data == first
    assert await order(stack, board["id"]) == [("bob", 3)]
    await record(stack, [Played("ann", game_id, 50)])
    await stack.engine.rankings.refresh(stack.tenant_id, ["ann"], games=[game_id])
    assert await order(stack, board["id"]) == [("bob", 3)]
    await stack.engine.rankings.rebuild(stack.tenant_id, board["id"])
    assert await order(stack, board["id"]) == [("bob", 3)]
    answer = await stack.admin("POST", f"{path}/adjust", {"player_id": "ann", "delta": 1, "reason": "r"})
    assert answer.reason == "DISQUALIFIED"


async def test_standings_show_prizes_before_and_after_finalizing(stack: Stack) -> None:
    campaign_id, game_id, _ = await open_games(stack)
    prize_id = await make_prize(stack, stock={"total": 1})
    ranks = [{"from_rank": 1, "to_rank": 2, "prize_id": prize_id}]
    board_id = (await make_board(stack, campaign_id, prizes=ranks))["id"]
    nameless = await log_in(stack, contact="ned@example.com")
    scores = (("ann", 9), ("bob", 7), ("cat", 5), (nameless, 0))
    await record(stack, [Played(player, game_id, score=score) for player, score in scores])

    async def standings(**query: Any) -> Any:
        return (await stack.admin("GET", f"/admin/leaderboards/{board_id}/standings", **query)).data

    def ranked(page: Any) -> list[tuple[Any, ...]]:
        return [(one["rank"], one["player_id"], one["prize_id"], one["reason"]) for one in page["items"]]

    live = [(1, "ann", prize_id, ""), (2, "bob", prize_id, ""), (3, "cat", "", ""), (4, nameless, "", "")]
    assert [one["contact"] for one in (await standings())["items"]] == ["", "", "", "n***@example.com"]
    assert ranked(await standings()) == live
    first = await standings(limit=2)
    following = {"limit": 2, "cursor": first["pagination"]["next_cursor"]}
    assert (ranked(first), ranked(await standings(**following))) == (live[:2], live[2:])
    # One of a campaign that is a draft again, which has no live ranking and the public sees nothing of.
    await stack.admin("PUT", f"/admin/campaigns/{campaign_id}", {"status": "draft"})
    await stack.engine.rankings.forget(stack.tenant_id, board_id)
    assert ranked(await standings()) == live
    await stack.admin("PUT", f"/admin/campaigns/{campaign_id}", {"status": "active"})
    assert (await stack.admin("POST", f"/admin/leaderboards/{board_id}/finalize", {})).http == 200
    assert ranked(await standings()) == [live[0], (2, "bob", prize_id, "OUT_OF_STOCK"), *live[2:]]
    assert [bool(one["reward_id"]) for one in (await standings())["items"]] == [True, False, False, False]
    stale = await stack.admin("GET", f"/admin/leaderboards/{board_id}/standings", **following)
    assert stale.http == 400 and "cursor" in str(stale.envelope["data"])
    first = await standings(limit=1)
    assert ranked(await standings(limit=2, cursor=first["pagination"]["next_cursor"]))[0][:2] == (2, "bob")


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
    fields = {"player_id": "p1", "scope_key": campaign_id, "currency": "points", "reference_id": "r"}
    for amount, answer in ((2**63 - 5, "OK"), (5, "INVALID_ARGUMENT")):
        assert (await stack.admin("POST", "/admin/wallet/adjustments", {**fields, "amount": amount})).code == answer
    for _ in range(2):
        done = (await stack.core("POST", f"/leaderboards/{board['id']}/finalize", {})).data
        assert [item["reason"] for item in done["standings"]] == ["", "BALANCE_FULL", "", ""]
    balances = await stack.database.fetch("SELECT player_id, balance FROM balances ORDER BY 1")
    assert [tuple(row) for row in balances] == [("p0", 5), ("p1", 2**63 - 5), ("p2", 5), ("p3", 5)]


async def test_finalize_gives_a_code_with_a_rank(stack: Stack) -> None:
    campaign_id, game_id, _ = await open_games(stack)
    voucher = await make_prize(stack, type="voucher", fulfillment={"channel": "voucher_code"})
    assert (await stack.admin("POST", f"/admin/prizes/{voucher}/codes", {"codes": ["A-1"]})).data["added"] == 1
    board = await make_board(stack, campaign_id, prizes=[{"from_rank": 1, "to_rank": 2, "prize_id": voucher}])
    await record(stack, [Played(f"p{n}", game_id, 100 - n) for n in range(2)])
    first, second = (await stack.core("POST", f"/leaderboards/{board['id']}/finalize", {})).data["standings"]
    assert (first["reason"], second["reason"]) == ("", "OUT_OF_STOCK")
    assert await stack.database.fetchval("SELECT reward_id FROM codes") == first["reward_id"]


async def test_finalize_at_the_day_cap_of_a_prize_withholds_it(stack: Stack) -> None:
    campaign_id, game_id, _ = await open_games(stack)
    mug = await make_prize(stack, constraints={"max_per_day": 1})
    board = await make_board(stack, campaign_id, prizes=[{"from_rank": 1, "to_rank": 2, "prize_id": mug}])
    await record(stack, [Played(f"p{n}", game_id, 100 - n) for n in range(2)])
    done = (await stack.core("POST", f"/leaderboards/{board['id']}/finalize", {})).data
    assert [item["reason"] for item in done["standings"]] == ["", "CAP_DAY"]
    assert await rewards_of(stack) == [("p0", mug)]
