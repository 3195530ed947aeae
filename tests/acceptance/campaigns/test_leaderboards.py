"""Leaderboards: management, and corrections."""

from __future__ import annotations

from typing import Any

from tests.support.guests import log_in
from tests.support.leaderboards import NOON, Played, make_board, open_games, order, record
from tests.support.resources import make_campaign, make_game, make_prize
from tests.support.stack import Stack, fields_of

# -- management ------------------------------------------------------------------------------


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


async def test_board_with_history_is_archived(stack: Stack) -> None:
    campaign_id, game_id, _ = await open_games(stack)
    board = await make_board(stack, campaign_id)
    await record(stack, [Played("ann", game_id, 5)])
    assert (await stack.admin("DELETE", f"/admin/leaderboards/{board['id']}")).data["archived"] is True
    kept = (await stack.admin("GET", f"/admin/leaderboards/{board['id']}")).data
    assert kept["status"] == "LEADERBOARD_STATUS_ARCHIVED"
    assert (await stack.admin("GET", "/admin/leaderboards")).data["items"] == []
    answer = await stack.admin("PUT", f"/admin/leaderboards/{board['id']}", {"name": "Again"})
    assert answer.reason == "ILLEGAL_TRANSITION"


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


# -- corrections -----------------------------------------------------------------------------


async def test_adjustment_moves_a_player(stack: Stack) -> None:
    campaign_id, game_id, _ = await open_games(stack)
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

    def told(page: Any) -> list[tuple[Any, ...]]:
        return [(one["rank"], one["player_id"], one["prize_id"], one["reason"]) for one in page["items"]]

    live = [(1, "ann", prize_id, ""), (2, "bob", prize_id, ""), (3, "cat", "", ""), (4, nameless, "", "")]
    assert [one["contact"] for one in (await standings())["items"]] == ["", "", "", "n***@example.com"]
    assert told(await standings()) == live
    first = await standings(limit=2)
    following = {"limit": 2, "cursor": first["pagination"]["next_cursor"]}
    assert (told(first), told(await standings(**following))) == (live[:2], live[2:])
    # One of a campaign that is a draft again, which has no live ranking and the public sees nothing of.
    await stack.admin("PUT", f"/admin/campaigns/{campaign_id}", {"status": "draft"})
    await stack.engine.rankings.forget(stack.tenant_id, board_id)
    assert told(await standings()) == live
    await stack.admin("PUT", f"/admin/campaigns/{campaign_id}", {"status": "active"})
    assert (await stack.admin("POST", f"/admin/leaderboards/{board_id}/finalize", {})).http == 200
    assert told(await standings()) == [live[0], (2, "bob", prize_id, "OUT_OF_STOCK"), *live[2:]]
    assert [bool(one["reward_id"]) for one in (await standings())["items"]] == [True, False, False, False]
    stale = await stack.admin("GET", f"/admin/leaderboards/{board_id}/standings", **following)
    assert stale.http == 400 and "cursor" in str(stale.envelope["data"])
    first = await standings(limit=1)
    assert told(await standings(limit=2, cursor=first["pagination"]["next_cursor"]))[0][:2] == (2, "bob")
