import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from runtime.operations.conservation import checks
from runtime.operations.conservation.checks import CHECKS, VIOLATIONS, audit
from runtime.stores.database import Database
from runtime.streams import auditor
from runtime.streams.auditor import Auditor
from tests.support.guests import new_guest, resolve, rewards_of
from tests.support.load import load
from tests.support.resources import block, rung
from tests.support.rivals import held
from tests.support.stack import Stack, refused
from tests.support.waiting import until
from tests.support.world import COINS, COLLECTION, WHEEL, World

ONE_MORE = "UPDATE stock SET awarded = awarded + 1, remaining = remaining - 1 WHERE prize_id = $1"


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FOLLOW_SECONDS", "SCAN_PAUSE_SECONDS", "TAKE_SECONDS", "IDLE_SECONDS", "REPORT_SECONDS"):
        monkeypatch.setattr(auditor, name, 0.02)


@pytest.fixture
async def prize(own_world: World) -> AsyncIterator[str]:
    prize_id = await own_world.prize(total=10)
    await own_world.round(await own_world.wheel(prize_id))
    yield prize_id
    await own_world.database.execute(
        "UPDATE stock SET awarded = n.won, remaining = 10 - n.won"
        " FROM (SELECT count(*) AS won FROM rewards WHERE prize_id = $1) AS n WHERE prize_id = $1",
        prize_id,
    )


@asynccontextmanager
async def auditing(stack: Stack, *, share: float = 1.0) -> AsyncIterator[asyncio.Task[None]]:
    database = another(stack)
    await database.start()
    stop = asyncio.Event()
    task = asyncio.create_task(Auditor(database, list, share).run(stop))
    try:
        yield task
    finally:
        stop.set()
        with suppress(asyncio.CancelledError):
            await task
        await database.close()


def another(stack: Stack) -> Database:
    return Database(stack.process.settings.database_url, size=4, acquire_seconds=30, statement_seconds=30)


async def violations(stack: Stack) -> list[dict[str, Any]]:
    return [dict(row) for row in await stack.database.fetch("SELECT * FROM violations ORDER BY violation_id")]


def reports(name: str) -> float:
    return float(VIOLATIONS.labels(name)._value.get())


def unfounded(player_id: str) -> set[tuple[str, str]]:
    """The violations of a ledger entry without a balance and a reward."""
    return {("player_ledger_sum", player_id), ("player_reversed", player_id)}


def has_violations(stack: Stack, count: int) -> Callable[[], Any]:
    async def fact() -> bool:
        return len(await violations(stack)) == count

    return fact


async def marks_moved(stack: Stack, *ways: str) -> None:
    """Returns when the ways have been gone on from now: what is there now has been looked at."""
    now = await stack.database.fetchval("SELECT clock_timestamp()")

    async def fact() -> bool:
        query = "SELECT way FROM audit_marks WHERE tenant_id = $1 AND seen_until > $2"
        return {row["way"] for row in await stack.database.fetch(query, stack.tenant_id, now)} >= set(ways)

    await until(fact)


async def went_on(stack: Stack) -> None:
    query = "SELECT leased_until FROM audit_marks WHERE tenant_id = $1 AND way = 'changed'"
    before = await stack.database.fetchval(query, stack.tenant_id)
    await until(lambda: stack.database.fetchval(query, stack.tenant_id), lambda it: it != before)


async def test_closed_violation_is_in_the_audit_log(own_world: World, stack: Stack, prize: str) -> None:
    await stack.database.execute(ONE_MORE, prize)
    await audit(stack.database)
    (shown,) = (await stack.admin("GET", "/admin/violations", status="open")).data["items"]
    found = (shown["check"], shown["subject_id"], shown["holds"])
    assert found == ("prize_awarded", prize, CHECKS["prize_awarded"].holds)
    path = f"/admin/violations/{shown['id']}/close"
    assert (await stack.admin("POST", path, {"reason": " "})).code == "INVALID_ARGUMENT"
    assert (await stack.admin("POST", path, {"reason": "counted by hand"})).data["closed_at"] > 0
    assert refused(await stack.admin("POST", path, {"reason": "again"}))[2] == "ILLEGAL_TRANSITION"
    assert (await stack.admin("GET", "/admin/violations", status="open")).data["items"] == []
    (entry,) = (await stack.admin("GET", "/admin/audit", subject_type="violation")).data["items"]
    assert (entry["action"], entry["subject_id"], entry["actor"]) == ("violation.close", shown["id"], "staff_test")
    assert entry["after"]["reason"] == "counted by hand"


async def test_violation_is_reported_once_by_two_auditors(own_world: World, stack: Stack, prize: str) -> None:
    before = reports("prize_awarded")
    await stack.database.execute(ONE_MORE, prize)
    async with auditing(stack), auditing(stack):
        await asyncio.gather(*[audit(stack.database) for _ in range(3)])
        await until(has_violations(stack, 1))
        await marks_moved(stack, "changed")
    assert len(await violations(stack)) == 1
    assert reports("prize_awarded") == before + 1


async def test_odds_are_announced_once_although_each_play_changes_them(own_world: World, stack: Stack) -> None:
    prizes = [{"prize_id": await own_world.prize(), "probability": chance} for chance in (0.001, 0.4995)]
    game_id, events = await own_world.game(WHEEL, {"prizes": prizes}), list[Any]()
    await stack.database.execute("UPDATE audit_marks SET leased_until = now()")
    await stack.database.execute(
        "INSERT INTO game_draws (tenant_id, game_id, quarter, revision, drawn, draws)"
        " SELECT $1, $2, '2026-03-02', 1, * FROM unnest($3::text[], '{20,490,490}'::bigint[])",
        *(stack.tenant_id, game_id, [*(prize["prize_id"] for prize in prizes), ""]),
    )
    one = Auditor(stack.database, events.extend)
    for found in ("20", "40", "80"):
        while found not in {row["found"] for row in await violations(stack)}:
            await one.turn(asyncio.Event())
        path = f"/admin/violations/{(await violations(stack))[0]['violation_id']}/close"
        assert (await stack.admin("POST", path, {"reason": "typed wrong"})).http == (200 if found == "20" else 400)
        await stack.database.execute("UPDATE game_draws SET draws = 2 * draws WHERE tenant_id = $1", stack.tenant_id)
    await one.release()
    await stack.database.execute("DELETE FROM game_draws WHERE tenant_id = $1", stack.tenant_id)
    told = [(event.type, event.campaign_id, event.data.check, event.data.found) for event in events]
    assert told == [("violation.opened", own_world.campaign_id, "campaign_odds", "20")]


async def test_auditor_crash_after_a_report_repeats_nothing(
    own_world: World, stack: Stack, prize: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends after it stored the violation and before it stored its position."""
    before = reports("prize_awarded")
    died = asyncio.Event()
    keep = auditor._Lease.store

    async def dies(way: auditor._Lease, seconds: float) -> None:
        if (way.tenant_id, way.name) == (stack.tenant_id, "prize"):
            died.set()
            await asyncio.Event().wait()
        await keep(way, seconds)

    await stack.database.execute(ONE_MORE, prize)
    monkeypatch.setattr(auditor._Lease, "store", dies)
    async with auditing(stack) as task:
        await died.wait()
        task.cancel()
    monkeypatch.setattr(auditor._Lease, "store", keep)
    query = "SELECT after_key FROM audit_marks WHERE way = 'prize' AND tenant_id = $1"
    assert await stack.database.fetchval(query, stack.tenant_id) == ""
    assert len(await violations(stack)) == 1
    await stack.database.execute("UPDATE audit_marks SET leased_until = now()")
    (first,) = await violations(stack)
    async with auditing(stack):
        await until(lambda: violations(stack), lambda it: it[0]["last_seen_at"] > first["last_seen_at"])
    assert len(await violations(stack)) == 1
    assert reports("prize_awarded") == before + 1


async def test_auditor_crash_loses_no_report(own_world: World, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    async with auditing(stack):
        await marks_moved(stack, "changed")
    await own_world.round(await own_world.game(COLLECTION, COINS))
    bad = "UPDATE balances SET balance = balance + 1 WHERE player_id = 'ann'"
    await stack.database.execute(bad)
    died = asyncio.Event()
    run_checks = checks.run_checks

    async def dies(database: Database, tenant_id: str, kind: str, keys: Any) -> Any:
        if kind == "player":
            died.set()
            await asyncio.Event().wait()
        return await run_checks(database, tenant_id, kind, keys)

    monkeypatch.setattr(auditor, "run_checks", dies)
    async with auditing(stack) as task:
        await died.wait()
        task.cancel()
    monkeypatch.setattr(auditor, "run_checks", run_checks)
    assert await violations(stack) == []
    await stack.database.execute("UPDATE audit_marks SET leased_until = now()")
    only_following(monkeypatch)
    async with auditing(stack):
        await until(has_violations(stack, 1))
    assert (await violations(stack))[0]["check_name"] == "player_ledger_sum"
    await stack.database.execute(bad.replace("+", "-"))


def only_following(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has auditors look at what changes alone."""
    monkeypatch.setattr(auditor, "KINDS", ())


async def test_auditor_checks_late_commits(own_world: World, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """The auditor's position waits for a transaction that began earlier and commits late."""
    only_following(monkeypatch)
    monkeypatch.setattr(auditor, "LATE_SECONDS", 0.0)
    entry = (
        "INSERT INTO ledger_entries (tenant_id, entry_id, seq, scope_key, currency, player_id, amount, balance_after,"
        " reason, reference_id) VALUES ($1, 'entry_late', 1, $2, 'coin', 'late', 5, 5, 'reversal', '')"
    )
    async with auditing(stack):
        await marks_moved(stack, "changed")
        async with held(stack, entry, stack.tenant_id, own_world.campaign_id):
            await own_world.round(await own_world.game(COLLECTION, COINS))
            for _ in range(3):
                await went_on(stack)
            assert await violations(stack) == []
        await until(has_violations(stack, 2))
    assert {(one["check_name"], one["subject_id"]) for one in await violations(stack)} == unfounded("late")
    await stack.database.execute("DELETE FROM ledger_entries WHERE entry_id = 'entry_late'")


async def test_auditor_uses_no_more_than_its_share(own_world: World, stack: Stack) -> None:
    rested: list[float] = []

    async def rests(stop: asyncio.Event, seconds: float) -> bool:
        rested.append(seconds)
        return stop.is_set()

    await own_world.round(await own_world.wheel(await own_world.prize(total=3)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(auditor, "stopped_within", rests)
        turning = Auditor(stack.database, list, 0.01)
        spent = 0.0
        for _ in range(20):
            spent += await turning.turn(asyncio.Event())
    assert spent > 0
    assert sum(rested) == pytest.approx(99 * spent)


async def turns(one: Auditor, many: int) -> float:
    return sum([await one.turn(asyncio.Event()) for _ in range(many)])


async def test_auditor_that_stalled_has_lost_its_lease(own_world: World, stack: Stack, prize: str) -> None:
    """Who stands by begins when the lease of the one that had the turn is over, and says so of no other."""
    still, next_one = Auditor(stack.database, list), Auditor(stack.database, list)
    await stack.database.execute("UPDATE audit_marks SET leased_until = now()")
    assert await turns(still, 1) > 0
    assert await turns(next_one, 1) == 0
    await stack.database.execute("UPDATE audit_marks SET leased_until = now()")
    still._turn._held_until = 0.0  # By its own clock, too.
    next_one._take_at = 0.0
    assert await turns(next_one, 1) > 0
    assert await turns(still, 1) == 0, "it does not go on beside the other"
    await next_one.release()


async def test_auditor_rereads_older_rows(own_world: World, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that only read for long writes the time at which it began, which the way has passed."""
    only_following(monkeypatch)
    await stack.database.execute("UPDATE audit_marks SET leased_until = now()")
    one, stop = Auditor(stack.database, list), asyncio.Event()

    async def goes_on(times: int) -> None:
        for _ in range(times):
            while not await one.turn(stop):
                await auditor.stopped_within(stop, auditor.IDLE_SECONDS)

    await goes_on(2)
    await stack.database.execute(
        "INSERT INTO ledger_entries (tenant_id, entry_id, seq, scope_key, currency, player_id, amount, balance_after,"
        " reason, reference_id, created_at)"
        " VALUES ($1, 'entry_later', 1, $2, 'coin', 'later', 5, 5, 'reversal', '', now() - interval '50 seconds')",
        *(stack.tenant_id, own_world.campaign_id),
    )
    await goes_on(5)
    assert await violations(stack) == []
    following = one._passes[stack.tenant_id, auditor.CHANGED]
    assert isinstance(following, auditor._ChangeFollower)
    following._widened_at -= auditor.LATER_SECONDS
    await goes_on(5)
    assert {(one["check_name"], one["subject_id"]) for one in await violations(stack)} == unfounded("later")
    await one.release()
    await stack.database.execute("DELETE FROM ledger_entries WHERE entry_id = 'entry_later'")


async def test_auditor_finds_nothing_beside_every_operation(own_world: World, stack: Stack) -> None:
    """Plays, claims, redeems, quests, adjustments, revokes, logins of guests, changes of prizes, zones and caps,
    suspensions, copies and finalized boards, all under way while auditors look."""
    world = own_world
    mug = await world.prize(total=40)
    coded = await world.prize(
        codes=[f"CODE-{nth}" for nth in range(60)],
        fulfillment={"channel": "voucher_code", "redemption_mode": "on_claim"},
    )
    points = await world.prize(type="points", value=10, constraints={"max_per_user": 3})
    cup = await world.prize(total=30)
    hot = await world.wheel(mug, coded, access="public")
    rungs = block(rung("cup", 4, cup), auto_grant=False, mode="SPEND_EXCHANGE")
    coins = await world.game(COLLECTION, COINS, milestones=rungs, access="public")
    pointed = await world.wheel(points, access="public", rules={"max_plays_per_day": 50})
    numbers = itertools.count()
    stop = asyncio.Event()

    async def again(work: Callable[[], Any]) -> None:
        while not stop.is_set():
            await work()

    async def guest_logs_in() -> None:
        nth = next(numbers)
        contact = f"guest{nth % 7}@example.com"
        guest = await new_guest(world, coins)
        await world.play(coins, guest.session, "")
        for game in (coins, pointed, hot):
            session = (await world.start(game, "", Authorization=f"Bearer {guest.token}")).envelope["data"]
            if "session_id" in session:
                await world.play(game, session["session_id"], "")
        quest = await world.quest()
        player = (await resolve(stack, None, contact)).data["player"]["id"]
        for who in (guest.player_id, player):
            await stack.core("POST", f"/quests/{quest}/complete", {"player_id": who})
        await asyncio.gather(
            *(resolve(stack, guest, contact), world.redeem(coins, "cup", guest.player_id)),
            stack.core("POST", f"/quests/{quest}/complete", {"player_id": guest.player_id}),
        )

    async def staff_at_rewards() -> None:
        for reward in (await stack.admin("GET", "/admin/rewards", limit=20)).data["items"][:: 1 + next(numbers) % 3]:
            verb = ("revoke", "fulfill")[next(numbers) % 2]
            await stack.admin("POST", f"/admin/rewards/{reward['id']}/{verb}", {})

    async def players_claim() -> None:
        for player in ("pat", "kim"):
            await world.redeem(coins, "cup", player)
            for reward in (await rewards_of(stack, player))[:5]:
                await stack.consumer("POST", f"/rewards/{reward['id']}/claim", {}, player=player)

    async def staff_at_the_catalogue() -> None:
        nth = next(numbers)
        zone = ("UTC", "America/Los_Angeles", "Asia/Tokyo")[nth % 3]
        await stack.admin("PUT", f"/admin/campaigns/{world.campaign_id}", {"timezone": zone})
        mode = ("on_win", "on_claim", "manual")[nth % 3]
        await stack.admin("PUT", f"/admin/prizes/{mug}", {"fulfillment": {"redemption_mode": mode}})
        await stack.admin("PUT", f"/admin/prizes/{points}", {"constraints": {"max_per_user": 1 + nth % 5}})
        await stack.admin("PUT", f"/admin/games/{pointed}", {"rules": {"max_plays_per_day": 20 + nth % 30}})
        await stack.admin("PUT", "/admin/players/kim", {"status": ("suspended", "active")[nth % 2]})
        fields = {"player_id": "pat", "scope_key": world.campaign_id, "currency": "coin", "reference_id": str(nth)}
        await stack.admin("POST", "/admin/wallet/adjustments", {**fields, "amount": 1 - 2 * (nth % 2)})
        await stack.admin("POST", f"/admin/campaigns/{world.campaign_id}/duplicate", {})
        board_id = await world.board(prizes=[{"from_rank": 1, "to_rank": 2, "prize_id": mug}])
        await stack.admin("POST", f"/admin/leaderboards/{board_id}/finalize", {})
        await stack.admin("GET", f"/admin/campaigns/{world.campaign_id}/analytics")

    async def play(game: str) -> None:
        player = ("pat", "kim")[next(numbers) % 2]
        session = (await world.start(game, player)).envelope["data"]
        if "session_id" in session:
            await world.play(game, session["session_id"], player)

    async with auditing(stack), auditing(stack), load(stack.process.core_url, stack.tenant_id, hot) as plays:
        jobs = [guest_logs_in, guest_logs_in, staff_at_rewards, players_claim, staff_at_the_catalogue]
        jobs += [lambda: play(coins), lambda: play(pointed)]
        tasks = [asyncio.create_task(again(job)) for job in jobs]
        await plays.plays(300)
        stop.set()
        await asyncio.gather(*tasks)
        await marks_moved(stack, "changed")
        assert await violations(stack) == []
    assert await audit(stack.database) == (0, set())
    assert await stack.database.fetchval("SELECT count(*) FROM players WHERE merged_into IS NOT NULL") > 3


async def test_auditor_waits_for_an_unavailable_database(own_world: World, stack: Stack, prize: str) -> None:
    async with auditing(stack):
        await marks_moved(stack, "changed")
        query = (
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND query LIKE ANY ('{-- violations%,-- conservation%}')"
        )
        await until(lambda: stack.database.fetchval(query))
        await stack.database.execute(ONE_MORE, prize)
        await until(has_violations(stack, 1))
