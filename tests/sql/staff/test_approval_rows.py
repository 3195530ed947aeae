"""What waits for a second person: each statement finds and moves the one request, while it waits and no longer."""

from __future__ import annotations

from typing import Any, Final

import asyncpg

from tests.support.bare_rows import BARE
from tests.support.locks import blocked, held
from tests.support.statements import ask_of_t as ask
from tests.support.statements import undone

SCENE: Final = (
    BARE
    + """
INSERT INTO campaigns (campaign_id, merchant_id, status) VALUES
    ('c2', 'other', 'draft'), ('c1', 'shop', 'draft');
INSERT INTO approvals (approval_id, merchant_id, asked_by, status, expires_at, decided_at) VALUES
    ('a4', 'shop', 'ann', 'waiting', '2099-01-01', NULL), ('a2', '', 'bob', 'waiting', '2099-01-01', NULL),
    ('a3', 'shop', 'ann', 'waiting', '2026-01-01', NULL), ('a1', '', 'ann', 'done', '2099-01-01', '2026-01-01'),
    ('a5', '', 'ann', 'approved', '2026-01-01', now()), ('a6', '', 'ann', 'approved', '2099-01-01', '2026-01-01');
INSERT INTO prizes (prize_id) VALUES ('p2'), ('p3'), ('p1');
INSERT INTO rewards (reward_id, campaign_id, expires_at) VALUES
    ('r3', 'c1', '2026-01-01'), ('r1', 'c1', '2026-01-01'), ('r2', 'c2', NULL), ('r4', 'c1', NULL);
INSERT INTO tasks (task_id, reward_id) VALUES ('t', 'r3');
INSERT INTO games (game_id, campaign_id, type, status) VALUES
    ('g3', 'c2', 'spin', 'draft'), ('g1', 'c1', 'spin', 'draft'), ('g2', 'c1', 'spin', 'draft');
INSERT INTO game_revisions (game_id, revision, definition)
    SELECT game_id, 1, CASE game_id WHEN 'g1' THEN '{"of": "mug"}' ELSE '{"of": "cup"}' END::jsonb FROM games;
"""
)
"""a4 and a2 wait, a5 is gone on with; nobody decided on a3 in time, and nobody has gone on with a6."""

FOUND: Final[list[tuple[str, tuple[Any, ...], str]]] = [
    ("get", ("a4", ""), "a4"),
    ("get", ("a4", "shop"), "a4"),
    ("get", ("a2", "shop"), ""),
    ("list", ("", "", None, 9), "a6 a5 a4 a3 a2 a1"),
    ("list", ("waiting", "", None, 9), "a4 a2"),
    ("list", ("expired", "", None, 9), "a6 a3"),
    ("list", ("", "shop", None, 9), "a4 a3"),
    ("list", ("", "", "a3", 9), "a2 a1"),
    ("list", ("", "", None, 2), "a6 a5"),
    ("goes_on", ("a5",), "True"),
    ("goes_on", ("a4",), "False"),
    ("rewards", (["r3", "r1", "r2"], ""), "r1 r2 r3"),
    ("rewards", (["r3", "r1", "r2"], "shop"), "r1 r3"),
    ("prizes", (["p3", "p1"],), "p1 p3"),
    ("games_of_prize", ("cup",), "g2 g3"),
    ("games_of_prize", ("p1",), ""),
]


async def test_approval_statements_return_only_what_the_merchant_may_read(connection: asyncpg.Connection) -> None:
    for name, asked, found in FOUND:
        rows = await ask(connection, f"approvals.{name}", *asked)
        assert [str(row[0]) for row in rows] == found.split(), (name, asked)
    stand = {row[0]: row[-1] for row in await ask(connection, "approvals.rewards", ["r1", "r3", "r4"], "")}
    assert stand == {"r1": "expired", "r3": "won", "r4": "won"}
    await connection.execute("UPDATE approvals SET request = 'of a4' WHERE approval_id = 'a4'")
    assert await ask(connection, "approvals.request", "a4") == [(b"of a4", None, b"")]


KEYED: Final = ("shop", "ann", "route", "key")


async def keep(connection: asyncpg.Connection, name: str, merchant: str, asked_by: str, route: str, key: str) -> bool:
    what = (name, merchant, "operation", route, b"", b"", key, "subject", "{}", "{}", asked_by, b"")
    return bool(await ask(connection, "approvals.keep", *what))


async def test_approval_key_is_unique_for_merchant_subject_and_route(connection: asyncpg.Connection) -> None:
    for nth in range(-1, 4):
        named = (f"{name}'" if at == nth else name for at, name in enumerate(KEYED))
        assert await keep(connection, f"k{nth}", *named)
    assert not await keep(connection, "other", *KEYED)
    assert [row[0] for row in await ask(connection, "approvals.find", *KEYED)] == ["k-1"]


DECIDED: Final[list[tuple[str, str, bool]]] = [
    # What it is, what it is moved to, and whether it is.
    ("status = 'waiting', expires_at = '2099-01-01'", "approved", True),
    ("status = 'waiting', expires_at = '2099-01-01'", "rejected", True),
    ("status = 'waiting', expires_at = now() + interval '1 microsecond'", "approved", True),
    ("status = 'waiting', expires_at = now()", "approved", False),
    ("status = 'waiting', expires_at = now()", "rejected", False),
    ("status = 'done'", "approved", False),
    ("status = 'done'", "rejected", False),
    ("status = 'approved', decided_at = now()", "rejected", True),
    ("status = 'approved', decided_at = now()", "withdrawn", False),
    ("status = 'approved', decided_at = now() - interval '7 days'", "rejected", False),
]


async def test_approval_is_decided_once_and_before_it_expires(connection: asyncpg.Connection) -> None:
    for state, move, moved in DECIDED:
        async with undone(connection):
            await connection.execute(f"UPDATE approvals SET {state}")
            rows = await ask(connection, "approvals.decide", "a4", move, "eve", "because", "{}")
            assert len(rows) == moved, (state, move)
            decided = await connection.fetch("SELECT approval_id FROM approvals WHERE decided_by = 'eve'")
            assert [row[0] for row in decided] == ["a4"] * moved, (state, move)


async def test_approval_is_finished_once_and_alone(connection: asyncpg.Connection) -> None:
    for approval, finished in (("a4", 0), ("a5", 1), ("a5", 0)):
        assert len(await ask(connection, "approvals.finish", approval, '{"of": 1}')) == finished, approval
    done = await connection.fetch("SELECT approval_id FROM approvals WHERE status = 'done' ORDER BY 1")
    assert [row[0] for row in done] == ["a1", "a5"]


async def test_approvals_that_wait_are_withdrawn_with_their_requester(connection: asyncpg.Connection) -> None:
    async with connection.transaction():
        await connection.execute("""INSERT INTO approvals (approval_id, asked_by, expires_at) VALUES
            ('b1', 'ann', now()), ('b2', 'ann', now() + interval '1 microsecond')""")
        withdrawn = await ask(connection, "approvals.withdraw_of", "ann", "eve", "why")
        assert sorted(row[0] for row in withdrawn) == ["a4", "b2"]
        rows = await connection.fetch("SELECT approval_id FROM approvals WHERE decided_by = 'eve' ORDER BY 1")
        assert [row[0] for row in rows] == ["a4", "b2"]


TOKENS: Final = """
INSERT INTO api_tokens (token_id, token_hash, name, made_by, expires_at, revoked_at) VALUES
    ('k1', '1', 'Till', 'ann', '2099-01-01', NULL), ('k2', '2', 'Till', 'bob', '2099-01-01', NULL),
    ('k3', '3', 'Till', 'ann', '2026-01-01', '2026-01-01');
INSERT INTO api_tokens (tenant_id, token_id, token_hash, name, made_by, expires_at)
    VALUES ('u', 'k4', '4', 'Till', 'ann', '2099-01-01');
INSERT INTO approvals (approval_id, asked_by)
    SELECT 'b' || n, format('Till %s(k%s)', CASE n WHEN 3 THEN '(k2) ' END, n) FROM generate_series(1, 4) AS n;
INSERT INTO approvals (approval_id, asked_by) VALUES ('b5', 'k1'), ('b6', 'Till (xk1)'), ('b7', 'Till (k1) x');
"""
"""b1 to b4 were asked for by tokens k1 to k4, b5 to b7 by people of odd names."""


async def test_approvals_of_a_token_are_withdrawn_with_the_token_or_its_maker(connection: asyncpg.Connection) -> None:
    await connection.execute(TOKENS)
    for subject, theirs in (("ann", "a4 b1 b3"), ("bob", "a2 b2"), ("k3", "b3"), ("k2", "b2"), ("k4", "")):
        async with undone(connection):
            withdrawn = await ask(connection, "approvals.withdraw_of", subject, "eve", "why")
            assert sorted(row[0] for row in withdrawn) == theirs.split(), subject
            assert {row[-1] for row in withdrawn} <= {"why"}


async def test_approval_decided_during_a_withdrawal_stays_decided(
    connection: asyncpg.Connection, pool: asyncpg.Pool
) -> None:
    await connection.execute("INSERT INTO approvals (approval_id, asked_by) VALUES ('a0', 'ann')")
    async with pool.acquire() as rival, pool.acquire() as onlooker:
        async with rival.transaction():
            assert len(await ask(rival, "approvals.decide", "a0", "approved", "bob", "", "{}")) == 1
            withdrawing = await blocked(onlooker, ask(connection, "approvals.withdraw_of", "ann", "eve", ""))
            assert await held(onlooker, "approvals", "approval_id") == {"a0"}
        assert [row[0] for row in await withdrawing] == ["a4"]


PLAYED: Final = "INSERT INTO game_players (game_id, player_id) VALUES ('{}', 'ann');"
ACTIVE: Final = "UPDATE campaigns SET status = 'active' WHERE campaign_id = 'c1';"
STARTED: Final = "UPDATE games SET status = 'active' WHERE game_id = '{}';"
AWARDS: Final = (
    "INSERT INTO leaderboards (board_id, campaign_id, prizes) VALUES ('b', 'c1', '[{\"prize_id\": \"mug\"}]');"
)
OVER: Final = "UPDATE leaderboards SET status = 'finalized';"

LIVE: Final[list[tuple[str, bool]]] = [
    ("SELECT", False),
    (STARTED.format("g1"), False),
    (ACTIVE, False),
    (ACTIVE + STARTED.format("g1"), True),
    (ACTIVE + STARTED.format("g2"), False),
    (PLAYED.format("g1"), True),
    (PLAYED.format("g2"), False),
    (PLAYED.format("g2") + STARTED.format("g1"), True),
    (PLAYED.format("g2") + STARTED.format("g2"), False),
    (PLAYED.format("g3") + STARTED.format("g1"), False),
    (AWARDS, False),
    (AWARDS + ACTIVE, True),
    (AWARDS + ACTIVE + OVER, False),
    (AWARDS.replace("mug", "cup") + ACTIVE, False),
    (AWARDS + PLAYED.format("g2"), True),
    (AWARDS + PLAYED.format("g3"), False),
]


async def test_prize_is_live_once_it_can_or_could_be_won(connection: asyncpg.Connection) -> None:
    for meanwhile, live in LIVE:
        async with undone(connection):
            await connection.execute(meanwhile)
            assert await ask(connection, "approvals.prize_is_live", "mug") == [(live,)], meanwhile


async def test_game_is_live_once_a_game_of_its_campaign_was_played(connection: asyncpg.Connection) -> None:
    await connection.execute("UPDATE campaigns SET status = 'active' WHERE campaign_id = 'c2'")
    assert await ask(connection, "approvals.game_is_live", "g1", "c1") == [(False, False, False)]
    for played, told in (("g3", (False, False, False)), ("g2", (False, False, True)), ("g1", (False, True, True))):
        await connection.execute(PLAYED.format(played))
        assert await ask(connection, "approvals.game_is_live", "g1", "c1") == [told], played
    assert await ask(connection, "approvals.game_is_live", "g3", "c2") == [(True, True, True)]
