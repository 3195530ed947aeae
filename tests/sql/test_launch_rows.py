"""What a launch check looks at: all of the one campaign, and nothing that differs from it in one thing."""

from __future__ import annotations

from typing import Any, Final

import asyncpg

from tests.support.bare_rows import BARE
from tests.support.statements import ask_of_t as ask
from tests.support.statements import wrong_answers

SCENE: Final = (
    BARE
    + """
INSERT INTO tenants (tenant_id) VALUES ('t');
INSERT INTO campaigns (campaign_id, merchant_id, budget, budget_currency) VALUES
    ('theirs', 'other', 5, 'EUR'), ('camp', 'shop', 5, 'EUR'), ('moved', 'shop', 5, 'USD');
INSERT INTO budget_marks (campaign_id, currency, used, told) VALUES
    ('theirs', 'EUR', 7, 0), ('camp', 'EUR', 4, 0), ('moved', 'EUR', 9, 0);
INSERT INTO games (game_id, campaign_id, type, status) VALUES
    ('g3', 'camp', 'spin', 'active'), ('g1', 'camp', 'spin', 'active'), ('g2', 'camp', 'spin', 'paused'),
    ('g4', 'theirs', 'spin', 'active');
INSERT INTO game_revisions (game_id, revision, definition) SELECT game_id, 1, '{}' FROM games;
INSERT INTO quests (quest_id, campaign_id, type, turns, status, end_date) VALUES
    ('q3', 'camp', 'daily', 2, 'active', '2099-01-01'), ('q1', 'camp', 'daily', 1, 'active', NULL),
    ('q2', 'camp', 'daily', 0, 'active', NULL), ('q4', 'camp', 'daily', 1, 'draft', NULL),
    ('q5', 'camp', 'daily', 1, 'active', '2026-01-01'), ('q6', 'theirs', 'daily', 1, 'active', NULL);
INSERT INTO leaderboards (board_id, campaign_id, status, prizes) VALUES
    ('b1', 'camp', 'active', '[1]'), ('b2', 'camp', 'finalized', '[2]'), ('b3', 'theirs', 'active', '[3]');
INSERT INTO prizes (prize_id, channel) VALUES ('p3', 'voucher_code'), ('p1', 'none'), ('p2', 'voucher_code');
INSERT INTO stock (prize_id, total, remaining, awarded) VALUES ('p2', 2, 2, 0), ('p1', 1, 1, 0), ('p3', 3, 3, 0);
INSERT INTO codes (prize_id, code_id, code_hash, reward_id, withdrawn_at, expires_at) VALUES
    ('p3', 'c1', '1', NULL, NULL, DEFAULT), ('p3', 'c2', '2', 'r2', NULL, DEFAULT),
    ('p3', 'c3', '3', NULL, now(), DEFAULT),
    ('p1', 'c5', '5', NULL, NULL, DEFAULT), ('p2', 'c6', '6', 'r6', NULL, DEFAULT);
INSERT INTO integrations (integration_id, campaign_id, merchant_id, type, status) VALUES
    ('i1', '', '', 'webhook', 'active'), ('i2', 'camp', '', 'crm', 'active'), ('i3', '', 'shop', 'webhook', 'active'),
    ('i4', '', 'other', 'of another', 'active'), ('i5', 'theirs', '', 'elsewhere', 'active'),
    ('i6', 'camp', 'shop', 'paused', 'paused'), ('i7', 'camp', 'shop', 'analytics', 'active');
"""
)

LOOKED_AT: Final[list[tuple[str, tuple[Any, ...], str]]] = [
    ("campaign", ("camp", ""), "camp"),
    ("campaign", ("camp", "shop"), "camp"),
    ("campaign", ("theirs", "shop"), ""),
    ("games", ("camp",), "g1 g3"),
    ("boards", ("camp",), "[1]"),
    ("prizes", (["p3", "p2"],), "p2 p3"),
    ("quests", ("camp",), "q1 q3"),
    ("integrations", ("camp",), "analytics crm webhook"),
]


async def test_launch_check_reads_rows_of_its_campaign_alone(connection: asyncpg.Connection) -> None:
    assert await wrong_answers(connection, "launch", LOOKED_AT) == []
    async with connection.transaction():  # In which now() is one moment.
        await connection.execute("UPDATE quests SET end_date = now() WHERE quest_id = 'q3'")
        assert [row[0] for row in await ask(connection, "launch.quests", "camp")] == ["q1"]
    used = [(await ask(connection, "launch.campaign", name, ""))[0][7] for name in ("camp", "moved")]
    assert used == [4, 0], "what was used of another currency is nothing of this budget"


async def test_launch_check_reads_a_prize_with_its_stock_and_free_codes(connection: asyncpg.Connection) -> None:
    async with connection.transaction():
        await connection.execute("""INSERT INTO codes (prize_id, code_id, code_hash, expires_at) VALUES
            ('p3', 'c4', '4', now()), ('p3', 'c7', '7', now() + interval '1 microsecond')""")
        rows = await ask(connection, "launch.prizes", ["p1", "p2", "p3"])
        found = [(row[0], row[9], row[11], row[12]) for row in rows]
        assert found == [("p1", 1, None, True), ("p2", 2, 0, False), ("p3", 3, 2, False)]
        for change in ("expires_at = now()", "reward_id = 'r', expires_at = 'infinity'", "reward_id = NULL"):
            await connection.execute(f"UPDATE codes SET {change} WHERE code_id = 'c5'")
            [(*_, idle)] = await ask(connection, "launch.prizes", ["p1"])
            assert idle is (change == "reward_id = NULL"), change
        await connection.execute("UPDATE codes SET withdrawn_at = now() WHERE code_id = 'c5'")
        [(*_, idle)] = await ask(connection, "launch.prizes", ["p1"])
        assert idle is False
