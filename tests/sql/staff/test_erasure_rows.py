from typing import Any, Final

import asyncpg
import pytest

from tests.support.bare_rows import BARE
from tests.support.locks import held
from tests.support.statements import ask, undone
from tests.support.statements import ask_of_t as ask_t

SCENE: Final = (
    BARE
    + """
+ tenants tenant_id: u | t;
+ players player_id display_name merged_into: gus G ann | bob B - | ann A - | gil G bob;
+ contacts contact_id player_id type value: x1 ann email a | x2 bob email b | x3 gus phone g;
+ login_challenges challenge_id contact contact_hash: h1 'email:a' 1 | h2 'email:b' 2 | h3 'phone:a' 3;
+ login_guesses contact_hash: 1 | 2 | 3 | 4;
+ logins login_id player_id: l1 ann | l2 bob | l3 gus;
+ login_quarters player_id quarter: ann '2026-01-01 00:00Z' | bob '2026-01-01 00:00Z' | gus '2026-01-01 00:15Z';
+ plays play_id player_id client_seed payload idempotency_key: p5 ann s {} - | p3 ann '' '{"a": 1}' - |
    p2 ann '' {} k2 | p4 ann '' {} - | p1 bob s '{"a": 1}' k1 | p6 gus s {} -;
+ milestone_grants player_id milestone_id idempotency_key request_hash: ann m1 k1 1 | bob m2 k2 2 | ann m3 - 3;
+ quests quest_id type: q daily;
+ quest_completions quest_id player_id period idempotency_key request_hash: q ann d1 k1 1 | q bob d2 k2 2 |
    q ann d3 - 3 | gone ann d4 k4 4;
+ quest_events quest_id event_id player_id: q e1 ann | q e2 bob | q e3 gus | gone e1 ann;
+ leaderboards board_id: b;
+ leaderboard_standings board_id rank player_id display_name: b 1 ann A | b 2 bob B | gone 1 ann A;
+ rewards reward_id player_id claim_key: r1 ann k1 | r2 bob k2 | r3 gus -;
+ claim_answers reward_id answers={}: r2 | r1 | r3;
+ tasks task_id reward_id last_error external_id answer: t1 r1 no '' '' | t2 r2 no x y | t3 r3 '' '' y;
+ integration_deliveries integration_id delivery_id event_id status event next_attempt_at:
    i2 d1 e1 retry '{"p": "ann"}' (now()) | i1 d2 e2 retry '{"p": "ann"}' (now()) |
    i1 d1 e1 retry '{"p": "gus"}' (now()) | i1 d3 e3 retry '{"p": "bob"}' (now()) | i1 d4 e4 dead - -;
"""
)
"""Of ann and gus, who is ann now, what is erased; of bob, who became nobody, what is like it."""

WHO: Final = ["ann", "gus"]

ERASED: Final[dict[str, tuple[str, str, str]]] = {
    # The rows that say something, before and after.
    "names": ("player_id FROM players WHERE display_name <> ''", "ann bob gil gus", "bob gil"),
    "profiles": ("player_id FROM players WHERE display_name <> ''", "ann bob gil gus", "bob gil"),
    "guesses": ("contact_hash FROM login_guesses", "1 2 3 4", "2 3 4"),
    "challenges": ("challenge_id FROM login_challenges", "h1 h2 h3", "h2 h3"),
    "contacts": ("contact_id FROM contacts", "x1 x2 x3", "x2"),
    "logins": ("login_id FROM logins", "l1 l2 l3", "l2"),
    "login_quarters": ("player_id FROM login_quarters", "ann bob gus", "bob"),
    "grants": ("milestone_id FROM milestone_grants WHERE idempotency_key <> ''", "m1 m2", "m2"),
    "completions": ("period FROM quest_completions WHERE idempotency_key <> ''", "d1 d2 d4", "d2 d4"),
    "quest_events": ("quest_id || event_id FROM quest_events", "gonee1 qe1 qe2 qe3", "qe2"),
    "standings": ("board_id || rank FROM leaderboard_standings WHERE display_name <> ''", "b1 b2 gone1", "b2 gone1"),
    "rewards": ("reward_id FROM rewards WHERE claim_key <> ''", "r1 r2", "r2"),
    "answers": ("reward_id FROM claim_answers", "r1 r2 r3", "r2"),
    "tasks": ("task_id FROM tasks WHERE last_error <> '' OR answer <> ''", "t1 t2 t3", "t2"),
}


async def rows(connection: asyncpg.Connection, query: str) -> list[Any]:
    return [row[0] for row in await connection.fetch(f"SELECT {query} ORDER BY 1")]


async def test_erasure_is_limited_to_the_players(connection: asyncpg.Connection) -> None:
    for name, (query, before, after) in ERASED.items():
        async with undone(connection):
            assert await rows(connection, query) == before.split(), name
            await ask_t(connection, f"erasure.{name}", WHO)
            assert await rows(connection, query) == after.split(), name


@pytest.mark.parametrize("answered", ["last_error = 'x'", "external_id = 'x'", "answer = 'x'", "earlier = '[{}]'"])
async def test_erasure_covers_everything_that_a_receiver_said(connection: asyncpg.Connection, answered: str) -> None:
    await ask_t(connection, "erasure.tasks", WHO)
    await connection.execute(f"UPDATE tasks SET {answered} WHERE task_id IN ('t1', 't2')")
    await ask_t(connection, "erasure.tasks", WHO)
    assert await rows(connection, f"task_id FROM tasks WHERE {answered}") == ["t2"]


async def test_plays_are_erased_a_batch_at_a_time(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    telling = "play_id FROM plays WHERE client_seed <> '' OR payload::text <> '{}' OR idempotency_key <> ''"
    for left in ("p1 p5 p6", "p1"):
        async with pool.acquire() as rival, connection.transaction():
            before = set(await rows(connection, telling))
            await ask_t(connection, "erasure.plays", WHO, 2)
            assert await rows(connection, telling) == left.split()
            assert await held(rival, "plays", "play_id") == before - set(left.split())


async def test_erasure_locks_the_player_and_its_guests(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    assert await ask_t(connection, "erasure.with_guests", "ann") == [("ann",), ("gus",)]
    assert await ask_t(connection, "erasure.with_guests", "gus") == [("gus",)]
    async with pool.acquire() as rival, connection.transaction():
        assert await ask_t(connection, "erasure.lock_players", WHO) == [("ann",), ("gus",)]
        assert await held(rival, "players", "player_id") == {"ann", "gus"}
    assert await ask(connection, "erasure.tenants") == [("t",), ("u",)]


async def test_erasure_locks_boards_that_may_be_finalized(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    await connection.execute("""DELETE FROM leaderboards; INSERT INTO leaderboards (tenant_id, board_id, status) VALUES
        ('t', 'b2', 'active'), ('t', 'b1', 'active'), ('t', 'b3', 'finalized'), ('t', 'b4', 'archived'),
        ('u', 'b5', 'active')""")
    async with pool.acquire() as rival, connection.transaction():
        assert await ask_t(connection, "erasure.boards") == [("b1",), ("b2",)]
        assert await held(rival, "leaderboards", "board_id") == {"b1", "b2"}


async def test_erasure_rewrites_events_about_the_players(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    async with pool.acquire() as rival, connection.transaction():
        found = [row[:2] for row in await ask_t(connection, "erasure.events", WHO)]
        assert found == [("i1", "d1"), ("i1", "d2"), ("i2", "d1")]
        assert await held(rival, "integration_deliveries", "integration_id || delivery_id") == {"i1d1", "i1d2", "i2d1"}
    await connection.execute("UPDATE integration_deliveries SET answer = 'ann', error = 'ann'")
    await ask_t(connection, "erasure.set_event", "i1", "d1", '{"p": ""}')
    assert await rows(
        connection,
        """integration_id || delivery_id FROM integration_deliveries
                                     WHERE event::text = '{"p": ""}' AND concat(answer, error) = ''""",
    ) == ["i1d1"]


async def test_erasure_waits_for_a_note_about_the_player(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    await connection.execute("UPDATE players SET erased_at = to_timestamp(50.9) WHERE player_id = 'ann'")
    async with pool.acquire() as rival, connection.transaction():
        # Gus lies before ann: they were sorted.
        assert await ask_t(connection, "integrations.erased", ["gus", "ann", "nobody"]) == [("ann", 50), ("gus", 0)]
        assert await held(rival, "players", "player_id") == {"ann", "gus"}
        with pytest.raises(asyncpg.LockNotAvailableError):
            async with rival.transaction():
                await rival.execute("SET LOCAL lock_timeout = '50ms'")
                await ask_t(rival, "erasure.lock_players", ["ann"])


async def test_idle_players_have_done_nothing_for_the_period(connection: asyncpg.Connection) -> None:
    """Guests after 10 days, players after 20."""
    await connection.execute("""DELETE FROM players; DELETE FROM plays; DELETE FROM rewards; DELETE FROM logins;
        INSERT INTO players (player_id, auth_method, updated_at)
            SELECT id, method, now() - make_interval(days => days) FROM (VALUES
                ('g2', 'guest', 11), ('g1', 'guest', 9), ('p2', 'external', 21), ('p1', 'external', 19),
                ('played', 'guest', 11), ('won', 'guest', 11), ('claimed', 'guest', 11), ('logged', 'guest', 11),
                ('over', 'guest', 11), ('out', 'guest', 11)) AS p (id, method, days)""")
    async with connection.transaction():  # In which now() is one moment.
        await connection.execute("""
            INSERT INTO plays (play_id, player_id, played_at) VALUES
                ('a', 'played', now() - interval '10 days'), ('b', 'g2', now() - interval '10 days 1 second');
            INSERT INTO rewards (reward_id, player_id, won_at, claimed_at) VALUES
                ('a', 'won', now() - interval '10 days', NULL), ('b', 'g2', now() - interval '10 days 1 second', NULL),
                ('c', 'claimed', now() - interval '12 days', now() - interval '10 days');
            INSERT INTO logins (login_id, player_id, expires_at, ended_at) VALUES
                ('a', 'logged', now() + interval '1 second', NULL), ('b', 'over', now(), NULL),
                ('c', 'out', now() + interval '1 second', now())""")

        async def idle(after: str, most: int, alone: str = "") -> list[tuple[Any, ...]]:
            return await ask_t(connection, "erasure.idle", after, 10, 20, most, alone)

        assert await idle("", 99) == [
            *(("claimed", False), ("g1", False), ("g2", True), ("logged", False), ("out", True), ("over", True)),
            *(("p1", False), ("p2", True), ("played", False), ("won", False)),
        ]
        assert await idle("g1", 2) == [("g2", True), ("logged", False)]
        assert await idle("", 9, "p2") == [("p2", True)]
        guests_are_kept = await ask_t(connection, "erasure.idle", "g1", 0, 20, 1, "")
        players_are_kept = await ask_t(connection, "erasure.idle", "p1", 10, 0, 1, "")
        assert (guests_are_kept, players_are_kept) == ([("g2", False)], [("p2", False)])
