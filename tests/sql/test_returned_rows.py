from datetime import UTC, datetime
from typing import Final

import asyncpg

from tests.support.bare_rows import bare
from tests.support.statements import ask_of_t as ask
from tests.support.statements import undone

SCENE: Final = bare("""
INSERT INTO campaigns (campaign_id) VALUES ('camp'), ('other');
INSERT INTO campaign_marks (campaign_id) VALUES ('camp'), ('other');
INSERT INTO games (game_id, campaign_id) VALUES ('g1', 'camp'), ('g2', 'camp'), ('g3', 'other');
""")

KEPT: Final = "SELECT players, returned FROM campaign_marks WHERE campaign_id = $1"
COUNTED: Final = """SELECT count(*), count(*) FILTER (WHERE days > 1) FROM (
    SELECT count(*) AS days FROM campaign_player_days WHERE campaign_id = $1 GROUP BY player_id) AS p"""

COUNTINGS: Final[list[tuple[str, int, tuple[int, int]]]] = [
    # Plays (player, game, day of March) that come, up to which day they are counted; players, and who came back.
    *(("ann g1 1, ann g2 1, bob g1 1, eve g3 1", 2, (2, 0)), ("ann g1 2, cas g1 2, cas g1 2", 3, (3, 1))),
    *(("ann g1 3, ann g1 4, dan g1 3, dan g2 4, cas g1 9", 5, (4, 2)), ("bob g1 5, eve g1 5", 9, (5, 3))),
    ("", 10, (5, 4)),
]

DAYS: Final[list[tuple[str, str, tuple[int, int]]]] = [
    # Days of the guest, and of the player that it becomes; players, and who came back, when they are one.
    *(("1", "1", (1, 0)), ("1", "", (1, 0))),
    *((*days, (1, 1)) for days in (("1", "2"), ("1", "1 2"), ("1 2", "2"), ("1 2", "1 2"), ("1 2", ""), ("", "1 2"))),
]


async def test_player_of_a_second_day_has_returned_once(connection: asyncpg.Connection) -> None:
    nth = 0
    for plays, until, counted in COUNTINGS:
        for play in filter(None, plays.split(", ")):
            nth += 1
            player, game, day = play.split()
            insert = "INSERT INTO plays (play_id, player_id, game_id, played_at) VALUES ($1, $2, $3, $4)"
            await connection.execute(insert, f"p{nth}", player, game, datetime(2026, 3, int(day), 12, tzinfo=UTC))
        await ask(connection, "analytics.count_plays", "camp", datetime(2026, 3, until, tzinfo=UTC))
        found = await connection.fetchrow(KEPT, "camp")
        assert tuple(found) == tuple(await connection.fetchrow(COUNTED, "camp")) == counted, until
    assert tuple(await connection.fetchrow(KEPT, "other")) == (0, 0)
    await ask(connection, "analytics.reset_counts", "camp")
    assert tuple(await connection.fetchrow(KEPT, "camp")) == (0, 0)


async def test_guest_and_its_player_return_as_one(connection: asyncpg.Connection) -> None:
    faults = []
    for guest, player, merged in DAYS:
        async with undone(connection):
            await came_on(connection, guest=guest, player=player)
            await ask(connection, "analytics.merge_players", "guest", "player")
            for campaign, expected in (("camp", merged), ("other", (1, 0))):
                found = tuple(await connection.fetchrow(KEPT, campaign))
                if not found == tuple(await connection.fetchrow(COUNTED, campaign)) == expected:
                    faults.append((guest, player, campaign, found))
    assert faults == []


async def came_on(connection: asyncpg.Connection, **days_of: str) -> None:
    for who, days in days_of.items():
        for day in days.split():
            await connection.execute(
                f"""INSERT INTO campaign_player_days (player_id, campaign_id, day)
                    VALUES ('{who}', 'camp', '2026-03-0{day}'), ('{who}', 'other', '2026-03-01')
                    ON CONFLICT DO NOTHING;
                    INSERT INTO campaign_days (campaign_id, day) VALUES ('camp', '2026-03-0{day}')
                    ON CONFLICT DO NOTHING"""
            )
    for campaign in ("camp", "other"):
        change = "UPDATE campaign_marks SET players = $2, returned = $3 WHERE campaign_id = $1"
        await connection.execute(change, *(campaign, *await connection.fetchrow(COUNTED, campaign)))
