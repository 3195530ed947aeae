from typing import Any, Final

import asyncpg

import sql
from tests.support.locks import held

SQL: Final = sql.load("rewards")

SCENE: Final = """
+ tenants tenant_id name: u U | t T;
+ campaigns tenant_id=t campaign_id merchant_id name=C: camp shop | camp_2 '' | camp_3 other;
+ players tenant_id=t player_id auth_method merged_into: ann external - | gus guest ann | bob external - |
    gil guest bob;
+ prizes tenant_id=t prize_id name type=goods channel: other O workflow | mug M voucher_code;
+ rewards tenant_id=t reward_id player_id prize_id campaign_id name=Mug type=goods value=5 quantity=1 status=won
    expires_at: tasked ann mug camp (now() - interval '1 s') |
    late ann mug camp_2 (now() - interval '1 s') | orphan bob gone camp_3 -;
+ tasks tenant_id=t task_id reward_id prize_id=mug campaign_id=camp player_id=ann channel status=pending:
    task tasked webhook | task_2 another manual;
+ stock tenant_id=t prize_id: mug | cup | can;
+ codes tenant_id=t prize_id code_id key_id=k ciphertext code_hash reward_id: mug c2 2 2 tasked | mug c1 1 1 late |
    cup c3 3 3 another | mug c4 4 4 orphan;
+ balances tenant_id=t player_id scope_key currency balance=9: bob camp coin | gus camp coin | ann camp leaf |
    ann camp_2 coin | ann camp coin | ann camp_2 leaf;
+ turn_balances tenant_id=t player_id campaign_id balance: ann c2 7 | ann c1 8 | bob c2 9;
INSERT INTO ledger_entries (tenant_id, player_id, scope_key, currency, amount, reward_id, entry_id, seq, balance_after,
                            reason, reference_id)
    SELECT 't', player, scope, currency, amount, reward, 'e' || n, n, 9, 'play_reward', ''
    FROM (VALUES (1, 'gus', 'camp', 'coin', 1, 'tasked'), (2, 'ann', 'camp', 'coin', 2, 'tasked'),
                 (3, 'ann', 'camp', 'coin', 3, 'tasked'), (4, 'ann', 'camp_2', 'coin', 4, 'tasked'),
                 (5, 'ann', 'camp', 'leaf', 5, 'tasked'), (6, 'ann', 'camp', 'leaf', -5, 'tasked'),
                 (7, 'bob', 'camp', 'coin', 7, 'tasked'), (8, 'ann', 'camp_2', 'leaf', 8, 'another'))
        AS v (n, player, scope, currency, amount, reward);
"""
"""Nothing in the order in which it is to be locked."""


BALANCE: Final = "player_id || '/' || scope_key || '/' || currency"
MOVED_BY_ANN: Final = [("ann", "camp", "coin", 5), ("ann", "camp_2", "coin", 4)]

HOLDS: Final[list[tuple[str, tuple[Any, ...], list[tuple[Any, ...]], str, str, str]]] = [
    # What is asked after the tenant, what it answers in its order, and which rows it holds, by their key.
    ("lock_balances", ("ann", "tasked"), MOVED_BY_ANN, "balances", BALANCE, "ann/camp/coin ann/camp_2/coin"),
    (
        *("lock_balances", ("gus", "tasked"), [*MOVED_BY_ANN, ("gus", "camp", "coin", 1)]),
        *("balances", BALANCE, "ann/camp/coin ann/camp_2/coin gus/camp/coin"),
    ),
    ("lock_turns", ("ann", "c2"), [(7,)], "turn_balances", "player_id || '/' || campaign_id", "ann/c2"),
    ("lock_stock", (["mug", "can"],), [("can",), ("mug",)], "stock", "prize_id", "can mug"),
    ("lock_codes", (["tasked", "late", "another"],), [("c3",), ("c1",), ("c2",)], "codes", "code_id", "c1 c2 c3"),
    ("take_code", ("mug", "tasked", ["won"]), [("k", b"2")], "codes", "code_id", "c2"),
    ("take_code", ("mug", "tasked", ["won"]), [("k", b"2")], "rewards", "reward_id", "tasked"),
    ("lock", ("late",), [("won",)], "rewards", "reward_id", "late"),
    ("lock_task", ("tasked",), [("task",)], "tasks", "task_id", "task"),
]


async def test_statements_hold_what_a_reward_moves_in_order(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    faults = []
    for name, arguments, answers, table, key, rows in HOLDS:
        async with connection.transaction(), pool.acquire() as rival:
            found = [tuple(row) for row in await connection.fetch(SQL[name], "t", *arguments)]
            locked = await held(rival, table, key)
        if (found, locked) != (answers, set(rows.split())):
            faults.append((name, arguments, found, locked))
    assert faults == []


async def test_replay_of_a_claim_answers_as_the_claim_did(connection: asyncpg.Connection) -> None:
    await connection.execute("""
        UPDATE rewards SET status = 'revoked', claimed_at = now(), fulfilled_at = now() WHERE reward_id = 'tasked';
        UPDATE rewards SET status = 'fulfilled', claimed_at = now(), fulfilled_at = now() + interval '1 s'
            WHERE reward_id = 'late';
        INSERT INTO rewards (tenant_id, reward_id, player_id, prize_id, campaign_id, name, type, value, quantity,
                             status, claimed_at) VALUES
            ('t', 'aside', 'ann', 'mug', 'camp', 'Mug', 'goods', 5, 1, 'claimed', now());
        INSERT INTO claim_answers (tenant_id, reward_id, answers) VALUES
            ('t', 'late', '[{"key": "size", "value": "S"}]'), ('t', 'aside', '[]')
    """)
    rows = await connection.fetch(SQL["as_claimed"], "t", ["tasked", "late", "orphan"])
    replayed = {row["reward_id"]: (row["status"], row["fulfilled_at"] > 0, row["ciphertext"]) for row in rows}
    assert replayed == {"tasked": ("fulfilled", True, b"2"), "late": ("claimed", False, None)}
    assert {row["reward_id"]: row["given"] for row in rows} == {"tasked": "{}", "late": '{"size": "S"}'}
    assert len(rows) == 2


async def test_reward_expires_at_the_exact_moment(connection: asyncpg.Connection) -> None:
    async with connection.transaction():
        await connection.execute("DELETE FROM rewards")
        await connection.execute(
            "INSERT INTO rewards (tenant_id, reward_id, player_id, prize_id, campaign_id, name, type, value, quantity,"
            " expires_at) SELECT tenant, 'now', 'ann', 'mug', 'camp', 'Mug', 'goods', 5, 1, now()"
            " FROM unnest(ARRAY['u', 't']) AS tenant"
        )
        assert [row[0] for row in await connection.fetch(SQL["tenants_with_expired"])] == ["t", "u"]
        assert [row[0] for row in await connection.fetch(SQL["overdue"], "t", 9)] == ["now"]
        assert [row[0] for row in await connection.fetch(SQL["expire"], "t", ["now"])] == ["now"]
