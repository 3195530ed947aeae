from typing import Any, Final

import asyncpg
import pytest

from tests.support.bare_rows import bare, scene
from tests.support.locks import held
from tests.support.statements import ask, undone
from tests.support.statements import ask_of_t as ask_t

SCENE: Final = bare("""
+ tenants tenant_id: u | t;
+ players player_id display_name merged_into: gus G ann | bob B - | ann A - | gil G bob;
+ contacts contact_id player_id type value: x1 ann email a | x2 bob email b | x3 gus phone g;
+ login_challenges challenge_id contact contact_hash: h1 'email:a' 1 | h2 'email:b' 2 | h3 'phone:a' 3;
+ login_guesses contact_hash fingerprint: 1 a | 2 b | 3 a | 4 '';
+ logins login_id player_id: l1 ann | l2 bob | l3 gus;
+ login_quarters player_id quarter: ann '2026-01-01 00:00Z' | bob '2026-01-01 00:00Z' | gus '2026-01-01 00:15Z';
+ plays play_id player_id client_seed payload idempotency_key: p5 ann s {} - | p3 ann '' '{"a": 1}' - |
    p2 ann '' {} k2 | p4 ann '' {} - | p1 bob s '{"a": 1}' k1 | p6 gus s {} -;
+ log_leaves kind=play salt=s leaf_index row_id: 1 p1 | 2 p6 | 3 p5 | 4 p3;
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
+ integrations integration_id: i1 | i2 | messages_c;
+ integration_deliveries integration_id delivery_id event_id status event next_attempt_at:
    messages_c d5 e1 dead '{"data": {"player_id": "gus"}}' - |
    messages_c d6 e2 dead '{"data": {"player_id": "bob"}}' - |
    i2 d1 e1 retry '{"p": "ann"}' (now()) | i1 d2 e2 retry '{"p": "ann"}' (now()) |
    i1 d1 e1 retry '{"p": "gus"}' (now()) | i1 d3 e3 retry '{"p": "bob"}' (now()) | i1 d4 e4 dead - -;
""")
"""Of ann and gus, who is ann now, what is erased; of bob, who became nobody, what is like it."""

WHO: Final = ["ann", "gus"]
OF_CONTACTS: Final[dict[str, list[Any]]] = {"challenges": ["email:a", "phone:g"], "guesses": [b"a"]}

ERASED: Final[dict[str, tuple[str, str, str]]] = {
    # The rows that say something, before and after.
    "names": ("player_id FROM players WHERE display_name <> ''", "ann bob gil gus", "bob gil"),
    "profiles": ("player_id FROM players WHERE display_name <> ''", "ann bob gil gus", "bob gil"),
    "guesses": ("contact_hash FROM login_guesses", "1 2 3 4", "2 4"),
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
            found = await ask_t(connection, f"erasure.{name}", OF_CONTACTS.get(name, WHO))
            assert name != "contacts" or sorted(found) == [("email:a",), ("phone:g",)]
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
            for statement in ("plays", "salts"):
                await ask_t(connection, f"erasure.{statement}", WHO, 2)
            assert await rows(connection, telling) == left.split()
            assert await rows(connection, "row_id FROM log_leaves WHERE salt IS NOT NULL") == left.split()
            assert await held(rival, "plays", "play_id") == before - set(left.split())


async def test_erasure_locks_the_player_and_its_guests(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    assert await ask_t(connection, "erasure.with_guests", "ann") == [("ann",), ("gus",)]
    assert await ask_t(connection, "erasure.with_guests", "gus") == [("ann",), ("gus",)]
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
        assert [row[1] for row in await ask_t(connection, "erasure.messages", WHO)] == ["d5"]
        locked = await held(rival, "integration_deliveries", "delivery_id || integration_id")
        assert locked == {"d1i1", "d2i1", "d1i2", "d5messages_c"}
    await connection.execute("UPDATE integration_deliveries SET answer = 'ann', error = 'ann'")
    await ask_t(connection, "erasure.set_event", "i1", "d1", '{"p": ""}')
    emptied = """event::text = '{"p": ""}' AND concat(answer, error) = ''"""
    assert await rows(connection, f"delivery_id FROM integration_deliveries WHERE {emptied}") == ["d1"]


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


NO_PLAYERS: Final = """DELETE FROM players; DELETE FROM plays; DELETE FROM rewards; DELETE FROM logins;
    DELETE FROM contacts; DELETE FROM tasks; DELETE FROM quest_completions;"""


async def test_idle_players_have_done_nothing_for_the_period(connection: asyncpg.Connection) -> None:
    """Guests after 10 days, players after 20."""
    await connection.execute(f"""{NO_PLAYERS}
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
        for kept, days in (("g", (0, 20)), ("p", (10, 0))):
            assert await ask_t(connection, "erasure.idle", f"{kept}1", *days, 1, "") == [(f"{kept}2", False)]


UNSETTLED: Final = scene("""
+ players auth_method=guest updated_at='2025-02-01' player_id: came_in | redeemed | quested | enters | raffled | holds |
    owed | sent | mailed | done | became | saves | listed | ranks | gained | failing | claims | scored;
+ players player_id merged_into: was became;
+ quests type=daily quest_id: q2;
+ campaigns campaign_id end_date: over '2025-02-01' | endless - | later (now() + interval '1 day') |
    raffle '2025-02-01';
+ draws draw_id campaign_id status tickets: d1 over confirmed {} | d2 over cancelled '{"currency": "c"}' |
    d3 raffle open '{"currency": "c", "scope_key": "s"}' | d4 other closed '{"currency": "c"}' |
    d5 other open '{"ranking": "b4"}' | d6 other confirmed '{"ranking": "b3"}';
+ balances currency=c player_id scope_key balance: saves s 1 | done s 0 | done '' 1;
+ draw_tickets draw_id first_ticket player_id: d1 0 done | d4 0 holds | d4 1 was;
+ draw_lists draw_id player_id: d3 listed | d4 done;
+ entries campaign_id player_id entry_id updated_at: over came_in e1 (now()) | over done e2 '2025-02-01' |
    endless done e3 '2025-02-01' | later enters e4 '2025-02-01' | raffle raffled e5 '2025-02-01';
+ games game_id campaign_id: g1 over | g2 endless | g3 endless;
+ game_players day='2025-02-01' game_id player_id: g1 ranks | g2 done | g3 scored;
+ leaderboards board_id campaign_id game_id status prizes: b1 over '' active [1] | b2 endless g2 active [] |
    b3 endless g2 finalized [1] | b4 endless g3 finalized [];
+ leaderboard_adjustments entry_id board_id player_id: a1 b1 gained | a2 b2 done;
+ redemptions code_hash='' redemption_id player_id redeemed_at: o1 redeemed (now()) | o2 done '2025-02-01';
+ quest_completions quest_id player_id completed_at: q2 quested (now()) | q2 done '2025-02-01';
+ rewards won_at='2025-02-01' reward_id player_id status expires_at: w1 owed claimed - | w2 sent fulfilling - |
    w3 mailed won - | w4 done won - | w5 done fulfilled - | w6 failing failed - | w7 done won '2025-02-02' |
    w8 claims won (now() + interval '1 day') | w9 done expired (now() + interval '1 day');
+ tasks task_id reward_id status: k3 w3 pending | k5 w5 delivered;
""")


async def test_unsettled_players_are_not_idle(connection: asyncpg.Connection) -> None:
    await connection.execute(NO_PLAYERS + UNSETTLED)
    found = await ask_t(connection, "erasure.idle", "", 10, 20, 99, "")
    assert len(found) == 19 and [player for player, idle in found if idle] == ["done"]


@pytest.mark.parametrize(
    "newer",
    [
        *("contacts (player_id) VALUES ('p')", "logins (player_id, expires_at) VALUES ('p', '2025-03-01')"),
        """entries (player_id, updated_at, given) VALUES ('p', '2025-02-01', '{x}')""",
        "rewards (player_id, won_at) VALUES ('p', '2025-03-01')",
        "plays (player_id, play_id, played_at) VALUES ('p', 'b', '2025-03-01')",
        "redemptions (player_id, receipt_id, redeemed_at) VALUES ('p', 'r', '2025-03-01')",
        "quest_completions (player_id, quest_id, completed_at) VALUES ('p', 'q', '2025-03-01')",
        "ledger_entries (player_id, reason, created_at) VALUES ('p', 'adjustment', '2025-03-01')",
        "entries (player_id, created_at) VALUES ('p', '2025-03-01')",
        "claim_answers (reward_id) VALUES ('w'); INSERT INTO rewards (reward_id, player_id) VALUES ('w', 'p');"
        " UPDATE rewards SET won_at = '2025-01-01'",
    ],
)
async def test_erased_player_with_newer_data_is_idle_again(connection: asyncpg.Connection, newer: str) -> None:
    await connection.execute(f"""{NO_PLAYERS} INSERT INTO plays (player_id, played_at) VALUES ('p', '2025-01-01');
        INSERT INTO players (player_id, auth_method, erased_at, updated_at)
        VALUES ('p', 'external', '2025-02-01', '2025-02-01')""")
    assert await ask_t(connection, "erasure.idle", "", 10, 20, 1, "") == [("p", False)]
    erased = "SELECT is_erased('t', 'p')"
    await ask_t(connection, "players.set_status", "p", "suspended")
    assert await connection.fetchval(erased)
    await connection.execute(f"INSERT INTO {newer}")
    assert await ask_t(connection, "erasure.idle", "", 10, 20, 1, "") == [("p", True)]
    assert await connection.fetchval(erased) == newer.startswith("rewards"), "else the player has come back"
    await connection.execute("INSERT INTO draws (draw_id) VALUES ('d')")
    await ask_t(connection, "draws.set_list", "d", ["p"], [1])
    assert not await connection.fetchval(erased), "an imported list has the player"
