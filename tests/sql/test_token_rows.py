from typing import Final

import asyncpg
import pytest

from tests.support.bare_rows import bare
from tests.support.locks import blocked
from tests.support.statements import ask_of_t as ask

SCENE: Final = bare("""
+ api_tokens token_id token_hash name merchant_id made_by expires_at=2099-01-01: k2 2 Till shop ann |
    k1 1 Till other bob | k3 3 Desk '' ann;
""")


async def test_token_is_live_until_it_is_revoked_or_expires(connection: asyncpg.Connection) -> None:
    async with connection.transaction():  # In which now() is one moment.
        await connection.execute("""UPDATE api_tokens SET made_by = 'cas';
            INSERT INTO api_tokens (token_id, token_hash, made_by, expires_at, revoked_at)
                SELECT format('%s %s', ends, revoked), format('%s %s', ends, revoked)::bytea, 'ann',
                       now() + ends * interval '1 s',
                       CASE WHEN revoked <= 0 THEN now() + revoked * interval '1 s' END
                FROM unnest(ARRAY[-61, -60, -59, 0, 1]) AS ends, unnest(ARRAY[-60, -59, 1]) AS revoked""")
        assert await ask(connection, "tokens.count_live", "ann") == [(1,)]
        # Beside those of cas: what ended 59 seconds ago or later, and was not revoked a minute ago.
        assert await ask(connection, "tokens.count_recent", 60.0) == [(3 + 3 * 2,)]


async def test_token_revocation_waits_for_running_requests(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    await connection.execute("INSERT INTO api_tokens (tenant_id, token_id, token_hash) VALUES ('u', 'k9', '9')")
    for nobody in ("ann", "k2", "Till (xk2)", "Till (k2) x", "Till(k2)", "Till (k9)", "(k1) (k9)"):
        assert await ask(connection, "tokens.lock_requester", nobody) == [], nobody
    async with pool.acquire() as rival, connection.transaction():
        assert await ask(connection, "tokens.lock_requester", "Till (k1) (k2)") == [(False,)]
        assert [row[0] for row in await ask(rival, "tokens.revoke", "k1", "")] == ["k1"]
        assert await ask(rival, "tokens.lock_requester", "Till (k2)") == [(False,)]
        with pytest.raises(asyncpg.LockNotAvailableError):
            async with rival.transaction():
                await rival.execute("SET LOCAL lock_timeout = '50ms'")
                await ask(rival, "tokens.revoke", "k2", "")
    async with pool.acquire() as rival, pool.acquire() as onlooker:
        async with rival.transaction():
            await ask(rival, "tokens.revoke", "k2", "")
            asking = await blocked(onlooker, ask(connection, "tokens.lock_requester", "Till (k2)"))
        assert await asking == [(True,)]


async def test_token_use_is_noted_once_an_hour_while_valid(connection: asyncpg.Connection) -> None:
    async def written() -> dict[str, str]:
        return {row[0]: row[1] for row in await connection.fetch("SELECT token_id, ctid::text FROM api_tokens")}

    cases: list[tuple[str, bool]] = [
        # What the token is, and whether its use is noted.
        *(("used_at = NULL", True), ("used_at = date_trunc('hour', now(), 'UTC') - interval '1 second'", True)),
        *(("used_at = date_trunc('hour', now(), 'UTC')", False), ("used_at = NULL, revoked_at = now()", False)),
        ("used_at = NULL, revoked_at = NULL, expires_at = now()", False),
    ]
    for change, recorded in cases:
        async with connection.transaction():  # In which now() is one moment.
            await connection.execute(f"UPDATE api_tokens SET {change}")
            before = await written()
            await ask(connection, "tokens.open", b"2")
            after = await written()
            written_anew = {token for token in after if after[token] != before[token]}
            assert written_anew == ({"k2"} if recorded else set()), change
