from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import asyncpg
import pytest

from tests.support.bare_rows import BARE, scene
from tests.support.statements import ask_of_t as ask

PRIZES: Final = "INSERT INTO prizes (prize_id, type, currency) VALUES ('mug', 'goods', 'EUR'), ('tee', 'goods', 'USD');"
SCENE: Final = BARE + PRIZES

NOON: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
QUARTER: Final = timedelta(minutes=15)
FOREVER: Final = (datetime.min, datetime.max)
"""As the driver gives infinities."""

PLAYED: Final = scene("""
+ campaigns campaign_id merchant_id timezone: camp '' Asia/Tokyo | shops shop UTC | theirs rival UTC;
+ games game_id campaign_id name: g camp Wheel | h camp Box | s shops Shop;
""")


ITEM: Final = '{"decided": {"metadata": {"item": "mug"}}}'
PATH: Final = '{"decided": {"path": [0, ["prize", "tee"]]}}'
LOSS: Final = "{}"


async def test_plays_are_counted_once_by_quarter_and_by_draw(connection: asyncpg.Connection) -> None:
    await connection.execute(PLAYED)
    second = timedelta(seconds=1)
    plays = (
        *(("g", second, 1, 1, ITEM), ("g", 2 * second, 1, 1, PATH), ("g", 3 * second, 1, 1, ITEM)),
        *(("g", QUARTER - second, 2, 0, LOSS), ("g", QUARTER, 2, 2, ITEM), ("h", QUARTER, 2, 0, LOSS)),
        ("s", -second, 1, 0, LOSS),
    )
    rows = [(f"p{nth}", game, NOON + after, *rest) for nth, (game, after, *rest) in enumerate(plays)]
    insert = "INSERT INTO plays (play_id, game_id, played_at, revision, wins, outcome, player_id)"
    await connection.executemany(f"{insert} VALUES ($1, $2, $3, $4, $5, $6, 'ann')", rows)
    mail = '{"utm_source": "mail"}'
    entries = [("camp", "ann", mail, False), ("camp", "bob", "{}", False), ("shops", "ann", mail, True)]
    # After the first pass: the plays before the entry count too, each once.
    values = [(*one, f"e{nth}", NOON + 10 * second) for nth, one in enumerate(entries)]
    entry = "INSERT INTO entries (campaign_id, player_id, source, has_guests, entry_id, created_at)"
    await connection.executemany(f"{entry} VALUES ($1, $2, $3, $4, $5, $6)", values)
    assert await ask(connection, "figures.age") == []
    await ask(connection, "figures.create_watermark")
    await ask(connection, "figures.create_watermark")
    assert await ask(connection, "figures.age") == [(None,)]
    mark: Any = None
    for until in (2 * second, QUARTER - second, QUARTER, QUARTER, timedelta(0), timedelta(days=1)):
        mark = await connection.fetchval("SELECT counted_until FROM figure_marks")
        await ask(connection, "figures.count_plays", NOON + until, mark)
    await ask(connection, "figures.count_plays", NOON, mark)
    assert await ask(connection, "figures.take_back", NOON + QUARTER + second) == [(NOON + QUARTER,)]
    await ask(connection, "figures.count_plays", NOON + timedelta(days=1), NOON + QUARTER)
    assert await connection.fetchval("SELECT counted_until FROM figure_marks") == NOON + timedelta(days=1)
    quarters = "SELECT game_id, quarter, plays, wins FROM game_quarters ORDER BY game_id, quarter"
    at = [("g", NOON, 4, 3), ("g", NOON + QUARTER, 1, 1), ("h", NOON + QUARTER, 1, 0)]
    assert [tuple(row) for row in await connection.fetch(quarters)] == [*at, ("s", NOON - QUARTER, 1, 0)]
    stored = await connection.fetch("SELECT game_id, quarter, source, plays, wins FROM game_sources ORDER BY 1, 2")
    assert [tuple(row) for row in stored] == [(*one[:2], "mail", *one[2:]) for one in at]
    for most, source in ((0, "other"), (1, "mail")):
        assert await ask(connection, "figures.sources", "camp", *FOREVER, "", most) == [(source, "", "", 6, 4)]
    ordered = await ask(connection, "views.entries", "camp", *FOREVER, 1)
    assert sorted(ordered) == [("", "", "", 1, 0), ("other", "", "", 1, 0)]
    draws = "SELECT game_id, quarter, revision, drawn, draws FROM game_draws ORDER BY game_id, quarter, revision, drawn"
    assert [tuple(row) for row in await connection.fetch(draws)] == [
        *(("g", NOON, 1, "mug", 2), ("g", NOON, 1, "tee", 1), ("g", NOON, 2, "", 1)),
        *(("g", NOON + QUARTER, 2, "mug", 1), ("h", NOON + QUARTER, 2, "", 1), ("s", NOON - QUARTER, 1, "", 1)),
    ]
    ((age,),) = await ask(connection, "figures.age")
    assert age == pytest.approx((datetime.now(UTC) - NOON - timedelta(days=1)).total_seconds(), abs=60)


async def test_figures_mark_under_a_lock_is_skipped(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    await ask(connection, "figures.create_watermark")
    async with pool.acquire() as rival, rival.transaction():
        assert len(await ask(rival, "figures.lock_watermark")) == 1
        assert await ask(connection, "figures.lock_watermark") == []
    assert len(await ask(connection, "figures.lock_watermark")) == 1


async def test_figures_bounds_are_of_the_campaigns_zone_and_readers(connection: asyncpg.Connection) -> None:
    await connection.execute(PLAYED)
    midnight = datetime(2026, 2, 28, 15, tzinfo=UTC)
    bounds = await ask(connection, "figures.campaign", "camp", "", "2026-03-01", "2026-03-02")
    assert bounds == [("Asia/Tokyo", midnight, midnight + timedelta(days=2), None)]
    await connection.execute("UPDATE campaigns SET timezone = 'America/Havana' WHERE campaign_id = 'theirs'")
    bounds = await ask(connection, "figures.campaign", "theirs", "", "2026-11-01", "2026-11-01")
    twice = datetime(2026, 11, 1, 4, tzinfo=UTC)  # Midnight comes twice.
    assert bounds[0][1:3] == (twice, twice + timedelta(hours=25))
    await ask(connection, "figures.create_watermark")
    assert (await ask(connection, "figures.campaign", "camp", "shop", "", ""))[0] == ("Asia/Tokyo", *FOREVER, 0)
    await connection.execute("UPDATE figure_marks SET counted_until = $1", NOON)
    assert (await ask(connection, "figures.campaign", "camp", "", "", ""))[0][3] == NOON.timestamp()
    for campaign, merchant, has in (("shops", "shop", 1), ("theirs", "shop", 0), ("theirs", "rival", 1), ("no", "", 0)):
        assert len(await ask(connection, "figures.campaign", campaign, merchant, "", "")) == has, (campaign, merchant)


async def test_prize_figures_leave_out_revoked_rewards_and_those_of_others(connection: asyncpg.Connection) -> None:
    await connection.execute("""
        INSERT INTO rewards (reward_id, prize_id, campaign_id, type, quantity, value, status, play_id, game_id, name,
                             won_at) VALUES
            ('r1', 'mug', 'camp', 'goods', 2, 3, 'won', 'p', 'g', 'Mug', to_timestamp(10)),
            ('r2', 'mug', 'camp', 'goods', 1, 4, 'fulfilled', '', 'h', 'Mug', to_timestamp(20)),
            ('r3', 'mug', 'camp', 'goods', 1, 9, 'revoked', 'p', 'g', 'Mug', to_timestamp(10)),
            ('r4', 'mug', 'other', 'goods', 1, 9, 'won', 'p', 'g', 'Mug', to_timestamp(10)),
            ('r5', 'gone', 'camp', 'goods', 1, 1, 'won', 'p', 'g', 'Gone', to_timestamp(10)),
            ('r6', 'mug', 'camp', 'goods', 5, 9, 'won', 'p', 'g', 'Mug', to_timestamp(9))""")

    async def prizes(until: int, game: str) -> list[tuple[Any, ...]]:
        bounds = (datetime.fromtimestamp(10, UTC), datetime.fromtimestamp(until, UTC))
        rows = await ask(connection, "figures.prizes", "camp", *bounds, game)
        return [(row[0], row[1], row[2], row[4], row[5], row[6], row[7]) for row in rows]

    few, gone = ("mug", "Mug", 2, 0, 2, 6.0, "EUR"), ("gone", "Gone", 1, 0, 1, 1.0, "")
    assert await prizes(21, "") == [("mug", "Mug", 2, 0, 3, 10.0, "EUR"), gone]
    assert await prizes(20, "") == [few, gone]
    assert await prizes(21, "g") == [few, gone]
    await connection.execute("UPDATE rewards SET fulfilled_at = won_at WHERE reward_id = 'r3'")
    assert await prizes(20, "") == [("mug", "Mug", 2, 0, 3, 15.0, "EUR"), gone]


async def test_figures_are_of_the_campaigns_games_in_a_half_open_interval(connection: asyncpg.Connection) -> None:
    await connection.execute(PLAYED)
    await connection.execute(
        scene("""
        + game_quarters game_id quarter plays wins: g '2026-03-01 14:00Z' 1 1 | g '2026-03-01 14:15Z' 2 1 |
            g '2026-03-01 15:00Z' 4 3 | h '2026-03-01 14:45Z' 8 5 | s '2026-03-01 14:00Z' 16 9;
        + game_starts game_id quarter starts: g '2026-03-01 14:00Z' 10 | g '2026-03-01 14:15Z' 20 |
            g '2026-03-01 15:00Z' 40 | s '2026-03-01 14:15Z' 80;
        INSERT INTO game_draws (game_id, quarter, revision, drawn, draws) VALUES
            ('g', '2026-03-01 14:00Z', 1, 'mug', 1), ('g', '2026-03-01 14:15Z', 1, 'mug', 2),
            ('g', '2026-03-01 15:00Z', 2, 'mug', 4), ('h', '2026-03-01 14:15Z', 1, 'mug', 5),
            ('s', '2026-03-01 14:15Z', 1, 'mug', 6)""")
    )
    since, until = NOON + timedelta(hours=2, minutes=15), NOON + timedelta(hours=3)
    every, some = ("camp", *FOREVER), ("camp", since, until)
    assert await ask(connection, "figures.games", *every, "") == [("g", "Wheel", 7, 5, 70), ("h", "Box", 8, 5, 0)]
    assert await ask(connection, "figures.games", *some, "") == [("g", "Wheel", 2, 1, 20), ("h", "Box", 8, 5, 0)]
    assert await ask(connection, "figures.games", *some, "g") == [("g", "Wheel", 2, 1, 20)]
    assert await ask(connection, "figures.games", *some, "s") == []
    first, second = date(2026, 3, 1), date(2026, 3, 2)
    assert await ask(connection, "figures.hours", *every, "", "Asia/Tokyo") == [(first, 23, 11, 7), (second, 0, 4, 3)]
    assert await ask(connection, "figures.hours", *some, "", "Asia/Tokyo") == [(first, 23, 10, 6)]
    assert await ask(connection, "figures.hours", *some, "g", "UTC") == [(first, 14, 2, 1)]
    assert await ask(connection, "figures.hours", *some, "s", "UTC") == []
    draws = [("g", "Wheel", 2, "", "mug", 4), ("g", "Wheel", 1, "", "mug", 3), ("h", "Box", 1, "", "mug", 5)]
    assert [row[:6] for row in await ask(connection, "figures.draws", "camp", "")] == draws
    assert [row[:6] for row in await ask(connection, "figures.draws", "camp", "g")] == draws[:2]


async def test_player_figures_are_of_the_campaigns_days_and_a_game(connection: asyncpg.Connection) -> None:
    await connection.execute("""
        INSERT INTO campaign_days (campaign_id, day, players) VALUES
            ('camp', '2026-03-01', 2), ('camp', '2026-03-02', 1), ('camp', '2026-03-03', 1), ('shops', '2026-03-09', 5);
        INSERT INTO campaign_player_days (player_id, campaign_id, day) VALUES
            ('ann', 'camp', '2026-03-01'), ('ann', 'camp', '2026-03-02'), ('bob', 'camp', '2026-03-01'),
            ('cas', 'camp', '2026-03-03'), ('dan', 'shops', '2026-03-01'), ('dan', 'shops', '2026-03-02');
        INSERT INTO campaign_marks (campaign_id, players, returned) VALUES ('camp', 30, 10), ('shops', 50, 50);
        INSERT INTO game_players (game_id, player_id, plays) VALUES
            ('g', 'ann', 2), ('g', 'bob', 1), ('h', 'cas', 9)""")
    one, two, three = (date(2026, 3, day) for day in (1, 2, 3))
    days = {("", ""): [(one, 2), (two, 1), (three, 1)], ("2026-03-02", ""): [(two, 1), (three, 1)]}
    days |= {("", "2026-03-02"): [(one, 2), (two, 1)], ("2026-03-02", "2026-03-02"): [(two, 1)]}
    for bounds, there in days.items():
        assert sorted(await ask(connection, "figures.day_players", "camp", *bounds)) == there, bounds
    players = {("", ""): (30, 10), ("2026-03-01", "2026-03-03"): (30, 10), ("2026-03-02", ""): (2, 0)}
    players |= {("", "2026-03-02"): (2, 1), ("2026-03-02", "2026-03-02"): (1, 0), ("2026-03-04", ""): (0, 0)}
    for bounds, counts in players.items():
        assert await ask(connection, "figures.players", "camp", *bounds) == [counts], bounds
    assert await ask(connection, "figures.game_players", "g") == [(2, 1)]
    assert await ask(connection, "figures.names", ["mug", "tee", "gone"]) == [("mug", ""), ("tee", "")]
