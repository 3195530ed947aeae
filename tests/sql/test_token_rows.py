"""API tokens: each statement goes by the one token that it names, and knows which go on at this very moment."""

from __future__ import annotations

from typing import Any, Final

import asyncpg
import pytest

from tests.support.bare_rows import BARE
from tests.support.locks import blocked
from tests.support.statements import ask_of_t as ask
from tests.support.statements import wrong_answers

SCENE: Final = (
    BARE
    + """
INSERT INTO api_tokens (token_id, token_hash, name, merchant_id, made_by, expires_at) VALUES
    ('k2', '2', 'Till', 'shop', 'ann', '2099-01-01'), ('k1', '1', 'Till', 'other', 'bob', '2099-01-01'),
    ('k3', '3', 'Desk', '', 'ann', '2099-01-01');
"""
)

FOUND: Final[list[tuple[str, tuple[Any, ...], str]]] = [
    ("list", ("%", "", "", None, 9), "k3 k2 k1"),
    ("list", ("till", "", "", None, 9), "k2 k1"),
    ("list", ("%", "ann", "", None, 9), "k3 k2"),
    ("list", ("%", "", "shop", None, 9), "k2"),
    ("list", ("%", "", "", "k2", 9), "k1"),
    ("list", ("%", "", "", None, 2), "k3 k2"),
    ("owner", ("k2",), "shop"),
    ("owner", ("k9",), ""),
    ("maker", ("k1",), "bob"),
    ("revoke", ("k2", "shop"), "k2"),
    ("revoke", ("k2", ""), ""),
    ("revoke", ("k1", "shop"), ""),
    ("revoke", ("k1", ""), "k1"),
    ("open", (b"3",), "k3"),
    ("open", (b"9",), ""),
]


async def test_token_statements_reach_that_token_alone(connection: asyncpg.Connection) -> None:
    assert await wrong_answers(connection, "tokens", FOUND) == []
    revoked = await connection.fetch("SELECT token_id FROM api_tokens WHERE revoked_at IS NOT NULL ORDER BY 1")
    assert [row[0] for row in revoked] == ["k1", "k2"]


async def test_token_is_live_until_it_is_revoked_or_expires(connection: asyncpg.Connection) -> None:
    async with connection.transaction():  # In which now() is one moment.
        await connection.execute("""UPDATE api_tokens SET made_by = 'cas';
            INSERT INTO api_tokens (token_id, token_hash, made_by, expires_at, revoked_at)
                SELECT format('%s %s', ends, revoked), format('%s %s', ends, revoked)::bytea, 'ann',
                       now() + ends * interval '1 s',
                       CASE WHEN revoked <= 0 THEN now() + revoked * interval '1 s' END
                FROM unnest(ARRAY[-61, -60, -59, 0, 1]) AS ends, unnest(ARRAY[-60, -59, 1]) AS revoked""")
        assert await ask(connection, "tokens.live_of", "ann") == [(1,)]
        # Beside those of cas: what ended 59 seconds ago or later, and was not revoked a minute ago.
        assert await ask(connection, "tokens.bounded", 60.0) == [(3 + 3 * 2,)]


async def test_token_revocation_waits_for_running_requests(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    await connection.execute("INSERT INTO api_tokens (tenant_id, token_id, token_hash) VALUES ('u', 'k9', '9')")
    for nobody in ("ann", "k2", "Till (xk2)", "Till (k2) x", "Till(k2)", "Till (k9)", "(k1) (k9)"):
        assert await ask(connection, "tokens.hold_asker", nobody) == [], nobody
    async with pool.acquire() as rival, connection.transaction():
        assert await ask(connection, "tokens.hold_asker", "Till (k1) (k2)") == [(False,)]
        assert [row[0] for row in await ask(rival, "tokens.revoke", "k1", "")] == ["k1"]
        assert await ask(rival, "tokens.hold_asker", "Till (k2)") == [(False,)]
        with pytest.raises(asyncpg.LockNotAvailableError):
            async with rival.transaction():
                await rival.execute("SET LOCAL lock_timeout = '50ms'")
                await ask(rival, "tokens.revoke", "k2", "")
    async with pool.acquire() as rival, pool.acquire() as onlooker:
        async with rival.transaction():
            await ask(rival, "tokens.revoke", "k2", "")
            asking = await blocked(onlooker, ask(connection, "tokens.hold_asker", "Till (k2)"))
        assert await asking == [(True,)]


USED: Final[list[tuple[str, bool]]] = [
    # What the token is, and whether its use is noted.
    ("used_at = NULL", True),
    ("used_at = date_trunc('hour', now(), 'UTC') - interval '1 second'", True),
    ("used_at = date_trunc('hour', now(), 'UTC')", False),
    ("used_at = NULL, revoked_at = now()", False),
    ("used_at = NULL, revoked_at = NULL, expires_at = now()", False),
]


async def test_token_use_is_noted_once_an_hour_while_valid(connection: asyncpg.Connection) -> None:
    async def written() -> dict[str, str]:
        return {row[0]: row[1] for row in await connection.fetch("SELECT token_id, ctid::text FROM api_tokens")}

    for meanwhile, noted in USED:
        async with connection.transaction():  # In which now() is one moment.
            await connection.execute(f"UPDATE api_tokens SET {meanwhile}")
            before = await written()
            await ask(connection, "tokens.open", b"2")
            after = await written()
            written_anew = {token for token in after if after[token] != before[token]}
            assert written_anew == ({"k2"} if noted else set()), meanwhile
