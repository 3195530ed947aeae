"""What a campaign gave, in figures: money apart from counts, and each currency by itself."""

from __future__ import annotations

from typing import Any, Final

import asyncpg

from tests.support.bare_rows import BARE
from tests.support.statements import ask_of_t as ask

SCENE: Final = (
    BARE
    + """
INSERT INTO prizes (prize_id, type, currency) VALUES
    ('mug', 'goods', 'EUR'), ('tee', 'goods', 'USD'), ('coins', 'points', 'EUR'), ('spins', 'turns', '');
"""
)


async def test_what_prizes_cost_is_of_their_currencies_and_counts_cost_nothing(connection: asyncpg.Connection) -> None:
    await connection.execute("""
        INSERT INTO rewards (reward_id, prize_id, campaign_id, type, quantity, value, status, play_id, game_id, name,
                             won_at) VALUES
            ('r1', 'mug', 'camp', 'goods', 2, 3, 'won', 'p', 'g', 'Mug', to_timestamp(10)),
            ('r2', 'mug', 'camp', 'goods', 1, 4, 'fulfilled', '', 'h', 'Mug', to_timestamp(20)),
            ('r3', 'mug', 'camp', 'goods', 1, 9, 'revoked', 'p', 'g', 'Mug', to_timestamp(10)),
            ('r4', 'mug', 'other', 'goods', 1, 9, 'won', 'p', 'g', 'Mug', to_timestamp(10)),
            ('r5', 'tee', 'camp', 'goods', 1, 20, 'claimed', 'p', 'g', 'Tee', to_timestamp(10)),
            ('r6', 'coins', 'camp', 'points', 2, 500, 'fulfilled', '', 'g', 'Coins', to_timestamp(10)),
            ('r7', 'spins', 'camp', 'turns', 3, 5, 'fulfilled', 'p', 'g', 'Spins', to_timestamp(10)),
            ('r8', 'gone', 'camp', 'goods', 1, 1, 'won', 'p', 'g', 'Gone', to_timestamp(10))""")

    async def told(until: str, game: str) -> list[tuple[Any, ...]]:
        bounds = await connection.fetchrow("SELECT to_timestamp(10) AS since, $1::text::timestamptz AS until", until)
        assert bounds is not None
        rows = await ask(connection, "figures.prizes", "camp", bounds["since"], bounds["until"], game)
        return [(row[0], row[1], row[2], row[4], row[5], row[6], row[7]) for row in rows]

    few = [("mug", "Mug", 2, 0, 2, 6.0, "EUR")]
    rest = [("gone", "Gone", 1, 0, 1, 1.0, ""), ("coins", "Coins", 0, 0, 2, 0.0, "EUR")]
    dear, turns = ("tee", "Tee", 1, 0, 1, 20.0, "USD"), ("spins", "Spins", 1, 1, 3, 0.0, "")
    assert await told("infinity", "") == [dear, ("mug", "Mug", 2, 0, 3, 10.0, "EUR"), *rest, turns]
    assert await told("1970-01-01 00:00:20+00", "") == [dear, *few, *rest, turns]
    assert await told("infinity", "g") == [dear, *few, *rest, turns]
