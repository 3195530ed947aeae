import asyncio
import json
from typing import Final

import asyncpg
import pytest

from runtime.operations.players.merging import without_room
from tests.support.bare_rows import scene
from tests.support.locks import blocked, held
from tests.support.statements import ask_of_t as ask
from tests.support.statements import rows
from tests.support.waiting import HANG_SECONDS

SCENE: Final = """
+ tenants tenant_id=t name: T;
+ players tenant_id=t player_id auth_method merged_into unsubscribed: gus guest - '{reminder,win}' |
    bob external x {} | ann external y '{win,news}' | gil guest bob {};
+ contacts tenant_id=t contact_id player_id type value: c gus email g;
"""
"""Of each table the guest's rows (gus), the player's (ann) and another's (bob), never in the order of their locks."""


COUNTS: Final = scene("""
+ game_players tenant_id=t player_id game_id plays day day_plays busy_until: gus g7 1 2026-11-21 1 0 |
    gus g2 3 2026-11-21 2 5 | gus g1 4 2026-11-20 1 9 | ann g1 10 2026-11-21 5 7 | gus g3 1 2026-11-20 1 0 |
    bob g5 1 2026-11-20 1 0 | gus g4 2 2026-11-21 2 0 | ann g4 6 2026-11-20 3 0 | gus g6 2 2026-11-20 2 0 |
    ann g6 6 2026-11-20 3 0;
""")
GAMES: Final = ["g7", "g2", "g1", "g4", "g5", "g6"]
MADE: Final = (
    "SELECT string_agg(game_id, ' ' ORDER BY ctid) FROM game_players"
    " WHERE player_id = 'ann' AND game_id IN ('g2', 'g7')"
)


async def test_counts_of_both_are_held_and_made_if_missing(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    await connection.execute(COUNTS)
    async with connection.transaction(), pool.acquire() as rival:
        await ask(connection, "merging.lock_play_counts", "gus", "ann", GAMES)
        both = {f"{player}/{game}" for player in ("gus", "ann") for game in ("g1", "g2", "g4", "g6", "g7")}
        assert await held(rival, "game_players", "player_id || '/' || game_id") == both - {"ann/g2", "ann/g7"}
        counts = await rows(connection, "game_players", "player_id, game_id, plays")
        assert [(game, plays) for player, game, plays in counts if player == "ann"] == [
            *(("g1", 10), ("g2", 0), ("g4", 6), ("g6", 6), ("g7", 0))
        ]
        assert len(counts) == 12, "nothing is made of what another has played"
        assert await connection.fetchval(MADE) == "g2 g7"


async def test_counts_are_added_each_day_by_itself(connection: asyncpg.Connection) -> None:
    await connection.execute(COUNTS)
    await ask(connection, "merging.move_play_counts", "gus", "ann", GAMES)
    columns = "player_id, game_id, plays, extract(day FROM day)::int, day_plays, busy_until"
    assert await rows(connection, "game_players", columns) == [
        *(("ann", "g1", 14, 21, 5, 9), ("ann", "g2", 3, 21, 2, 5), ("ann", "g4", 8, 21, 2, 0)),
        *(("ann", "g6", 8, 20, 5, 0), ("ann", "g7", 1, 21, 1, 0), ("bob", "g5", 1, 20, 1, 0)),
        ("gus", "g3", 1, 20, 1, 0),
    ]
    assert await connection.fetchval(MADE) == "g2 g7"


async def test_guest_end_is_noted_of_the_guest_alone(connection: asyncpg.Connection) -> None:
    assert await ask(connection, "merging.has_contacts", "gus") == [(True,)]
    assert await ask(connection, "merging.has_contacts", "ann") == [(False,)]
    assert await ask(connection, "merging.lock_target", "gil") == [("bob",)]
    assert await ask(connection, "merging.lock_target", "ann") == []
    for guest, player in (("gus", "ann"), ("gil", "unknown")):
        await ask(connection, "merging.end_guest", guest, player)
    refused = "SELECT unsubscribed FROM players WHERE player_id = 'ann'"
    assert await connection.fetchval(refused) == ["news", "reminder", "win"]
    assert await rows(connection, "players", "player_id, merged_into, auth_method") == [
        *(("ann", "y", "external"), ("bob", "x", "external"), ("gil", "unknown", "guest"), ("gus", "ann", "guest"))
    ]


HELD: Final = scene("""
+ plays tenant_id=t play_id game_id=g player_id session_id seed='' client_seed='' payload='{}' outcome='{}' revision=1
    score=0 wins=0 points=0: y2 gus s2 | y1 gus s1 | y3 ann s3;
+ turn_balances tenant_id=t player_id campaign_id balance=1: gus c2 | gus c1 | bob c1 | ann c2;
+ balances tenant_id=t player_id scope_key currency balance=1: gus c1 leaf | gus c1 coin | bob c1 coin | ann c2 coin;
+ rewards tenant_id=t reward_id player_id prize_id=mug campaign_id=c1 name=M type=goods value=1 quantity=1: r2 gus |
    r1 gus | r3 ann;
+ tasks tenant_id=t task_id reward_id prize_id=mug campaign_id=c1 player_id channel=webhook status=pending: k2 r1 gus |
    k1 r2 gus | k3 r3 ann;
+ leaderboards tenant_id=t board_id name=B metric=score mode=sum status: b2 active | b1 active | b3 finalized;
""")


@pytest.mark.parametrize(
    ("name", "arguments", "table", "key", "in_order"),
    [
        ("lock_players", ("gus", "ann"), "players", "player_id", "ann gus"),
        ("lock_boards", (), "leaderboards", "board_id", "b1 b2"),
        ("lock_plays", ("gus",), "plays", "play_id", "y1 y2"),
        ("lock_turns", ("gus", "ann"), "turn_balances", "player_id || '/' || campaign_id", "ann/c2 gus/c1 gus/c2"),
        (
            *("lock_balances", ("gus", "ann"), "balances", "player_id || '/' || scope_key || '/' || currency"),
            "ann/c2/coin gus/c1/coin gus/c1/leaf",
        ),
        ("lock_rewards", ("gus",), "rewards", "reward_id", "r1 r2"),
        ("lock_tasks", ("gus",), "tasks", "task_id", "k1 k2"),
        ("lock_target", ("gus",), "players", "player_id", "gus"),
    ],
)
async def test_merge_locks_rows_of_both_in_order(
    connection: asyncpg.Connection,
    pool: asyncpg.Pool,
    name: str,
    arguments: tuple[str, ...],
    table: str,
    key: str,
    in_order: str,
) -> None:
    await connection.execute(HELD)
    names = in_order.split()
    async with pool.acquire() as rival, pool.acquire() as onlooker:
        async with connection.transaction():
            await ask(connection, f"merging.{name}", *arguments)
            assert await held(onlooker, table, key) == set(names)
        for nth in {0, len(names) - 1}:
            async with connection.transaction():
                async with rival.transaction():
                    await rival.execute(f"SELECT FROM {table} WHERE {key} = $1 FOR UPDATE", names[nth])
                    asking = await blocked(onlooker, ask(connection, f"merging.{name}", *arguments))
                    assert await held(onlooker, table, key) == set(names[: nth + 1])
                async with asyncio.timeout(HANG_SECONDS):
                    await asking


SURPLUS: Final = scene("""
+ prizes tenant_id=t prize_id name type max_per_user: mug M goods 2 | cup C goods 0 | can K goods 1 | pts P points 4 |
    just P points 2 | full P points 2 | free P points 0 | all P points 1 |
    open P points 0;
+ prize_players tenant_id=t prize_id player_id awarded: free gus 1 | pts bob 9 | mug bob 9 | pts gus 4 | pts ann 1 |
    mug gus 3 | mug ann 1 | cup gus 2 | cup ann 5 | can gus 1 | just gus 2 | just ann 1 | full gus 1 | full ann 1 |
    all gus 1 | all ann 1 | open gus 1 | open ann 1;
+ rewards tenant_id=t reward_id player_id prize_id campaign_id=c1 name=M type value=1 quantity status:
    m1 gus mug goods 1 won | m2 gus mug goods 1 fulfilled | m3 gus mug goods 1 won | c1 gus cup goods 1 won |
    k1 gus can goods 1 won | b1 bob mug goods 1 won | p1 gus pts points 1 won | b2 bob pts points 5 won |
    g1 gus '' goods 1 won | g2 gus '' goods 1 won | g3 gus '' goods 1 won | b3 bob '' goods 1 won;
+ milestone_grants tenant_id=t player_id game_id milestone_id reward_id idempotency_key: gus game rung1 g1 both |
    gus game rung2 g2 guests | gus game_2 rung1 g3 both | gus game rung3 '' shared | ann game rung1 a1 both |
    ann game_3 rung1 a2 guests | ann game rung4 a3 shared | bob game rung1 b3 bobs | bob game rung2 '' guests;
INSERT INTO ledger_entries (tenant_id, player_id, scope_key, currency, amount, reference_id, reason, entry_id, seq,
                            balance_after)
    SELECT 't', player, scope, currency, 1, play, reason, 'e' || n, n, 9
    FROM (VALUES (1, 'bob', 'c9', 'points', 'y4', 'play_reward'), (2, 'gus', 'c1', 'points', 'y1', 'play_reward'),
                 (3, 'gus', 'c1', 'points', 'y2', 'play_reward'), (4, 'gus', 'c1', 'points', 'y2', 'play_reward'),
                 (5, 'gus', 'c1', 'points', 'y3', 'play_reward'), (6, 'gus', 'c1', 'coin', 'y5', 'play_reward'),
                 (7, 'gus', 'c1', 'points', 'y6', 'adjustment'), (8, 'gus', 'c1', 'points', 'y7', 'play_reward'),
                 (9, 'gus', 'c1', 'points', 'y8', 'play_reward'), (10, 'gus', 'c0', 'points', 'y9', 'play_reward'))
        AS v (n, player, scope, currency, play, reason);
INSERT INTO plays (tenant_id, play_id, player_id, game_id, session_id, revision, seed, client_seed, payload, score,
                   wins, points, outcome)
    SELECT 't', play, player, 'game', 's' || play, 1, '', '', '{}', 0, 0, 0, json_build_object('rewards', (
        SELECT json_agg(json_build_object(
            'prize_id', split_part(won, ':', 1), 'type', split_part(won, ':', 2),
            'quantity', split_part(won, ':', 3)::int, 'value', split_part(won, ':', 4)::float))
        FROM unnest(string_to_array(rewards, ' ')) AS won))
    FROM (VALUES ('y1', 'gus', 'pts:points:1:10.9'), ('y2', 'gus', 'pts:points:2:20.9 pts:goods:1:9'),
                 ('y3', 'gus', 'pts:points:1:30 all:points:1:7'), ('y4', 'gus', 'pts:points:1:40'),
                 ('y5', 'gus', 'pts:points:1:50'), ('y6', 'gus', 'pts:points:1:60'), ('y7', 'bob', 'pts:points:1:70'),
                 ('y8', 'gus', 'just:points:1:1 full:points:2:1 free:points:1:1 open:points:1:1'),
                 ('y9', 'gus', 'all:points:1:8'))
        AS v (play, player, rewards);
""")


async def test_limited_rewards_are_the_guests_best_first(connection: asyncpg.Connection) -> None:
    await connection.execute(SURPLUS)
    await connection.execute("UPDATE rewards SET play_id = 'y1' WHERE reward_id IN ('m1', 'm2', 'g1')")
    await connection.execute("UPDATE rewards SET play_id = 'y1', milestone_id = 'rung9' WHERE reward_id = 'm3'")
    await connection.execute("UPDATE prize_players SET awarded = 2 WHERE prize_id = 'mug' AND player_id = 'ann'")
    assert [(row[0], *row[-2:]) for row in await ask(connection, "merging.limited_rewards", "gus", "ann")] == [
        *(("m2", "y1", 1), ("g1", "y1", 0), ("k1", "", 1), ("m1", "y1", 1), ("m3", "", 1), ("p1", "", 3))
    ], "a rung's is no win of a play's"
    assert await ask(connection, "merging.granted_to_both", "gus", "ann") == [("game", "rung1")]
    granted = await ask(connection, "merging.grants", "gus")
    assert sorted(granted) == [("game", "rung1"), ("game", "rung2"), ("game", "rung3"), ("game_2", "rung1")]


def test_reward_that_is_too_large_leaves_its_room_to_the_next() -> None:
    rewards = (("a", 2, 3), ("b", 1, 1), ("a", 2, 3), ("a", 1, 3), ("b", 1, 1), ("c", 1, 0))
    limited = [dict(zip(("prize_id", "quantity", "room"), reward, strict=True)) for reward in rewards]
    assert without_room(limited) == [limited[2], limited[4], limited[5]]


async def test_surplus_points_are_of_the_last_credited_plays(connection: asyncpg.Connection) -> None:
    """Prize `pts` allows 4 per player: the player has 1 and the guest holds 1, so 2 of the units played for stay."""
    await connection.execute(SURPLUS)
    points = await ask(connection, "merging.surplus_points", "gus", "ann", [])
    assert points == [
        *(("y3", "all", "c1", "points", 1, 7, 1), ("y9", "all", "c0", "points", 1, 8, 1)),
        *(("y2", "pts", "c1", "points", 1, 20, 0), ("y3", "pts", "c1", "points", 1, 30, 1)),
    ]
    assert await ask(connection, "merging.surplus_points", "gus", "ann", ["p1"]) == [*points[:2], points[3]]


async def test_surplus_of_a_prize_won_twice_in_a_play_counts_each_win(connection: asyncpg.Connection) -> None:
    await connection.execute(SURPLUS)
    rewards = [{"prize_id": "pts", "type": "points", "quantity": 1, "value": value} for value in (3, 5, 7)]
    await connection.execute("UPDATE plays SET outcome = $1 WHERE play_id = 'y2'", json.dumps({"rewards": rewards}))
    points = [row for row in await ask(connection, "merging.surplus_points", "gus", "ann", []) if row[1] == "pts"]
    assert points == [("y2", "pts", "c1", "points", 2, 12, 2), ("y3", "pts", "c1", "points", 1, 30, 1)]


async def test_surplus_noted_on_a_play_never_exceeds_its_wins(connection: asyncpg.Connection) -> None:
    await connection.execute(SURPLUS)
    await connection.execute("UPDATE plays SET wins = 2, points = 9")
    await connection.execute(
        "INSERT INTO tenants (tenant_id, name) VALUES ('u', 'U');"
        "INSERT INTO plays (tenant_id, play_id, player_id, game_id, session_id, revision, seed, client_seed, payload,"
        " score, wins, points, outcome) VALUES ('u', 'y1', 'gus', 'game', 's', 1, '', '', '{}', 0, 2, 9, '{}')"
    )
    await ask(connection, "merging.record_surplus", ["y1", "y2"], [1, 0], [0, 4])
    query = (
        "SELECT tenant_id, play_id, surplus_wins, surplus_points FROM plays WHERE surplus_wins IS NOT NULL ORDER BY 2"
    )
    assert [tuple(row) for row in await connection.fetch(query)] == [("t", "y1", 1, 0), ("t", "y2", 0, 4)]
    await ask(connection, "merging.record_surplus", ["y1", "y2"], [1, 3], [3, 9])
    assert [tuple(row) for row in await connection.fetch(query)] == [("t", "y1", 2, 3), ("t", "y2", 2, 9)]


async def test_counts_of_capped_prizes_are_read_and_locked(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    await connection.execute(SURPLUS)
    rows = await ask(connection, "merging.prize_counts", "gus", "ann")
    assert rows == [("all", 1, 1), ("can", 1, 0), ("full", 1, 1), ("just", 2, 1), ("mug", 3, 1), ("pts", 4, 1)]
    await connection.execute("INSERT INTO prizes (tenant_id, prize_id, name, type) VALUES ('t', 'bobs', 'B', 'goods')")
    await connection.execute("INSERT INTO prize_players VALUES ('t', 'bobs', 'bob', 1)")
    async with connection.transaction(), pool.acquire() as rival:
        await ask(connection, "merging.lock_prize_counts", "gus", "ann")
        everywhere = {"pts", "mug", "cup", "can", "just", "full", "free", "all", "open"}
        expected = {f"{player}/{prize}" for player in ("gus", "ann") for prize in everywhere} - {"ann/can", "ann/free"}
        assert await held(rival, "prize_players", "player_id || '/' || prize_id") == expected
        of_ann = dict(await connection.fetch("SELECT prize_id, awarded FROM prize_players WHERE player_id = 'ann'"))
        assert of_ann == {"pts": 1, "mug": 1, "cup": 5, "can": 0, "just": 1, "full": 1, "free": 0, "all": 1, "open": 1}
        made = "SELECT array_agg(prize_id ORDER BY prize_id) FROM prize_players WHERE player_id = 'ann' AND awarded = 0"
        assert await connection.fetchval(made) == ["can", "free"]


async def test_counts_of_prizes_move_except_the_surplus(connection: asyncpg.Connection) -> None:
    await connection.execute(SURPLUS)
    await connection.execute("DELETE FROM prize_players WHERE prize_id IN ('just', 'full', 'all', 'open')")
    await connection.execute("INSERT INTO prizes (tenant_id, prize_id, name, type) VALUES ('t', 'bun', 'B', 'goods')")
    await connection.execute("INSERT INTO prize_players VALUES ('t', 'bun', 'gus', 1)")
    await ask(connection, "merging.move_prize_counts", "gus", "ann", ["mug", "can"], [2, 1])
    assert await rows(connection, "prize_players", "player_id, prize_id, awarded") == [
        *(("ann", "bun", 1), ("ann", "cup", 7), ("ann", "free", 1), ("ann", "mug", 2), ("ann", "pts", 5)),
        *(("bob", "mug", 9), ("bob", "pts", 9), ("gus", "can", 1), ("gus", "mug", 2)),
    ]
    made = "SELECT string_agg(prize_id, ' ' ORDER BY ctid) FROM prize_players WHERE player_id = 'ann' AND awarded = 1"
    assert await connection.fetchval(made) == "bun free"


async def test_grants_move_except_rungs_of_both(connection: asyncpg.Connection) -> None:
    await connection.execute(SURPLUS)
    await ask(connection, "merging.move_grants", "gus", "ann")
    assert await rows(connection, "milestone_grants", "player_id, game_id, milestone_id, idempotency_key") == [
        *(("ann", "game", "rung1", "both"), ("ann", "game", "rung2", "guests"), ("ann", "game", "rung3", None)),
        *(("ann", "game", "rung4", "shared"), ("ann", "game_2", "rung1", "both")),
        *(("ann", "game_3", "rung1", "guests"), ("bob", "game", "rung1", "bobs"), ("bob", "game", "rung2", "guests")),
        ("gus", "game", "rung1", "both"),
    ]


async def test_surplus_is_revoked_with_its_deliveries_alone(connection: asyncpg.Connection) -> None:
    await connection.execute(HELD)
    await connection.execute("UPDATE tasks SET status = 'delivered' WHERE task_id = 'k1'")
    assert await ask(connection, "merging.statuses", ["r2", "r1"]) == [("r1", "won"), ("r2", "won")]
    await ask(connection, "merging.revoke_surplus", ["r1", "r2"])
    ended = await rows(
        connection, "rewards JOIN tasks USING (tenant_id, reward_id)", "reward_id, rewards.status, tasks.status"
    )
    assert ended == [("r1", "revoked", "cancelled"), ("r2", "revoked", "delivered"), ("r3", "won", "pending")]


async def test_rewards_move_with_their_deliveries_except_the_surplus(connection: asyncpg.Connection) -> None:
    await connection.execute(HELD)
    await connection.execute("UPDATE rewards SET player_id = 'bob' WHERE reward_id = 'r3'")
    await connection.execute("UPDATE tasks SET player_id = 'bob' WHERE reward_id = 'r3'")
    await ask(connection, "merging.move_rewards", "gus", "ann", ["r2"])
    moved = await rows(
        connection, "rewards JOIN tasks USING (tenant_id, reward_id)", "reward_id, rewards.player_id, tasks.player_id"
    )
    assert moved == [("r1", "ann", "ann"), ("r2", "gus", "gus"), ("r3", "bob", "bob")]
