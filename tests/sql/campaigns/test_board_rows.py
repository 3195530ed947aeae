from typing import Any, Final

import asyncpg
import pytest

import sql
from tests.support.locks import held
from tests.support.statements import ask, first_of_t, undone

SQL: Final = sql.load("leaderboards")

SCENE: Final = """
+ tenants tenant_id name: t T;
+ campaigns tenant_id=t campaign_id merchant_id name=C status: theirs other active | camp shop active |
    draft shop draft;
+ games tenant_id=t game_id campaign_id name=G type=spin: g2 theirs | g3 camp | g1 camp;
+ players tenant_id=t player_id display_name auth_method merged_into updated_at=(to_timestamp(1)): bob Bob external - |
    ann Ann external - | gus Gus guest ann | gil Gil guest -;
+ leaderboards tenant_id=t board_id campaign_id game_id name=B metric mode status start_date end_date finalized_at:
    sum camp g1 score sum active (to_timestamp(100)) (to_timestamp(200)) - | best camp '' points best active - - - |
    last camp '' wins latest active - - - | plays theirs '' plays sum active - (now() + interval '1 hour') - |
    done camp g1 score sum finalized - (to_timestamp(200)) (to_timestamp(300)) |
    old camp g1 score sum archived - (to_timestamp(200)) - | hidden draft '' score sum active - - -;
INSERT INTO plays (tenant_id, play_id, game_id, player_id, score, wins, points, played_at, session_id, revision, seed,
                   client_seed, payload, outcome)
    SELECT 't', play, game, player, score, wins, points, to_timestamp(at), play, 1, '', '', '{}', '{}'
    FROM (VALUES ('y0', 'g1', 'ann', 1, 9, 5, 99), ('y1', 'g1', 'ann', 2, 1, 7, 100), ('y2', 'g1', 'ann', 4, 2, 7, 150),
                 ('y3', 'g1', 'ann', 0, 3, 6, 199), ('y4', 'g1', 'ann', 8, 4, 1, 200),
                 ('y5', 'g3', 'ann', 16, 5, 2, 150),
                 ('y6', 'g2', 'ann', 32, 6, 90, 150), ('y7', 'g1', 'bob', 64, 7, 3, 120),
                 ('y8', 'g2', 'bob', 0, 0, 0, 130)) AS v (play, game, player, score, wins, points, at);
+ game_players tenant_id=t game_id player_id plays day=2026-11-21 day_plays=1: g1 bob 1 | g1 ann 5 | g2 ann 1 |
    g3 ann 1 | g2 bob 1;
+ leaderboard_adjustments tenant_id=t entry_id board_id player_id delta reason='' created_at:
    e1 sum gil 100 (to_timestamp(180)) | e2 best ann 1000 (to_timestamp(90)) | e3 sum gil 3 (to_timestamp(190)) |
    e4 plays bob 10 (to_timestamp(400));
+ leaderboard_disqualifications tenant_id=t board_id player_id reason=cheats disqualified_at:
    last bob (to_timestamp(7)) | best gil (to_timestamp(8));
+ leaderboard_standings tenant_id=t board_id rank player_id score achieved_at=(now()) prize_id reason:
    done 3 bob 1 mug PENDING | done 1 gil 3 mug PENDING | done 2 gus 2 mug PENDING | done 4 ann 0 '' '' |
    old 1 bob 1 mug '' | owing 1 ann 1 mug PENDING;
+ turn_balances tenant_id=t campaign_id player_id balance: theirs ann 2 | camp bob 4 | camp ann 3;
+ draws tenant_id=t draw_id campaign_id=theirs name=D tickets prizes='[]' randomness='{}' salt=s:
    d1 '{"ranking": "done"}' | d2 '{"ranking": "plays"}';
UPDATE games SET status = 'active';
"""


async def test_owed_prize_goes_to_the_player_that_the_guest_became(connection: asyncpg.Connection) -> None:
    owed = await ask(connection, "leaderboards.owed", "t", "done", 9)
    assert [(row[1], row[3]) for row in owed] == [("gil", True), ("ann", False), ("bob", False)]


async def test_board_lock_holds_one_board(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    async with connection.transaction(), pool.acquire() as rival:
        await ask(connection, "leaderboards.lock", "t", "sum", "", True)
        assert await held(rival, "leaderboards", "board_id") == {"sum"}


async def test_tenants_with_a_board_that_ends_or_owes_are_listed_in_order(connection: asyncpg.Connection) -> None:
    async def tenants() -> list[str]:
        return [row[0] for row in await ask(connection, "leaderboards.tenants_with_ending")]

    assert await tenants() == ["t"]
    async with undone(connection):
        for tenant in ("z", "b"):
            await connection.execute(
                "INSERT INTO leaderboards (tenant_id, board_id, name, metric, mode, end_date)"
                " VALUES ($1, 'now', 'B', 'score', 'sum', now())",
                tenant,
            )
        assert await tenants() == ["b", "t", "z"]
        assert [row[0] for row in await ask(connection, "leaderboards.ending", "b")] == ["now"]
        await connection.execute("UPDATE leaderboards SET status = 'finalized' WHERE tenant_id <> 'b'")
        await connection.execute("UPDATE leaderboards SET end_date = now() + interval '1 s' WHERE tenant_id = 'b'")
        await connection.execute("UPDATE leaderboard_standings SET reason = ''")
        assert await tenants() == []
    assert await ask(connection, "leaderboards.tenants", "", "") == [("t",)]
    await connection.execute(
        "INSERT INTO leaderboards (tenant_id, board_id, name, metric, mode, status)"
        " VALUES ('z', 'its', 'B', 'score', 'sum', 'archived'), ('b', 'its', 'B', 'score', 'sum', 'active')"
    )
    assert await ask(connection, "leaderboards.tenants", "", "") == [("b",), ("t",)]
    assert await ask(connection, "leaderboards.tenants", "b", "") == [("b",)]
    assert await ask(connection, "leaderboards.tenants", "", "its") == [("b",)]


@pytest.mark.parametrize(
    ("campaign", "game", "merchant", "may"),
    [
        *(("camp", "", "", True), ("camp", "g1", "shop", True)),
        *((*of, False) for of in (("camp", "g2", ""), ("camp", "none", ""), ("theirs", "", "shop"), ("none", "", ""))),
    ],
)
async def test_board_requires_a_writable_campaign_and_a_game_of_it(
    connection: asyncpg.Connection, campaign: str, game: str, merchant: str, may: bool
) -> None:
    board = (campaign, game, "New", "score", "sum", 0, 0, "[]", merchant)
    assert await first_of_t(connection, "leaderboards.insert", "new", *board) == ["new"][:may]
    assert await first_of_t(connection, "leaderboards.update", "plays", *board) == ["plays"][:may]
    named = await connection.fetch("SELECT board_id FROM leaderboards WHERE name = 'New' ORDER BY 1")
    assert [row[0] for row in named] == ["new", "plays"][: 2 * may]


@pytest.mark.parametrize(
    ("history", "gone"),
    [
        *(("SELECT", True), ("INSERT INTO leaderboard_adjustments VALUES ('t', 'n', 'hidden', 'ann', 1, '')", False)),
        ("INSERT INTO leaderboard_disqualifications VALUES ('t', 'hidden', 'ann', '')", False),
        ("UPDATE leaderboards SET status = 'finalized' WHERE board_id = 'hidden'", False),
        ("INSERT INTO games (tenant_id, game_id, campaign_id, name, type) VALUES ('t', 'n', 'draft', 'G', 's')", True),
        ("UPDATE games SET campaign_id = 'draft' WHERE game_id = 'g1'", False),
        ("UPDATE leaderboards SET game_id = 'g3' WHERE board_id = 'hidden'", False),
        ("UPDATE leaderboards SET game_id = 'none', campaign_id = 'camp' WHERE board_id = 'hidden'", True),
    ],
)
async def test_board_with_history_is_not_removed(connection: asyncpg.Connection, history: str, gone: bool) -> None:
    await connection.execute(history)
    await connection.execute(
        "INSERT INTO leaderboards (tenant_id, board_id, campaign_id, name, metric, mode)"
        " VALUES ('t', 'empty', 'none', 'B', 'score', 'sum')"
    )
    assert await first_of_t(connection, "leaderboards.remove", "hidden") == ["hidden"][:gone]
    assert await connection.fetchval("SELECT count(*) FROM leaderboards") == 8 - gone


async def test_open_draw_by_a_board_blocks_the_archive_of_its_plays(connection: asyncpg.Connection) -> None:
    for status, blocking in (("open", [1]), ("closed", [])):
        await connection.execute("UPDATE draws SET status = $1", status)
        found = await connection.fetch(sql.load("archives")["obstacles"], "t", "camp", 0)
        assert [row["count"] for row in found if row["what"] == "draws"] == blocking


async def test_board_is_finalized_and_a_rank_settled_once(connection: asyncpg.Connection) -> None:
    assert [await first_of_t(connection, "leaderboards.finalize", "sum") for _ in range(2)] == [["sum"], []]
    assert await first_of_t(connection, "leaderboards.archive", "best") == ["best"]
    states = "SELECT board_id, status FROM leaderboards WHERE board_id IN ('sum', 'best', 'last', 'done') ORDER BY 1"
    assert [tuple(row) for row in await connection.fetch(states)] == [
        *(("best", "archived"), ("done", "finalized"), ("last", "active"), ("sum", "finalized"))
    ]
    assert [await first_of_t(connection, "leaderboards.withhold", "done", 1, "CAP") for _ in range(2)] == [[1], []]
    reasons = await connection.fetch("SELECT board_id, rank FROM leaderboard_standings WHERE reason = 'CAP'")
    assert [tuple(row) for row in reasons] == [("done", 1)]
    twice = [await first_of_t(connection, "leaderboards.disqualify", "sum", "ann", "x") for _ in range(2)]
    assert twice == [["ann"], []]
    await connection.execute("UPDATE players SET status = 'suspended' WHERE player_id = 'ann'")
    # Bob has come back since.
    erased = "UPDATE players SET erased_at = to_timestamp(CASE player_id WHEN 'bob' THEN 0 ELSE 1 END)"
    await connection.execute(f"{erased} WHERE player_id IN ('bob', 'gil')")
    ranked = (["gus", "bob", "gil", "zoe"], [""] * 4, [4, 3, 2, 1], [0] * 4, ["mug", "mug", "mug", ""])
    await ask(connection, "leaderboards.insert_standings", "t", "sum", *ranked, 5)
    ranks = "SELECT rank, reason FROM leaderboard_standings WHERE board_id = 'sum' ORDER BY rank"
    assert [tuple(row) for row in await connection.fetch(ranks)] == [
        *((6, "SUSPENDED"), (7, "PENDING"), (8, "ERASED"), (9, ""))
    ]


async def scores(connection: asyncpg.Connection, *asked: Any) -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in await connection.fetch(SQL["scores"], "t", *asked):
        reached = None if row["achieved_us"] is None else row["achieved_us"] // 1_000_000
        found.setdefault(row["board_id"], []).append((row["player_id"], row["score"], reached))
    return found


async def test_scores_of_some_players_equal_those_of_all(connection: asyncpg.Connection) -> None:
    assert await scores(connection, None, None, ["ann", "gil"]) == {
        "best": [("gil", None, None), ("ann", 1007, 100)],
        "hidden": [("ann", None, None), ("gil", None, None)],
        "last": [("gil", None, None), ("ann", 4, 200)],
        "plays": [("gil", None, None), ("ann", 1, 150)],
        "sum": [("gil", 103, 190), ("ann", 6, 150)],
    }


async def test_scores_of_all_predate_open_transactions(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    async with pool.acquire() as rival, rival.transaction():
        await rival.execute("UPDATE merchants SET name = ''")
        began = await rival.fetchval("SELECT extract(epoch FROM now())::float8 FROM pg_current_xact_id()")
        for players, settled in ((None, True), (["ann"], False)):
            rows = await connection.fetch(SQL["scores"], "t", None, None, players)
            assert {row["as_of"] <= began for row in rows} == {settled}


async def test_players_touched_since_a_moment_are_listed_as_whom_they_became(connection: asyncpg.Connection) -> None:
    old = "to_timestamp(1)"
    await connection.execute(f"UPDATE plays SET played_at = {old}")
    await connection.execute(f"UPDATE leaderboard_adjustments SET created_at = {old}")
    await connection.execute(f"UPDATE leaderboard_disqualifications SET disqualified_at = {old}")

    async def touched() -> list[str]:
        return list((await connection.fetchrow(SQL["touched"], "t", 500.0))["players"])

    assert await touched() == []
    for happens, players in (
        ("UPDATE plays SET played_at = to_timestamp(500) WHERE play_id = 'y7'", {"bob"}),
        ("UPDATE leaderboard_adjustments SET created_at = to_timestamp(500) WHERE entry_id = 'e1'", {"gil"}),
        (
            "UPDATE leaderboard_disqualifications SET disqualified_at = to_timestamp(500) WHERE board_id = 'last'",
            {"bob"},
        ),
        ("UPDATE players SET updated_at = to_timestamp(500) WHERE player_id = 'gil'", {"gil"}),
        ("UPDATE players SET updated_at = to_timestamp(500) WHERE player_id = 'gus'", {"ann", "gus"}),
    ):
        async with undone(connection):
            await connection.execute(happens)
            assert set(await touched()) == players, happens
