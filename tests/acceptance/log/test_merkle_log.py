"""The Merkle log: what enters it, who notices a change, and what a witness refuses."""

import asyncio
import hashlib
import tracemalloc
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from runtime.commands.groups.log.witness import Distrusted, standstill, visit, waited
from runtime.operations.log import appending
from runtime.rules.log import entries
from runtime.rules.log.notes import SigningKey
from tests.support.guests import guest_who_played, log_in
from tests.support.merkle_log import UNGUARDED, append, fetch, found, new_witness, problems, tamper, unlogged
from tests.support.operator import run
from tests.support.resources import make_campaign
from tests.support.stack import Stack
from tests.support.waiting import until
from tests.support.world import COINS, COLLECTION, World

pytestmark = pytest.mark.settings(merkle_log="promo.example.com")


@pytest.fixture
async def world(stack: Stack) -> AsyncIterator[World]:
    """A tenant with a row of each kind."""
    world = World(stack, (await make_campaign(stack))["id"])
    coins = await world.game(COLLECTION, COINS)
    wheel = await world.wheel(await world.prize())
    for game, player in ((coins, "ann"), *((wheel, player) for player in ("ann", "bob", "cas", "dan", "eve"))):
        assert (await world.round(game, player, client_seed="clover")).code == "OK"
    about = {"player_id": "ann", "scope_key": world.campaign_id, "currency": "coin", "amount": 5}
    assert (await stack.core("POST", "/wallet/adjustments", about)).code == "OK"
    yield world


async def test_rows_enter_once_despite_races_and_crashes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = world.stack
    monkeypatch.setattr(appending, "BATCH", 1)
    await stack.database.execute(appending._SQL["create_tree"], stack.tenant_id)

    one_batch = partial(appending.append_batch, stack.engine, stack.tenant_id, (), appending.WINDOW_SECONDS)

    async def has_begun() -> bool:
        await stack.database.transaction(one_batch)  # And dies before the rest and the checkpoint.
        query = "SELECT max(size) FROM log_trees WHERE tenant_id = $1"
        return bool(await stack.database.fetchval(query, stack.tenant_id))

    await until(has_begun)
    await asyncio.gather(*(append(stack) for _ in range(4)))
    assert await unlogged(stack) == []
    query = "SELECT leaf_index, kind, row_id, hash FROM log_leaves WHERE tenant_id = $1 ORDER BY leaf_index"
    rows = await stack.database.fetch(query, stack.tenant_id)
    assert [row["leaf_index"] for row in rows] == [*range(len(rows))]
    assert {row["kind"] for row in rows} == {"terms", "play", "reward", "adjustment", "audit", "mark"}
    state = await new_witness(stack)
    [bundle] = [entries.read_bundle(await fetch(stack, f"tile/entries/000.p/{state.size}"))]
    assert [hashlib.sha256(b"\0" + entry).digest() for entry in bundle] == [row["hash"] for row in rows[: state.size]]
    assert await found(stack) == set()

    async def is_skipped() -> bool:
        await append(stack)
        return stack.tenant_id not in await stack.engine.database.tenants(appending._SQL["grown"])

    await until(is_skipped)
    await world.round(await world.wheel(), "fay")
    assert stack.tenant_id in await stack.engine.database.tenants(appending._SQL["grown"])


async def test_append_of_a_long_past_holds_one_batch_in_memory(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "BATCH", 200)
    await stack.database.execute(
        "INSERT INTO audit_entries (tenant_id, entry_id, actor, action, subject_type, subject_id, created_at)"
        " SELECT $1, 'audit_' || n, 'ann', 'game.update', 'game', 'g', now() - n * interval '1 minute'"
        " FROM generate_series(1, 10000) AS n",
        stack.tenant_id,
    )
    tracemalloc.start()
    try:
        await append(stack)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    assert (await new_witness(stack)).size > 10_000
    assert await found(stack) == set()


async def test_public_log_has_no_entries(world: World) -> None:
    stack = world.stack
    await append(stack)
    base = f"{stack.process.consumer_url}/api/v1/log/{stack.tenant_id}"
    staff = f"{stack.process.admin_url}/api/v1/admin/log"
    token = {"Authorization": f"Bearer {stack.token('staff', ('designer',))}"}
    async with stack.http.get(f"{base}/checkpoint") as answer:
        size = int((await answer.text()).split("\n")[1])
    answers = (
        *((f"{base}/checkpoint", 200, "public, max-age=5"), (f"{base}/tile/0/000", 404, "no-store")),
        (f"{base}/tile/0/000.p/{size}", 200, "public, max-age=31536000, immutable"),
        *((f"{base}/tile/entries/000.p/1", 404, "no-store"), (f"{base}/tile/0", 404, "no-store")),
        *((f"{staff}/checkpoint", 200, "no-store"), (f"{staff}/tile/0/000.p/{size}", 200, "no-store")),
        (f"{staff}/tile/entries/000.p/{size}", 200, "no-store"),
    )
    for url, http, caching in answers:
        async with stack.http.get(url, headers=token if url.startswith(staff) else {}) as answer:
            assert (answer.status, answer.headers["Cache-Control"]) == (http, caching), url
            assert http != 200 or "/0/" not in url or len(await answer.read()) == 32 * size
    for path in ("stamp", "tile/0/000"):  # Nobody learns whether there is such a tenant.
        texts = [await (await stack.http.get(url)).json() for url in (f"{base}/{path}", f"{base}x/{path}")]
        assert [{**text, "trace_id": ""} for text in texts] == [{**texts[0], "trace_id": ""}] * 2


CHANGES: Final = (
    ("play", "UPDATE plays SET outcome = '{}' WHERE tenant_id = $1 AND player_id = 'bob'"),
    ("play", "UPDATE plays SET client_seed = 'other' WHERE tenant_id = $1 AND player_id = 'cas'"),
    ("play", "UPDATE plays SET client_seed = '' WHERE tenant_id = $1 AND player_id = 'dan'"),
    ("reward", "UPDATE rewards SET value = value + 1 WHERE tenant_id = $1 AND player_id = 'bob'"),
    ("adjustment", "UPDATE ledger_entries SET amount = 9 WHERE tenant_id = $1 AND reason = 'adjustment'"),
    ("audit", "UPDATE audit_entries SET actor = 'eve' WHERE tenant_id = $1 AND action = 'campaign.create'"),
    ("audit", "DELETE FROM audit_entries WHERE tenant_id = $1 AND action = 'prize.create'"),
    ("play", "DELETE FROM plays WHERE tenant_id = $1 AND player_id = 'eve'"),
    (
        "terms",
        "UPDATE log_leaves SET row_id = row_id || 'x' WHERE tenant_id = $1 AND kind = 'terms' AND leaf_index < 20",
    ),
)


async def test_changed_or_removed_row_is_named(world: World) -> None:
    stack = world.stack
    await append(stack)
    state = await new_witness(stack)
    before: set[str] = set()
    for kind, change in CHANGES:
        await tamper(stack, change)
        named = {of for check, of in await found(stack) if check == "leaf_row"}
        assert {of.partition(" ")[0] for of in named - before} == {kind}, change
        removed = change.startswith("DELETE") or kind == "terms"
        witnessed = {problem.partition(": ")[2] for problem in await problems(stack, state, whole=True)}
        assert witnessed >= {f"{of} was {'removed' if removed else 'changed'}" for of in named - before}
        assert len(witnessed) == len(named)
        before = named


async def test_back_dated_row_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = world.stack
    with monkeypatch.context() as patch:  # The only mark is of an hour ago.
        patch.setattr(appending, "_ANALYTICS", {"horizon": "SELECT now() - interval '1 hour'"})
        assert await appending.append(stack.engine, stack.tenant_id) == 1, "a log without rows has a mark"
        assert await appending.append(stack.engine, stack.tenant_id) == 2, "and another one if that is old"
    state = await new_witness(stack)
    assert [bool(standstill(state, minutes, entries=True)) for minutes in (59, 62)] == [True, False]
    gaps = [waited(oldest, 1, minutes * 60_000_000, 40) for minutes in (9, 39, 41) for oldest in (0, 1)]
    assert [bool(gap) for gap in gaps] == [False, False, False, True, True, True]
    # A pass has advanced the watermark and died before its mark. The row is later than the last mark.
    for name in ("logged_until", "read_from"):
        died = f"UPDATE log_trees SET {name} = now() - interval '2 minutes' WHERE tenant_id = $1"
        await stack.database.execute(died, stack.tenant_id)
    await tamper(
        stack,
        "INSERT INTO rewards (tenant_id, reward_id, player_id, prize_id, campaign_id, name, type, value, quantity,"
        " won_at) SELECT tenant_id, 'reward_forged', 'eve', prize_id, campaign_id, name, type, value, 1,"
        " won_at - interval '30 minutes' FROM rewards WHERE tenant_id = $1 AND player_id = 'bob'",
    )
    assert await found(stack) == {("logged_leaf", "reward reward_forged")}
    forged, after = await appending.sweep(stack.engine, stack.tenant_id, "")
    assert (forged, after) == (["reward reward_forged"], "")

    async def is_appended() -> bool:
        return bool(await appending.append(stack.engine, stack.tenant_id, forged))

    await until(is_appended)
    assert await found(stack) == {("leaf_time", "reward reward_forged")}
    await visit(state, partial(fetch, stack))
    [problem] = await problems(stack, state)
    assert problem.endswith("reward reward_forged is back-dated")


async def test_forked_and_shrunk_logs_are_refused(world: World) -> None:
    stack = world.stack
    await append(stack)
    state = await new_witness(stack)
    tables = ("log_leaves", "log_nodes", "log_checkpoints", "log_trees")

    async def forget() -> None:
        async with stack.database.connection() as connection, connection.transaction():
            await connection.execute(UNGUARDED + "".join(f"DELETE FROM {name}; " for name in tables))

    await forget()
    await stack.database.execute("DELETE FROM rewards WHERE tenant_id = $1", stack.tenant_id)
    await append(stack)
    with pytest.raises(Distrusted, match="shrunk"):
        await visit(state, partial(fetch, stack))
    for _ in range(3):
        body = {"name": "Q", "campaign_id": world.campaign_id}
        assert (await stack.admin("POST", "/admin/quests", body)).code == "OK"
    await append(stack)
    with pytest.raises(Distrusted, match="past was changed"):
        await visit(state, partial(fetch, stack))


async def test_merge_and_erasure_raise_no_alarm(world: World) -> None:
    stack = world.stack
    guest = await guest_who_played(world, await world.wheel(await world.prize(), access="public"))
    await append(stack)
    state = await new_witness(stack)
    player = await log_in(stack, guest)
    for erased in ("ann", player):
        assert (await stack.admin("POST", f"/admin/players/{erased}/erase", {"reason": "asked for"})).http == 200
    salted = (
        "SELECT count(*), count(l.salt) FROM log_leaves AS l JOIN plays AS p USING (tenant_id)"
        " WHERE p.play_id = l.row_id AND p.tenant_id = $1 AND p.client_seed = '' AND l.sent IS NOT NULL"
    )
    assert tuple(await stack.database.fetchrow(salted, stack.tenant_id) or ()) == (2, 0)
    await append(stack)
    await visit(state, partial(fetch, stack))
    assert await problems(stack, state, whole=True) == []
    assert await found(stack) == set()


async def test_witness_exit_code_states_the_result(world: World, tmp_path: Path) -> None:
    stack = world.stack
    await append(stack)
    [key] = (await stack.admin("GET", "/admin/log")).data["keys"]
    own, base = str(SigningKey(key.partition("+")[0], b"own").verifier), f"{stack.process.admin_url}/api/v1/admin/log"

    token = stack.token("staff", ("admin",))
    shown: tuple[str, ...] = ()

    async def visit_with(*options: str, url: str = base) -> Any:
        return await run(tmp_path, "log", "witness", url, *options, *shown, TOMBOLA_TOKEN=token)

    assert (await visit_with("--state", "new.json", "--key", key)).code == 4, "TOMBOLA_TOKEN is not sent to the URL"
    shown = ("--token", token)
    assert (await visit_with("--state", "new.json")).code == 2
    refused = await visit_with("--state", "other.json", "--key", own)
    assert refused.code == 1 and "none of the known keys" in refused.err and not (tmp_path / "other.json").exists()
    assert (await visit_with("--state", "w.json", "--key", key)).code == 0
    still = await visit_with("--state", "w.json", "--older-than", "0")
    assert still.code == 1 and "stands still" in still.out
    await tamper(stack, CHANGES[0][1])
    assert (await visit_with("--state", "w.json")).code == 0, "only new entries"
    named = await visit_with("--state", "w.json", "--all")
    assert named.code == 1 and "play_" in named.out and "was changed" in named.out
    assert (await visit_with("--state", "w.json", url=f"{base}/no")).code == 4
