import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final

import asyncpg
import pytest

import sql
from tests.support.bare_rows import scene
from tests.support.locks import blocked, held
from tests.support.statements import ask
from tests.support.waiting import HANG_SECONDS

SCENE: Final = """
+ campaigns tenant_id=t campaign_id merchant_id name=C: aside other | camp shop;
+ games tenant_id=t game_id campaign_id name=G type=spin: g2 aside | game camp;
+ quests tenant_id=t quest_id campaign_id name=Q type=daily turns=1: q2 aside | quest camp;
+ prizes tenant_id=t prize_id name type=goods: mug M | cup C;
CREATE TEMPORARY TABLE moments AS SELECT * FROM (VALUES
    ('e', 30), ('b', 20), ('a', 20), ('c', 20), ('d', 25), ('before', 9), ('first', 10), ('after', 31)) AS v (id, at);
INSERT INTO plays (tenant_id, play_id, game_id, player_id, played_at, session_id, revision, seed, client_seed, payload,
                   outcome, score, wins, points)
    SELECT 't', id, 'game', 'ann', to_timestamp(at), id, 1, '', '', '{}', '{}', 0, 0, 0 FROM moments;
INSERT INTO rewards (tenant_id, reward_id, player_id, prize_id, campaign_id, name, type, value, quantity, won_at,
                     claimed_at)
    SELECT 't', id, 'ann', 'mug', 'camp', 'M', 'goods', 1, 1, to_timestamp(at), to_timestamp(at) FROM moments;
+ rewards tenant_id=t reward_id player_id prize_id campaign_id name type value quantity won_at play_id:
    played ann mug camp M goods 1 1 (to_timestamp(21)) a;
INSERT INTO quest_completions (tenant_id, quest_id, player_id, period, turns, balance_after, event_id, completed_at)
    SELECT 't', 'quest', 'ann', id, 1, 1, id, to_timestamp(at) FROM moments;
INSERT INTO leaderboards (tenant_id, board_id, campaign_id, name, metric, mode, finalized_at)
    SELECT 't', id, 'camp', 'B', 'score', 'sum', to_timestamp(at) FROM moments;
+ leaderboard_standings tenant_id=t board_id rank player_id=ann score=1 achieved_at=(now()) reward_id: b 2 other |
    a 4 a | c 3 c;
INSERT INTO tasks (tenant_id, task_id, reward_id, prize_id, campaign_id, player_id, channel, status, updated_at)
    SELECT 't', id, id, 'mug', 'camp', 'ann', 'webhook', 'dead', to_timestamp(at) FROM moments;
+ tasks tenant_id=t task_id reward_id prize_id campaign_id player_id channel status updated_at:
    again again mug camp ann webhook retry (to_timestamp(21));
INSERT INTO notices (tenant_id, event_id, type, campaign_id, data, noticed_at)
    SELECT 't', id, 'prizes.low_stock', 'camp', '{}', to_timestamp(at) FROM moments;
INSERT INTO violations (tenant_id, violation_id, check_name, subject_id, scope_key, expected, found, deviation,
                        first_seen_at, last_seen_at, opened_at)
    SELECT 't', id, 'sum', id, 'camp', '', '', '', now(), now(), to_timestamp(at) FROM moments;
+ integrations tenant_id integration_id type=webhook events='{}' status active_since: t i3 active (to_timestamp(7)) |
    t i1 paused (to_timestamp(3)) | t i2 active (to_timestamp(8)) | u i1 paused (to_timestamp(3));
"""


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


@pytest.mark.parametrize(
    "name", ["plays", "rewards", "claims", "quests", "boards", "failures", "notices", "violations"]
)
async def test_backfill_goes_on_from_the_watermark_to_the_end(connection: asyncpg.Connection, name: str) -> None:
    async def page(after: float, last: str, limit: int) -> list[str]:
        rows = await ask(connection, f"backfill.{name}", "t", at(10), at(30), at(after), last, limit)
        return [row[1] for row in rows]

    assert await page(0, "", 20) == ["first", "a", "b", "c", "d", "e"]
    assert await page(20, "b", 20) == ["c", "d", "e"]
    assert await page(10, "first", 2) == ["a", "b"]
    if name != "boards":
        rows = await connection.fetch(sql.load("backfill")[name], "t", at(10), at(30), at(0), "", 20)
        assert {(row["campaign_id"], row["merchant_id"]) for row in rows} == {("camp", "shop")}


async def test_backfilled_reward_has_the_rank_that_it_was_for(connection: asyncpg.Connection) -> None:
    rows = await connection.fetch(sql.load("backfill")["rewards"], "t", at(10), at(30), at(0), "", 20)
    ranks = {row["id"]: (row["leaderboard_id"], row["rank"]) for row in rows if row["rank"]}
    assert ranks == {"a": ("a", 4), "c": ("c", 3)}
    assert [row[0] for row in await ask(connection, "backfill.prizes", "t", ["mug"])] == ["mug"]


async def test_notice_is_purged_once_every_integration_got_it(connection: asyncpg.Connection) -> None:

    async def left() -> str:
        await ask(connection, "limits.purge", "t", 20)
        rows = await connection.fetch("SELECT event_id FROM notices ORDER BY noticed_at, event_id")
        return " ".join(row["event_id"] for row in rows)

    everything = "before first a b c d e after"
    assert await left() == everything, "nobody has been told of anything"
    statement = "INSERT INTO event_marks (tenant_id, backfilled_until, leased_until) VALUES ($1, $2, now())"
    await connection.execute(statement, "u", at(60))
    assert await left() == everything
    await connection.execute(statement, "t", at(20))
    assert await left() == "a b c d e after", "what happened at that very moment may not be told yet"
    await connection.execute("UPDATE integrations SET status = 'paused' WHERE integration_id = 'i2'")
    assert await left() == "a b c d e after"
    await connection.execute("UPDATE integrations SET status = 'paused'")
    assert await left() == "", "nobody is ever told of it"


async def test_backfilled_results_of_a_player_and_its_guests_name_one_holder(connection: asyncpg.Connection) -> None:
    await connection.execute("""
        INSERT INTO players (tenant_id, player_id, merged_into) VALUES ('t', 'g1', 'ann'), ('t', 'g2', 'ann');
        UPDATE campaigns SET messages = '{}' WHERE campaign_id = 'camp';
        INSERT INTO draws (tenant_id, draw_id, campaign_id, name, tickets, prizes, randomness, salt, drawn_at)
            VALUES ('t', 'car', 'camp', 'C', '{}', '[]', '{}', '', to_timestamp(20));
        INSERT INTO draw_tickets (tenant_id, draw_id, first_ticket, tickets, player_id, holder)
            SELECT 't', 'car', n, 1, p, p FROM unnest('{g1,ann,bob,g2}'::text[]) WITH ORDINALITY AS v (p, n)""")
    rows = await ask(connection, "backfill.results", "t", at(10), at(30), at(0), "", 20)
    assert [row[2] for row in rows] == ["car_ann", "car_ann", "car_bob", "car_ann"]
    rows = await ask(connection, "backfill.results", "t", at(10), at(30), at(20), "car 2", 1)
    assert [row[1:3] for row in rows] == [("car 3", "car_bob")]
    await connection.execute("UPDATE draws SET status = 'cancelled'")
    assert await ask(connection, "backfill.results", "t", at(10), at(30), at(0), "", 20) == []


async def test_backfilled_reward_of_a_merged_guest_has_the_guests_rank(connection: asyncpg.Connection) -> None:
    change = "INSERT INTO players (tenant_id, player_id, merged_into) VALUES ('t', 'guest', 'ann'), ('t', 'bob', 'eve')"
    await connection.execute(change)
    await connection.execute(
        "INSERT INTO leaderboard_standings (tenant_id, board_id, rank, player_id, score, achieved_at, reward_id) VALUES"
        " ('t', 'b', 1, 'guest', 1, now(), 'b'), ('t', 'd', 1, 'bob', 1, now(), 'd')"
    )
    rows = await connection.fetch(sql.load("backfill")["rewards"], "t", at(10), at(30), at(0), "", 20)
    found = {row["id"]: (row["leaderboard_id"], row["rank"]) for row in rows if row["id"] in "bd"}
    assert found == {"b": ("b", 1), "d": ("", 0)}


async def test_backfill_lease_is_one_processs_until_it_ends(connection: asyncpg.Connection) -> None:
    assert await ask(connection, "backfill.tenants", 30.0) == [("t",)]
    lease = ("backfill.lease", "t", 0.0, 60.0, 30.0)
    async with connection.transaction():
        ((backfilled_until, leased_until, until, has_messages),) = await ask(connection, *lease)
        assert (backfilled_until, until) == (at(7), at(67)), "from the first that listens"
        assert not has_messages
        assert await ask(connection, *lease) == []
        assert await ask(connection, "backfill.advance", "t", at(50), 5.0, at(1)) == [], "the lease is another's"
        assert await ask(connection, "backfill.advance", "t", at(50), 0.0, leased_until) != []
        # It is over at this very moment.
        ((backfilled_until, *_),) = await ask(connection, *lease)
        assert backfilled_until == at(50)
        await connection.execute("""
            UPDATE event_marks SET leased_until = now(), backfilled_until = now() - interval '50 minutes';
            UPDATE leaderboard_standings SET reason = 'PENDING';
            UPDATE leaderboards SET finalized_at = now() - interval '2971 seconds' WHERE board_id = 'a'""")
        ((backfilled_until, _, until, _),) = await ask(connection, *lease)
        assert until - backfilled_until == timedelta(seconds=29, microseconds=-1), "a board awards its prizes"
        await connection.execute("UPDATE event_marks SET leased_until = now() + '61s', backfilled_until = now() + '1h'")
        assert await ask(connection, "backfill.tenants", 30.0) == [("t",)]
        assert (await ask(connection, *lease))[0][0] == await connection.fetchval("SELECT now()"), "the clock was ahead"
    assert await ask(connection, "backfill.lease", "u", 0.0, 60.0, 30.0) == []


CODES: Final = scene("""
+ tenants tenant_id name: v V | t T;
+ codes tenant_id=t prize_id code_id key_id ciphertext code_hash: p2 c1 old x1 1 | p1 c2 old x2 2 | p1 c1 old x3 3 |
    p1 c3 new x4 4 | p3 c1 new x3 5 | p1 c9 new x3 6;
UPDATE prizes SET channel_config = '{"url": "u"}' WHERE prize_id = 'cup';
+ prizes tenant_id=t prize_id name=S type=goods channel_config: s2 '{"secret": "x"}' | s1 '{"previous_secret": "x"}' |
    s3 '{"headers": {"A": "x"}}';
UPDATE integrations SET config = '{"secret": "x"}' WHERE integration_id = 'i1';
UPDATE integrations SET config = '{"headers": {"A": "x"}}' WHERE integration_id = 'i3';
+ quests tenant_id=t quest_id campaign_id=camp name=S type=daily turns=1 signing: s2 '{"secret": "x"}' |
    s1 '{"previous_secret": "x"}';
+ retired_keys tenant_id='' key_id: k1 | k2;
""")


async def test_keys_are_locked_in_order(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    async with pool.acquire() as rival, pool.acquire() as onlooker, connection.transaction():
        async with rival.transaction():
            await rival.execute("SELECT pg_advisory_xact_lock(key_lock('a'))")
            locking = await blocked(onlooker, ask(connection, "rotation.lock_keys", ["b", "a"]))
            assert await onlooker.fetchval("SELECT pg_try_advisory_lock(key_lock('b'))")
            await onlooker.execute("SELECT pg_advisory_unlock_all()")
        async with asyncio.timeout(HANG_SECONDS):
            assert len(await locking) == 2


async def test_key_is_retired_once_and_reinstated_alone(connection: asyncpg.Connection) -> None:
    await connection.execute(CODES)
    await ask(connection, "rotation.retire", "", ["k2", "k3"])
    await ask(connection, "rotation.reinstate", "", "k1")
    assert [row[0] for row in await connection.fetch("SELECT key_id FROM retired_keys ORDER BY 1")] == ["k2", "k3"]
    assert await ask(connection, "rotation.tenants", "") == [("t",), ("v",)]
    assert await ask(connection, "rotation.tenants", "v") == [("v",)]


async def test_database_has_a_history(connection: asyncpg.Connection) -> None:
    ((name, written),) = await ask(connection, "history.history")
    assert name.count(".") == 2 and written > 0


async def test_reseal_locks_codes_in_order(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    codes = ["last", *(f"other_{nth}" for nth in range(200)), "first"]
    await connection.execute(
        "INSERT INTO codes (tenant_id, prize_id, code_id, key_id, ciphertext, code_hash)"
        " SELECT 't', 'p', c, 'old', 'x', c::bytea FROM unnest($1::text[]) AS c",
        codes,
    )
    await connection.execute("ANALYZE codes")
    async with pool.acquire() as rival, pool.acquire() as onlooker, rival.transaction():
        await rival.execute("SELECT FROM codes WHERE code_id = 'first' FOR UPDATE")
        columns = (["p", "p"], ["last", "first"], [b"x", b"x"], [b"n1", b"n2"], [b"h1", b"h2"])
        sealing = await blocked(onlooker, ask(connection, "rotation.reseal_codes", "t", "new", *columns))
        assert await held(onlooker, "codes", "code_id") == {"first"} and not sealing.done()
    await sealing
    assert await connection.fetchval("SELECT count(*) FROM codes WHERE key_id = 'new'") == 2


async def test_reminder_omits_rewards_with_a_task(connection: asyncpg.Connection) -> None:
    await connection.execute("""
        UPDATE campaigns SET messages = '{"templates": [{"kind": "reminder", "hours": 1}]}' WHERE campaign_id = 'camp';
        UPDATE rewards SET won_at = to_timestamp(1), expires_at = to_timestamp(3620)""")
    rows = await ask(connection, "backfill.reminders", "t", at(10), at(30), at(0), "", 20)
    assert [row[1] for row in rows] == ["played"]
