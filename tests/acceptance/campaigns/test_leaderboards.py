import asyncio
import random
from itertools import product
from typing import Any

import pytest

from runtime import messages as m
from runtime.operations.leaderboards import board_admin, finalize, rank_prizes
from tests.support.guests import guest_who_played, log_in
from tests.support.leaderboards import NOON, Played, make_board, model, open_games, order, rankings, record, write_plays
from tests.support.resources import make_campaign, make_game, make_prize
from tests.support.rivals import begun, held, waits
from tests.support.stack import Stack, fields_of
from tests.support.waiting import until
from tests.support.world import World


async def test_board_is_made_changed_and_removed(stack: Stack) -> None:
    campaign_id, game_id, _ = await open_games(stack)
    ranks = [{"from_rank": 1, "to_rank": 3, "prize_id": await make_prize(stack)}]
    made = await make_board(stack, campaign_id, prizes=ranks, end_date=NOON)
    assert made["id"].startswith("board_")
    assert made["status"] == "LEADERBOARD_STATUS_ACTIVE"
    assert (made["metric"], made["mode"]) == ("LEADERBOARD_METRIC_SCORE", "LEADERBOARD_MODE_SUM")
    assert made["prizes"] == ranks
    path = f"/admin/leaderboards/{made['id']}"
    changed = (await stack.admin("PUT", path, {"name": "Best", "mode": "LEADERBOARD_MODE_BEST"})).data
    assert (changed["name"], changed["mode"], changed["end_date"]) == ("Best", "LEADERBOARD_MODE_BEST", NOON)
    assert (await stack.admin("GET", path)).data == changed
    listed = (await stack.admin("GET", "/admin/leaderboards", campaign=campaign_id, q="best", status="active")).data
    assert [item["id"] for item in listed["items"]] == [made["id"]]
    assert (await make_board(stack, "", game_id=game_id))["campaign_id"] == campaign_id
    assert (await stack.admin("DELETE", path)).data["archived"] is False
    assert (await stack.admin("GET", path)).reason == "UNKNOWN_LEADERBOARD"


async def test_board_with_wrong_fields_names_all_of_them(stack: Stack) -> None:
    campaign_id, _, _ = await open_games(stack)
    prize_id = await make_prize(stack)
    ranks = ((1, 3, prize_id), (3, 3, prize_id), (5, 4, prize_id), (0, 1, ""))
    prizes = [{"from_rank": start, "to_rank": end, "prize_id": prize} for start, end, prize in ranks]
    body = {"name": " ", "start_date": NOON, "end_date": NOON, "prizes": prizes}
    assert sorted(fields_of(await stack.admin("POST", "/admin/leaderboards", body))) == [
        *("campaign_id", "end_date", "metric", "mode", "name", "prizes[1].from_rank", "prizes[2].to_rank"),
        *("prizes[3].from_rank", "prizes[3].prize_id"),
    ]
    stranger = await make_game(stack, (await make_campaign(stack))["id"], prize_id)
    valid = {"name": "Top", "metric": "score", "mode": "sum", "campaign_id": campaign_id}
    for wrong, field in (
        ({"prizes": [{"from_rank": 1, "to_rank": 1, "prize_id": "prize_none"}]}, "prizes[0].prize_id"),
        *(({"metric": "LEADERBOARD_METRIC_JOY"}, "metric"), ({"game_id": stranger["id"]}, "game_id")),
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
    found = fields_of(await stack.admin("POST", path, {"player_id": "", "delta": 0, "reason": ""}))
    assert found == ["player_id", "reason", "delta"]
    answer = await stack.admin("POST", path, {"player_id": "nobody", "delta": 1, "reason": "r"})
    assert answer.reason == "UNKNOWN_PLAYER"
    query = "SELECT count(*) FROM audit_entries WHERE action = 'leaderboard.adjust' AND actor = 'staff_test'"
    assert await stack.database.fetchval(query) == 2


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


async def test_disqualified_player_is_not_ranked_nor_adjusted(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
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
    unseen = {**board_admin._SQL, "is_disqualified": "SELECT concat($1::text, $2::text, $3::text) = ''"}
    monkeypatch.setattr(board_admin, "_SQL", unseen)
    answer = await stack.admin("POST", f"{path}/adjust", {"player_id": "ann", "delta": 1, "reason": "r"})
    assert (answer.data["rank"], answer.data["player_id"]) == (0, "ann"), "disqualified just after the commit"


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
    query = "SELECT player_id, prize_id FROM rewards WHERE tenant_id = $1 AND type <> 'points' ORDER BY 1, 2"
    return [(row["player_id"], row["prize_id"]) for row in await stack.database.fetch(query, stack.tenant_id)]


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


async def test_finalize_gives_prizes_by_rank_and_repeats_its_answer(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finalize, "AT_ONCE", 2)
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
        *((1, "p0", 100, gold, True, ""), (2, "p1", 99, silver, True, "")),
        *((3, "p2", 98, silver, False, "OUT_OF_STOCK"), (4, "p3", 97, points, True, "")),
        *((5, "p4", 96, points, True, ""), (6, "p5", 0, "", False, "NO_SCORE")),
    ]
    assert await rewards_of(stack) == [("p0", gold), ("p1", silver)]
    wallet = (await stack.core("GET", "/wallet", None, player_id="p4")).data["items"]
    assert [(row["currency"], row["scope_key"], int(row["balance"])) for row in wallet] == [("points", campaign_id, 50)]
    (mine,) = (await stack.core("GET", "/rewards/me", None, player_id="p4")).data["items"]
    shown = (mine["id"], mine["type"], mine["status"])
    assert shown == (done["standings"][4]["reward_id"], "points", "REWARD_STATUS_FULFILLED")
    await record(stack, [Played("p9", game_id, 1000)])
    assert (await stack.admin("POST", f"{path}/finalize", {})).data == done
    assert len(await order(stack, board["id"])) == 6
    assert (await rankings(stack, board["id"], player_id="p2"))["me"]["rank"] == 3
    for verb, sub, body in (
        *(("PUT", "", {"name": "New"}), ("POST", "/adjust", {"player_id": "p1", "delta": 1, "reason": "r"})),
        ("POST", "/disqualify", {"player_id": "p1", "reason": "r"}),
    ):
        answer = await stack.admin(verb, path + sub, body)
        assert (answer.code, answer.reason) == ("FAILED_PRECONDITION", "BOARD_FINALIZED")
    assert (await stack.admin("GET", path)).data["name"] == "Top"
    assert (await stack.admin("DELETE", path)).data["archived"] is True
    assert (await stack.admin("POST", f"{path}/finalize", {})).data["standings"] == done["standings"]
    await assert_books_balance(stack)


async def test_board_is_closed_by_one_of_two_rivals(stack: Stack) -> None:
    board_id = (await make_board(stack, (await make_campaign(stack))["id"]))["id"]
    request = m.GetLeaderboardRequest(scope=m.Scope(tenant_id=stack.tenant_id), id=board_id)
    async with held(stack, "LOCK TABLE audit_entries IN SHARE MODE"):
        rivals = [asyncio.create_task(finalize._close(stack.engine, stack.tenant_id, request)) for _ in range(2)]
        for name in ("audit", "leaderboards.lock"):
            await until(lambda name=name: waits(stack, name))  # type: ignore[misc]
    assert sorted(await asyncio.gather(*rivals)) == [False, True]
    audited = (await stack.admin("GET", "/admin/audit", subject_id=board_id)).data["items"]
    assert [entry["action"] for entry in audited].count("leaderboard.finalize") == 1


async def test_finalize_gives_the_last_prize_to_the_better_rank_of_a_guest_who_logs_in(stack: Stack) -> None:
    campaign_id, game_id, _ = await open_games(stack)
    mug = await make_prize(stack, stock={"total": 2})
    board = await make_board(stack, campaign_id, prizes=[{"from_rank": 1, "to_rank": 4, "prize_id": mug}])
    await record(stack, [Played(f"p{n}", game_id, 100 - n) for n in range(4)])
    change = "INSERT INTO players (tenant_id, player_id) VALUES ($1, 'p1'), ($1, 'zed')"
    await stack.database.execute(change, stack.tenant_id)
    await stack.database.execute("UPDATE players SET auth_method = 'guest' WHERE player_id = 'p1'")
    async with held(stack, "UPDATE players SET merged_into = 'zed' WHERE player_id = 'p1'"):
        finalizing = await begun(stack, stack.core("POST", f"/leaderboards/{board['id']}/finalize", {}), "commit")
    assert [item["reason"] for item in (await finalizing).data["standings"]] == ["", "", "OUT_OF_STOCK", "OUT_OF_STOCK"]
    assert await rewards_of(stack) == [("p0", mug), ("zed", mug)]


async def test_guest_merged_while_a_board_is_finalized_keeps_the_rank(stack: Stack) -> None:
    world = World(stack, (await make_campaign(stack))["id"])
    guest = await guest_who_played(world, await world.wheel(access="public"))
    board = await make_board(stack, world.campaign_id, metric="plays")
    async with held(stack, "LOCK TABLE audit_entries IN SHARE MODE"):
        finalizing = await begun(stack, stack.core("POST", f"/leaderboards/{board['id']}/finalize", {}), "audit")
        merging = asyncio.create_task(log_in(stack, guest))
        await until(lambda: waits(stack, "merging.lock_boards"), fits=lambda waiting: waiting or merging.done())
    player = await merging
    assert (await finalizing).code == "OK"
    ranked = "SELECT player_id FROM leaderboard_standings WHERE board_id = $1"
    assert await stack.database.fetchval(ranked, board["id"]) == player


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


async def test_finalize_gives_codes_to_ranks_not_suspended(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_prizes, "ATTEMPTS", 2)
    campaign_id, game_id, _ = await open_games(stack)
    voucher = await make_prize(stack, type="voucher", fulfillment={"channel": "voucher_code"})
    assert (await stack.admin("POST", f"/admin/prizes/{voucher}/codes", {"codes": ["A-1"]})).data["added"] == 1
    board = await make_board(stack, campaign_id, prizes=[{"from_rank": 1, "to_rank": 3, "prize_id": voucher}])
    await record(stack, [Played(f"p{n}", game_id, 100 - n) for n in range(3)])
    async with held(stack, "SELECT FROM codes FOR UPDATE"):
        assert (await stack.core("POST", f"/leaderboards/{board['id']}/finalize", {})).reason == "OVERLOADED"
    suspended = "INSERT INTO players (tenant_id, player_id, status) VALUES ($1, 'p0', 'suspended')"
    await stack.database.execute(suspended, stack.tenant_id)
    ranks = (await stack.core("POST", f"/leaderboards/{board['id']}/finalize", {})).data["standings"]
    assert [one["reason"] for one in ranks] == ["SUSPENDED", "", "OUT_OF_STOCK"]
    assert await stack.database.fetchval("SELECT reward_id FROM codes") == ranks[1]["reward_id"]


async def test_finalize_at_the_day_cap_of_a_prize_withholds_it(stack: Stack) -> None:
    campaign_id, game_id, _ = await open_games(stack)
    mug = await make_prize(stack, constraints={"max_per_day": 1})
    board = await make_board(stack, campaign_id, prizes=[{"from_rank": 1, "to_rank": 2, "prize_id": mug}])
    await record(stack, [Played(f"p{n}", game_id, 100 - n) for n in range(2)])
    done = (await stack.core("POST", f"/leaderboards/{board['id']}/finalize", {})).data
    assert [item["reason"] for item in done["standings"]] == ["", "CAP_DAY"]
    assert await rewards_of(stack) == [("p0", mug)]


async def test_ranking_of_every_metric_and_mode_equals_the_model(stack: Stack) -> None:
    """From Postgres, from the built set, and from a set kept up player by player: the same ranking."""
    campaign_id, game_id, other_game_id = await open_games(stack)
    engine = stack.engine
    boards = {
        (metric, mode): (await make_board(stack, campaign_id, metric=metric, mode=mode))["id"]
        for metric, mode in product(("score", "plays", "wins", "points"), ("sum", "best", "latest"))
    }
    drawn = random.Random(7)
    choice, games = drawn.choice, [game_id, other_game_id]

    def play(at: float) -> Played:
        score, wins, points = choice([0, 0, 1, 5, 2**40]), drawn.randrange(3), choice([0, 10, 20])
        return Played(f"player_{drawn.randrange(12)}", choice(games), score, wins, points, at=at)

    plays = [play(index * 0.25) for index in range(150)]
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
        *(Played("late", game_id, big, at=2), Played("b", game_id, big, at=1.000001)),
        *(Played("a", game_id, big, at=1.000001), Played("first", game_id, big, at=1)),
        *(Played("one_less", game_id, big - 1, at=0), Played("one_more", game_id, big + 1, at=3)),
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
    change = "INSERT INTO players (tenant_id, player_id, display_name) VALUES ($1, 'p07', 'Zoë 🎯')"
    await engine.database.execute(change, stack.tenant_id)
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
