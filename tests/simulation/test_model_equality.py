"""The model of Postgres is as the real one: batches drawn alike are run through both, and nothing tells them apart."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import count
from random import Random
from typing import Any

import pytest

import sql
from ops.servers.postgres import DISPOSABLE, Postgres
from ops.simulation.postgres import MODELS
from runtime.actors.committer import statement_of
from sql.migrate import migrate
from tests.support.arguments import ARGUMENTS, drawn
from tests.support.batches import TENANT, Draw
from tests.support.composed import COMPOSED, changes
from tests.support.directories import server_directory
from tests.support.furnished_twins import furnish
from tests.support.twins import Side, Twins

ROUNDS = 5
ROUNDS_MAX = 60
"""Until every statement has found something."""
MEETINGS = 200
"""Pairs of transactions that are open at once."""

_numbers = count(1)

ALONE = frozenset(
    {
        "keyring.take_turns",  # has nothing to do with rows
        "analytics.horizon",  # is of the clock, and of who else is connected
    }
)
OFTEN = ["fulfillment.lease", "fulfillment.record", "play.set_back", "claims.claim", "quests.complete"]
OFTEN += ["leaderboards.owed", "leaderboards.remove", "quests.remove"]
"""Those of which one in many finds what it is about."""

MAKING = [name for name in sorted(MODELS) if name.endswith(".insert")]
"""Those of things that others end for good."""

UNMATCHED = frozenset({"gaps.notices"})
"""What no statement of the simulation makes: budgets and low stock are watched outside of it."""

MEETING = sorted(name for name in MODELS if name not in ALONE)


PARTLY_SIMULATED = frozenset({"analytics", "logins"})
"""Files of which the simulation uses what merges and changes of a campaign do."""

NOT_SIMULATED = frozenset(
    {
        *("campaigns.date", "campaigns.inverted", "fulfillment.search", "games.revisions", "games.was_played"),
        *("integrations.rotate", "quests.completed", "quests.own", "quests.progress"),
    }
)
"""What no step of the simulation asks: looks of staff's and of a page, a receiver's secret, a copy's own dates."""


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[Postgres]:
    """A server that may have deadlocks: every other test run fails where its own had one."""
    with server_directory(lasting=False) as directory:
        server = Postgres(directory / "postgres", DISPOSABLE)
        server.start()
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture
async def twins(own_postgres: Postgres) -> AsyncIterator[Twins]:
    name = f"twins_{next(_numbers)}"
    own_postgres.psql(f"create database {name}")
    await migrate(own_postgres.url(name))
    twins = Twins(own_postgres.url(name), own_postgres.url())
    await twins.open()
    try:
        await furnish(twins)
        yield twins
    finally:
        await twins.close()


def text_and_arguments(draw: Draw, name: str) -> tuple[str, tuple[Any, ...]]:
    """A statement with arguments drawn for it."""
    if name == "commit.commit":
        made = changes(draw)
        text, arguments = statement_of(made)
        return text, (TENANT, made.catalog_version, *arguments)
    if name.startswith("SELECT"):
        return name, ()
    file, _, statement = name.partition(".")
    return sql.load(file)[statement], drawn(draw, name)


def test_every_model_is_of_a_statement_and_has_arguments() -> None:
    named = [name for name in MODELS if not name.startswith("SELECT")]
    assert [name for name in named if name.partition(".")[2] not in sql.load(name.partition(".")[0])] == []
    assert set(MODELS) - {"commit.commit"} == set(ARGUMENTS) | set(COMPOSED)


def test_every_statement_of_a_file_that_is_simulated_has_a_model() -> None:
    files = {name.partition(".")[0] for name in MODELS if not name.startswith("SELECT")} - PARTLY_SIMULATED
    assert [
        f"{file}.{name}"
        for file in sorted(files)
        for name in sql.load(file)
        if f"{file}.{name}" not in MODELS.keys() | NOT_SIMULATED
    ] == []
    assert not NOT_SIMULATED & MODELS.keys()


async def test_statements_alone_do_what_postgres_does(twins: Twins) -> None:
    """Each of them matches a row at least once: one that never does is not compared at all."""
    draw = Draw(twins.server, Random("alone"))
    for nth in range(ROUNDS_MAX):
        unmatched = [name for name in sorted(MODELS.keys() - UNMATCHED) if not twins.matched[name]]
        if nth >= ROUNDS and not unmatched:
            break
        names = sorted(MODELS) + ["commit.commit"] * 40 + OFTEN * 5
        if nth >= ROUNDS:
            names += unmatched * 10 + MAKING * 4
        draw.random.shuffle(names)
        for name in names:
            text, arguments = text_and_arguments(draw, name)
            await twins.ask(text, *arguments)
        await twins.compare_tables()
        if nth % 2:
            await twins.let_time_pass()
    assert [name for name in sorted(MODELS) if not twins.ran[name]] == [], "never ran"
    assert [name for name in sorted(MODELS.keys() - UNMATCHED) if not twins.matched[name]] == [], "never matched a row"
    assert set(twins.refused) >= {"commit.commit"}


async def test_a_callback_during_an_attempt_ends_it_as_in_postgres(twins: Twins) -> None:
    """What drawn arguments seldom come to: leased, called back, and recorded in vain; twice, so that one is kept."""
    statements = {name: sql.load("fulfillment")[name] for name in ("lease", "complete", "record")}
    for nth, status in enumerate(("failed", "failed", "delivered")):
        taken = await twins.ask(statements["lease"], TENANT, 60.0, ["task_0"], f"worker_{nth}", [], [])
        assert len(taken) == 1, taken
        callback = (status, f"ext_{nth}", "oops", f"callback_{nth}", [0.0, 0.0, 0.0])
        await twins.ask(statements["complete"], TENANT, "task_0", *callback)
        late = ([f"worker_{nth}"], ["delivered"], [""], ["late"], [0.0], ["too late"], [7])
        assert not await twins.ask(statements["record"], TENANT, ["task_0"], *late)
        await twins.compare_tables()
    (task,) = [row for row in twins.server.rows("tasks") if row["task_id"] == "task_0"]
    assert (task["status"], task["external_id"], task["answer"]) == ("delivered", "ext_2", "")
    assert len(task["earlier"]) == 2, "of three attempts, that none of them answered"


async def test_transactions_that_meet_wait_and_see_as_in_postgres(twins: Twins) -> None:
    random = Random("meeting")
    draw = Draw(twins.server, random, focus=8)
    for nth in range(MEETINGS):
        await meet(twins, draw, random)
        if nth % 4 == 3:
            await twins.compare_tables()
    assert twins.waits > MEETINGS / 10, "else nothing of how they wait was compared"


async def meet(twins: Twins, draw: Draw, random: Random) -> None:
    """Two transactions, step by step in a drawn order, each of a few statements that are about the same things."""
    about = random.choice(SUBJECTS)
    left = {side: random.choice([2, 3, 4]) for side in twins.sides}
    for side in twins.sides:
        await twins.begin(side)
    open_sides = list(twins.sides)
    while open_sides:
        ready = [side for side in open_sides if side.waiting is None]
        if not ready:
            await twins.untie()
            return
        side = random.choice(ready)
        if left[side] > 0:
            left[side] -= 1
            text, arguments = text_and_arguments(draw, random.choice(about))
            await twins.step(side, text, *arguments)
        else:
            await twins.finish(side, "COMMIT" if random.random() < 0.8 else "ROLLBACK")
            open_sides.remove(side)
        for other in open_sides:
            if other is not side and other.waiting is not None:
                await twins.look(other)


def named(*words: str) -> list[str]:
    return [name for name in MEETING if any(name.startswith(word) for word in words)]


SUBJECTS: list[list[str]] = [
    *[["commit.commit"]] * 4,
    ["commit.commit", "play.refresh", "play.snapshot", "play.set_back", "tenancy.raise_catalog_version"],
    ["commit.commit", "play.set_back", "tenancy.raise_catalog_version", "tenancy.hold_catalog"],
    ["commit.commit", "merging.hold_players", "merging.end_guest", "merging.hold_guest", "quests.complete"],
    ["claims.claim", "rewards.revoke", "rewards.fulfill", "rewards.expire", "rewards.hold", "rewards.give_back"],
    named("rewards.", "claims."),
    named("fulfillment."),
    ["quests.complete", "quests.lock", "quests.remove", "quests.archive", "quests.for_completion"],
    ["wallet.move", "wallet.balances", "wallet.ledger", "merging.move_balances", "merging.hold_balances"],
    named("merging."),
    named("leaderboards."),
    ["once.take", "once.keep", "once.find", "once.begin_again"],
    ["codes.add", "codes.hold", "codes.withdraw", "rewards.take_code", "claims.claim", "commit.commit"],
    ["codes.add", "codes.hold", "codes.set_expiry", "rewards.take_code", "claims.claim", "commit.commit"],
    ["players.meet", "players.update", "players.link", "players.sign_up", "players.set_status"],
    named("integrations.", "gaps."),
    named("prizes.", "games.", "campaigns.", "tenancy."),
    named("analytics.", "merging.move"),
    MEETING,
]


async def test_deadlocks_end_with_one_victim_as_in_postgres(twins: Twins) -> None:
    hold = sql.load("rewards")["hold"]
    one, other = twins.sides
    for side in (one, other):
        await twins.begin(side)
    await twins.step(one, hold, TENANT, "reward_0")
    await twins.step(other, hold, TENANT, "reward_1")
    await twins.step(one, hold, TENANT, "reward_1")
    await twins.step(other, hold, TENANT, "reward_0")
    assert all(isinstance(side, Side) and side.waiting for side in twins.sides)
    assert await twins.untie() == 1
