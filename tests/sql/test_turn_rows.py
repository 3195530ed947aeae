from typing import Final

import asyncpg

from runtime import ids
from runtime.actors.changes import Changes
from runtime.stores.database import Database
from tests.support.commits import TENANT, commit
from tests.support.statements import ask_of_t as ask

SCENE: Final = """
+ tenants tenant_id=t name: T;
+ rewards tenant_id=t reward_id player_id=ann prize_id campaign_id=camp name type value=3 quantity status=fulfilled:
    ticket p Ticket turns 2 | mug q Mug goods 1;
+ turn_balances tenant_id=t player_id campaign_id balance: ann camp 7 | ann other 9 | bob camp 9;
"""

HAD: Final = {("ann", "camp"): 7, ("ann", "other"): 9, ("bob", "camp"): 9}


async def left(connection: asyncpg.Connection) -> dict[tuple[str, str], int]:
    rows = await connection.fetch("SELECT player_id, campaign_id, balance FROM turn_balances")
    return {(row["player_id"], row["campaign_id"]): row["balance"] for row in rows}


async def test_turns_of_a_revoked_reward_are_taken_back_and_noted(connection: asyncpg.Connection) -> None:
    assert await ask(connection, "rewards.take_back_turns", "ann", "ticket", "e1") == [(1,)]
    assert await left(connection) == HAD | {("ann", "camp"): 1}
    kept = await connection.fetchrow("SELECT player_id, campaign_id, amount, reason, reference_id FROM turn_entries")
    assert tuple(kept) == ("ann", "camp", -6, "reversal", "ticket")
    assert await ask(connection, "rewards.take_back_turns", "ann", "ticket", "e2") == []


async def test_turns_of_a_reward_are_taken_whole_or_not_at_all(connection: asyncpg.Connection) -> None:
    assert await ask(connection, "rewards.take_back_turns", "ann", "mug", "e1") == []
    assert await left(connection) == HAD
    for balance, taken in ((5, []), (6, [(0,)])):
        await connection.execute("UPDATE turn_balances SET balance = $1 WHERE player_id = 'ann'", balance)
        assert await ask(connection, "rewards.take_back_turns", "ann", "ticket", "e1") == taken


def moved(player_id: str, before: int) -> Changes:
    changes = Changes()
    changes.move_turns(ids.make("turn"), player_id, "camp", before, 3, "prize", "reward")
    return changes


async def test_turns_moved_make_a_row_or_reuse_an_empty_one(database: Database) -> None:
    await database.execute("UPDATE turn_balances SET balance = 0 WHERE tenant_id = $1", TENANT)
    await commit(database, moved("ann", 0))
    await commit(database, moved("bob", 0))
    rows = await database.fetch("SELECT player_id, balance FROM turn_balances ORDER BY player_id")
    assert [tuple(row) for row in rows] == [("ann", 3), ("bob", 3)]
