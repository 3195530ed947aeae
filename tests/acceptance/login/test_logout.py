import asyncio
import time
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from types import SimpleNamespace
from typing import Any

import asyncpg
import jwt
import pytest

from runtime.app import running
from runtime.background import FAILURES
from runtime.errors import Fault
from runtime.http.auth import revocations
from runtime.http.auth.tokens import Tokens
from runtime.http.edge import Edge
from runtime.operations.players.revocations import PAGE, revoke_player
from runtime.operations.row import Operation
from runtime.settings import Settings
from tests.support.login import Phone, bearer, let_resend, log_in, log_out, refresh, start, verify
from tests.support.stack import OTHER_TENANT, ROLES, Answer, Stack
from tests.support.world import World


def claims_of(token: str) -> dict[str, Any]:
    return jwt.decode(token, options={"verify_signature": False})


def life_of(token: str) -> int:
    claims = claims_of(token)
    return int(claims["exp"] - claims["iat"])


async def me(stack: Stack, token: str) -> Answer:
    return await stack.consumer("GET", "/players/me", headers=bearer(token))


async def test_logout_ends_its_login_and_no_other(stack: Stack, phone: Phone) -> None:
    here = await log_in(stack, phone)
    here = (await refresh(stack, here["refresh_token"])).data | {"before": here["token"]}
    await let_resend(stack)
    there = await log_in(stack, phone)
    answer = await log_out(stack, here["before"])
    assert (answer.data, answer.headers["Cache-Control"]) == ({}, "no-store")
    ended = await me(stack, here["token"])
    assert (ended.http, ended.reason) == (401, "TOKEN_INVALID")
    assert (await refresh(stack, here["refresh_token"])).reason == "TOKEN_INVALID"
    assert (await me(stack, there["token"])).code == "OK"
    assert (await refresh(stack, there["refresh_token"])).code == "OK"
    assert (await log_out(stack, here["token"])).reason == "TOKEN_INVALID"


async def test_logout_everywhere_ends_every_token_of_the_player(stack: Stack, phone: Phone) -> None:
    here = await log_in(stack, phone)
    await let_resend(stack)
    there = await log_in(stack, phone)
    neighbour = await log_in(stack, phone, "+15550199")
    of_no_login = stack.token(here["player"]["id"])
    elsewhere = stack.token(here["player"]["id"], tenant_id=OTHER_TENANT)
    assert (await log_out(stack, here["token"], everywhere=True)).code == "OK"
    for token in (here["token"], there["token"], of_no_login):
        assert (await me(stack, token)).reason == "TOKEN_INVALID"
    for token in (here["refresh_token"], there["refresh_token"]):
        assert (await refresh(stack, token)).reason == "TOKEN_INVALID"
    for token in (neighbour["token"], elsewhere):
        assert (await me(stack, token)).code == "OK"
    await let_resend(stack)
    assert (await me(stack, (await log_in(stack, phone))["token"])).code == "OK"


@pytest.mark.parametrize("ahead_seconds", [0, 4])
async def test_logout_ends_tokens_made_by_a_clock_that_is_ahead(stack: Stack, ahead_seconds: int) -> None:
    now = time.time() + ahead_seconds
    tokens = [stack.token("player_ann", ahead_seconds=ahead_seconds) for _ in range(2)]
    assert (await log_out(stack, tokens[0])).code == "OK"
    assert (await me(stack, tokens[0])).code == "OK", "a token without a login is its issuer's"
    assert (await log_out(stack, tokens[0], everywhere=True)).code == "OK"
    assert [(await me(stack, token)).reason for token in tokens] == ["TOKEN_INVALID"] * 2
    assert (await stack.core("POST", "/logins/end", {"player_id": "player_ann", "everywhere": True})).code == "OK"
    query = "SELECT floor(extract(epoch FROM issued_until))::bigint FROM revocations"
    assert await stack.database.fetchval(query) >= int(now)


async def test_token_never_outlives_the_memory_of_its_revocation(own_world: World, stack: Stack, phone: Phone) -> None:
    """Core forgets a logout by its own settings: an edge that is told of longer lives makes and takes none."""
    cores = stack.process.settings
    longer_lives = {"player_token_seconds": 16 * cores.player_token_seconds}
    longer_lives |= dict.fromkeys(("refresh_token_seconds", "token_seconds_max"), 2 * cores.token_seconds_max)
    longer = replace(cores, core_rpc_addresses=(stack.process.rpc_address,), **longer_lives)
    game_id = await own_world.wheel(await own_world.prize(), access="public")
    async with running(longer, ["consumer"]) as process:
        there = replace(stack, process=process)
        guest = (await there.consumer("POST", f"/games/{game_id}/start", {})).data["guest_token"]
        logged_in = await log_in(there, phone)
        refreshed = (await refresh(there, logged_in["refresh_token"])).data
        assert life_of(guest) == cores.refresh_token_seconds
        for answer in (logged_in, refreshed):
            assert life_of(answer["token"]) == cores.player_token_seconds
            assert abs(answer["expires_at"] - claims_of(answer["token"])["exp"]) <= 1
        for token in (guest, logged_in["token"]):
            assert (await me(there, token)).code == "OK"
        mint = Tokens.of(longer).mint
        for seconds, login_id in ((cores.player_token_seconds, "login_x"), (cores.token_seconds_max, "")):
            good, longest = (
                mint("player_ann", tenant_id=stack.tenant_id, seconds=lives, login_id=login_id)
                for lives in (seconds, seconds + 1)
            )
            assert (await me(there, good)).code == "OK"
            assert (await me(there, longest)).reason == "TOKEN_INVALID"


async def test_logout_with_a_wrong_field_is_refused(stack: Stack, phone: Phone) -> None:
    token = (await log_in(stack, phone))["token"]
    assert (await stack.consumer("POST", "/players/auth/logout", {})).reason == "TOKEN_MISSING"
    for body, field in (({"everywhere": "yes"}, "everywhere"), ({"where": True}, "where")):
        answer = await stack.consumer("POST", "/players/auth/logout", body, headers=bearer(token))
        assert (answer.http, answer.envelope["data"]["violations"][0]["field"]) == (400, field)
    assert (await me(stack, token)).code == "OK"
    assert (await stack.consumer("POST", "/players/auth/logout", headers=bearer(token))).code == "OK"


async def test_login_ends_however_often_it_is_refreshed(stack: Stack, phone: Phone) -> None:
    token = (await log_in(stack, phone))["refresh_token"]
    lives = "SELECT extract(epoch FROM {} - created_at) FROM logins"
    assert int(await stack.database.fetchval(lives.format("ends_at"))) == stack.process.settings.login_seconds
    await stack.database.execute("UPDATE logins SET ends_at = now() + interval '1 hour'")
    token = (await refresh(stack, token)).data["refresh_token"]
    assert await stack.database.fetchval("SELECT expires_at = ends_at FROM logins")
    await stack.database.execute("UPDATE logins SET expires_at = now(), ends_at = now()")
    answer = await refresh(stack, token)
    assert (answer.http, answer.reason) == (401, "TOKEN_EXPIRED")


async def test_replicas_during_a_secret_rotation_take_each_others_tokens(stack: Stack, phone: Phone) -> None:
    """And count together: with hashes of another secret, wrong guesses and sends would begin anew."""
    settings = replace(stack.process.settings, login_secret="l" * 32)
    old, new = settings.jwt_secret, "n" * 64
    before = replace(settings, jwt_old_secrets=(new,))
    after = replace(settings, jwt_secret=new, jwt_old_secrets=(old,))
    async with running(before, ["consumer"]) as one, running(after, ["consumer"]) as other:
        for contact, (first, second) in {"+15550100": (one, other), "+15550199": (other, one)}.items():
            here, there = replace(stack, process=first), replace(stack, process=second)
            challenge_id = (await start(here, contact)).data["challenge_id"]
            code = phone.code(contact)
            assert (await start(there, contact)).reason == "RESEND_TOO_SOON"
            assert (await verify(there, challenge_id, phone.wrong(contact))).reason == "CODE_WRONG"
            logged_in = (await verify(there, challenge_id, code)).data
            assert (await me(here, logged_in["token"])).code == "OK"
            again = (await refresh(here, logged_in["refresh_token"])).data
            assert (await me(there, again["token"])).code == "OK"
            assert (await refresh(there, again["refresh_token"])).code == "OK"


async def revoke(stack: Stack, player_id: str, tenant_id: str = "", *, for_ever: bool = True) -> None:
    async def work(connection: asyncpg.Connection) -> None:
        await revoke_player(connection, stack.engine, tenant_id or stack.tenant_id, player_id, for_ever=for_ever)

    await stack.database.transaction(work)


def new_edge(stack: Stack) -> Edge:
    return Edge.build(stack.process.settings, stack.process.core, stack.engine.ephemeral)


async def test_revocation_by_a_database_that_is_behind_is_read(stack: Stack) -> None:
    """After a failover: an edge has read until the other's time already."""
    edge = new_edge(stack)
    await edge.revocations.read()
    await revoke(stack, "player_guest")
    await stack.database.execute("UPDATE revocations SET revoked_at = revoked_at - interval '30 seconds'")
    for _ in range(2):
        await edge.revocations.read()
        assert edge.revocations.revoked(revocations.player_key(stack.tenant_id, "player_guest"), 0)
    await edge.close()


@pytest.mark.parametrize("ahead_seconds", [600, -600])
async def test_tokens_are_made_and_judged_by_the_clock_of_the_database(stack: Stack, ahead_seconds: int) -> None:
    """Ahead, it would take tokens that no revocation until now ends; behind, tokens whose revocation is forgotten."""
    core, now = stack.process.core, time.time()
    ahead = timedelta(seconds=ahead_seconds)

    class Wrong(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + ahead

    with pytest.MonkeyPatch.context() as clock:
        clock.setattr(time, "time", lambda: now + ahead_seconds)
        clock.setattr("jwt.api_jwt.datetime", Wrong)
        theirs = Tokens.of(stack.process.settings).mint("player_ann", tenant_id=stack.tenant_id, seconds=300)
        edge = Edge.build(stack.process.settings, core, stack.engine.ephemeral)
        with pytest.raises(Fault, match="TOKEN_INVALID" if ahead_seconds > 0 else "TOKEN_EXPIRED"):
            await edge.tokens.verify(theirs)
        own = edge.tokens.mint("player_ann", tenant_id=stack.tenant_id, seconds=300)
        assert (await edge.tokens.verify(own)).player_id == "player_ann"
        await edge.close()
    assert abs(jwt.decode(own, options={"verify_signature": False})["iat"] - now) < abs(ahead_seconds) / 2
    assert (await me(stack, own)).code == "OK"


async def test_revocations_are_read_once_for_many_first_requests(stack: Stack) -> None:
    """Core hands out all of it to each reading: as many as there are requests would keep it from everything else."""
    core = stack.process.core
    asked: list[str] = []

    async def call(operation: Operation, request: Any) -> Any:
        asked.append(operation.name)
        return await core.call(operation, request)

    edge = Edge.build(stack.process.settings, SimpleNamespace(call=call), stack.engine.ephemeral)
    tokens = [stack.token(f"player_{number}") for number in range(50)]
    await revoke(stack, "player_7")
    answers = await asyncio.gather(*map(edge.tokens.verify, tokens), return_exceptions=True)
    assert [number for number, answer in enumerate(answers) if isinstance(answer, Fault)] == [7]
    assert asked == ["ListRevocations"]
    await edge.close()


async def test_verified_token_costs_no_query(stack: Stack) -> None:
    token = stack.token("player_ann")
    edge = new_edge(stack)
    await edge.tokens.verify(token)
    before = stack.database.round_trips, stack.engine.ephemeral.commands
    for _ in range(1000):
        await edge.tokens.verify(token)
    # The clock and the edges' own readings go on beside; a thousand verifications are not among them.
    assert stack.database.round_trips - before[0] < 100
    assert stack.engine.ephemeral.commands - before[1] < 100
    await edge.close()


async def test_revocations_are_read_on_every_page(stack: Stack) -> None:
    await stack.database.execute(
        "INSERT INTO revocations (tenant_id, kind, subject, expires_at)"
        " SELECT $2, 'player', 'player_' || n, now() + interval '1 hour' FROM generate_series(1, $1) AS n",
        *(2 * PAGE + 1, stack.tenant_id),
    )
    edge = new_edge(stack)
    await edge.revocations.read()
    for number in (1, PAGE, 2 * PAGE + 1):
        assert edge.revocations.revoked(revocations.player_key(stack.tenant_id, f"player_{number}"), 0)
    await edge.close()


async def test_revocations_are_not_read_of_a_stopping_core(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each such question would be a warning, at every stop, of what nobody needs to know."""

    def failures() -> float:
        return sum(FAILURES.labels(f"revocations of {edge}")._value.get() for edge in ("consumer", "admin"))

    monkeypatch.setattr(revocations, "EVERY_SECONDS", 0.001)
    async with running(settings, ROLES) as process:
        core = process.core
        drain, before = core.drain, failures()

        async def drain_for_a_while() -> None:
            await drain()
            for _ in range(50):
                # sleeps: for as long as fifty questions would take, had an edge gone on asking
                await asyncio.sleep(revocations.EVERY_SECONDS)

        monkeypatch.setattr(core, "drain", drain_for_a_while)
    assert failures() == before
