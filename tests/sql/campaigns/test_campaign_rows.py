"""Campaigns: each statement names what goes with a campaign, and leaves what is like it alone."""

from __future__ import annotations

from typing import Any, Final

import asyncpg
import pytest

from tests.support.statements import ask_of_t as ask

SCENE: Final = """
INSERT INTO tenants (tenant_id, name) VALUES ('t', 'T');
INSERT INTO campaigns (tenant_id, campaign_id, merchant_id, name, status) VALUES
    ('t', 'c2', 'shop', 'Autumn', 'draft'), ('t', 'c3', '', 'Fair', 'active'), ('t', 'c1', 'other', 'Fair', 'active');
INSERT INTO games (tenant_id, game_id, campaign_id, name, type, status) VALUES
    ('t', 'g2', 'c3', 'G', 'spin', 'active'), ('t', 'g1', 'c3', 'G', 'spin', 'draft'),
    ('t', 'g3', 'c3', 'G', 'spin', 'archived'), ('t', 'g4', 'c1', 'G', 'spin', 'active');
INSERT INTO game_revisions (tenant_id, game_id, revision, definition)
    SELECT tenant_id, game_id, 1, '{"wallet_scope": "campaign"}' FROM games;
INSERT INTO prizes (tenant_id, prize_id, campaign_id, name, type, status) VALUES
    ('t', 'p2', 'c3', 'Mug', 'goods', 'active'), ('t', 'p1', 'c3', 'Mug', 'goods', 'active'),
    ('t', 'p3', 'c3', 'Mug', 'goods', 'archived'), ('t', 'p4', '', 'Mug', 'goods', 'active'),
    ('t', 'p5', '', 'Mug', 'goods', 'active'), ('t', 'p6', 'c1', 'Mug', 'goods', 'active');
INSERT INTO leaderboards (tenant_id, board_id, campaign_id, game_id, name, metric, mode, status) VALUES
    ('t', 'b2', 'c3', '', 'B', 'score', 'sum', 'active'), ('t', 'b1', 'c3', '', 'B', 'score', 'sum', 'active'),
    ('t', 'b3', 'c3', '', 'B', 'score', 'sum', 'archived'), ('t', 'b4', 'c1', '', 'B', 'score', 'sum', 'active'),
    ('t', 'b5', 'c3', '', 'B', 'score', 'sum', 'finalized'), ('t', 'b6', 'c3', 'g1', 'B', 'score', 'sum', 'finalized'),
    ('t', 'b7', 'c3', 'g1', 'B', 'score', 'sum', 'archived'), ('t', 'b8', 'c3', 'g2', 'B', 'score', 'sum', 'finalized');
INSERT INTO quests (tenant_id, quest_id, campaign_id, name, type, turns, status) VALUES
    ('t', 'q1', 'c3', 'Q', 'daily', 1, 'active'), ('t', 'q2', 'c3', 'Q', 'daily', 1, 'active'),
    ('t', 'q0', 'c3', 'Q', 'daily', 1, 'active'), ('t', 'q3', 'c3', 'Q', 'daily', 1, 'draft'),
    ('t', 'q4', 'c1', 'Q', 'daily', 1, 'active'), ('t', 'q5', 'c3', 'Q', 'daily', 1, 'archived');
INSERT INTO integrations (tenant_id, integration_id, campaign_id, type, events) VALUES
    ('t', 'i2', 'c3', 'webhook', '{}'), ('t', 'i1', 'c3', 'webhook', '{}'), ('t', 'i3', 'c1', 'webhook', '{}'),
    ('t', 'i4', '', 'webhook', '{}');
"""
"""What goes with campaign c3, out of its order, and beside each of it what differs in one thing."""

FIRST: Final = None

GOES_WITH: Final[list[tuple[str, tuple[Any, ...], str]]] = [
    ("campaigns.list", ("", "%", "", "c3", 9), "c2 c1"),
    ("campaigns.list", ("", "%", "", FIRST, 2), "c3 c2"),
    ("campaigns.list", ("", "%", "shop", FIRST, 9), "c3 c2"),
    ("campaigns.get", ("c1", "", True), "c1"),
    ("campaigns.get", ("c2", "shop", True), "c2"),
    ("campaigns.get", ("c3", "shop", False), "c3"),
    ("campaigns.get", ("c3", "shop", True), ""),
    ("campaigns.get", ("c1", "shop", False), ""),
    ("campaigns.live_boards", ("c3",), "b1 b2"),
    ("campaigns.active_quests", ("c3", 9), "q2 q1 q0"),
    ("campaigns.active_quests", ("c3", 2), "q2 q1"),
    ("campaigns.games_to_copy", ("c3",), "g1 g2"),
    ("campaigns.prizes_to_copy", ("c3", ["p4", "p3", "p6"], ""), "p1 p2 p4"),
    ("campaigns.prizes_to_copy", ("c3", ["p4"], "shop"), "p1 p2"),
    ("campaigns.boards_to_copy", ("c3", ["g1"]), "b1 b2 b5 b6"),
    ("campaigns.quests_to_copy", ("c3",), "q0 q1 q2 q3"),
    ("campaigns.integrations_to_copy", ("c3",), "i1 i2"),
]


@pytest.mark.parametrize(("name", "asked", "named"), GOES_WITH)
async def test_campaign_statements_return_what_belongs_to_the_campaign(
    connection: asyncpg.Connection, name: str, asked: tuple[Any, ...], named: str
) -> None:
    assert [row[0] for row in await ask(connection, name, *asked)] == named.split()
