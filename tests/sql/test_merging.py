"""What waits together is merged: that is the same as committing one after the other, whatever is merged."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest_asyncio
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st

from runtime import ids
from runtime.actors.changes import Changes, NewGrant, PlayCount, StandingAward
from runtime.actors.committer import Committer, statement_of
from runtime.stores.database import Database
from tests.support.commits import TENANT, TODAY, a_play, a_reward, filled, outcomes
from tests.support.statements import undone
from tests.support.tables import Contents, contents

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
        text, arguments = statement_of(changes)
        try:
            await connection.fetchrow(text, TENANT, changes.catalog_version, *arguments)
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
async def test_merged_changes_commit_just_where_each_does_and_leave_the_same_rows(
    shared: Database, batches: list[Changes]
) -> None:
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
