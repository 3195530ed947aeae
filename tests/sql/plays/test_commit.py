import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import date, timedelta
from itertools import combinations
from typing import Any, Final

import asyncpg
import pytest
import pytest_asyncio
from msgspec.structs import astuple, replace

import sql
from runtime import ids
from runtime.actors.changes import (
    BalanceMove,
    Changes,
    NewGrant,
    NewTask,
    PlayCount,
    PrizeDayCount,
    PrizePlayerCount,
    StandingAward,
    StockTake,
    TurnMove,
)
from runtime.actors.statement import PARTS, statement, statement_of
from runtime.stores.database import Database, Guarded
from tests.support.commits import TENANT, TODAY, a_play, a_reward, commit, filled, outcomes, taking, whole
from tests.support.locks import IN_NO_ORDER, blocked, held
from tests.support.neighbours import PLAYER, surround
from tests.support.statements import undone
from tests.support.tables import contents
from tests.support.waiting import until

TOMORROW = TODAY + timedelta(days=1)


@pytest_asyncio.fixture(scope="module")
async def used_database(module_database_url: str) -> AsyncIterator[Database]:
    async with filled(module_database_url) as database:
        used = Changes()
        used.plays += [a_play("play_used"), a_play(key="used")]
        used.grants.append(NewGrant("game", "ann", "rung_used", "", "used", b"h", b"{}"))
        await commit(database, used)
        await database.execute(
            "INSERT INTO leaderboard_standings (tenant_id, board_id, rank, player_id, score, achieved_at, reward_id)"
            " VALUES ($1, 'board', 2, 'bob', 8, now(), 'reward_of_bob')",
            TENANT,
        )
        yield database


async def test_commit_changes_every_part_at_once(database: Database) -> None:
    assert await commit(database, whole()) == {"prize_a": 8, "prize_free": None}
    after = await contents(database)
    counts = {table: len(rows) for table, rows in after.items()}
    assert counts["plays"] == counts["game_players"] == counts["tasks"] == counts["milestone_grants"] == 1
    assert counts["rewards"] == counts["ledger_entries"] == counts["balances"] == 2
    assert [row["balance"] for row in after["turn_balances"]] == [1]
    assert Counter(row["reward_id"] for row in after["codes"]) == {"reward_1": 1, "reward_2": 1, None: 1}
    assert after["leaderboard_standings"][0]["reward_id"] == "reward_2"


def count(
    changes: Changes, times: int = 1, *, day: date = TODAY, cap: int = 0, day_cap: int = 0, **terms: Any
) -> Changes:
    for _ in range(times):
        changes.count_play(PlayCount("game", "ann", day, 1, cap=cap, day_cap=day_cap, **terms))
    return changes


Spoil = Callable[[Changes], object]


def put(name: str, row: Any, key_fields: int = 2) -> Spoil:
    return lambda changes: getattr(changes, name).update({astuple(row)[:key_fields]: row})


def add(name: str, row: Any) -> Spoil:
    return lambda changes: getattr(changes, name).append(row)


SPOILT: Final[dict[str, tuple[str, Spoil]]] = {
    # The guard that refuses a good batch, and what makes it do so.
    "catalog": ("catalog", lambda changes: setattr(changes, "catalog_version", 2)),
    "entry that changed": ("entry", lambda changes: changes.require_entry("ann", "camp", 3)),
    "entry of another": ("entry", lambda changes: changes.require_entry("bob", "camp", 2)),
    "entry to another campaign": ("entry", lambda changes: changes.require_entry("ann", "camp_z", 2)),
    "session": ("session", add("plays", a_play("play_used"))),
    "idempotency key": ("session", add("plays", a_play(key="used"))),
    "plays": ("plays", lambda changes: count(changes, 2, cap=1)),
    "plays of the day": ("plays", lambda changes: count(changes, 2, day_cap=1)),
    "plays of a later ordinal": ("plays", lambda changes: count(changes, cap=3, exact=True)),
    "day": ("day", lambda changes: count(changes, day_ends=1)),
    "turns": ("turns", put("turns", TurnMove("ann", "camp", 3, 2))),
    "turns that never were": ("turns", put("turns", TurnMove("bob", "camp", 1, 0))),
    "balance": ("balance", put("balances", BalanceMove("ann", "camp", "coin", 4, 6), 3)),
    "balance that is there now": ("balance", put("balances", BalanceMove("ann", "camp", "coin", None, 2), 3)),
    "balance that never was": ("balance", put("balances", BalanceMove("bob", "camp", "coin", 1, 3), 3)),
    "stock": ("stock", lambda changes: changes.stock.update(prize_a=StockTake("prize_a", 11))),
    "stock that is held back": ("stock", lambda changes: changes.stock.update(prize_a=StockTake("prize_a", 2, 9))),
    "stock that never was": ("stock", lambda changes: changes.stock.update(prize_z=StockTake("prize_z", 1))),
    "prize day": ("prize_day", put("prize_days", PrizeDayCount("prize_a", TODAY, 2, 1))),
    "prize player": ("prize_player", put("prize_players", PrizePlayerCount("prize_a", "ann", 2, 1))),
    "codes": ("codes", lambda changes: [changes.take_code(f"reward_{nth}", "prize_a") for nth in range(3, 7)]),
    "grant": ("grant", add("grants", NewGrant("game", "ann", "rung_used", "", None, None, None))),
    "grant key": ("grant", add("grants", NewGrant("game", "ann", "rung_new", "", "used", b"h", b"{}"))),
    "standing": ("standing", add("awards", StandingAward("board", 3, ""))),
    "standing that was awarded": ("standing", add("awards", StandingAward("board", 2, "reward_2"))),
}


@pytest.mark.parametrize(("guard", "spoil"), SPOILT.values(), ids=[*SPOILT])
async def test_guard_refuses_alone_and_changes_nothing(used_database: Database, guard: str, spoil: Spoil) -> None:
    before = await contents(used_database)
    # The statement names only the parts that a batch has: the guard is there among all of them, and by itself.
    for changes in (whole(), Changes()):
        spoil(changes)
        with pytest.raises(Guarded) as refusal:
            await commit(used_database, changes)
        assert refusal.value.guard == guard
        assert await contents(used_database) == before


async def test_commit_statement_of_one_two_or_all_parts_can_be_prepared(pool: asyncpg.Pool) -> None:
    parts = sorted(set(PARTS.values()))
    chosen = [frozenset(some) for count in (0, 1, 2, len(parts)) for some in combinations(parts, count)]
    async with pool.acquire() as connection:
        for present in chosen:
            text, taken = statement(present)
            assert len((await connection.prepare(text)).get_parameters()) == len(taken) + 2


async def test_play_of_exactly_its_ordinal_on_a_day_that_is_not_over_is_counted(database: Database) -> None:
    for ordinal in (1, 2):
        await commit(database, count(Changes(), cap=ordinal, exact=True, day_cap=ordinal, day_ends=2**33))
        assert await database.fetchval("SELECT plays FROM game_players") == ordinal


async def test_counters_restart_each_day_and_continue_where_the_day_is_set_back(database: Database) -> None:
    for day, day_plays in ((TODAY, 1), (TODAY, 2), (TOMORROW, 1), (TODAY, 2), (TOMORROW, 1)):
        await commit(database, count(Changes(), day=day, day_cap=2))
        row = await database.fetchrow("SELECT day, day_plays FROM game_players")
        assert row is not None and tuple(row) == (day, day_plays)
    assert await database.fetchval("SELECT plays FROM game_players") == 5


async def test_play_time_is_kept_by_plays_that_take_none(database: Database) -> None:
    for busy_until, taken in ((7, 7), (0, 7), (9, 9)):
        await commit(database, count(Changes(), busy_until=busy_until))
        assert await database.fetchval("SELECT busy_until FROM game_players") == taken


@pytest.mark.parametrize("amount", [None, 2, -2], ids=["by a play", "by hand", "away by hand"])
async def test_ledger_keeps_its_order_where_the_clock_is_set_back(database: Database, amount: int | None) -> None:
    ahead = await database.fetchval(
        "UPDATE balances SET seq = microseconds() + 3600000000 WHERE player_id = 'ann' AND currency = 'coin'"
        " RETURNING seq"
    )
    if amount is None:
        changes = Changes()
        for before in (5, 6):
            changes.move_balance(ids.make("entry"), "ann", "camp", "coin", before, 1, "play_reward", "play")
        await commit(database, changes)
    else:
        entry = (ids.make("entry"), "adjustment", "", "")
        assert await database.fetchrow(sql.load("wallet")["move"], TENANT, "ann", "camp", "coin", amount, *entry)
    entries = await database.fetch("SELECT seq, balance_after FROM ledger_entries ORDER BY seq")
    assert entries[0]["seq"] > ahead
    last = await database.fetchrow("SELECT seq, balance FROM balances WHERE currency = 'coin'")
    assert last is not None and tuple(entries[-1]) == tuple(last)


async def test_commit_changes_only_the_rows_that_it_names(database: Database) -> None:
    columns = (PLAYER, "tenant_id", "scope_key", "currency", "campaign_id", "prize_id", "board_id", "rank", "game_id")
    beside = await surround(database, TENANT, by=columns)
    await database.execute("INSERT INTO tenants (tenant_id, name, catalog_version) VALUES ('next', 'Next', 2)")
    assert await commit(database, whole()) == {"prize_a": 8, "prize_free": None}
    assert await beside.changed(database) == {}
    # Nor do they stand in for what is not there.
    for part in ("catalog", "turns", "balance", "stock", "standing"):
        changes = Changes()
        SPOILT[part][1](changes)
        with pytest.raises(Guarded):
            await commit(database, changes)
    # Only the tenant with a first play needs its catalogue to be unchanged.
    debut = Changes(catalog_version=1)
    debut.begin_history("game")
    text, arguments = statement_of({TENANT: debut, "next": Changes(catalog_version=2)})
    assert await database.fetchrow(text, *arguments)


@pytest.mark.parametrize(("cap", "guard"), [("per_day", "prize_day"), ("per_user", "prize_player")])
async def test_prize_caps_hold_among_twenty_rivals(database: Database, cap: str, guard: str) -> None:
    outcome = await outcomes(*(commit(database, taking("prize_free", "ann", **{cap: 3})) for _ in range(20)))
    assert outcome == {"": 3, guard: 17}


async def test_codes_are_never_given_twice(database: Database) -> None:
    # SKIP LOCKED: a rival's pick may be undone, so fewer than all may go in one storm, and never more.
    committed: Counter[str] = Counter()
    while committed[""] < 3:
        committed += await outcomes(*(commit(database, coded(ids.make("reward"))) for _ in range(5)))
    assert committed[""] == 3
    assert await outcomes(*(commit(database, coded(ids.make("reward"))) for _ in range(5))) == {"codes": 5}
    assert len({row["reward_id"] for row in await database.fetch("SELECT reward_id FROM codes")}) == 3


@pytest.mark.parametrize(
    ("rivals", "guard"),
    [
        ("UPDATE tenants SET catalog_version = 2 WHERE tenant_id = 'tenant_test'", "catalog"),
        ("UPDATE players SET merged_into = 'ann' WHERE player_id = 'gus'", "guest"),
    ],
)
async def test_commit_sees_rivals_change(
    database: Database, rival: asyncpg.Connection, rivals: str, guard: str
) -> None:
    changes = Changes(catalog_version=1)
    changes.begin_history("game") if guard == "catalog" else changes.require_guest("gus")
    async with rival.transaction():
        await rival.execute(rivals)
        waiting = await blocked(database, commit(database, changes))
    with pytest.raises(Guarded) as refusal:
        await waiting
    assert refusal.value.guard == guard


async def test_commit_waits_for_a_rival_and_sees_its_rollback(database: Database, rival: asyncpg.Connection) -> None:
    """Its rewards are written before the stock is locked: a rival with the same rewards waits."""
    changes = taking("prize_a", "ann")
    (text, arguments), twin = statement_of({TENANT: changes}), statement_of({TENANT: Changes(rewards=changes.rewards)})
    async with undone(rival):
        await rival.execute("UPDATE stock SET remaining = 0, awarded = 10 WHERE prize_id = 'prize_a'")
        waiting = await blocked(database, database.fetchrow(text, *arguments))
        second = asyncio.ensure_future(database.fetchrow(twin[0], *twin[1]))
        await until(lambda: database.fetchval("SELECT count(*) = 2 FROM pg_locks WHERE NOT granted"))
    assert (await waiting)["remaining"] == [9]
    with pytest.raises(asyncpg.UniqueViolationError):
        await second


async def test_reward_has_the_times_of_its_state_and_terms(database: Database) -> None:
    changes = Changes()
    changes.rewards += [
        *(a_reward("won"), replace(a_reward("of_three_days"), expires_after_days=3)),
        replace(a_reward("fulfilled"), status="fulfilled"),
    ]
    await commit(database, changes)
    query = "SELECT reward_id, fulfilled_at - won_at AS fulfilled, expires_at - won_at AS expires FROM rewards"
    found = {row["reward_id"]: (row["fulfilled"], row["expires"]) for row in await database.fetch(query)}
    assert found == {"won": (None, None), "of_three_days": (None, timedelta(days=3)), "fulfilled": (timedelta(0), None)}


async def test_task_is_due_at_once_unless_delivered(database: Database) -> None:
    changes = Changes()
    for status in ("pending", "delivered"):
        changes.tasks.append(NewTask(status, f"reward_{status}", "prize_a", "camp", "ann", "webhook", status))
    await commit(database, changes)
    rows = await database.fetch("SELECT task_id, next_attempt_at - created_at AS due, attempts FROM tasks")
    found = {row["task_id"]: (row["due"], row["attempts"]) for row in rows}
    assert found == {"pending": (timedelta(0), 0), "delivered": (None, 1)}


def coded(*reward_ids: str) -> Changes:
    changes = Changes()
    for reward_id in reward_ids:
        changes.take_code(reward_id, "prize_a")
    return changes


async def test_rewards_of_a_batch_get_codes_of_their_own_prizes(database: Database) -> None:
    await database.execute(
        "INSERT INTO codes (tenant_id, prize_id, code_id, key_id, ciphertext, code_hash)"
        " SELECT $1, 'prize_b', 'of_b_' || n, '1', '', n::text::bytea FROM generate_series(1, 3) AS n",
        TENANT,
    )
    changes = Changes()
    for nth in range(2):
        for prize_id in ("prize_a", "prize_b"):
            changes.take_code(f"reward_{nth}_of_{prize_id}", prize_id)
    await commit(database, changes)
    rows = await database.fetch("SELECT prize_id, reward_id FROM codes WHERE reward_id IS NOT NULL")
    assert len(rows) == 4
    assert all(row["reward_id"].endswith(row["prize_id"]) for row in rows)


async def test_commit_locks_no_more_codes_than_it_gives(database: Database, pool: asyncpg.Pool) -> None:
    """A rival skips locked codes: with too many locked it would find the prize out of codes."""
    async with pool.acquire() as connection, pool.acquire() as rival, connection.transaction():
        text, arguments = statement_of({TENANT: coded("reward_1")})
        await connection.fetchrow(text, *arguments)
        free = await rival.fetch("SELECT code_id FROM codes WHERE reward_id IS NULL FOR UPDATE SKIP LOCKED")
    assert [row["code_id"] for row in free] == ["code_2", "code_3"]


async def test_commit_takes_no_code_that_is_withdrawn_or_expires_now(database: Database, pool: asyncpg.Pool) -> None:
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("UPDATE codes SET expires_at = now() WHERE code_id = 'code_1'")
        await connection.execute("UPDATE codes SET withdrawn_at = now() WHERE code_id = 'code_2'")
        text, arguments = statement_of({TENANT: coded("reward_1")})
        await connection.fetchrow(text, *arguments)
        assigned = await connection.fetch("SELECT code_id FROM codes WHERE reward_id = 'reward_1'")
    assert [row["code_id"] for row in assigned] == ["code_3"]


async def test_commit_skips_a_code_that_a_rival_is_taking(database: Database, pool: asyncpg.Pool) -> None:
    async with pool.acquire() as rival, rival.transaction():
        await rival.execute("SELECT FROM codes WHERE code_id = 'code_1' FOR UPDATE")
        await commit(database, coded("reward_1"))
    rows: list[Any] = await database.fetch("SELECT code_id, reward_id FROM codes ORDER BY code_id")
    assert [tuple(row) for row in rows] == [("code_1", None), ("code_2", "reward_1"), ("code_3", None)]


KEYS: Final = {
    "turn_balances": "concat_ws(' ', tenant_id, player_id, campaign_id)",
    "balances": "concat_ws(' ', tenant_id, player_id, scope_key, currency)",
    "stock": "concat_ws(' ', tenant_id, prize_id)",
    "leaderboard_standings": "concat_ws(' ', tenant_id, board_id, rank)",
}


async def test_commit_locks_only_the_rows_that_it_names(database: Database, pool: asyncpg.Pool) -> None:
    columns = (PLAYER, "tenant_id", "scope_key", "currency", "campaign_id", "prize_id", "board_id", "rank")
    await surround(database, TENANT, by=columns)
    async with database.connection() as connection, pool.acquire() as rival, connection.transaction():
        text, arguments = statement_of({TENANT: whole()})
        await connection.fetchrow(text, *arguments)
        found = {table: await held(rival, table, key) for table, key in KEYS.items()}
    assert found == {
        "turn_balances": {f"{TENANT} ann camp"},
        # That of leaves is new, so no rival sees it.
        "balances": {f"{TENANT} ann camp coin"},
        "stock": {f"{TENANT} prize_a", f"{TENANT} prize_free"},
        "leaderboard_standings": {f"{TENANT} board 1"},
    }


def _turns(changes: Changes) -> None:
    for player in ("zoe", "abe"):
        changes.turns[player, "camp"] = TurnMove(player, "camp", 2, 1)


def _balances(changes: Changes) -> None:
    for player in ("zoe", "abe"):
        changes.balances[player, "camp", "coin"] = BalanceMove(player, "camp", "coin", 5, 4)


def _stock(changes: Changes) -> None:
    for prize in ("prize_z", "prize_0"):
        changes.stock[prize] = StockTake(prize, 1)


def _guests(changes: Changes) -> None:
    for player in ("zoe", "abe"):
        changes.require_guest(player)


def _standings(changes: Changes) -> None:
    changes.awards += [StandingAward("board_z", 1, "reward_1"), StandingAward("board_0", 1, "reward_2")]


ORDERS: Final[dict[str, tuple[str, str, Callable[[Changes], None]]]] = {
    "turn_balances": (
        "player_id",
        "INSERT INTO turn_balances (tenant_id, player_id, campaign_id, balance) VALUES ($1, $2, 'camp', 2)",
        _turns,
    ),
    "balances": (
        "player_id",
        "INSERT INTO balances (tenant_id, player_id, scope_key, currency, balance) VALUES ($1, $2, 'camp', 'coin', 5)",
        _balances,
    ),
    "players": (
        "player_id",
        "INSERT INTO players (tenant_id, player_id, auth_method) VALUES ($1, $2, 'guest')",
        _guests,
    ),
    "stock": ("prize_id", "INSERT INTO stock VALUES ($1, $2, 9, 9, 0)", _stock),
    "leaderboard_standings": (
        "board_id",
        "INSERT INTO leaderboard_standings (tenant_id, board_id, rank, player_id, score, achieved_at, reason)"
        " VALUES ($1, $2, 1, 'ann', 9, now(), 'PENDING')",
        _standings,
    ),
}

ROWS: Final = {"player_id": ("zoe", "abe"), "prize_id": ("prize_z", "prize_0"), "board_id": ("board_z", "board_0")}


@pytest.mark.parametrize("table", ORDERS)
async def test_commit_locks_rows_in_the_order_of_their_keys(database: Database, pool: asyncpg.Pool, table: str) -> None:
    key, insert, change = ORDERS[table]
    last, first = ROWS[key]
    for row in (last, *(f"other_{nth}" for nth in range(200)), first):
        await database.execute(insert, TENANT, row)
    await database.execute(f"ANALYZE {table}")
    changes = Changes()
    change(changes)
    text, arguments = statement_of({TENANT: changes})
    async with pool.acquire() as connection, pool.acquire() as rival, pool.acquire() as onlooker:
        await connection.execute(IN_NO_ORDER)
        async with rival.transaction():
            # As another commit holds it: whoever only shares its key would pass.
            await rival.execute(f"SELECT FROM {table} WHERE {key} = $1 FOR NO KEY UPDATE", first)
            committing = await blocked(onlooker, connection.fetchrow(text, *arguments))
            assert await held(onlooker, table, key) == {first} and not committing.done()
        await committing
