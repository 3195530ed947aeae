import asyncio
from collections import Counter
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, cast

import asyncpg
import pytest

from runtime.outgoing.providers import Delivered, Outcome
from runtime.streams import outbox as outboxes
from runtime.streams.consumer import Message
from runtime.streams.delivery import SWEEP_BATCH, Deliveries
from runtime.streams.receivers import ATTEMPTS_MAX
from tests.support.game_state import KEYS
from tests.support.locks import blocked
from tests.support.neighbours import PLAYER, TENANT, surround
from tests.support.outbox import SCHEDULE, SQL, Outbox
from tests.support.waiting import HANG_SECONDS, until

STATES: Final = ("pending", "delivering", "awaiting", "retry", "delivered", "dead", "cancelled")


async def test_lease_takes_only_due_tasks(outbox: Outbox) -> None:
    due = [
        *(await outbox.task("first", due=None), await outbox.task("due", due=-1)),
        *(await outbox.task("again", "retry", due=-1), await outbox.task("again_at_once", "retry", due=None)),
        await outbox.task("abandoned", "delivering", lease=-1, owner="gone"),
        await outbox.task("begun_by_hand", due=-1, prize="by_hand", reward="claimed"),
        await outbox.task("won", due=-1, reward="won"),
    ]
    not_due = [
        *(await outbox.task("later", due=60), await outbox.task("again_later", "retry", due=60)),
        await outbox.task("another_s", "delivering", lease=60, owner="other"),
        *[await outbox.task(status, status, due=-1, lease=-1) for status in STATES[2:3] + STATES[4:]],
        *[await outbox.task(f"of_{status}", due=-1, reward=status) for status in ("fulfilled", "expired", "revoked")],
    ]
    before = await outbox.states()
    beside = await surround(outbox.database, "t", by=(TENANT, PLAYER))
    assert await outbox.lease(*due, *not_due, "none") == sorted(due)
    after = await outbox.states()
    assert {name: after[name] for name in not_due} == {name: before[name] for name in not_due}
    for name in due:
        state = await outbox.state(name)
        reward = "claimed" if name == "begun_by_hand" else "fulfilling"
        shown = [state[fact] for fact in ("status", "reward", "attempts", "lease_owner", "channel")]
        assert shown == ["delivering", reward, 2, "me", "manual" if reward == "claimed" else "webhook"], name
        assert 50 < state["leased_for"] <= 60, name
    assert await beside.changed(outbox.database) == {}
    assert await outbox.lease(*due) == [], "they are leased"


async def test_lease_keeps_within_the_room_of_each_prize(outbox: Outbox) -> None:
    tasks = [await outbox.task(f"mug_{n}", due=-1) for n in range(3)]
    others = [await outbox.task(f"cup_{n}", due=-1, prize="other") for n in range(2)]
    assert await outbox.lease(*tasks, *others, rooms={"prize": 1}) == sorted([tasks[0], *others])
    assert await outbox.lease(*tasks, rooms={"prize": 0, "other": 5}) == []
    assert await outbox.lease(*tasks) == tasks[1:]


@pytest.mark.parametrize("table", ["tasks", "rewards"])
async def test_lease_skips_locked_tasks(outbox: Outbox, pool: asyncpg.Pool, table: str) -> None:
    held, free = await outbox.task("held", due=-1), await outbox.task("free", due=-1)
    async with pool.acquire() as rival, rival.transaction():
        await rival.execute(f"SELECT FROM {table} WHERE reward_id = 'held' FOR UPDATE")
        assert await outbox.lease(held, free) == [free]
    assert await outbox.lease(held, free) == [held]


@pytest.mark.parametrize(
    ("status", "delay", "task", "reward", "attempts", "error", "due", "leased", "fails"),
    [
        ("delivered", 0, "delivered", "fulfilled", 1, "went wrong", None, None, False),
        ("awaiting", 0, "awaiting", "fulfilling", 1, "went wrong", None, None, False),
        ("awaiting", 60, "awaiting", "fulfilling", 1, "went wrong", None, 60, False),
        ("retry", 60, "retry", "fulfilling", 1, "went wrong", 60, None, False),
        ("dead", 60, "dead", "failed", 1, "went wrong", None, None, True),
        ("put_back", 60, "retry", "fulfilling", 0, "as before", 60, None, False),
    ],
)
async def test_attempt_is_recorded_as_it_ended(
    outbox: Outbox,
    status: str,
    delay: float,
    task: str,
    reward: str,
    attempts: int,
    error: str,
    due: float | None,
    leased: float | None,
    fails: bool,
) -> None:
    name = await outbox.task("mine", "delivering", lease=60, owner="me")
    await outbox.task("neighbour", "delivering", lease=60, owner="me")
    beside = await surround(outbox.database, "t", by=(TENANT, PLAYER))
    row = await outbox.record(name, status, external="new ext" if status == "delivered" else "", delay=delay)
    assert (row["task_id"], row["status"], row["failed_reward_id"]) == (name, status, name if fails else None)
    state = await outbox.state(name)
    recorded = (state["status"], state["reward"], state["attempts"], state["last_error"], state["lease_owner"])
    assert recorded == (task, reward, attempts, error, "")
    assert state["external_id"] == ("new ext" if status == "delivered" else "ext")
    tried = (state["tried_at"], state["duration_ms"], state["answer"])
    assert tried == ((None, 3, "before") if status == "put_back" else (state["updated_at"], 7, "no"))
    assert (state["fulfilled_at"] is not None) == (reward == "fulfilled")
    for found, wanted in ((state["due_in"], due), (state["leased_for"], leased)):
        assert found is None if wanted is None else wanted - 10 < found <= wanted
    assert (await outbox.states())["neighbour"] == ("delivering", "fulfilling")
    assert await beside.changed(outbox.database) == {}


async def test_attempts_are_kept_up_to_the_newest_twenty(outbox: Outbox) -> None:
    name = await outbox.task("mine", due=-1)
    ended: list[dict[str, object]] = []
    for nth in range(23):
        assert await outbox.lease(name) == [name]
        status = "put_back" if nth == 4 else "retry"
        await outbox.record(name, status, attempt=(f"error {nth}", f"answer {nth}", nth))
        row = await outbox.state(name)
        if status == "retry":
            at = int(row["tried_at"].timestamp())
            ended.append({"tried_at": at, "error": f"error {nth}", "answer": f"answer {nth}", "duration_ms": nth})
        assert row["earlier"] == ended[:-1][-20:], "the last is the row's own"
    assert len(ended) == 22
    await outbox.lease(name)
    await outbox.record(name, "delivered", attempt=("", "yes", 1))
    assert (await outbox.state(name))["earlier"] == ended[-20:]


async def test_attempt_of_a_lost_lease_is_not_recorded(outbox: Outbox) -> None:
    name = await outbox.task("taken", "delivering", lease=60, owner="other")
    assert await outbox.record(name, "delivered") is None
    assert await outbox.record("none", "delivered") is None
    assert await outbox.states() == {name: ("delivering", "fulfilling")}


@pytest.mark.parametrize("reward", ["fulfilled", "expired", "revoked", "failed"])
@pytest.mark.parametrize("status", ["delivered", "dead"])
async def test_ended_reward_keeps_its_status_after_an_attempt(outbox: Outbox, reward: str, status: str) -> None:
    name = await outbox.task("mine", "delivering", lease=60, owner="me", reward=reward)
    assert (await outbox.record(name, status))["failed_reward_id"] is None
    assert await outbox.states() == {name: (status, reward)}


REWARD_OF: Final = {"delivered": "fulfilled", "dead": "failed", "cancelled": "revoked"}
"""By the state of a task; of the others: fulfilling."""


async def test_callback_moves_a_task_only_from_allowed_states(outbox: Outbox) -> None:
    cases = [(state, attempts) for state in STATES for attempts in (1, 2, 3)]
    for state, attempts in cases:
        reward = REWARD_OF.get(state, "fulfilling")
        for said in ("delivered", "failed"):
            name = f"{state} {attempts} {said}"
            await outbox.task(name, state, reward=reward, lease=60, owner="me", attempts=attempts)
    beside = await surround(outbox.database, "t", by=(TENANT, PLAYER))
    wrong = []
    for state, attempts in cases:
        reward = REWARD_OF.get(state, "fulfilling")
        delivered = state not in ("delivered", "cancelled")
        failed = ("dead" if attempts == 3 else "retry") if state in ("awaiting", "delivering") else None
        name, other = f"{state} {attempts} delivered", f"{state} {attempts} failed"
        outcome = (await outbox.complete(name, "delivered", name), await outbox.complete(other, "failed", other))
        left, stored = await outbox.state(name), await outbox.state(other)
        found: list[object] = [row["outcome"] for row in outcome]
        found += [(row["status"], row["reward"]) for row in (left, stored)]
        found.append(left["fulfilled_at"] == left["updated_at"] if delivered else left["fulfilled_at"])
        found += [
            (left["external_id"], left["last_error"]),
            (stored["last_error"], stored["external_id"], stored["fulfilled_at"]),
        ]
        expected: list[object] = ["delivered" if delivered else None, failed]
        expected.append(("delivered", "fulfilled") if delivered else (state, reward))
        expected.append((failed, "failed" if failed == "dead" else reward) if failed else (state, reward))
        expected.append(True if delivered else None)
        expected.append(("new ext", "") if delivered else ("ext", "as before"))
        expected.append(("no" if failed else "as before", stored["external_id"] if failed else "ext", None))
        if failed:
            found.append((stored["lease_owner"], stored["lease_until"]))
            expected.append(("", None))
            pause = SCHEDULE[attempts - 1] if failed == "retry" else None
            due = stored["due_in"]
            found.append(due is None if pause is None else pause - 5 < due <= pause)
            expected.append(True)
        wrong += [(state, attempts, found, expected)] if found != expected else []
    assert wrong == []
    assert await beside.changed(outbox.database) == {}


@pytest.mark.parametrize("said", ["delivered", "failed"])
async def test_callback_during_an_attempt_ends_it(outbox: Outbox, said: str) -> None:
    name = await outbox.task("mine", due=-1)
    await outbox.lease(name)
    # Of the first attempt there is none before it.
    assert (await outbox.complete(name, "failed", "first", external_id=""))["outcome"] == "retry"
    row = await outbox.state(name)
    assert (row["tried_at"], row["duration_ms"], row["answer"]) == (row["updated_at"], 0, "")
    assert (row["last_error"], row["earlier"], row["external_id"]) == ("no", [], "ext"), "an empty id replaces none"
    await outbox.database.execute(SQL["rearm"], "t", name, "")
    await outbox.lease(name)
    await outbox.record(name, "retry", attempt=("broken", "an answer", 5))
    recorded = await outbox.state(name)
    first = {"tried_at": int(row["tried_at"].timestamp()), "error": "no", "answer": "", "duration_ms": 0}
    assert recorded["earlier"] == [first]
    await outbox.lease(name)
    assert (await outbox.complete(name, said, "third"))["outcome"] == ("delivered" if said == "delivered" else "retry")
    assert await outbox.record(name, "retry", attempt=("too late", "unheard", 9)) is None
    row = await outbox.state(name)
    assert (row["tried_at"], row["duration_ms"], row["answer"]) == (row["updated_at"], 0, "")
    assert row["last_error"] == ("" if said == "delivered" else "no")
    second = {"error": "broken", "answer": "an answer", "duration_ms": 5}
    assert row["earlier"] == [first, {"tried_at": int(recorded["tried_at"].timestamp()), **second}]


@pytest.mark.parametrize("state", ["awaiting", "retry", "dead"])
async def test_callback_after_an_attempt_adds_no_attempt(outbox: Outbox, state: str) -> None:
    name = await outbox.task("mine", "delivering", lease=60, owner="me")
    await outbox.record(name, state, attempt=("broken", "an answer", 5))
    before = await outbox.state(name)
    assert (await outbox.complete(name, "delivered"))["outcome"] == "delivered"
    after = await outbox.state(name)
    unchanged = ("tried_at", "duration_ms", "answer", "earlier")
    assert [after[one] for one in unchanged] == [before[one] for one in unchanged] and after["answer"] == "an answer"


async def test_callback_counts_once_and_for_one_task(outbox: Outbox) -> None:
    for name in ("one", "two", "three"):
        await outbox.task(name, "awaiting")
    assert (await outbox.complete("one", "failed"))["outcome"] == "retry"
    again = await outbox.complete("one", "delivered")
    assert (again["outcome"], again["misused"]) == (None, False)
    misused = await outbox.complete("two", "delivered")
    assert (misused["outcome"], misused["misused"]) == (None, True)
    await outbox.task("four", "awaiting", prize="of another receiver")
    assert (await outbox.complete("four", "failed"))["outcome"] == "retry"
    # Without an id each counts.
    assert (await outbox.complete("three", "failed", ""))["outcome"] == "retry"
    assert (await outbox.complete("three", "delivered", ""))["outcome"] == "delivered"
    assert (await outbox.complete("two", "delivered", "another"))["outcome"] == "delivered"
    assert await outbox.complete("none", "delivered", "third") is None


async def test_rearm_moves_a_task_that_is_neither_running_nor_over(outbox: Outbox) -> None:
    cases = [(state, lease) for state in STATES for lease in (-1.0, 60.0)]
    for state, lease in cases:
        for name in (f"{state} {lease}", f"beside {state} {lease}"):
            of = REWARD_OF.get(state, "fulfilling")
            await outbox.task(name, state, reward=of, lease=lease, owner="me", attempts=3, due=60)
    beside = await surround(outbox.database, "t", by=(TENANT, PLAYER))
    wrong = []
    for state, lease in cases:
        row = await outbox.database.fetchrow(SQL["rearm"], "t", f"{state} {lease}", "")
        rearmed = state in ("awaiting", "retry", "dead", "pending") or (state == "delivering" and lease < 0)
        reward = "fulfilling" if state == "dead" else REWARD_OF.get(state, "fulfilling")
        task = await outbox.state(f"{state} {lease}")
        found = (row["rearmed"], task["status"], task["attempts"], task["lease_owner"], task["reward"])
        expected = (True, "pending", 0, "", reward) if rearmed else (False, state, 3, "me", reward)
        if found != expected or (rearmed and not (task["lease_until"] is None and task["due_in"] <= 0)):
            wrong.append((state, lease, found))
    assert wrong == []
    states = await outbox.states()
    assert {state: states[f"beside {state} -1.0"] for state in STATES} == {
        state: (state, REWARD_OF.get(state, "fulfilling")) for state in STATES
    }
    assert await beside.changed(outbox.database) == {}


@pytest.mark.parametrize(("merchant", "found"), [("", True), ("shop", True), ("other", False)])
async def test_rearm_is_limited_to_the_merchants_own_tasks(outbox: Outbox, merchant: str, found: bool) -> None:
    name = await outbox.task("mine", "dead", reward="failed")
    for write in (False, True):
        assert (await outbox.database.fetchrow(SQL["seen"], "t", name, merchant, write) is not None) == found
    assert (await outbox.database.fetchrow(SQL["rearm"], "t", name, merchant) is not None) == found
    assert await outbox.states() == {name: ("pending", "fulfilling") if found else ("dead", "failed")}


async def test_give_up_takes_only_overdue_tasks(outbox: Outbox) -> None:
    named = {f"{state} {lease}": (state, lease) for state in STATES for lease in (-1.0, 60.0, None)}
    for name, (state, lease) in named.items():
        await outbox.task(name, state, reward=REWARD_OF.get(state, "fulfilling"), lease=lease)
    await outbox.task("not named", "awaiting", lease=-1)
    beside = await surround(outbox.database, "t", by=(TENANT, PLAYER))
    before = await outbox.states()
    over = "awaiting -1.0"
    rows = await outbox.database.fetch(SQL["fail_overdue"], "t", list(named), list(named), "too late")
    assert [(row["task_id"], row["failed_reward_id"]) for row in rows] == [(over, over)]
    assert await outbox.states() == before | {over: ("dead", "failed")}
    errors = {name: (await outbox.state(name))["last_error"] for name in named}
    assert errors == dict.fromkeys(named, "as before") | {over: "too late"}
    assert await beside.changed(outbox.database) == {}


@pytest.mark.parametrize("table", ["tasks", "rewards"])
async def test_give_up_skips_locked_tasks(outbox: Outbox, pool: asyncpg.Pool, table: str) -> None:
    for name in ("held", "free"):
        await outbox.task(name, "awaiting", lease=-1)
    both = ["free", "held"]
    async with pool.acquire() as rival, rival.transaction():
        await rival.execute(f"SELECT FROM {table} WHERE reward_id = 'held' FOR UPDATE")
        rows = await outbox.database.fetch(SQL["fail_overdue"], "t", both, both, "too late")
        assert [row["task_id"] for row in rows] == ["free"]
    assert await outbox.states() == {"free": ("dead", "failed"), "held": ("awaiting", "fulfilling")}


async def test_dead_tasks_are_listed_with_merchant_and_error(outbox: Outbox) -> None:
    for status in STATES:
        await outbox.task(status, status)
    await surround(outbox.database, "t", by=(TENANT,))
    rows = await outbox.database.fetch(SQL["dead"], "t", [*STATES, "none"])
    assert [(row["id"], row["merchant_id"], row["error"]) for row in rows] == [("dead", "shop", "as before")]


@pytest.mark.parametrize(
    ("locked", "rewards_free", "tasks_free"),
    [("rewards WHERE reward_id = 'a'", 1, 2), ("tasks WHERE task_id = 'x'", 0, 1)],
)
async def test_ends_are_recorded_under_locks_of_rewards_then_tasks_by_their_ids(
    outbox: Outbox, pool: asyncpg.Pool, locked: str, rewards_free: int, tasks_free: int
) -> None:
    for name in ("a", "b", "another"):
        await outbox.task(name, "delivering", owner="me", lease=60)
    await outbox.database.execute("UPDATE tasks SET task_id = 'y' WHERE task_id = 'a'")
    await outbox.database.execute("UPDATE tasks SET task_id = 'x' WHERE task_id = 'b'")
    async with pool.acquire() as rival, pool.acquire() as another, pool.acquire() as onlooker, another.transaction():
        await another.execute("SELECT FROM rewards WHERE reward_id = 'another' FOR UPDATE")
        await another.execute("SELECT FROM tasks WHERE task_id = 'another' FOR UPDATE")
        async with rival.transaction():
            await rival.execute(f"SELECT FROM {locked} FOR UPDATE")
            recording = await blocked(onlooker, outbox.record_all("x", "y"))
            for free, of in ((rewards_free, "reward"), (tasks_free, "task")):
                rows = await onlooker.fetch(f"SELECT FROM {of}s WHERE {of}_id <> 'another' FOR UPDATE SKIP LOCKED")
                assert len(rows) == free, of
        async with asyncio.timeout(HANG_SECONDS):
            assert await recording == ["x", "y"]


async def test_lease_taken_over_meanwhile_is_waited_for_and_lost(outbox: Outbox, pool: asyncpg.Pool) -> None:
    await outbox.task("a", "delivering", owner="me", lease=60)
    async with pool.acquire() as rival, pool.acquire() as onlooker:
        async with rival.transaction():
            await rival.execute("UPDATE tasks SET lease_owner = 'another'")
            recording = await blocked(onlooker, outbox.record_all("a"))
    assert await recording == []
    assert (await outbox.state("a"))["status"] == "delivering"


async def test_callback_that_waits_for_its_task_reserves_no_id(outbox: Outbox, pool: asyncpg.Pool) -> None:
    for name in ("a", "b"):
        await outbox.task(name, "awaiting", lease=60)
    async with pool.acquire() as rival, pool.acquire() as onlooker:
        async with rival.transaction():
            await rival.execute("SELECT FROM tasks WHERE task_id = 'a' FOR UPDATE")
            waiting = await blocked(onlooker, outbox.complete("a", "delivered"))
            async with asyncio.timeout(HANG_SECONDS):
                assert (await outbox.complete("b", "delivered"))["outcome"] == "delivered"
    outcome = await waiting
    assert (outcome["outcome"], outcome["misused"]) == (None, True)


async def test_callback_that_changes_nothing_answers_the_task_as_it_is(outbox: Outbox) -> None:
    await outbox.task("a", "retry", due=300)
    task = await outbox.state("a")
    outcome = await outbox.complete("a", "failed")
    assert outcome["outcome"] is None
    assert outcome["next_attempt_at"] == int(task["next_attempt_at"].timestamp()) > 0


async def test_texts_of_receivers_are_not_stored_after_an_erasure(outbox: Outbox) -> None:
    await outbox.task("a", "delivering", lease=60, owner="me")
    await outbox.database.execute("""UPDATE tasks SET last_error = '', external_id = '', answer = '';
        INSERT INTO players (tenant_id, player_id, erased_at) SELECT 't', 'ann', won_at FROM rewards""")
    for ended in (outbox.record("a", "awaiting", external="ann"), outbox.complete("a", "failed")):
        await ended
        task = await outbox.state("a")
        assert task["last_error"] in ("the player was erased", "") and (task["external_id"], task["answer"]) == ("", "")
    await outbox.database.execute("UPDATE rewards SET claimed_at = now()")
    await outbox.complete("a", "delivered", "after a new claim")
    assert (await outbox.state("a"))["external_id"] == "new ext"
    await outbox.task("b", "delivering", lease=60, owner="me")
    later = "now() + interval '1 day'"
    await outbox.database.execute(f"INSERT INTO players (tenant_id, player_id, erased_at) VALUES ('t', 'bob', {later})")
    await outbox.record("b", "awaiting", external="ann's")
    assert (await outbox.state("b"))["external_id"] == "ann's"
    await outbox.database.execute(f"UPDATE players SET erased_at = {later}; UPDATE tasks SET lease_owner = 'me'")
    await outbox.record("b", "awaiting", attempt=("", "", 7))
    assert (await outbox.state("b"))["last_error"] == ""


@pytest.mark.parametrize("reward", ["expired", "revoked"])
async def test_callback_never_revives_an_ended_reward(outbox: Outbox, reward: str) -> None:
    await outbox.task("a", "awaiting", reward=reward, lease=60)
    assert (await outbox.complete("a", "delivered"))["outcome"] == "delivered"
    task = await outbox.state("a")
    assert (task["reward"], task["fulfilled_at"]) == (reward, None)


async def test_batch_names_each_task_that_was_given_up(outbox: Outbox) -> None:
    for name in ("a", "b"):
        await outbox.task(name, "delivering", owner="me", lease=60)
    ends = (["a", "b"], ["me"] * 2, ["dead", "delivered"], [""] * 2, [""] * 2, [0.0] * 2, [""] * 2, [0] * 2)
    rows = await outbox.database.fetch(SQL["record"], "t", *ends)
    assert {row["task_id"]: row["failed_reward_id"] for row in rows} == {"a": "a", "b": None}


async def test_outcomes_that_cannot_be_recorded_block_no_other_tenant(outbox: Outbox) -> None:
    database = outbox.database
    for name in ("fails", "free"):
        await outbox.task(name, "delivering", owner="me", lease=60)
    for table in ("rewards", "tasks"):
        await database.execute(f"UPDATE {table} SET tenant_id = 'u' WHERE reward_id = 'free'")
    await database.execute("ALTER TABLE tasks ADD CONSTRAINT c CHECK (task_id <> 'fails' OR status <> 'delivered')")
    engine = SimpleNamespace(database=database, settings=SimpleNamespace(callback_seconds=60))
    recorder = outboxes.Outbox(cast(Any, engine))
    for tenant_id, name in (("t", "fails"), ("u", "free")):
        recorder.ended(outboxes.Leased(tenant_id, "me", {"task_id": name, "channel": "webhook"}), Delivered())
    statuses = partial(database.fetch, "SELECT status FROM tasks ORDER BY task_id")
    await until(statuses, lambda rows: [row["status"] for row in rows] == ["delivering", "delivered"])
    await database.execute("ALTER TABLE tasks DROP CONSTRAINT c")
    await recorder.flush()
    assert [row["status"] for row in await statuses()] == ["delivered"] * 2, "each is tried once more at the stop"


async def test_tenant_whose_receivers_hang_leaves_places_for_another(outbox: Outbox) -> None:
    await outbox.database.execute("""
        INSERT INTO prizes (tenant_id, prize_id, campaign_id, name, type, channel, channel_config)
            SELECT 't', 'p' || n, 'c', 'Mug', 'goods', 'webhook', jsonb_build_object('url', 'https://' || n || '.test')
            FROM generate_series(1, 600) AS n;
        INSERT INTO rewards (tenant_id, reward_id, prize_id, campaign_id, player_id, name, type, value, quantity)
            SELECT 't', 'r' || prize_id, prize_id, 'c', 'ann', 'Mug', 'goods', 5, 1 FROM prizes;
        INSERT INTO tasks
            (tenant_id, task_id, reward_id, prize_id, campaign_id, player_id, channel, status, next_attempt_at)
            SELECT 't', reward_id, reward_id, prize_id, 'c', 'ann', 'webhook', 'pending', now() FROM rewards;
        UPDATE rewards SET tenant_id = 'u' WHERE prize_id = 'p600';
        UPDATE tasks SET tenant_id = 'u', next_attempt_at = now() + '1 hour' WHERE prize_id = 'p600';
        UPDATE prizes SET tenant_id = 'u' WHERE prize_id = 'p600'""")
    tried, go = Counter[str](), asyncio.Event()

    class Hanging(Deliveries):
        async def _deliver(self, task: outboxes.Leased) -> Outcome:
            tried[task.tenant_id] += 1
            await go.wait()
            return Delivered()

    settings = SimpleNamespace(code_keys=KEYS, callback_url="", callback_seconds=60)
    engine = cast(Any, SimpleNamespace(database=outbox.database, settings=settings))
    worker = Hanging(engine, cast(Any, None), outboxes.Outbox(engine))
    async with asyncio.timeout(HANG_SECONDS):
        for leased in (SWEEP_BATCH, 0):
            assert await worker.sweep() == leased
        await outbox.database.execute("UPDATE tasks SET next_attempt_at = now() WHERE tenant_id = 'u'")
        await worker.handle([Message("s", "1", {b"t": b"u rp600"})])
        await until(lambda: tried["u"])
        assert tried["t"] == ATTEMPTS_MAX / 2
        go.set()
        await until(lambda: not worker._under_way)
        assert await worker.sweep() == SWEEP_BATCH, "its places are free again"
        await worker.finish()
