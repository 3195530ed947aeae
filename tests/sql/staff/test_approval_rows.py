from typing import Final

import asyncpg

from tests.support.bare_rows import bare
from tests.support.locks import blocked, held
from tests.support.statements import ask_of_t as ask
from tests.support.statements import undone

SCENE: Final = bare("""
+ campaigns campaign_id merchant_id status=draft: c2 other | c1 shop;
+ approvals approval_id merchant_id requested_by status expires_at decided_at: a4 shop ann waiting 2099-01-01 - |
    a2 '' bob waiting 2099-01-01 - | a3 shop ann waiting 2026-01-01 - | a1 '' ann done 2099-01-01 2026-01-01 |
    a5 '' ann approved 2026-01-01 (now()) | a6 '' ann approved 2099-01-01 2026-01-01;
+ prizes prize_id: p2 | p3 | p1;
+ rewards reward_id campaign_id expires_at: r3 c1 2026-01-01 | r1 c1 2026-01-01 | r2 c2 - | r4 c1 -;
+ tasks task_id reward_id: t r3;
+ games game_id campaign_id type=spin status=draft: g3 c2 | g1 c1 | g2 c1;
INSERT INTO game_revisions (game_id, revision, definition)
    SELECT game_id, 1, CASE game_id WHEN 'g1' THEN '{"of": "mug"}' ELSE '{"of": "cup"}' END::jsonb FROM games;
""")
"""a4 and a2 wait, a5 is gone on with; nobody decided on a3 in time, and nobody has gone on with a6."""

KEYED: Final = ("shop", "ann", "route", "key")


async def keep(
    connection: asyncpg.Connection, name: str, merchant: str, requested_by: str, route: str, key: str
) -> bool:
    what = (name, merchant, "operation", route, b"", b"", key, "subject", "{}", "{}", requested_by, b"")
    return bool(await ask(connection, "approvals.insert", *what))


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
    *(("status = 'waiting', expires_at = now()", "rejected", False), ("status = 'done'", "approved", False)),
    *(("status = 'done'", "rejected", False), ("status = 'approved', decided_at = now()", "rejected", True)),
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


async def test_approval_decided_in_a_withdrawal_is_decided(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    await connection.execute("INSERT INTO approvals (approval_id, requested_by) VALUES ('a0', 'ann')")
    async with pool.acquire() as rival, pool.acquire() as onlooker:
        async with rival.transaction():
            assert len(await ask(rival, "approvals.decide", "a0", "approved", "bob", "", "{}")) == 1
            withdrawing = await blocked(onlooker, ask(connection, "approvals.withdraw", "ann", "eve", ""))
            assert await held(onlooker, "approvals", "approval_id") == {"a0"}
        assert [row[0] for row in await withdrawing] == ["a4"]
