"""Campaigns and the audit log: each statement names what goes with a campaign, and leaves what is like it alone."""

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
INSERT INTO audit_entries (tenant_id, entry_id, actor, action, subject_type, subject_id, merchant_id, created_at) VALUES
    ('t', 'a2', 'ann', 'x', 'game', 'g1', '', to_timestamp(20)),
    ('t', 'a4', 'ann', 'y', 'game', 'g1', '', to_timestamp(40)),
    ('t', 'a1', 'bea', 'x', 'game', 'g1', '', to_timestamp(10)),
    ('t', 'a3', 'ann', 'x', 'prize', 'g1', 'shop', to_timestamp(30)),
    ('t', 'a5', 'ann', 'x', 'game', 'g2', 'shop', to_timestamp(50));
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


NOTED: Final[list[tuple[tuple[Any, ...], str, str, str, str]]] = [
    # Asked for; what is noted of it, of game g1, by ann, and of games.
    ((), "a5 a4 a3 a2 a1", "a4 a3 a2 a1", "a5 a4 a3 a2", "a5 a4 a2 a1"),
    (("subject_type", "game"), "a5 a4 a2 a1", "a4 a2 a1", "a5 a4 a2", "a5 a4 a2 a1"),
    (("actor", "bea"), "a1", "a1", "a5 a4 a3 a2", "a1"),
    (("subject_id", "g2"), "a5", "a4 a3 a2 a1", "a5", "a5"),
    (("merchant", "shop"), "a5 a3", "a3", "a5 a3", "a5"),
    (("action", "y"), "a4", "a4", "a4", "a4"),
    (("since", 30), "a5 a4 a3", "a4 a3", "a5 a4 a3", "a5 a4"),
    (("until", 30), "a2 a1", "a2 a1", "a2", "a2 a1"),
    (("words", "%Y%"), "a4", "a4", "a4", "a4"),
    (("least_id", "a3"), "a5 a4 a3", "a4 a3", "a5 a4 a3", "a5 a4"),
    (("too_great_id", "a3"), "a2 a1", "a2 a1", "a2", "a2 a1"),
    (("after", "a3"), "a2 a1", "a2 a1", "a2", "a2 a1"),
    (("since", 40), "a5 a4", "a4", "a5 a4", "a5 a4"),
    (("until", 40), "a3 a2 a1", "a3 a2 a1", "a3 a2", "a2 a1"),
    (("least_id", "a4"), "a5 a4", "a4", "a5 a4", "a5 a4"),
    (("too_great_id", "a4"), "a3 a2 a1", "a3 a2 a1", "a3 a2", "a2 a1"),
    (("after", "a4"), "a3 a2 a1", "a3 a2 a1", "a3 a2", "a2 a1"),
    (("most", 2), "a5 a4", "a4 a3", "a5 a4", "a5 a4"),
]


async def test_audit_list_applies_every_filter_newest_first(connection: asyncpg.Connection) -> None:
    every: dict[str, Any] = dict.fromkeys(("subject_type", "subject_id", "actor", "merchant", "action"), "")
    every |= {"since": 0, "until": 0, "words": "%", "least_id": "", "too_great_id": "~", "after": None, "most": 9}
    for filtered, *named in NOTED:
        asked = every | dict([filtered] if filtered else [])
        ways = {"list": {}, "list_of_subject": {"subject_id": "g1"}, "list_of_actor": {"actor": "ann"}}
        ways["list_of_type"] = {"subject_type": "game"}
        for (name, of), expected in zip(ways.items(), named, strict=True):
            rows = await ask(connection, f"audit.{name}", *(asked | of).values())
            assert " ".join(row[0] for row in rows) == expected, (name, filtered)


async def test_campaign_update_writes_one_campaign_at_its_revision(connection: asyncpg.Connection) -> None:
    written = ("New", "shop", "ended", 0, 0, 0, "Asia/Tokyo", "{}", ["https://x.example"], 9.5, "EUR", 0)
    assert [row[:3] for row in await ask(connection, "campaigns.update", "c3", *written)] == [("c3", "New", "shop")]
    rows = await connection.fetch("SELECT campaign_id, name, timezone FROM campaigns ORDER BY 1")
    assert [tuple(row) for row in rows] == [("c1", "Fair", "UTC"), ("c2", "Autumn", "UTC"), ("c3", "New", "Asia/Tokyo")]
    assert await ask(connection, "campaigns.update", "c9", *written) == []
    for over, rows in ((1, []), (3, []), (2, ["c3"])):
        assert [row[0] for row in await ask(connection, "campaigns.update", "c3", *written[:-1], over)] == rows, over
    revisions = await connection.fetch("SELECT revision FROM campaigns ORDER BY campaign_id")
    assert [row["revision"] for row in revisions] == [1, 1, 3]


async def test_copied_integration_is_paused(connection: asyncpg.Connection) -> None:
    await ask(connection, "campaigns.copy_integration", "i1", '{"integration_id": "new", "campaign_id": "c1"}')
    rows = await connection.fetch("SELECT integration_id, campaign_id FROM integrations WHERE status = 'paused'")
    assert [tuple(row) for row in rows] == [("new", "c1")]


GRANT: Final = "INSERT INTO milestone_grants (tenant_id, player_id, milestone_id, game_id) VALUES ('t', 'ann', 'm', $1)"
PLAYED: Final = """
INSERT INTO game_players (tenant_id, player_id, game_id, plays, day, day_plays)
VALUES ('t', 'ann', $1, 1, '2026-01-01', 1)
"""


@pytest.mark.parametrize("moves", [GRANT, PLAYED])
async def test_merchants_wallet_is_moved_only_by_games_that_credit_it(
    connection: asyncpg.Connection, moves: str
) -> None:
    async def told() -> list[tuple[Any, ...]]:
        return await ask(connection, "campaigns.merchants_wallet", "c3")

    assert await told() == [(False, False)]
    await connection.execute("""UPDATE game_revisions SET definition = '{"wallet_scope": "merchant"}'
                                WHERE game_id IN ('g1', 'g4')""")
    assert await told() == [(True, False)]
    for other in ("g2", "g4"):
        await connection.execute(moves, other)
    assert await told() == [(True, False)], "one credits another wallet, one is another campaign's"
    await connection.execute(moves, "g1")
    assert await told() == [(True, True)]
