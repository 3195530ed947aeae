import asyncio

import asyncpg
import pytest
from aiohttp.test_utils import make_mocked_request

from runtime.core import bounded_at_once
from runtime.http.login import staff
from runtime.http.operational import mount_health
from runtime.http.serving import make_app
from runtime.operations import audit
from runtime.operations.players.challenges import ALL_TENANTS
from runtime.operations.players.logins import GUESTS_ENDED
from runtime.operations.players.revocations import SLACK_SECONDS
from runtime.operations.purging import PURGE_BATCH, purge
from tests.support.login import Phone, bearer, let_resend, log_out, start, verify
from tests.support.stack import Answer, Stack
from tests.support.waiting import until
from tests.support.world import new_world


async def test_plays_commit_while_logins_wait_for_each_other(stack: Stack) -> None:
    """Logins of one contact lock one row and could otherwise hold every connection."""
    pool = stack.process.settings.database_pool_size
    async with new_world(stack) as world:
        game = await world.wheel()
        await start(stack)
        await let_resend(stack)  # Else none of them would come so far: what is refused anyway waits for nothing.
        async with stack.database.connection() as holder, holder.transaction():
            await holder.execute("SELECT 1 FROM login_guesses FOR UPDATE")
            flood = [asyncio.create_task(start(stack)) for _ in range(3 * pool)]

            async def waiting() -> int:
                return int(await holder.fetchval("SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted"))

            await until(waiting, lambda it: it >= bounded_at_once(pool))
            assert (await world.round(game)).code == "OK"
            assert await waiting() == bounded_at_once(pool)
        answers = await asyncio.gather(*flood)
    assert sorted({answer.reason for answer in answers}) == ["", "RESEND_TOO_SOON"]


@pytest.mark.settings(rate_limits=True)
@pytest.mark.parametrize("bound", ["too soon", "waits", "contact", "address", "guesses"])
async def test_refused_login_waits_for_no_row_and_writes_none(stack: Stack, phone: Phone, bound: str) -> None:
    """Otherwise a flood of refusals is a flood of rolled-back transactions."""
    challenge_id = (await start(stack)).data["challenge_id"]
    if bound == "waits":
        await stack.database.execute("UPDATE login_guesses SET wait_until = now() + interval '1 hour'")
    if bound == "guesses":
        assert (await verify(stack, challenge_id, phone.wrong())).reason == "CODE_WRONG"
    if bound != "too soon":
        await stack.database.execute("UPDATE login_rates SET full_at = now() + interval '1 day' WHERE tenant_id = ''")
        await stack.database.execute("DELETE FROM login_rates WHERE tenant_id <> ''")
    tables = ("login_rates", "login_guesses", "login_challenges")
    before = [await stack.database.fetch(f"SELECT t.*, xmin FROM {table} AS t ORDER BY t") for table in tables]
    async with stack.database.connection() as holder, holder.transaction():
        for table in tables:
            await holder.execute(f"SELECT 1 FROM {table} FOR UPDATE")
        match bound:
            case "guesses":
                answer = await verify(stack, challenge_id, phone.code())
            case "address":
                answer = await start(stack, "+15550199")
            case _:
                answer = await start(stack)
    assert answer.reason == ("RESEND_TOO_SOON" if bound in ("too soon", "waits") else "RATE_LIMITED")
    after = [await stack.database.fetch(f"SELECT t.*, xmin FROM {table} AS t ORDER BY t") for table in tables]
    assert after == before


async def test_logout_of_a_guest_ends_its_token_even_before_its_first_play(stack: Stack) -> None:
    async with new_world(stack) as world:
        game = await world.wheel(await world.prize(), access="public")
        idle, winner = [(await world.start(game, "")).data for _ in range(2)]
        assert (await world.play(game, winner["session_id"], "")).code == "OK"
        for token in (idle["guest_token"], winner["guest_token"]):
            assert (await log_out(stack, token, everywhere=True)).code == "OK"
        assert (await world.play(game, idle["session_id"], "")).code == "OK"
        for token in (idle["guest_token"], winner["guest_token"]):
            assert (await stack.consumer("GET", "/players/me", headers=bearer(token))).reason == "TOKEN_INVALID"
        row = await stack.database.fetchrow("SELECT issued_until, expires_at - revoked_at AS kept FROM revocations")
        assert row is not None and row["issued_until"] is None
        assert row["kept"].total_seconds() == stack.process.settings.refresh_token_seconds + SLACK_SECONDS


@pytest.mark.settings(rate_limits=True, token_seconds_max=366 * 86_400)
async def test_guest_logouts_of_one_address_are_bounded(stack: Stack) -> None:
    async with new_world(stack) as world:
        game = await world.wheel(access="public")
        tokens = []
        for _ in range(3):
            started = (await world.start(game, "")).data
            assert (await world.play(game, started["session_id"], "")).code == "OK"
            tokens.append(started["guest_token"])
        assert (await log_out(stack, tokens[0])).code == "OK"
        full = "UPDATE login_rates SET full_at = now() + make_interval(secs => $1) WHERE rate_key LIKE $2 || ':%'"
        await stack.database.execute(full, float(GUESTS_ENDED.seconds * GUESTS_ENDED.most), GUESTS_ENDED.kind)
        refused = await log_out(stack, tokens[1])
        assert (refused.http, refused.reason) == (429, "RATE_LIMITED")
        assert 1 <= int(refused.headers["Retry-After"]) <= GUESTS_ENDED.seconds
        assert (await stack.consumer("GET", "/players/me", headers=bearer(tokens[1]))).code == "OK"
        assert await stack.database.fetchval("SELECT count(*) FROM revocations") == 1
        assert (await log_out(stack, stack.token("ann"))).code == "OK"
        assert (await stack.consumer("GET", "/players/me", headers=bearer(tokens[2]))).code == "OK"


ROWS = {
    "login_challenges": "(tenant_id, challenge_id, contact, contact_hash, requester, code_hash, strong, expires_at)"
    " SELECT $1, 'c' || n, 'x', 'x', 'x', 'x', false, now() - interval '1 day'",
    "login_rates": "(tenant_id, rate_key, full_at) SELECT $1, 'r' || n, now() - interval '1 day'",
    "login_guesses": "(tenant_id, contact_hash, requester, wrong, updated_at)"
    " SELECT $1, 'h' || n, '', n % 2, now() - interval '2 years'",
    "logins": "(tenant_id, login_id, player_id, expires_at, ends_at)"
    " SELECT $1, 'l' || n, 'x', now() - interval '2 days', now() - interval '2 days'",
    "revocations": "(tenant_id, kind, subject, expires_at) SELECT $1, 'player', 's' || n, now() - interval '1 day'",
}


async def leave_behind(stack: Stack, table: str, tenant_id: str, number: int) -> None:
    change = f"INSERT INTO {table} {ROWS[table]} FROM generate_series(1, $2::integer) AS n"
    await stack.database.execute(change, tenant_id, number)


async def left(stack: Stack, table: str) -> int:
    return int(await stack.database.fetchval(f"SELECT count(*) FROM {table}"))


@pytest.mark.parametrize("table", ROWS)
async def test_purge_statement_deletes_a_bounded_batch(stack: Stack, table: str) -> None:
    """Otherwise a backlog exceeds the statement timeout, is rolled back, and grows."""
    await stack.database.execute(f"""
        CREATE FUNCTION bounded() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF (SELECT count(*) FROM gone) > {PURGE_BATCH} THEN RAISE EXCEPTION 'too many at once'; END IF;
            RETURN NULL;
        END $$""")
    try:
        await stack.database.execute(
            f"CREATE TRIGGER bounded AFTER DELETE ON {table} REFERENCING OLD TABLE AS gone"
            " FOR EACH STATEMENT EXECUTE FUNCTION bounded()"
        )
        for tenant_id in (stack.tenant_id, ALL_TENANTS):
            await leave_behind(stack, table, tenant_id, 2 * PURGE_BATCH + 7)
        await purge(stack.engine)
        assert await left(stack, table) == 0
    finally:
        await stack.database.execute("DROP FUNCTION bounded CASCADE")


async def test_purge_failure_of_one_table_does_not_block_the_others(stack: Stack) -> None:
    await stack.database.execute("""
        CREATE FUNCTION clung() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'stays'; END $$""")
    try:
        change = "CREATE TRIGGER clung BEFORE DELETE ON login_challenges FOR EACH ROW EXECUTE FUNCTION clung()"
        await stack.database.execute(change)
        for tenant_id in (stack.tenant_id, ALL_TENANTS):
            for table in ROWS:
                await leave_behind(stack, table, tenant_id, 3)
        with pytest.raises(asyncpg.RaiseError):
            await purge(stack.engine)
        assert {table: await left(stack, table) for table in ROWS} == {**dict.fromkeys(ROWS, 0), "login_challenges": 6}
    finally:
        await stack.database.execute("DROP FUNCTION clung CASCADE")


PATHS = ("/admin/games", "/admin/prizes", "/admin/audit", "/admin/tenants", "/admin/me")


async def try_all(stack: Stack, *subjects: str, times: int = 1, roles: tuple[str, ...] = ()) -> None:
    requests = []
    for subject in subjects:
        token = bearer(stack.token(subject, roles))
        requests += [stack.admin("GET", path, roles=(), headers=token) for path in PATHS for _ in range(times)]
    answers: list[Answer] = await asyncio.gather(*requests)
    assert {answer.reason for answer in answers} == {"ROLE_REQUIRED"}


async def recorded(stack: Stack, actor: str = "%") -> int:
    count = "SELECT count(*) FROM audit_entries WHERE action = 'staff.refuse' AND actor LIKE $1"
    return int(await stack.database.fetchval(count, actor))


def counted(whether: str) -> float:
    return float(staff.REFUSALS.labels(whether)._value.get())


async def test_repeated_refusals_are_recorded_a_few_times_and_counted_each_time(stack: Stack) -> None:
    before = {whether: counted(whether) for whether in ("yes", "no")}
    await try_all(stack, "player_eve", times=20)
    few = await recorded(stack)
    assert len(PATHS) <= few < 20
    assert counted("yes") - before["yes"] == few
    assert counted("no") - before["no"] == 20 * len(PATHS) - few


async def test_player_refusals_fill_no_log_and_hide_no_staff(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "REFUSALS", audit.REFUSALS._replace(at_once=7, every_seconds=3600.0))
    await try_all(stack, *(f"player_{nth}" for nth in range(20)))
    assert await recorded(stack) == 7
    await try_all(stack, "mallory", roles=("viewer",))
    assert await recorded(stack, "mallory") == len(PATHS)


async def test_refusal_bound_holds_across_edges(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is kept in the database, because an edge's memory ends with its process."""
    monkeypatch.setattr(audit, "REFUSALS", audit.REFUSALS._replace(at_once=7, every_seconds=3600.0))
    body = {"route": "GET /admin/games", "reason": "ROLE_REQUIRED"}
    answers = await asyncio.gather(
        *(stack.core("POST", "/audit/refusals", {**body, "subject": f"player_{nth}"}) for nth in range(40))
    )
    assert sum(answer.data["recorded"] for answer in answers) == await recorded(stack) == 7


async def test_concurrent_readiness_probes_query_each_store_once() -> None:
    answering = asyncio.Event()
    requests: list[str] = []

    async def database() -> bool:
        requests.append("database")
        await answering.wait()
        return True

    async def redis() -> bool:
        requests.append("redis")
        return len(requests) > 2

    app = make_app()
    mount_health(app, {"database": database, "redis": redis})
    handler = next(route.handler for route in app.router.routes() if str(route.resource).endswith("/readyz>"))
    waiting = [asyncio.ensure_future(handler(make_mocked_request("GET", "/readyz"))) for _ in range(100)]
    await until(lambda: requests)
    answering.set()
    answers = await asyncio.gather(*waiting)
    assert requests == ["database", "redis"]
    assert {answer.status for answer in answers} == {503}
    assert (await handler(make_mocked_request("GET", "/readyz"))).status == 200
    assert requests == ["database", "redis"] * 2
