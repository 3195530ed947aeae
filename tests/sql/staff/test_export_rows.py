"""What is exported: all that is asked for and who asks may see, in the order of its keys, a part at a time."""

from __future__ import annotations

from typing import Any, Final

import asyncpg

from tests.support.bare_rows import BARE
from tests.support.statements import ask_of_t as ask
from tests.support.statements import undone

SCENE: Final = (
    BARE
    + """
INSERT INTO campaigns (campaign_id, merchant_id) VALUES ('camp', 'shop'), ('theirs', 'other');
INSERT INTO games (game_id, campaign_id) VALUES ('camp', 'camp'), ('theirs', 'theirs'), ('lost', 'lost');
INSERT INTO players (player_id, display_name) VALUES ('ann', 'Ann'), ('bob', 'Bob');
INSERT INTO quests (quest_id, type) VALUES ('q', 'daily');
INSERT INTO leaderboards (board_id) VALUES ('a'), ('b'), ('c'), ('d');
CREATE TEMPORARY TABLE parts AS SELECT * FROM (VALUES
    ('i5', 'camp', 10), ('i3', 'theirs', 10), ('i1', 'camp', 20), ('i2', 'lost', 15), ('i4', 'camp', 19)
) AS p (id, of, at);
CREATE TEMPORARY TABLE keys AS SELECT * FROM (VALUES
    ('c', 'ann'), ('a', 'ann'), ('b', 'ann'), ('d', 'bob')
) AS k (key, player);
"""
)
"""What is of three campaigns, of which one is not there any more."""

PARTS: Final = {
    "plays": "plays (play_id, game_id, played_at, player_id) SELECT id, of, to_timestamp(at), 'ann' FROM parts",
    "rewards": "rewards (reward_id, campaign_id, won_at) SELECT id, of, to_timestamp(at) FROM parts",
    "winners": "rewards (reward_id, campaign_id, won_at, player_id) SELECT id, of, to_timestamp(at), 'ann' FROM parts",
    "tasks": "tasks (task_id, reward_id, campaign_id, created_at) SELECT id, id, of, to_timestamp(at) FROM parts",
    "audit": "audit_entries (entry_id, merchant_id, after, created_at)"
    " SELECT id, CASE of WHEN 'camp' THEN 'shop' ELSE '' END,"
    " jsonb_build_object('campaign_id', of), to_timestamp(at) FROM parts",
    "ledger": "ledger_entries (player_id, seq, entry_id, scope_key, created_at, reason)"
    " SELECT 'ann', 1, id, of, to_timestamp(at), 'adjustment' FROM parts",
}

ASKED: Final[list[tuple[tuple[Any, ...], str, int, str]]] = [
    # merchant, campaign, from, until; after and how many are looked at: which are found.
    (("", "", 0, 0), "", 9, "i1 i2 i3 i4 i5"),
    (("", "", 0, 0), "i2", 9, "i3 i4 i5"),
    (("", "", 0, 0), "", 2, "i1 i2"),
    (("shop", "", 0, 0), "", 9, "i1 i4 i5"),
    (("", "theirs", 0, 0), "", 9, "i3"),
    (("", "", 15, 0), "", 9, "i1 i2 i4"),
    (("", "", 0, 19), "", 9, "i2 i3 i5"),
    (("", "none", 0, 0), "", 9, "None"),
]


async def test_export_part_is_filtered_and_ordered_by_key(connection: asyncpg.Connection) -> None:
    for name, values in PARTS.items():
        async with undone(connection):
            await connection.execute(f"INSERT INTO {values}")
            for asked, after, most, found in ASKED:
                key = ("ann" if after else "", 1 if after else 0, after) if name == "ledger" else (after,)
                rows = await ask(connection, f"exports.{name}", *asked, *key, most)
                column = 4 if name == "ledger" else 2
                assert [str(row[column]) for row in rows] == found.split(), (name, asked)
                looked_at = [one for one in ("i1", "i2", "i3", "i4", "i5") if one > after][:most]
                last = f"1/{looked_at[-1]}/ann" if name == "ledger" else looked_at[-1]
                assert {row[:2] for row in rows} == {(last, len(looked_at))}, (name, asked)


async def test_export_for_a_merchant_has_its_own_and_the_tenants_wallets(connection: asyncpg.Connection) -> None:
    await connection.execute("""INSERT INTO ledger_entries (player_id, entry_id, scope_key, reason)
        SELECT 'ann', scope, scope, 'adjustment' FROM unnest(ARRAY['t', 'shop', 'camp', 'other', 'theirs']) AS scope""")
    rows = await ask(connection, "exports.ledger", "shop", "", 0, 0, "", 0, "", 9)
    assert [row[4] for row in rows] == ["camp", "shop", "t"]


async def test_export_of_audit_entries_includes_changes_of_the_campaign_itself(connection: asyncpg.Connection) -> None:
    await connection.execute("""INSERT INTO audit_entries (entry_id, subject_type, subject_id, before, after) VALUES
        ('a1', 'campaign', 'camp', NULL, '{}'), ('a2', 'campaign', 'theirs', NULL, '{}'),
        ('a3', 'game', 'camp', '{}', '{}'),
        ('a4', 'game', 'g', '{"campaign_id": "camp"}', '{}'), ('a5', 'game', 'g', '{}', '{"campaign_id": "camp"}')""")
    rows = await ask(connection, "exports.audit", "", "camp", 0, 0, "", 9)
    assert [row[2] for row in rows] == ["a1", "a4", "a5"]


async def test_export_has_a_rewards_present_status_and_its_winners_contacts(connection: asyncpg.Connection) -> None:
    await connection.execute("""INSERT INTO rewards (reward_id, player_id, campaign_id, status, expires_at) VALUES
        ('r1', 'ann', 'camp', 'won', '2026-01-01'), ('r2', 'ann', 'camp', 'won', '2026-01-01'),
        ('r3', 'nobody', 'camp', 'revoked', NULL), ('r4', 'nobody', 'camp', 'won', NULL),
        ('r5', 'cas', 'camp', 'won', NULL);
        INSERT INTO tasks (task_id, reward_id) VALUES ('t2', 'r2');
        INSERT INTO codes (code_id, reward_id) VALUES ('c4', 'r4');
        INSERT INTO contacts (contact_id, player_id, type, value) VALUES ('x1', 'ann', 'email', 'm@x'),
            ('x2', 'ann', 'phone', 'p'), ('x3', 'bob', 'email', 'a@x'), ('x4', 'bob', 'phone', 'a'),
            ('x5', 'cas', 'email', 'q@x'), ('x6', 'cas', 'phone', 'o')""")
    asked = ("", "camp", 0, 0, "", 9)
    rewards = await ask(connection, "exports.rewards", *asked)
    assert [(row[2], row[13], row[17]) for row in rewards] == [
        *(
            ("r1", "expired", None),
            ("r2", "won", None),
            ("r3", "revoked", None),
            ("r4", "won", "****"),
            ("r5", "won", None),
        ),
    ]
    winners = await ask(connection, "exports.winners", *asked)
    assert [(row[2], row[8], row[10], row[12], row[13]) for row in winners] == [
        *(("r2", "won", "Ann", "m@x", "p"), ("r4", "won", None, None, None), ("r5", "won", None, "q@x", "o")),
    ]


HELD: Final = {
    "contact": "contacts (contact_id, player_id, value) SELECT key, player, key FROM keys",
    "session": "logins (login_id, player_id) SELECT key, player FROM keys",
    "play": "plays (play_id, player_id) SELECT key, player FROM keys",
    "reward": "rewards (reward_id, player_id) SELECT key, player FROM keys",
    "delivery": "rewards (reward_id, player_id) SELECT 'of' || key, player FROM keys;"
    "INSERT INTO tasks (task_id, reward_id) SELECT key, 'of' || key FROM keys",
    "answer": "rewards (reward_id, player_id) SELECT 'for' || key, player FROM keys;"
    "INSERT INTO claim_answers (reward_id) SELECT 'for' || key FROM keys",
    "balance": "balances (scope_key, currency, player_id)"
    " SELECT CASE key WHEN 'c' THEN 'w' ELSE 'v' END, key, player FROM keys",
    "movement": "ledger_entries (seq, entry_id, player_id, reason)"
    " SELECT CASE key WHEN 'c' THEN 2 ELSE 1 END, key, player, 'adjustment' FROM keys",
    "turns": "turn_balances (campaign_id, player_id) SELECT key, player FROM keys",
    "turn_movement": "turn_entries (entry_id, player_id, reason) SELECT key, player, 'quest' FROM keys",
    "rung": "milestone_grants (game_id, milestone_id, player_id)"
    " SELECT CASE key WHEN 'c' THEN 'h' ELSE 'g' END, key, player FROM keys",
    "quest": "quest_completions (quest_id, event_id, player_id, period) SELECT 'q', key, player, key FROM keys;"
    "INSERT INTO quest_completions (quest_id, event_id, player_id) VALUES ('gone', 'aa', 'ann')",
    "quest_event": "quest_events (quest_id, event_id, player_id)"
    " SELECT CASE key WHEN 'c' THEN 'r' ELSE 'q' END, 'an event ' || key, player FROM keys",
    "standing": "leaderboard_standings (board_id, player_id) SELECT key, player FROM keys;"
    "INSERT INTO leaderboard_standings (board_id, player_id) VALUES ('aa', 'ann')",
    "score": "leaderboard_adjustments (board_id, entry_id, player_id) SELECT 'a', key, player FROM keys;"
    "INSERT INTO leaderboard_adjustments (board_id, entry_id, player_id) VALUES ('gone', 'aa', 'ann')",
    "disqualification": "leaderboard_disqualifications (board_id, player_id) SELECT key, player FROM keys;"
    "INSERT INTO leaderboard_disqualifications (board_id, player_id) VALUES ('aa', 'ann')",
}


async def test_sign_ins_are_exported_to_a_quarter_of_an_hour(connection: asyncpg.Connection) -> None:
    await connection.execute("""INSERT INTO login_quarters (player_id, quarter) SELECT who, at::timestamptz FROM (VALUES
        ('ann', '2026-03-02 00:15Z'), ('ann', '2026-03-01 23:45Z'), ('bob', '2026-03-01 00:00Z'),
        ('ann', '2026-03-02 00:00Z')) AS q (who, at)""")
    every = ["2026-03-01 23:45", "2026-03-02 00:00", "2026-03-02 00:15"]
    for after, most, found in ((None, 9, every), (None, 2, every[:2]), (every[0], 9, every[1:]), (every[2], 9, [])):
        assert [row[0] for row in await ask(connection, "exporting.signed_in", "ann", after, most)] == found, after


async def test_player_export_is_in_the_order_of_its_keys(connection: asyncpg.Connection) -> None:
    for name, values in HELD.items():
        await connection.execute(f"INSERT INTO {values}")

        async def keys(after: str | None, most: int, name: str = name) -> list[str]:
            return [row[0] for row in await ask(connection, f"exporting.{name}", "ann", after, most)]

        every = await keys(None, 9)
        assert [key[-1] for key in every] == ["a", "b", "c"] and len(set(every)) == 3, name
        assert await keys(every[0], 9) == every[1:], name
        assert await keys(None, 2) == every[:2], name
        await connection.execute(f"DELETE FROM {values.rpartition('INSERT INTO ')[2].partition(' ')[0]}")
    for after, most, found in ((None, 9, ["ann"]), ("aaa", 9, ["ann"]), ("ann", 9, []), (None, 0, [])):
        assert [row[0] for row in await ask(connection, "exporting.profile", "ann", after, most)] == found
