import asyncio
import hashlib
import math
import time
import tracemalloc
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from runtime.commands import archives
from runtime.commands.groups.log.witness import Distrusted, State, standstill, visit, waited
from runtime.operations.campaigns import analytics, archiving
from runtime.operations.log import appending
from runtime.rules.log import entries
from runtime.rules.log.notes import SigningKey
from tests.support.guests import guest_who_played, log_in
from tests.support.invariants import broken, broken_of, everything
from tests.support.merkle_log import UNGUARDED, append, fetch, found, new_witness, problems, tamper, unlogged
from tests.support.operations import furnish
from tests.support.operator import Operator, run
from tests.support.resources import make_campaign, make_draw, make_prize
from tests.support.stack import Stack
from tests.support.waiting import until
from tests.support.world import COINS, COLLECTION, World

pytestmark = pytest.mark.settings(merkle_log="promo.example.com", archive_after_days=0)
NONE: Final = {"file_sha256": "0" * 64, "digest": "0" * 64, "plays": 999, "first_leaf": 0, "last_leaf": 9}
"""The plays of a file that no campaign here has."""


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


async def look(stack: Stack, witness: State, *, whole: bool = True, **more: Any) -> list[str]:
    """What a witness says of the newest log."""
    await append(stack)
    await visit(witness, partial(fetch, stack))
    return await problems(stack, witness, whole=whole, **more)


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
    late = await appending.settle(stack.engine, stack.tenant_id, deadline=0)
    assert late.is_behind and len(await unlogged(stack)) > 500, "one log leaves time for the others"
    state = await new_witness(stack)
    assert state.size == (late.checkpoint or {})["size"] == 201, "the mark and the checkpoint of a log that is behind"
    monkeypatch.setattr(appending, "PASS_SECONDS", -1)
    appender = appending.Appender()
    appender._rests_until[stack.tenant_id] = math.inf  # A sweep reads more rows.
    tracemalloc.start()
    try:
        await appender.append_all(stack.engine)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    marks = "SELECT count(*) FROM log_leaves WHERE tenant_id = $1 AND kind = 'mark'"
    assert await stack.database.fetchval(marks, stack.tenant_id) > 49, "a round goes on while a log is behind"
    waits: list[str] = []
    await visit(state, partial(fetch, stack))
    assert await problems(stack, state, waits=waits) == [] and len(waits) > 48, "and a witness names rows that waited"
    await append(stack)
    assert (await new_witness(stack)).size > 10_000 and await found(stack) == set()


async def test_public_log_has_no_entries(world: World) -> None:
    await append(stack := world.stack)
    base = f"{stack.process.consumer_url}/api/v1/log/{stack.tenant_id}"
    staff = f"{stack.process.admin_url}/api/v1/admin/log"
    token = {"Authorization": f"Bearer {stack.token('staff', ('designer',))}"}
    size = int((await (await stack.http.get(f"{base}/checkpoint")).text()).split("\n")[1])
    answers = (
        *((f"{base}/checkpoint", 200, "public, max-age=5"), (f"{base}/tile/0/000", 404, "no-store")),
        (f"{base}/tile/0/000.p/{size}", 200, "public, max-age=31536000, immutable"),
        *((f"{base}/tile/entries/000.p/1", 404, "no-store"), (f"{base}/tile/0", 404, "no-store")),
        *((f"{staff}/checkpoint", 200, "no-store"), (f"{staff}/checkpoint?fresh=zz", 400, "no-store")),
        (f"{staff}/tile/0/000.p/{size}", 200, "no-store"),
        (f"{staff}/tile/entries/000.p/{size}", 200, "no-store"),
    )
    for url, http, caching in answers:
        async with stack.http.get(url, headers=token if url.startswith(staff) else {}) as answer:
            assert (answer.status, answer.headers["Cache-Control"]) == (http, caching), url
            assert http != 200 or "/0/" not in url or len(await answer.read()) == 32 * size
    for path in ("stamp", "tile/0/000"):  # Nobody learns whether there is such a tenant.
        texts = [await (await stack.http.get(url)).json() for url in (f"{base}/{path}", f"{base}x/{path}")]
        assert [{**text, "trace_id": ""} for text in texts] == [{**texts[0], "trace_id": ""}] * 2


async def test_fresh_checkpoints_share_passes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    settle, passes = appending.settle, count()
    monkeypatch.setattr(appending, "settle", lambda *about, **more: (next(passes), settle(*about, **more))[1])
    await asyncio.gather(*(fetch(world.stack, "checkpoint?fresh=true") for _ in range(40)))
    assert await unlogged(world.stack) == [] and next(passes) < 20


CHANGES: Final = (
    ("play", "UPDATE plays SET outcome = '{}' WHERE tenant_id = $1 AND player_id = 'bob'"),
    ("play", "UPDATE plays SET client_seed = 'other' WHERE tenant_id = $1 AND player_id = 'cas'"),
    ("play", "UPDATE plays SET client_seed = '' WHERE tenant_id = $1 AND player_id = 'dan'"),
    ("reward", "UPDATE rewards SET value = value + 1 WHERE tenant_id = $1 AND player_id = 'bob'"),
    ("adjustment", "UPDATE ledger_entries SET amount = 9 WHERE tenant_id = $1 AND reason = 'adjustment'"),
    ("audit", "UPDATE audit_entries SET actor = 'eve' WHERE tenant_id = $1 AND action = 'campaign.create'"),
    ("audit", "DELETE FROM audit_entries WHERE tenant_id = $1 AND action = 'prize.create'"),
    ("play", "DELETE FROM plays WHERE tenant_id = $1 AND player_id = 'eve'"),
    ("terms", "UPDATE log_leaves SET row_id = row_id||'x' WHERE tenant_id = $1 AND kind = 'terms' AND leaf_index < 20"),
)


@pytest.mark.fault(
    "A row of plays, awards or draws changed in Postgres", size="9 changes of 5 kinds of rows", figure="named at once"
)
async def test_changed_or_removed_row_is_named(world: World) -> None:
    await append(stack := world.stack)
    state, before = await new_witness(stack), set[str]()
    for kind, change in CHANGES:
        await tamper(stack, change)
        named = {of for check, of in await found(stack) if check == "leaf_row"}
        assert {of.partition(" ")[0] for of in named - before} == {kind}, change
        removed = change.startswith("DELETE") or kind == "terms"
        witnessed = {problem.partition(": ")[2] for problem in await problems(stack, state, whole=True)}
        assert witnessed >= {f"{of} was {'removed' if removed else 'changed'}" for of in named - before}
        assert len(witnessed) == len(named)
        before = named


async def test_changed_draw_is_named(world: World) -> None:
    stack, named = world.stack, set[str]()
    drawn: dict[str, Any] = {"tickets": {"currency": "coin"}}
    draw_id = await make_draw(stack, world.campaign_id, await world.prize(), "close", "draw", **drawn)
    await append(stack)
    assert await broken(stack.database, stack.tenant_id) == {}
    changes = {
        "draw_ranks": "UPDATE leaderboard_standings SET player_id = 'eve' WHERE tenant_id = $1 AND rank = 1",
        "ticket_holder": "UPDATE draw_tickets SET player_id = 'eve' WHERE tenant_id = $1",
        "draw_hashes": "UPDATE draws SET result = '[]' WHERE tenant_id = $1",
        "leaf_row": "UPDATE draws SET randomness = '{}' WHERE tenant_id = $1",
    }
    for check, change in changes.items():
        await tamper(stack, change)
        found = await broken_of(stack.database, stack.tenant_id, await everything(stack.database, stack.tenant_id))
        assert check in found and draw_id in str(found[check]) and check not in named
        named |= found.keys()


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
    swept = await appending.sweep(stack.engine, stack.tenant_id, "")
    assert (await found(stack), swept) == ({("logged_leaf", "reward reward_forged")}, (["reward reward_forged"], ""))
    await until(lambda: appending.append(stack.engine, stack.tenant_id, swept[0]))
    assert await found(stack) == {("leaf_time", "reward reward_forged")}
    await visit(state, partial(fetch, stack))
    assert [one.endswith("reward reward_forged is back-dated") for one in await problems(stack, state)] == [True]


async def test_forked_and_shrunk_logs_are_refused(world: World) -> None:
    await append(stack := world.stack)
    state, tables = await new_witness(stack), ("log_leaves", "log_nodes", "log_checkpoints", "log_trees")

    async def forget() -> None:
        async with stack.database.connection() as connection, connection.transaction():
            await connection.execute(UNGUARDED + "".join(f"DELETE FROM {name}; " for name in tables))

    await stack.database.execute("DELETE FROM rewards WHERE tenant_id = $1", stack.tenant_id)
    await forget()
    await append(stack)
    with pytest.raises(Distrusted, match="shrunk"):
        await visit(state, partial(fetch, stack))
    for body in [{"name": "Q", "campaign_id": world.campaign_id}] * 9:
        assert (await stack.admin("POST", "/admin/quests", body)).code == "OK"
    await append(stack)
    with pytest.raises(Distrusted, match="past was changed"):
        await visit(state, partial(fetch, stack))


async def test_merge_and_erasure_raise_no_alarm(world: World) -> None:
    stack = world.stack
    guest = await guest_who_played(world, await world.wheel(await world.prize(), access="public"))
    await append(stack)
    state, player = await new_witness(stack), await log_in(stack, guest)
    for erased in ("ann", player):
        assert (await stack.admin("POST", f"/admin/players/{erased}/erase", {"reason": "asked for"})).http == 200
    salted = (
        "SELECT count(*), count(l.salt) FROM log_leaves AS l JOIN plays AS p USING (tenant_id)"
        " WHERE p.play_id = l.row_id AND p.tenant_id = $1 AND p.client_seed = '' AND l.sent IS NOT NULL"
    )
    assert tuple(await stack.database.fetchrow(salted, stack.tenant_id) or ()) == (2, 0)
    assert (await look(stack, state), await found(stack)) == ([], set())


async def test_witness_exit_code_states_the_result(world: World, tmp_path: Path) -> None:
    await append(stack := world.stack)
    [key] = (await stack.admin("GET", "/admin/log")).data["keys"]
    own, base = str(SigningKey(key.partition("+")[0], b"own").verifier), f"{stack.process.admin_url}/api/v1/admin/log"
    token, shown = stack.token("staff", ("admin",)), tuple[str, ...]()

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
    for unreachable in (f"{base}/no", "http://127.0.0.1:9/log"):
        assert (await visit_with("--state", "w.json", url=unreachable)).code == 4
    for damaged in ("[]", "[" * 100_000):
        (tmp_path / "w.json").write_text(damaged)
        assert (await visit_with("--state", "w.json")).code == 3


async def written(world: World, tombola: Operator) -> dict[str, Any]:
    """Ends the campaign and writes its dossier, once deliveries are done. The request that archives it."""
    stack, path = world.stack, f"/admin/campaigns/{world.campaign_id}"
    assert (await stack.admin("PUT", path, {"status": "CAMPAIGN_STATUS_ENDED"})).code == "OK"

    async def is_settled() -> bool:
        await append(stack)
        await analytics.count(stack.engine, stack.tenant_id, world.campaign_id)
        return (await stack.admin("POST", f"{path}/archive", NONE)).reason == "FILE_DIFFERS"

    await until(is_settled)
    url = world.stack.process.consumer_url
    done = await tombola("campaigns", "dossier", world.campaign_id, "plays.jsonl", "--consumer-url", url)
    assert done.code == 0, done.err
    return archives.read_plays(tombola.directory / "plays.jsonl", world.campaign_id)._asdict()


async def seen(world: World, games: list[str]) -> list[Any]:
    """What an archive leaves as it is."""
    stack, about = world.stack, f"/admin/campaigns/{world.campaign_id}"
    await analytics.count(stack.engine, stack.tenant_id, world.campaign_id)
    paths = (f"{about}/analytics", f"{about}/figures", "/admin/players/ann", "/admin/players/ann/wallet")
    shown = [(await stack.admin("GET", path)).data for path in (*paths, "/admin/players/ann/turns/ledger")]
    shown[1].pop("counted_until", None)
    del shown[2]["counts"]["last_played_at"]
    return [*shown, [await world.eligibility(game) for game in games]]


async def test_archived_plays_are_accounted_for(world: World, tmp_path: Path) -> None:
    stack, tombola = world.stack, Operator(world.stack, tmp_path)
    points = await world.prize(type="points", value=5)
    games = [await world.wheel(rules={"requires_turn": True}), await world.wheel(points)]
    guest = await guest_who_played(world, await world.wheel(access="public"))
    await world.turns("ann", 1)
    other = World(stack, (await make_campaign(stack))["id"])
    kept = (await other.round(await other.wheel())).data["play_id"]
    session = await world.session(games[1])
    play_id = (await world.play(games[1], session, client_seed="s", key="k0")).data["play_id"]
    assert (await world.round(games[0])).code == "OK"
    board = {"campaign_id": world.campaign_id, "name": "Board", "metric": "plays", "mode": "sum"}
    board_id = (await stack.admin("POST", "/admin/leaderboards", board)).data["id"]
    assert (await stack.admin("POST", f"/admin/leaderboards/{board_id}/finalize", {})).code == "OK"
    draw = {"campaign_id": other.campaign_id, "name": "Draw", "tickets": {"ranking": board_id}}
    draw |= {"prizes": [{"prize_id": points, "count": 1}], "randomness": {"kind": "INTERNAL"}}
    body, path = await written(world, tombola), f"/admin/campaigns/{world.campaign_id}"
    before, witness, fresh = await seen(world, games), await new_witness(stack), await new_witness(stack)
    done = await tombola("campaigns", "archive", world.campaign_id, "plays.jsonl", "--yes")
    assert done.out.startswith("deleted 9 plays. Keep plays.jsonl: SHA-256 "), done.err
    assert await seen(world, games) == before
    assert [await world.plays(), await other.plays()] == [[], [kept]]
    assert await stack.database.fetchval("SELECT count(salt) FROM log_leaves WHERE archive = 1") == 0
    fresh.read, fresh.mark, notes = 1, 1, list[str]()  # It begins among the archived plays, and so reads all.
    assert await look(stack, fresh, whole=False, notes=notes) == [] and f"{body['file_sha256']}: it has 9" in notes[0]
    archive = (await stack.admin("GET", path)).data["archive"]
    assert (archive["file_sha256"], archive["plays"], archive["deleted"]) == (body["file_sha256"], 9, 9)
    assert archive["finished_at"] and (await stack.admin("POST", f"{path}/archive", body)).data["archive"] == archive
    player = await log_in(stack, guest)
    assert (await broken(stack.database, stack.tenant_id), await look(stack, witness)) == ({}, [])
    assert (await stack.consumer("GET", f"/plays/{play_id}/receipt", player="zoe")).reason == "UNKNOWN_PLAY"
    # What needs the plays names their file; the file itself is not overwritten.
    asked = (
        *(stack.consumer("GET", f"/plays/{play_id}/receipt", player=one) for one in ("ann", player)),
        stack.admin("GET", f"/admin/plays/{play_id}/receipt"),
        stack.admin("GET", f"/admin/exports/plays?campaign_id={world.campaign_id}"),
        stack.admin("PUT", path, {"timezone": "Asia/Tokyo"}),
        stack.admin("POST", f"{path}/archive", {**body, "file_sha256": "0" * 64}),
        stack.admin("POST", "/admin/leaderboards", board),
        stack.admin("POST", "/admin/draws", draw),
    )
    answers = [await one for one in asked]
    assert [one.reason for one in answers] == ["PLAY_ARCHIVED"] * 3 + ["CAMPAIGN_ARCHIVED"] * 5
    assert {one.envelope["data"]["file_sha256"] for one in answers} == {body["file_sha256"]} and answers[0].http == 404
    there = await tombola("campaigns", "dossier", world.campaign_id, "plays.jsonl")
    assert there.code == 0 and "plays.jsonl has the plays of" in there.out
    for one, file, said in ((world, "new.jsonl", body["file_sha256"]), (other, "plays.jsonl", "may be the only copy")):
        refused = await tombola("campaigns", "dossier", one.campaign_id, file)
        assert refused.code == 1 and said in refused.err
    assert (await tombola("verify", "plays.jsonl")).code == 0
    again = {"player_id": "ann", "session_id": session, "payload": {}, "client_seed": "s", "idempotency_key": "k0"}
    assert (await stack.core("POST", f"/games/{games[1]}/play", again)).reason == "CAMPAIGN_CLOSED"


async def test_unsettled_campaign_is_refused_by_name(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    known, now = await furnish(stack), int(time.time())
    release = {"kind": "SEALED", "units": 1, "starts_at": now, "ends_at": now + 9_999, "timezone": "UTC"}
    await make_prize(stack, campaign_id=known["campaign"], stock={"total": 1}, release=release)
    path = f"/admin/campaigns/{known['campaign']}/archive"
    refused = await stack.admin("POST", path, NONE)
    named = {"deliveries", "discrepancies", "draws", "end", "leaderboards", "releases"}
    assert refused.reason == "NOT_SETTLED" and named <= set(refused.envelope["data"]["open"])
    monkeypatch.setattr(stack.engine, "settings", replace(stack.engine.settings, archive_after_days=30))
    assert (await stack.admin("PUT", path.removesuffix("/archive"), {"end_date": 9})).code == "OK"
    await analytics.count(stack.engine, stack.tenant_id, known["campaign"])
    assert {"end", "figures"} & {*(await stack.admin("POST", path, NONE)).envelope["data"]["open"]}


LATE: Final = """
INSERT INTO plays SELECT (jsonb_populate_record(p, jsonb_build_object(
    'play_id', 'play_late', 'session_id', 'sess_late', 'idempotency_key', NULL, 'played_at', a.started_at))).*
FROM plays AS p, play_archives AS a WHERE p.play_id = $1 ON CONFLICT DO NOTHING
"""
FORGERIES: Final[dict[str, tuple[str, ...]]] = {
    "leaf_row": (),
    "archive_plays": ("UPDATE log_leaves SET archive = 1 WHERE tenant_id = $1 AND row_id = $2",),
    "archive_entry": (
        "UPDATE log_leaves SET archive = 2 WHERE tenant_id = $1 AND row_id = $2",
        "INSERT INTO play_archives SELECT tenant_id, 'camp_x', 2, file_sha256, 1, digest, 0, 999, 999, 1, '', 'audit_x'"
        " FROM play_archives WHERE tenant_id = $1 AND $2 <> ''",
    ),
}
"""By the check that names it: a play deleted alone, one that its leaf calls archived, and one with a forged archive."""


async def test_other_missing_plays_are_named(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stack, tombola = world.stack, Operator(world.stack, tmp_path)

    async def append_late(engine: Any, tenant_id: str) -> None:  # Between the comparison and the first deletion.
        await stack.database.execute(LATE, mine)
        await appending.append(engine, tenant_id)

    async def log_off(engine: Any, tenant_id: str) -> None:
        patch.setattr(engine, "settings", replace(engine.settings, merkle_log=""))

    monkeypatch.setattr(archiving, "append", append_late)
    other = World(stack, (await make_campaign(stack))["id"])
    game_id = await other.wheel()
    await append(stack)  # The other campaign's leaves are amid those of the archive.
    victims = [(await other.round(game_id, "walt")).data["play_id"] for _ in FORGERIES]
    await append(stack)
    mine = (await world.round(await world.wheel())).data["play_id"]
    body, witness = await written(world, tombola), await new_witness(stack)
    refused = await stack.admin("POST", f"/admin/campaigns/{world.campaign_id}/archive", {**body, "digest": "0" * 64})
    assert refused.reason == "FILE_DIFFERS" and len(await world.plays()) == 7
    body["last_leaf"] += 999  # Not in the log yet.
    with monkeypatch.context() as patch:
        patch.setattr(archiving, "append", log_off)
        refused = await stack.admin("POST", f"/admin/campaigns/{world.campaign_id}/archive", body)
        assert refused.reason == "NOT_SETTLED" and "set MERKLE_LOG" in refused.envelope["message"]
    done = (await stack.admin("POST", f"/admin/campaigns/{world.campaign_id}/archive", body)).data["archive"]
    assert done["finished_at"] and await look(stack, witness) == [] and await world.plays() == ["play_late"]
    said = ("was removed", "8 plays were removed", "no audit entry audit_x")
    for (check, statements), victim, text in zip(FORGERIES.items(), victims, said, strict=True):
        for statement in ("DELETE FROM plays WHERE tenant_id = $1 AND play_id = $2", *statements):
            await tamper(stack, statement, victim)
        keys = await everything(stack.database, stack.tenant_id)
        assert check in await broken_of(stack.database, stack.tenant_id, keys)
        assert text in " ".join(await look(stack, witness))
