"""A token that was revoked opens nothing, on any edge process, and no request asks a store whether it was."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta, tzinfo
from typing import Any

import asyncpg
import jwt
import pytest

from runtime.app import running
from runtime.background import FAILURES
from runtime.core import Caller
from runtime.errors import Fault
from runtime.http.auth import revocations
from runtime.http.auth.tokens import Tokens
from runtime.http.edge import Edge
from runtime.operations.players.revocations import PAGE, revoke_player
from runtime.operations.row import Operation
from runtime.settings import Settings
from tests.support.stack import OTHER_TENANT, ROLES, Answer, Stack
from tests.support.waiting import until


async def revoke(stack: Stack, player_id: str, tenant_id: str = "", *, for_ever: bool = True) -> None:
    async def work(connection: asyncpg.Connection) -> None:
        await revoke_player(connection, stack.engine, tenant_id or stack.tenant_id, player_id, for_ever=for_ever)

    await stack.database.transaction(work)


async def me(stack: Stack, token: str) -> Answer:
    return await stack.consumer("GET", "/players/me", headers={"Authorization": f"Bearer {token}"})


def new_edge(stack: Stack) -> Edge:
    assert stack.process.core is not None
    return Edge.build(stack.process.settings, stack.process.core, stack.engine.ephemeral)


async def refused(stack: Stack, token: str) -> None:
    async def is_refused() -> bool:
        answer = await me(stack, token)
        assert answer.code == "OK" or (answer.http, answer.reason) == (401, "TOKEN_INVALID"), answer.envelope
        return answer.code != "OK"

    await until(is_refused)


async def test_revoked_token_is_refused_where_it_was_verified_before(stack: Stack) -> None:
    token, neighbour = stack.token("player_guest"), stack.token("player_ann")
    assert (await me(stack, token)).code == "OK"
    await revoke(stack, "player_guest")
    await refused(stack, token)
    assert (await me(stack, neighbour)).code == "OK"
    assert (await me(stack, stack.token("player_guest", tenant_id=OTHER_TENANT))).code == "OK"


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
    """By one that is ahead it would take tokens of the future, which no revocation of what is issued until now ends;
    by one that is behind it would take those whose revocation is forgotten.
    """
    assert stack.process.core is not None
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
    assert core is not None
    caller = _Counting(core)
    edge = Edge.build(stack.process.settings, caller, stack.engine.ephemeral)
    tokens = [stack.token(f"player_{number}") for number in range(50)]
    await revoke(stack, "player_7")
    answers = await asyncio.gather(*map(edge.tokens.verify, tokens), return_exceptions=True)
    assert [number for number, answer in enumerate(answers) if isinstance(answer, Fault)] == [7]
    assert caller.asked == ["ListRevocations"]
    await edge.close()


class _Counting:
    """A way to Core that notes what it is asked."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self.asked: list[str] = []

    async def call(self, operation: Operation, request: Any) -> Any:
        self.asked.append(operation.name)
        return await self._caller.call(operation, request)


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
        "INSERT INTO revocations (tenant_id, kind, subject, kept_until)"
        " SELECT $2, 'player', 'player_' || n, now() + interval '1 hour' FROM generate_series(1, $1) AS n",
        2 * PAGE + 1,
        stack.tenant_id,
    )
    edge = new_edge(stack)
    await edge.revocations.read()
    for number in (1, PAGE, 2 * PAGE + 1):
        assert edge.revocations.revoked(revocations.player_key(stack.tenant_id, f"player_{number}"), 0)
    await edge.close()


async def test_revocations_are_not_read_from_a_core_that_stops(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each such question would be a warning, at every stop, of what nobody needs to know."""

    def failures() -> float:
        return sum(FAILURES.labels(f"revocations of {edge}")._value.get() for edge in ("consumer", "admin"))

    monkeypatch.setattr(revocations, "EVERY_SECONDS", 0.001)
    async with running(settings, ROLES) as process:
        core = process.core
        assert core is not None
        drain, before = core.drain, failures()

        async def drain_for_a_while() -> None:
            await drain()
            for _ in range(50):
                # sleeps: for as long as fifty questions would take, had an edge gone on asking
                await asyncio.sleep(revocations.EVERY_SECONDS)

        monkeypatch.setattr(core, "drain", drain_for_a_while)
    assert failures() == before
