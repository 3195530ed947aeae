"""What a claim is asked: nothing moves where an answer is missing, and each reward keeps its own."""

from typing import Any, Final

import asyncpg

from tests.support.statements import ask_of_t as ask

SCENE: Final = """
INSERT INTO tenants (tenant_id, name) VALUES ('t', 'T');
INSERT INTO players (tenant_id, player_id, auth_method) VALUES ('t', 'ann', 'external');
INSERT INTO prizes (tenant_id, prize_id, name, type, redemption_mode, channel, claim_fields) VALUES
    ('t', 'shirt', 'Shirt', 'goods', 'on_claim', 'webhook',
     '[{"key": "size", "label": "Size", "kind": "text", "required": true}]'),
    ('t', 'mug', 'Mug', 'goods', 'on_claim', 'webhook', '[]');
INSERT INTO rewards (tenant_id, reward_id, player_id, prize_id, campaign_id, name, type, value, quantity, status)
    SELECT 't', id, 'ann', prize, 'camp', 'X', 'goods', 5, 1, 'won'
    FROM (VALUES ('r1', 'shirt'), ('r2', 'shirt'), ('r3', 'mug')) AS v (id, prize);
"""


async def claimed(connection: asyncpg.Connection, **answers: str) -> list[tuple[Any, ...]]:
    many = [list(answers), ["ann"] * len(answers), [None] * len(answers), [f"task_{one}" for one in answers]]
    rows = await ask(connection, "claims.claim", *many, ["none"], list(answers.values()))
    return [row[:2] for row in rows]


async def stored(connection: asyncpg.Connection) -> dict[str, str]:
    rows = await connection.fetch("SELECT reward_id, answers -> 0 ->> 'value' AS size FROM claim_answers")
    return {row["reward_id"]: row["size"] for row in rows}


async def test_claim_without_a_required_answer_moves_nothing(connection: asyncpg.Connection) -> None:
    assert await claimed(connection, r1="{}", r3="{}") == [("unanswered", "r1"), ("claimed", "r3")]
    assert await connection.fetchval("SELECT status FROM rewards WHERE reward_id = 'r1'") == "won"
    assert await stored(connection) == {}


async def test_claims_of_one_batch_keep_and_deliver_their_own_answers(connection: asyncpg.Connection) -> None:
    both = await claimed(connection, r1='{"size": "S"}', r2='{"size": "L"}', r3="{}")
    assert both == [("claimed", "r1"), ("claimed", "r2"), ("claimed", "r3")]
    assert await stored(connection) == {"r1": "S", "r2": "L"}
    leased = await ask(connection, "fulfillment.lease", 60.0, ["task_r1", "task_r2", "task_r3"], "me", [], [])
    delivered = {row[1]: row[-1] for row in leased}
    assert set(delivered) == {"r1", "r2", "r3"} and delivered["r3"] == "[]"
    assert '"S"' in delivered["r1"] and '"L"' not in delivered["r1"] and '"L"' in delivered["r2"]
