import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st
from msgspec.structs import replace

from runtime import ids, trace
from runtime.actors.changes import Changes, GameDebut, NewGrant, PlayCount, StandingAward, StockTake
from runtime.actors.committer import OVERLAP, Committer, Decided, Lane, _compatible
from runtime.actors.mailbox import Work
from runtime.actors.statement import statement_of
from runtime.errors import BALANCE_MAX, BalanceFull
from runtime.stores.database import Database, at
from runtime.stores.databases import Databases, TenantMoved
from runtime.streams.outbox import Outbox
from tests.support.commits import TENANT, TODAY, a_play, a_reward, filled, outcomes, taking, whole
from tests.support.statements import undone
from tests.support.tables import Contents, contents
from tests.support.waiting import until


@pytest.fixture
async def committer(database: Database) -> AsyncIterator[Committer]:
    committer = Committer(database, mailbox_limit=100, batch_limit=100, idle_seconds=1)
    yield committer
    await committer.drain()


async def test_full_balance_and_invalid_data_fail_only_their_own_batch(committer: Committer) -> None:
    batches = [taking("prize_free", f"p{nth}") for nth in range(4)]
    batches[0].move_balance("entry_0", "p0", "camp", "points", None, BALANCE_MAX, "adjustment", "r")
    batches[1].move_balance("entry_2", "p1", "camp", "points", None, BALANCE_MAX, "adjustment", "r")
    batches[1].move_balance("entry_1", "p1", "camp", "coin", None, BALANCE_MAX + 1, "adjustment", "r")
    batches[2].stock["prize_free"] = StockTake("prize_free", 2**70)
    replies = await asyncio.gather(*(committer.commit(TENANT, one) for one in batches), return_exceptions=True)
    assert [type(one) for one in replies] == [dict, BalanceFull, asyncpg.DataError, dict]
    assert replies[1].facts == {"currency": "coin"}


async def test_commit_reads_the_databases_time(committer: Committer, database: Database) -> None:
    now = await database.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8")
    sent = time.monotonic()
    database.clock.sync(now + 3_600, sent, sent)
    assert database.clock.now() == pytest.approx(now + 3_600, abs=60)
    await committer.commit(TENANT, taking("prize_free", "ann"))
    assert database.clock.now() == pytest.approx(now, abs=60)


async def copied(database: Database) -> None:
    """A second tenant with the same rows, and more stock."""
    tables = ("tenants", "stock", "balances", "turn_balances", "codes", "leaderboard_standings", "players", "entries")
    for table in tables:
        row = "(jsonb_populate_record(t, jsonb_build_object('tenant_id', 'other', 'total', 20, 'remaining', 20))).*"
        await database.execute(f"INSERT INTO {table} SELECT {row} FROM {table} AS t WHERE tenant_id = $1", TENANT)


async def test_changes_of_two_tenants_in_one_statement_leave_the_rows_of_each_by_itself(database: Database) -> None:
    await copied(database)
    changes = whole(Changes(catalog_version=1))
    left = []
    async with database.connection() as connection, undone(connection):  # One now(): rows can be compared whole.
        for together in ([{TENANT: changes, "other": changes}], [{"other": changes}, {TENANT: changes}]):
            async with undone(connection):
                for tenants in together:
                    text, arguments = statement_of(tenants, 5)
                    row = await connection.fetchrow(text, *arguments)
                left.append([unnumbered(await contents(connection, tenant)) for tenant in (TENANT, "other")])
    assert left[0] == left[1] and left[0][1]["rewards"] and left[0][1]["codes"] != left[0][0]["codes"]
    assert len(row) == 4 and row["stock_tenants"] == [TENANT] * 2


def debut(prize_id: str) -> Changes:
    return replace(taking(prize_id, "ann"), catalog_version=1, debuts={"game": GameDebut("game")})


async def test_refused_or_blocked_tenant_delays_no_other(database: Database, rival: asyncpg.Connection) -> None:
    await copied(database)
    own, committer = Lane("home", TENANT), Committer(database, mailbox_limit=16, batch_limit=2, idle_seconds=1)

    def commits() -> list[asyncio.Future[Any]]:
        return [asyncio.ensure_future(committer.commit(one, debut("prize_a"))) for one in ("other", TENANT)]

    before = database.round_trips
    assert await asyncio.gather(*commits()) == [{"prize_a": 19}, {"prize_a": 9}]
    assert database.round_trips - before == 1 and committer._lane(TENANT) == Lane("home")
    assert await database.fetchval("SHOW lock_timeout") == "0", "it outlived its statement"
    async with rival.transaction():
        await rival.execute("SELECT FROM tenants WHERE tenant_id = $1 FOR UPDATE", TENANT)  # The first lock.
        before, many = database.round_trips, [TENANT] * 15 + ["other"] * 2
        # The second of `other` finds the shared mailbox full; the blocked ones leave it together.
        *held, one, two = [asyncio.ensure_future(committer.commit(it, debut("prize_free"))) for it in many]
        await asyncio.wait_for(asyncio.gather(one, two), 5)
        assert database.round_trips - before <= 2 * OVERLAP + 2 and not any(blocked.done() for blocked in held)
        for left in (18, 17, 16):
            of_other, blocked = commits()
            assert await asyncio.wait_for(of_other, 5) == {"prize_a": left} and not blocked.done()
            assert committer._lane(TENANT) == own and committer._lane("other") == Lane("home")
    await asyncio.gather(*held)
    await committer.drain()
    assert await database.fetch("SELECT remaining FROM stock WHERE prize_id = 'prize_a' ORDER BY 1") == [(6,), (16,)]
    await database.execute("UPDATE stock SET awarded = 10, remaining = 0 WHERE total > 0 AND tenant_id = $1", TENANT)
    committer._alone.clear()
    assert await outcomes(*commits()) == {"": 1, "stock": 1} and committer._lane(TENANT) == own


async def test_write_of_a_tenant_that_moves_before_it_is_sent_is_refused(database: Database, database_url: str) -> None:
    await copied(database)
    databases = Databases(database_url, [], size=1, acquire_seconds=10, statement_seconds=10)
    committer = Committer(databases, mailbox_limit=100, batch_limit=100, idle_seconds=1)
    async with databases.home.connection():
        commits = [asyncio.ensure_future(committer.commit(one, taking("prize_a", "ann"))) for one in ("other", TENANT)]
        writing = asyncio.ensure_future(at(TENANT, databases.execute("DELETE FROM stock WHERE tenant_id = $1", TENANT)))
        leasing = asyncio.ensure_future(Outbox(SimpleNamespace(database=databases)).lease_due(TENANT, 1, {}))  # type: ignore
        await until(lambda: len(databases.home._slots._waiters or ()) == 3)
        databases.place(TENANT, "", paused=True)
    other, *paused = await asyncio.gather(*commits, writing, leasing, return_exceptions=True)
    assert other == {"prize_a": 19} and [type(one) for one in paused] == [TenantMoved] * 3
    assert await database.fetch("SELECT remaining FROM stock WHERE prize_id = 'prize_a' ORDER BY 1") == [(10,), (19,)]
    await databases.close()


async def test_refused_batch_fails_none_that_it_was_committed_with_and_goes_on_in_the_tenants_share_of_connections(
    committer: Committer, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await copied(database)
    tenants = []

    async def fetchrow(self: Database, query: str, *args: Any, **more: Any) -> Any:
        if self is database:  # Jobs of other services in this process read as well.
            tenants.append(trace.tenant.get())
        return await fetch(self, query, *args, **more)

    fetch = Database.fetchrow
    monkeypatch.setattr(Database, "fetchrow", fetchrow)
    spoilt = taking("prize_a", "bad")
    spoilt.stock["prize_a"] = StockTake("prize_a", 100)
    batches = [taking("prize_a", f"p{nth}") for nth in range(6)]
    assert await outcomes(committer.commit(TENANT, spoilt)) == {"stock": 1}
    await committer.commit(TENANT, batches.pop())
    committer._alone.clear()
    assert await outcomes(*(committer.commit(TENANT, changes) for changes in [*batches, spoilt])) == {"": 5, "stock": 1}
    assert tenants == ["", TENANT, ""] + [TENANT] * 7 and trace.tenant.get() == ""
    committer._alone.clear()
    refused_together = committer.commit("other", taking("prize_free", "ann")), committer.commit(TENANT, spoilt)
    assert await outcomes(*refused_together) == {"": 1, "stock": 1}
    for _ in range(8):
        await committer.commit("other", taking("prize_free", "ann"))
    assert tenants.count("other") == 1, "refused with another tenant's changes, it stays alone"


async def test_batches_of_a_changed_catalogue_are_refused_at_once(committer: Committer, database: Database) -> None:
    version = await database.fetchval("SELECT catalog_version FROM tenants WHERE tenant_id = $1", TENANT)
    batches = [taking("prize_free", f"p{nth}") for nth in range(40)]
    for changes in batches:
        changes.catalog_version = version + 1
    before = database.round_trips
    assert await outcomes(*(committer.commit(TENANT, changes) for changes in batches)) == {"catalog": 40}
    assert database.round_trips - before <= OVERLAP


@asynccontextmanager
async def slots_held(committer: Committer, database: Database, rival: asyncpg.Connection) -> AsyncIterator[None]:
    """Both of the tenant's commits wait for a row, so that what is committed meanwhile waits to go together."""
    # Of this database alone: what another test has left may wait still.
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    held = []
    async with rival.transaction():
        await rival.execute("SELECT FROM stock WHERE prize_id = 'prize_free' FOR UPDATE")
        for nth in range(OVERLAP):
            held.append(asyncio.ensure_future(committer.commit(TENANT, taking("prize_free", f"holder{nth}"))))
            while await database.fetchval(waiting) <= nth:
                await asyncio.sleep(0.01)
        yield
    await asyncio.gather(*held)


@pytest.mark.parametrize(("plays", "cap", "done"), [(2, 5, 2), (7, 5, 5), (60, 5, 5)])
@pytest.mark.fault(
    "Two turns of one game in one commit", size="60 plays, a cap of 5, every slot held", figure="5 plays, counter 5"
)
async def test_batches_of_one_game_that_go_together_count_every_play(
    committer: Committer, database: Database, rival: asyncpg.Connection, plays: int, cap: int, done: int
) -> None:
    def playing() -> Changes:
        changes = Changes()
        changes.plays.append(a_play())
        changes.count_play(PlayCount("game", "ann", TODAY, 1, cap=cap, day_cap=0))
        return changes

    async with slots_held(committer, database, rival):
        requests = [asyncio.ensure_future(committer.commit(TENANT, playing())) for _ in range(plays)]
        await asyncio.sleep(0)  # each is in the mailbox now
    refused = {"plays": plays - done} if plays > done else {}
    assert await outcomes(*requests) == {"": done, **refused}
    assert await database.fetchval("SELECT plays FROM game_players WHERE player_id = 'ann'") == done
    assert await database.fetchval("SELECT count(*) FROM plays WHERE player_id = 'ann'") == done


async def test_stale_batch_is_refused(committer: Committer, database: Database, rival: asyncpg.Connection) -> None:
    await database.execute("UPDATE tenants SET catalog_version = 7")

    def decided(version: int, player_id: str) -> Changes:
        changes = taking("prize_a", player_id)
        changes.catalog_version = version
        return changes

    async with slots_held(committer, database, rival):
        tasks = [asyncio.ensure_future(committer.commit(TENANT, decided(version, f"p{version}"))) for version in (7, 6)]
        await asyncio.sleep(0)  # both are in the mailbox now
    assert await outcomes(*tasks) == {"": 1, "catalog": 1}
    winners = await database.fetch("SELECT player_id FROM prize_players WHERE player_id LIKE 'p%'")
    assert [row["player_id"] for row in winners] == ["p7"]


def test_absorb_takes_every_part() -> None:
    parts = set(Changes.__struct_fields__) - {"catalog_version"}
    everything = Changes()
    everything.absorb(whole())
    assert {name for name in parts if not getattr(everything, name)} == set()


GAMES = st.sampled_from(["game", "other"])
PLAYERS = st.sampled_from(["ann", "bob"])
PRIZES = st.sampled_from(["prize_a", "prize_b", "prize_free"])
CAPS = st.sampled_from([0, 0, 1, 2, 3, 5])
FEW = st.integers(1, 4)
AT_FIRST = {("ann", "camp", "coin"): 5}
PARTS = ("play", "play", "plan", "plan", "prize", "prize", "points", "code", "grant", "award", "balance", "turns")


@st.composite
def some_changes(draw: st.DrawFn) -> Changes:
    changes = Changes()
    for part in draw(st.lists(st.sampled_from(PARTS), min_size=1, max_size=4)):
        player, prize = draw(PLAYERS), draw(PRIZES)
        match part:
            case "play":
                changes.plays.append(a_play(player_id=player))
                caps = {"cap": draw(CAPS), "day_cap": draw(CAPS)}
                changes.count_play(
                    PlayCount(draw(GAMES), player, TODAY, 1, **caps, busy_until=draw(st.sampled_from([0, 0, 7, 9])))
                )
            case "plan" if ("planned", player) not in changes.play_counts:
                changes.plays.append(a_play(player_id=player))
                changes.count_play(
                    PlayCount("planned", player, TODAY, 1, cap=draw(FEW), day_cap=draw(CAPS), exact=True)
                )
            case "prize" | "points":
                caps = {"per_user": draw(CAPS), "per_day": draw(CAPS)}
                changes.take_prize(prize, player, draw(FEW), TODAY, stocked=part == "prize", **caps)
            case "code":
                changes.rewards.append(a_reward(ids.make("reward"), "prize_a", player))
                changes.take_code(changes.rewards[-1].reward_id, "prize_a")
            case "grant":
                rung = draw(st.sampled_from(["rung_1", "rung_2", "rung_3"]))
                changes.grants.append(NewGrant("game", player, rung, "", None, None, None))
            case "award":
                changes.awards.append(StandingAward("board", 1, "reward"))
            case "balance":
                key = (player, "camp", draw(st.sampled_from(["coin", "leaf"])))
                before = changes.balances[key].after if key in changes.balances else AT_FIRST.get(key)
                changes.move_balance(ids.make("entry"), *key, before, draw(FEW), "play_reward", "play")
            case "turns" if ("ann", "camp") not in changes.turns:
                changes.move_turns(ids.make("turn"), "ann", "camp", 2, -1, "play", "play")
    return changes


@pytest_asyncio.fixture(scope="module")
async def shared(module_database_url: str) -> AsyncIterator[Database]:
    async with filled(module_database_url) as database:
        yield database


async def commit_all(connection: asyncpg.Connection, batches: list[Changes]) -> str:
    for changes in batches:
        text, arguments = statement_of({TENANT: changes})
        try:
            await connection.fetchrow(text, *arguments)
        except asyncpg.PostgresError as error:
            assert error.sqlstate == "TB001", error
            return str(error)
    return ""


def unnumbered(found: Contents) -> dict[str, list[Any]]:
    """The rows, with a ledger in its order: its numbers are the clock's, and one statement's leave gaps."""

    def of(row: Any) -> tuple[Any, ...]:
        return tuple(row[name] for name in ("player_id", "scope_key", "currency", "seq"))

    ledgers = {
        table: [{name: value for name, value in row.items() if name != "seq"} for row in sorted(found[table], key=of)]
        for table in ("balances", "ledger_entries")
    }
    return {**found, **ledgers}


@tried(max_examples=60)
@given(batches=st.lists(some_changes(), min_size=2, max_size=4))
async def test_merged_changes_leave_the_rows_of_each_by_itself(shared: Database, batches: list[Changes]) -> None:
    apart: list[Changes] = []
    merged = Changes()
    for changes in batches:
        if not any(changes.overlaps(other) for other in apart):
            apart.append(changes)
            merged.absorb(changes)
    left = []
    async with shared.connection() as connection, undone(connection):  # One now(): rows can be compared whole.
        for way in ([merged], apart):
            async with undone(connection):
                refused = await commit_all(connection, way)
                left.append((bool(refused), None if refused else unnumbered(await contents(connection))))
    assert left[0] == left[1]


async def test_overlapping_batches_wait_in_order() -> None:
    loop = asyncio.get_running_loop()

    def work(**moved: str) -> Work[Decided]:
        changes = Changes()
        if "balance" in moved:
            changes.move_balance(ids.make("entry"), moved["balance"], "camp", "coin", 5, 1, "play_reward", "play")
        if "turns" in moved:
            changes.move_turns(ids.make("entry"), moved["turns"], "camp", 2, -1, "play", "play")
        if "plays" in moved:
            changes.count_play(PlayCount("game", moved["plays"], TODAY, 1, cap=9, day_cap=0, exact=True))
        return Work(Decided(TENANT, changes), loop.create_future())

    for kind in ("balance", "turns", "plays"):
        first, other, second = work(**{kind: "ann"}), work(**{kind: "bob"}), work(**{kind: "ann"})
        assert _compatible([first, other, second], 99) == ([first, other], [second]), kind
        another = work(**{kind: "bob"})
        assert _compatible([first, other, another], 99) == ([first, other], [another]), kind
        # Decided after what waits: it waits too, though it would go with the first.
        late = work(balance="dan", turns="dan", plays="dan")
        both = work(**({kind: "ann"} | {"balance" if kind != "balance" else "turns": "dan"}))
        assert _compatible([first, both, late], 99) == ([first], [both, late]), kind


async def test_deferred_batch_is_not_overtaken(database: Database) -> None:
    committer = Committer(database, mailbox_limit=100, batch_limit=100, idle_seconds=1)

    def moving(**befores: int | None) -> Changes:
        changes = Changes()
        for currency, before in befores.items():
            changes.move_balance(ids.make("entry"), "ann", "camp", currency, before, 1, "play_reward", "play")
        return changes

    batches = [moving(coin=5), moving(coin=6, leaf=None), moving(leaf=1), moving(coin=7)]
    assert await outcomes(*(committer.commit(TENANT, changes) for changes in batches)) == {"": 4}
    await committer.drain()
