import json
from typing import Any, Final

import asyncpg
import pytest

import sql
from tests.support.statements import undone
from tests.support.tables import contents

COMPLETE: Final = sql.load("quests")["complete"]
TENANT: Final = "tenant_q"
TWICE: Final = {"kind": "plays", "count": 2, "game_id": ""}
LOOKED: Final = {"quest": "quest", "player": "ann", "type": "daily", "turns": 3, "campaign": "camp"} | {
    "condition": None,
    "since": 0,
}


@pytest.fixture
async def connection(pool: asyncpg.Pool) -> Any:
    async with pool.acquire() as connection:
        await connection.execute(
            "INSERT INTO tenants (tenant_id, name) VALUES ('tenant_q', 'Q');"
            "INSERT INTO campaigns (tenant_id, campaign_id, name, status) VALUES ('tenant_q', 'camp', 'C', 'active'),"
            " ('tenant_q', 'camp_2', 'C', 'active');"
            "INSERT INTO quests (tenant_id, quest_id, campaign_id, name, type, turns, status)"
            " VALUES ('tenant_q', 'quest', 'camp', 'Q', 'daily', 3, 'active'),"
            " ('tenant_q', 'quest_free', 'camp', 'Q', 'daily', 0, 'active');"
            "INSERT INTO players (tenant_id, player_id, auth_method) VALUES ('tenant_q', 'ann', 'email_otp'),"
            " ('tenant_q', 'gus', 'guest');"
        )
        yield connection


async def complete(connection: asyncpg.Connection, period: str = "day 1", key: str | None = None, **looked: Any) -> Any:
    look = {**LOOKED, **looked}
    named = f"{look['quest']}-{look['player']}-{period}"
    return await connection.fetchrow(
        COMPLETE,
        *(TENANT, look["quest"], look["player"], period, look["type"], look["turns"], look["campaign"]),
        *(f"entry-{named}", key, b"hash" if key else None, f"event-{named}"),
        *(None if look["condition"] is None else json.dumps(look["condition"]), look["since"]),
    )


async def test_completion_grants_turns_and_notes_them(connection: asyncpg.Connection) -> None:
    for day, balance in ((1, 3), (2, 6)):
        row = await complete(connection, f"day {day}")
        assert (row["turns"], row["balance_after"]) == (3, balance)
    entries = await connection.fetch("SELECT amount, balance_after, reason, reference_id FROM turn_entries ORDER BY 2")
    assert [tuple(entry) for entry in entries] == [(3, 3, "quest", "quest"), (3, 6, "quest", "quest")]
    assert await connection.fetchval("SELECT count(*) FROM quest_completions") == 2


async def test_completion_without_turns_makes_only_the_row_of_a_new_player(connection: asyncpg.Connection) -> None:
    assert (await complete(connection, quest="quest_free", turns=0, player="new"))["balance_after"] == 0
    assert await connection.fetchval("SELECT count(*) FROM players WHERE player_id = 'new'") == 1
    assert await connection.fetchval("SELECT count(*) FROM turn_entries") == 0


@pytest.mark.parametrize("key", [None, "key"])
async def test_second_completion_of_a_period_or_key_fails(connection: asyncpg.Connection, key: str | None) -> None:
    await complete(connection, key=key)
    with pytest.raises(asyncpg.UniqueViolationError):
        await complete(connection, "day 2" if key else "day 1", key=key)
    assert await connection.fetchval("SELECT balance FROM turn_balances") == 3
    assert await connection.fetchval("SELECT count(*) FROM turn_entries") == 1


CHANGED: Final[list[tuple[str, dict[str, Any]]]] = [
    # What changes after the look, and what was looked at.
    *(("", {"type": "weekly"}), ("", {"turns": 4}), ("", {"campaign": "camp_2"}), ("", {"quest": "quest_none"})),
    *(("UPDATE quests SET status = 'archived'", {}), ("UPDATE quests SET campaign_id = 'camp_2'", {})),
    ("", {"condition": TWICE}),
    ('UPDATE quests SET condition = \'{"kind": "plays", "count": 2, "game_id": ""}\'', {}),
    ("UPDATE campaigns SET status = 'paused' WHERE campaign_id = 'camp'", {}),
    ("UPDATE players SET merged_into = 'ann' WHERE player_id = 'gus'", {"player": "gus"}),
]


async def test_completion_of_a_quest_that_changed_since_the_look_grants_nothing(connection: asyncpg.Connection) -> None:
    faults = []
    for change, looked in CHANGED:
        async with undone(connection):
            await connection.execute(change or "SELECT")
            before = await contents(connection)
            if await complete(connection, **looked) is not None or await contents(connection) != before:
                faults.append((change, looked))
    assert faults == []


async def play(connection: asyncpg.Connection, game: str, player: str, at: int, wins: int = 0, points: int = 0) -> None:
    await connection.execute(
        "INSERT INTO plays (tenant_id, play_id, game_id, player_id, session_id, revision, seed, client_seed, payload,"
        " outcome, score, wins, points, played_at)"
        " VALUES ('tenant_q', $1, $2, $3, '', 1, '', '', '{}', '{}', 900, $5, $6, to_timestamp($4::bigint))",
        *(f"play-{game}-{player}-{at}", game, player, at, wins, points),
    )


# Kind, count, game and since when.
MET: Final = [
    *(("plays", 3), ("plays", 2, "", 200), ("plays", 2, "game")),
    *(("wins", 5), ("wins", 4, "", 200), ("points", 30)),
]
UNMET: Final = [
    *(("plays", 4), ("plays", 3, "", 101), ("plays", 3, "game"), ("plays", 1, "game_2")),
    *(("wins", 6), ("points", 31)),
]


async def granted(connection: asyncpg.Connection, kind: str, count: int, game: str = "", since: int = 0) -> bool:
    """Whether the quest is completed where this is its condition; nothing of it stays."""
    condition = {"kind": kind, "count": count, "game_id": game}
    async with undone(connection):
        await connection.execute("UPDATE quests SET condition = $1 WHERE quest_id = 'quest'", json.dumps(condition))
        row = await complete(connection, condition=condition, since=since)
        entries = await connection.fetchval("SELECT count(*) FROM turn_entries")
    assert entries == (0 if row is None else 1)
    return row is not None


async def test_condition_is_judged_by_the_statement_that_grants(connection: asyncpg.Connection) -> None:
    await connection.execute(
        "INSERT INTO games (tenant_id, game_id, campaign_id, name, type) VALUES ('tenant_q', 'game', 'camp', 'G', 't'),"
        " ('tenant_q', 'game_b', 'camp', 'G', 't'), ('tenant_q', 'game_2', 'camp_2', 'G', 't')"
    )
    for of, player, at in (("game", "ann", 100), ("game", "ann", 200), ("game_b", "ann", 300), ("game", "gus", 300)):
        await play(connection, of, player, at, wins=at // 100 - (at == 300), points=10)
    await play(connection, "game_2", "ann", 300, wins=90, points=900)
    assert [one for one in (*UNMET, *MET) if await granted(connection, *one)] == MET


async def test_condition_does_not_count_surplus_of_a_merge(connection: asyncpg.Connection) -> None:
    await connection.execute(
        "INSERT INTO games (tenant_id, game_id, campaign_id, name, type) VALUES ('tenant_q', 'game', 'camp', 'G', 't')"
    )
    for at in (100, 200):
        await play(connection, "game", "ann", at, wins=3, points=10)
    change = "UPDATE plays SET surplus_wins = 2, surplus_points = 7 WHERE play_id = 'play-game-ann-100'"
    await connection.execute(change)
    cases = [("plays", 2, True), ("plays", 3, False), ("wins", 4, True), ("wins", 5, False)]
    cases += [("points", 13, True), ("points", 14, False)]
    assert [(kind, count, await granted(connection, kind, count)) for kind, count, _ in cases] == cases


async def test_completion_ignores_other_players_quests_and_campaigns(connection: asyncpg.Connection) -> None:
    await connection.execute(
        "INSERT INTO players (tenant_id, player_id, auth_method, merged_into)"
        " VALUES ('tenant_q', 'eva', 'guest', 'ann')"
    )
    await connection.execute("UPDATE quests SET status = 'archived' WHERE quest_id = 'quest_free'")
    await connection.execute("UPDATE campaigns SET status = 'paused' WHERE campaign_id = 'camp_2'")
    for player in ("gus", "ann"):
        assert (await complete(connection, player=player))["turns"] == 3


@pytest.mark.parametrize(
    ("player", "row"),
    [
        ("gus", "players WHERE player_id = 'gus'"),  # Else it could log in, and the turns be nobody's.
        ("ann", "quests WHERE quest_id = 'quest'"),  # Else it could be removed, as one without history.
    ],
)
async def test_completion_locks_rows(connection: asyncpg.Connection, pool: asyncpg.Pool, player: str, row: str) -> None:
    async with connection.transaction(), pool.acquire() as rival:
        assert await complete(connection, player=player) is not None
        with pytest.raises(asyncpg.LockNotAvailableError):
            await rival.fetch(f"SELECT FROM {row} FOR UPDATE NOWAIT")
