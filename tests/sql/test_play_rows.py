import json
from datetime import date
from typing import Final

import asyncpg
import pytest

import sql
from tests.support.statements import ask_of_t as ask
from tests.support.statements import undone

SQL: Final = sql.load("play")
DAY: Final = date(2026, 11, 21)

SCENE: Final = """
+ tenants tenant_id name catalog_version: t T 7;
+ merchants tenant_id=t merchant_id name status: other O suspended | shop S active;
+ campaigns tenant_id=t campaign_id merchant_id name=C: theirs other | camp shop | lone '';
+ games tenant_id=t game_id campaign_id name=G type=spin status=active revision: g2 theirs 1 | g1 camp 2 | g3 lone 1;
INSERT INTO game_revisions (tenant_id, game_id, revision, definition)
    SELECT 't', game, revision, jsonb_build_object('ui', game || revision)
    FROM (VALUES ('g2', 2), ('g2', 1), ('g1', 1), ('g1', 2), ('g3', 1)) AS v (game, revision);
INSERT INTO promised_terms (tenant_id, game_id, terms, revision_hash, created_at)
    SELECT 't', game, terms::bytea, encode(sha256(terms::bytea), 'hex'), now() + nth * interval '1 s'
    FROM (SELECT 'g1' AS game, 'terms' || n AS terms, (n * 7) % 22 AS nth FROM generate_series(0, 21) AS n
          UNION ALL VALUES ('g2', 'other terms', 99), ('g3', 'terms of what is gone', 98)) AS v;
+ game_players tenant_id=t game_id player_id plays day day_plays busy_until: g2 bob 9 2026-11-21 9 9 |
    g1 ann 5 2026-11-21 2 3 | g1 cat 6 2026-11-20 4 0 | g2 ann 8 2026-11-22 8 8 | g1 eve 3 2026-11-22 3 0;
+ players tenant_id=t player_id auth_method status merged_into: bob guest suspended ann | ann external active -;
+ entries tenant_id=t campaign_id player_id entry_id revision given: camp ann e1 3 '{terms}' | theirs ann e2 8 '{}' |
    camp bob e3 9 '{}';
+ prize_players tenant_id=t prize_id player_id awarded: mug bob 9 | mug ann 1 | aside ann 8;
+ balances tenant_id=t player_id scope_key currency balance: bob camp coin 9 | ann camp coin 4 | ann theirs leaf 8;
+ milestone_grants tenant_id=t game_id player_id milestone_id idempotency_key granted_at:
    g1 bob rung9 key (to_timestamp(9)) | g1 ann rung1 key (to_timestamp(1)) | g2 ann rung8 key (to_timestamp(8)) |
    g1 ann rung2 aside (to_timestamp(2));
+ turn_balances tenant_id=t player_id campaign_id balance: bob camp 9 | ann camp 6 | ann theirs 8;
+ stock tenant_id=t prize_id total remaining awarded: aside 9 8 1 | mug 5 3 2 | endless 0 0 7 | out 5 0 5;
+ prize_days tenant_id=t prize_id day awarded: aside 2026-11-21 9 | mug 2026-11-21 2 | mug 2026-11-20 8;
INSERT INTO codes (tenant_id, prize_id, code_id, key_id, ciphertext, code_hash, reward_id)
    SELECT 't', prize, prize || n, 'k', '', n::text::bytea, CASE WHEN n = 1 THEN prize END
    FROM (VALUES ('mug', 3), ('aside', 5), ('out', 1003)) AS v (prize, many) CROSS JOIN generate_series(1, many) AS n;
INSERT INTO plays (tenant_id, play_id, game_id, player_id, idempotency_key, revision, seed, client_seed, payload,
                   outcome, score, wins, points, session_id)
    SELECT 't', play, game, player, nullif(key, ''), 1, '', '', '{}', '{}', 0, 0, 0,
           'sess_x.y.' || left(encode(sha256(terms::bytea), 'hex'), 32) || play
    FROM (VALUES ('y1', 'g1', 'ann', 'key', 'terms1'), ('y2', 'g1', 'bob', 'key', 'terms2'),
                 ('y3', 'g2', 'ann', 'key', 'terms1'), ('y4', 'g1', 'ann', 'aside', 'none'),
                 ('y5', 'g2', 'bob', '', 'other terms')) AS v (play, game, player, key, terms);
"""


async def hash_of(connection: asyncpg.Connection, terms: str) -> str:
    return str(await connection.fetchval("SELECT encode(sha256($1::text::bytea), 'hex')", terms))


async def test_game_is_read_with_its_own_campaign_revision_and_latest_terms(connection: asyncpg.Connection) -> None:
    (row,) = await connection.fetch(SQL["snapshot"], "t", "g1")
    assert (json.loads(row["definition"]), row["campaign_id"], row["merchant_id"]) == ({"ui": "g12"}, "camp", "shop")
    assert (row["suspended"], row["played"], row["catalog_version"]) == ("", True, 7)
    latest = [await hash_of(connection, f"terms{n}") for n in sorted(range(22), key=lambda n: -(n * 7 % 22))]
    assert row["kept"] == latest[:20]
    (theirs,) = await connection.fetch(SQL["snapshot"], "t", "g2")
    assert (theirs["suspended"], theirs["kept"]) == ("merchant", [await hash_of(connection, "other terms")])
    (lone,) = await connection.fetch(SQL["snapshot"], "t", "g3")
    assert (lone["suspended"], lone["played"], len(lone["kept"])) == ("", False, 1)
    await connection.execute("UPDATE tenants SET status = 'suspended'")
    (ended,) = await connection.fetch(SQL["snapshot"], "t", "g1")
    assert ended["suspended"] == "tenant"


async def test_terms_are_kept_once_and_of_one_catalogue(connection: asyncpg.Connection) -> None:
    new = await hash_of(connection, "new")
    for version, count in ((6, 0), (7, 1), (7, 1)):
        await ask(connection, "play.insert_terms", new, "g1", b"new", version)
        assert await connection.fetchval("SELECT count(*) FROM promised_terms WHERE terms = 'new'") == count


async def test_players_are_read_with_their_own_counts_in_the_game(connection: asyncpg.Connection) -> None:
    players, prizes = ["ann", "cat", "eve", "new", "bob"], ["mug", "endless", "out", "none"]
    made = ["ann", "cat", "eve", "new"]
    async with connection.transaction():  # In which now() is one moment.
        await connection.execute("""
            INSERT INTO codes (tenant_id, prize_id, code_id, key_id, ciphertext, code_hash, withdrawn_at, expires_at)
                VALUES ('t', 'endless', 'back', 'k', '', 'back', now(), 'infinity'),
                ('t', 'endless', 'late', 'k', '', 'late', NULL, now()),
                ('t', 'endless', 'free', 'k', '', 'free', NULL, now() + interval '1 microsecond')""")
        (row,) = await connection.fetch(SQL["refresh"], "t", "g1", players, prizes, made, "camp", "camp", DAY, False)
    assert {player: rest for player, *rest in json.loads(row["players"])} == {
        "ann": [5, 2, False, 6, False, {"mug": 1}, {"coin": 4}, {"rung1": 1, "rung2": 2}, False, None, 3, None],
        "cat": [6, 0, False, 0, False, None, None, None, None, None, 0, None],
        "eve": [3, 3, True, 0, False, None, None, None, None, None, 0, None],
        "new": [0, 0, None, 0, False, None, None, None, None, None, 0, None],
        "bob": [0, 0, None, 9, True, {"mug": 9}, {"coin": 9}, {"rung9": 9}, True, "ann", 0, None],
    }
    (entered,) = await connection.fetch(SQL["refresh"], "t", "g1", ["ann", "eve"], [], [], "camp", "camp", DAY, True)
    assert [player[-1] for player in json.loads(entered["players"])] == [[3, ["terms"]], None]
    assert row["catalog_version"] == 7
    stocked = {prize: rest for prize, *rest in json.loads(row["prizes"])}
    assert stocked == {"mug": [3, 2, 2], "endless": [None, 0, 1], "out": [0, 0, 1002], "none": [None, 0, 0]}
    known = await connection.fetch("SELECT player_id FROM players ORDER BY 1")
    assert [row[0] for row in known] == ["ann", "bob", "cat", "eve", "new"]


async def test_plays_are_found_by_key_or_session_alone(connection: asyncpg.Connection) -> None:
    found = await ask(connection, "play.find", ["y4"], ["ann"], ["key"], "g1")
    assert sorted(row[0] for row in found) == ["y1", "y4"]
    redeems = await ask(connection, "play.find_redeems", ["ann"], ["key"], "g1")
    assert [row[:2] for row in redeems] == [("ann", "key")]
    assert await ask(connection, "play.find_redeems", ["ann"], ["none"], "g1") == []


async def test_day_that_has_not_begun_is_set_back_while_the_one_before_goes_on(connection: asyncpg.Connection) -> None:
    query = "SELECT player_id, game_id, day FROM game_players ORDER BY 1, 2"
    before = [tuple(row) for row in await connection.fetch(query)]
    now = int(await connection.fetchval("SELECT unix(now())"))
    faults = []
    cases = [
        # Players, the day, the seconds until it ends, and the players that are set back.
        *((["eve", "cat"], DAY, 3600, ["eve"]), (["ann"], DAY, 3600, []), (["ann"], date(2026, 11, 20), 3600, ["ann"])),
        *((["eve"], DAY, -1, []), (["eve", "ann", "cat"], date(2026, 11, 19), 3600, ["ann", "cat", "eve"])),
    ]
    for players, day, ends, back in cases:
        expected = [(who, game, day if who in back and game == "g1" else was) for who, game, was in before]
        async with undone(connection):
            await ask(connection, "play.rewind_days", "g1", players, day, now + ends, 7)
            if [tuple(row) for row in await connection.fetch(query)] != expected:
                faults.append((players, day, ends))
    assert faults == []


@pytest.mark.parametrize(
    ("rival_does", "kept_off"),
    [
        ("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1", True),
        # What it does next it decides by the catalogue as it is then.
        *(("BEGIN; UPDATE merchants SET name = 'N'", False), ("SELECT 1", False)),
    ],
)
async def test_day_is_not_set_back_beside_a_snapshot_of_the_old_catalogue(
    connection: asyncpg.Connection, pool: asyncpg.Pool, rival_does: str, kept_off: bool
) -> None:
    async with pool.acquire() as rival:
        await rival.execute(rival_does)
        assert await set_back_after_a_change(connection) != kept_off
        await rival.execute("ROLLBACK")


async def test_day_is_set_back_beside_other_snapshots(connection: asyncpg.Connection, database_url: str) -> None:
    elsewhere = await asyncpg.connect(database_url, database="postgres")
    await elsewhere.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
    assert await set_back_after_a_change(connection)
    await elsewhere.close()


async def test_day_is_not_set_back_by_a_zone_of_before_the_catalogues_change(connection: asyncpg.Connection) -> None:
    assert not await set_back_after_a_change(connection, version=7)


async def set_back_after_a_change(connection: asyncpg.Connection, version: int = 8) -> bool:
    """Whether the day of eve's count is set back once the catalogue has changed. version: that the day is of."""
    await connection.execute("UPDATE tenants SET catalog_version = 8")
    end = int(await connection.fetchval("SELECT unix(now())")) + 3600
    await ask(connection, "play.rewind_days", "g1", ["eve"], DAY, end, version)
    day = await connection.fetchval("SELECT day FROM game_players WHERE game_id = 'g1' AND player_id = 'eve'")
    return bool(day == DAY)
