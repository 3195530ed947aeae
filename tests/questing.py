"""What the tests of players, quests and wallets set up in the database by hand, and read back from it."""

from __future__ import annotations

from typing import Any

from runtime import ids
from runtime.stores.database import Database
from tests.acceptance.conftest import Stack

LEDGER_OFF = """
    SELECT b.player_id, b.scope_key, b.currency, b.balance, coalesce(sum(e.amount), 0) AS entries
    FROM balances AS b LEFT JOIN ledger_entries AS e USING (tenant_id, player_id, scope_key, currency)
    GROUP BY b.tenant_id, b.player_id, b.scope_key, b.currency, b.balance HAVING b.balance <> coalesce(sum(e.amount), 0)
    UNION ALL
    SELECT e.player_id, e.scope_key, e.currency, 0, sum(e.amount)
    FROM ledger_entries AS e LEFT JOIN balances AS b USING (tenant_id, player_id, scope_key, currency)
    WHERE b.balance IS NULL GROUP BY e.player_id, e.scope_key, e.currency HAVING sum(e.amount) <> 0
"""

TURNS_OFF = """
    SELECT t.player_id, t.campaign_id FROM (
        SELECT tenant_id, player_id, campaign_id, balance FROM turn_balances
        UNION ALL
        SELECT tenant_id, player_id, campaign_id, -amount FROM turn_entries
    ) AS t GROUP BY t.tenant_id, t.player_id, t.campaign_id HAVING sum(t.balance) <> 0
"""


def database(stack: Stack) -> Database:
    """The stack's own durable store."""
    assert stack.process.engine is not None
    return stack.process.engine.database


async def open_campaign(stack: Stack, *, timezone: str = "UTC", status: str = "active") -> str:
    """A campaign of the test's tenant."""
    campaign_id = ids.make("camp")
    await database(stack).execute(
        "INSERT INTO campaigns (tenant_id, campaign_id, name, status, timezone) VALUES ($1, $2, 'Spring', $3, $4)",
        stack.tenant_id,
        campaign_id,
        status,
        timezone,
    )
    return campaign_id


async def open_quest(stack: Stack, campaign_id: str, **fields: Any) -> str:
    """An active quest, made over Core."""
    quest = {"campaign_id": campaign_id, "name": "Visit the shop", "turns": 3, "status": "active", **fields}
    answer = await stack.core("POST", "/quests", {"quest": quest})
    return str(answer.data["quest"]["id"])


async def assert_sums(stack: Stack) -> None:
    """The sum of the entries is the balance, of every wallet and of every player's turns."""
    assert await database(stack).fetch(LEDGER_OFF) == []
    assert await database(stack).fetch(TURNS_OFF) == []
