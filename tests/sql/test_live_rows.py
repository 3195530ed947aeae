"""What happens now, and what was played in test mode: of the last while, and of what who asks may see."""

from __future__ import annotations

from typing import Final

import asyncpg

from tests.support.bare_rows import BARE
from tests.support.statements import ask_of_t as ask

SCENE: Final = (
    BARE
    + """
INSERT INTO campaigns (campaign_id, merchant_id) VALUES ('camp', 'shop'), ('theirs', 'other');
INSERT INTO games (game_id, campaign_id) VALUES ('camp', 'camp'), ('theirs', 'theirs');
"""
)


async def test_live_figures_count_plays_of_a_minute_and_wins_of_a_day(connection: asyncpg.Connection) -> None:
    async with connection.transaction():  # In which now() is one moment.
        await connection.execute("""
            INSERT INTO plays (play_id, game_id, wins, played_at) VALUES
                ('p1', 'camp', 1, now() - interval '59 seconds'), ('p2', 'camp', 0, now()), ('p3', 'theirs', 1, now()),
                ('p4', 'camp', 1, now() - interval '60 seconds'), ('p5', 'lost', 0, now());
            INSERT INTO rewards (reward_id, prize_id, campaign_id, quantity, value, status, won_at) VALUES
                ('r2', 'mug', 'camp', 2, 3, 'won', now() - interval '23 hours'),
                ('r3', 'mug', 'theirs', 1, 5, 'won', now()), ('r6', 'cup', 'lost', 1, 4, 'won', now()),
                ('r1', 'mug', 'camp', 7, 3, 'won', now()), ('r4', 'mug', 'camp', 7, 3, 'revoked', now()),
                ('r5', 'mug', 'camp', 7, 3, 'won', now() - interval '24 hours');
            INSERT INTO rewards (reward_id, prize_id, campaign_id, type, quantity, value) VALUES
                ('r7', 'coins', 'camp', 'points', 2, 500), ('r8', 'spins', 'camp', 'turns', 3, 5);
            INSERT INTO prizes (prize_id, currency) VALUES ('mug', 'EUR'), ('coins', 'EUR'), ('tee', 'USD')""")
        counts = [("coins", 2, 0.0, "EUR"), ("spins", 3, 0.0, "")]
        for merchant, plays, won in (
            ("", (4, 2), [*counts, ("cup", 1, 4.0, ""), ("mug", 3, 11.0, "EUR")]),
            ("shop", (2, 1), [*counts, ("mug", 2, 6.0, "EUR")]),
        ):
            assert [row[:2] for row in await ask(connection, "live.plays", merchant)] == [plays]
            assert sorted(await ask(connection, "live.won", merchant, "r1")) == sorted(won)


async def test_live_deliveries_are_counted_up_to_a_limit(connection: asyncpg.Connection) -> None:
    await connection.execute("""INSERT INTO tasks (task_id, reward_id, campaign_id, status)
        SELECT status || n || of, status || n || of, of, status
        FROM unnest('{pending,retry,dead,dead,delivered}'::text[]) WITH ORDINALITY AS s (status, n),
             unnest('{camp,theirs,lost}'::text[]) AS of""")
    for merchant, most, counted in (("", 99, (6, 6)), ("", 5, (5, 5)), ("shop", 99, (2, 2))):
        assert await ask(connection, "live.deliveries", merchant, most) == [counted], (merchant, most)


async def test_live_integrations_are_ordered_by_retries(connection: asyncpg.Connection) -> None:
    await connection.execute("""
        INSERT INTO integrations (integration_id, merchant_id, campaign_id, status) VALUES
            ('i3', 'shop', '', 'active'), ('i1', '', 'camp', 'active'), ('i2', '', 'theirs', 'active'),
            ('i4', 'other', 'camp', 'active'), ('i5', 'shop', '', 'paused'), ('i6', 'shop', '', 'active'),
            ('i7', '', 'lost', 'active');
        INSERT INTO integration_deliveries (integration_id, delivery_id, event_id, status, event, next_attempt_at)
            SELECT of, n, n, 'retry', '{}', now()
            FROM (VALUES ('i3', 1), ('i1', 2), ('i2', 1), ('i4', 1001), ('i5', 1), ('i7', 1)) AS o (of, many),
                 generate_series(1, many) AS n;
        INSERT INTO integration_deliveries (integration_id, delivery_id, event_id, status, event)
            VALUES ('i6', 'x', 'x', 'dead', NULL)""")
    shown = [(row[0], row[2]) for row in await ask(connection, "live.integrations", "")]
    assert shown == [("i4", 1000), ("i1", 2), ("i2", 1), ("i3", 1), ("i7", 1)]
    assert [row[0] for row in await ask(connection, "live.integrations", "shop")] == ["i1", "i3"]
    await connection.execute("""
        INSERT INTO integrations (integration_id) SELECT 'j' || n FROM generate_series(1, 9) AS n;
        INSERT INTO integration_deliveries (integration_id, delivery_id, event_id, status, event, next_attempt_at)
            SELECT 'j' || n, n, n, 'retry', '{}', now() FROM generate_series(1, 9) AS n""")
    assert len(await ask(connection, "live.integrations", "")) == 10


async def test_live_stock_is_shown_of_prizes_that_can_run_out(connection: asyncpg.Connection) -> None:
    await connection.execute("""INSERT INTO prizes (prize_id) VALUES ('mug'), ('cup'), ('free');
        INSERT INTO stock (prize_id, total, remaining, awarded) VALUES
            ('mug', 5, 3, 2), ('cup', 5, 4, 1), ('free', 0, 0, 1)""")
    assert await ask(connection, "live.stock", ["mug", "free"], 9) == [("mug", "", 3)]
    # A prize of codes has as many as are free, or as its stock has left, where that is fewer.
    await connection.execute("""
        INSERT INTO prizes (prize_id, channel) VALUES ('code', 'voucher_code'), ('both', 'voucher_code');
        INSERT INTO stock (prize_id, total, remaining, awarded) VALUES ('code', 0, 0, 0), ('both', 9, 2, 7);
        INSERT INTO codes (code_id, code_hash, prize_id, reward_id, withdrawn_at, expires_at)
            SELECT of || n, n::text::bytea, of, CASE WHEN n = 1 THEN 'r' || of END, CASE WHEN n = 2 THEN now() END,
                   CASE WHEN n = 3 THEN now() ELSE 'infinity' END
            FROM unnest('{code,both,mug}'::text[]) AS of, generate_series(1, 6) AS n""")
    # Where there are more than are counted, it is not known how many; its stock is.
    for most, code in ((9, 3), (3, 3), (2, None)):
        told = await ask(connection, "live.stock", ["mug", "free", "code", "both"], most)
        assert sorted((row[0], row[2]) for row in told) == [
            ("both", 2),
            *([("code", code)] if code else []),
            ("mug", 3),
        ]


async def test_test_runs_of_the_last_day_are_listed(connection: asyncpg.Connection) -> None:
    for game, kept in (("camp", 1), ("none", 0)):
        assert len(await ask(connection, "test_runs.keep", f"of {game}", game, 1, 1, "{}", "[]", "ann")) == kept
    async with connection.transaction():  # In which now() is one moment.
        await connection.execute("""DELETE FROM test_runs;
            INSERT INTO test_runs (run_id, game_id, created_at)
                SELECT id, game, now() - make_interval(hours => hours) FROM (VALUES
                    ('r4', 'camp', 1), ('r2', 'camp', 23), ('r3', 'camp', 2), ('r1', 'camp', 24),
                    ('x1', 'theirs', 1)) AS r (id, game, hours)""")
        for after, most, found in ((None, 9, "r4 r3 r2"), (None, 2, "r4 r3"), ("r4", 9, "r3 r2")):
            listed = [row[0] for row in await ask(connection, "test_runs.list", "camp", after, most)]
            assert listed == found.split()
