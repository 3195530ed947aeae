"""Quests that count events from outside, and how far players are: each statement goes by one quest and one player."""

from __future__ import annotations

from typing import Any, Final

import asyncpg

from tests.support.bare_rows import BARE
from tests.support.locks import held
from tests.support.statements import ask_of_t as ask

SCENE: Final = (
    BARE
    + """
INSERT INTO merchants (merchant_id, status) VALUES ('other', 'suspended'), ('shop', 'active');
INSERT INTO campaigns (campaign_id, merchant_id, status) VALUES
    ('theirs', 'other', 'active'), ('camp', 'shop', 'active'), ('draft', 'shop', 'draft');
INSERT INTO quests (quest_id, campaign_id, type, status, condition, signing) VALUES
    ('q3', 'camp', 'daily', 'active', '{"kind": "event", "count": 3}', '{"secret": "3"}'),
    ('q2', 'theirs', 'weekly', 'active', '{"kind": "event", "count": 2}', '{"secret": "2"}'),
    ('q5', 'camp', 'daily', 'active', '{"kind": "plays", "count": 5}', '{"secret": "5"}'),
    ('q1', 'camp', 'one_time', 'active', NULL, '{}'),
    ('q4', 'camp', 'daily', 'draft', '{"kind": "event", "count": 4}', '{}'),
    ('q6', 'draft', 'daily', 'active', '{"kind": "event", "count": 6}', '{}');
INSERT INTO players (player_id, merged_into) VALUES ('bob', NULL), ('ann', NULL), ('gus', 'ann');
INSERT INTO quest_events (quest_id, event_id, player_id) VALUES
    ('q2', 'e2', 'bob'), ('q3', 'e3', 'ann'), ('q3', 'e4', 'bob'), ('q3', 'e5', 'ann');
"""
)


async def test_quest_secret_is_read_locked_and_rotated_alone(
    connection: asyncpg.Connection, pool: asyncpg.Pool
) -> None:
    assert await ask(connection, "quest_events.receiver", "q3") == [('{"secret": "3"}',)]
    assert await ask(connection, "quest_events.receiver", "q5") == []
    async with pool.acquire() as rival, connection.transaction():
        assert await ask(connection, "quest_events.lock", "q3") == [('{"secret": "3"}',)]
        assert await held(rival, "quests", "quest_id") == {"q3"}
    for quest, rotated in (("q5", []), ("q3", ["q3"])):
        assert [row[0] for row in await ask(connection, "quest_events.rotate", quest, '{"secret": "n"}')] == rotated
    rows = await connection.fetch("SELECT quest_id FROM quests WHERE signing ->> 'secret' = 'n'")
    assert [row[0] for row in rows] == ["q3"]


LOOKED_AT: Final[list[tuple[tuple[str, str, str], list[tuple[Any, ...]]]]] = [
    # The quest, the player and the event: merchant_suspended, player_status, merged_into and told_of.
    (("q3", "ann", "e3"), [(False, "active", None, "ann")]),
    (("q3", "gus", "e4"), [(False, "active", "ann", "bob")]),
    (("q3", "nobody", "e2"), [(False, None, None, None)]),
    (("q2", "bob", "e3"), [(True, "active", None, None)]),
    (("q5", "ann", "e3"), []),
    (("q9", "ann", "e3"), []),
]


async def test_quest_event_is_read_with_its_quest_and_player(connection: asyncpg.Connection) -> None:
    for asked, found in LOOKED_AT:
        assert [row[6:10] for row in await ask(connection, "quest_events.for_event", *asked)] == found, asked


NOTED: Final[list[tuple[tuple[str, str, str], bool]]] = [
    (("q3", "ann", "e3"), False),  # It was told before.
    (("q3", "ann", "e2"), True),  # As one of another quest.
    (("q3", "gus", "new"), False),  # Who is ann by now.
    (("q3", "nobody", "new"), False),
    (("q4", "ann", "new"), False),
    (("q5", "ann", "new"), False),
    (("q6", "ann", "new"), False),
    (("q9", "ann", "new"), False),
]


async def test_quest_event_is_noted_once_for_an_existing_player(
    connection: asyncpg.Connection, pool: asyncpg.Pool
) -> None:
    query = "SELECT quest_id, event_id, player_id FROM quest_events"
    for asked, noted in NOTED:
        before = {tuple(row) for row in await connection.fetch(query)}
        async with connection.transaction(), pool.acquire() as rival:
            assert len(await ask(connection, "quest_events.note", *asked)) == noted, asked
            if noted:
                assert await held(rival, "players", "player_id") == {"ann"}
                assert await held(rival, "quests", "quest_id") == {"q3"}
        after = {tuple(row) for row in await connection.fetch(query)}
        assert after - before == ({(asked[0], asked[2], asked[1])} if noted else set()), asked


DONE: Final = """
INSERT INTO quest_completions (quest_id, player_id, period, completed_at) VALUES
    ('q3', 'ann', 'd2', now()), ('q3', 'ann', 'd1', now() - interval '9 days' + interval '1 microsecond'),
    ('q3', 'ann', 'd0', now() - interval '9 days'), ('q3', 'bob', 'd3', now()), ('q2', 'ann', 'w1', now()),
    ('q1', 'ann', 'once', now() - interval '1 year'), ('q4', 'ann', 'd4', now()), ('q6', 'ann', 'd6', now());
UPDATE campaigns SET timezone = 'Europe/Paris' WHERE campaign_id = 'camp';
INSERT INTO campaigns (tenant_id, campaign_id, timezone) VALUES ('u', 'camp', 'Asia/Tokyo');
INSERT INTO quests (tenant_id, quest_id, campaign_id, type, status) VALUES ('u', 'q3', 'camp', 'daily', 'active');
INSERT INTO quest_completions (tenant_id, quest_id, player_id, period, completed_at) VALUES
    ('u', 'q3', 'ann', 'd3', now());
"""


async def test_quests_of_a_player_are_public_ones_with_recent_completions(connection: asyncpg.Connection) -> None:
    async with connection.transaction():  # In which now() is one moment.
        await connection.execute(DONE)

        async def own(*asked: Any) -> list[str]:
            return [row[0] for row in await ask(connection, "quests.own", *asked)]

        assert await own("", "ann", None, 9) == ["q5", "q3", "q2", "q1"]
        assert await own("camp", "ann", None, 9) == ["q5", "q3", "q1"]
        assert await own("", "ann", "q3", 9) == ["q2", "q1"]
        assert await own("", "ann", None, 2) == ["q5", "q3"]
        done = {row[0]: sorted(row[-1]) for row in await ask(connection, "quests.own", "", "ann", None, 9) if row[-1]}
        assert done == {"q3": ["d1", "d2"], "q2": ["w1"], "q1": ["once"]}

        async def completed(*campaigns: str) -> list[tuple[Any, ...]]:
            return [row[:5] for row in await ask(connection, "quests.completed", "ann", list(campaigns))]

        assert await completed("camp") == [
            ("camp", "q1", "one_time", "Europe/Paris", "once"),
            *(("camp", "q3", "daily", "Europe/Paris", day) for day in ("d1", "d2")),
        ]
        assert [row[1::3] for row in await completed("theirs", "draft")] == [("q2", "w1"), ("q6", "d6")]


async def test_progress_is_answered_of_quests_with_a_condition(connection: asyncpg.Connection) -> None:
    told = await ask(connection, "quests.progress", "ann", ["q3", "q2", "q1"], [0, 0, 0])
    assert sorted(told) == [("q2", 0, 2), ("q3", 2, 3)]
