from collections.abc import Iterator
from typing import Any

import pytest

from ops.servers.valkey import Valkey
from runtime import messages as m
from runtime.core import Caller
from runtime.errors import Fault, Status
from runtime.http.login.refresh import Refresh
from runtime.operations import Operation
from runtime.operations.players.profiles import RESOLVE_PLAYER
from tests.support.login import PHONE, Phone, bearer, log_in, log_out, refresh, start, verify
from tests.support.stack import AS_SHIPPED, Stack

pytestmark = pytest.mark.settings(**AS_SHIPPED)


@pytest.fixture(params=["killed", "frozen", "flushed"])
def away(request: pytest.FixtureRequest, valkey_server: Valkey) -> "Iterator[_Away]":
    """Calling `take` makes the store what the test's name says; it is put back afterwards."""
    yield _Away(valkey_server, request.param)
    if request.param == "killed":
        valkey_server.start()
    elif request.param == "frozen":
        valkey_server.thaw()


class _Away:
    def __init__(self, server: Valkey, how: str) -> None:
        self._server, self._how = server, how

    def take(self) -> None:
        {"killed": self._server.kill, "frozen": self._server.freeze, "flushed": self._flush}[self._how]()

    def _flush(self) -> None:
        self._server.command("FLUSHALL")


async def test_login_and_logout_work_without_the_ephemeral_store(stack: Stack, phone: Phone, away: _Away) -> None:
    begun = (await start(stack)).data["challenge_id"]
    code = phone.code()
    before = await log_in(stack, phone, "+15550199")
    away.take()
    finished = (await verify(stack, begun, code)).data
    third = (await refresh(stack, (await refresh(stack, before["refresh_token"])).data["refresh_token"])).data
    anew = await log_in(stack, phone, "+15550177")
    assert {finished["player"]["id"], third["player"]["id"], anew["player"]["id"]} == {
        row["player_id"] for row in await stack.database.fetch("SELECT player_id FROM players")
    }
    assert (await verify(stack, begun, code)).reason == "UNKNOWN_CHALLENGE"
    assert (await refresh(stack, before["refresh_token"])).reason == "TOKEN_INVALID"
    assert (await log_out(stack, anew["token"])).code == "OK"
    assert (await stack.consumer("GET", "/players/me", headers=bearer(anew["token"]))).reason == "TOKEN_INVALID"
    assert (await refresh(stack, anew["refresh_token"])).reason == "TOKEN_INVALID"


@pytest.mark.parametrize("table", ["contacts", "players", "login_challenges", "logins"])
async def test_code_stays_valid_if_its_login_could_not_begin(stack: Stack, phone: Phone, table: str) -> None:
    """Whichever table the store fails at."""
    challenge_id = (await start(stack)).data["challenge_id"]
    async with stack.database.connection() as holder, holder.transaction():
        await holder.execute(f"LOCK TABLE {table} IN SHARE MODE")
        failed = await verify(stack, challenge_id, phone.code())
        assert (failed.http, failed.reason) == (503, "STORE_UNAVAILABLE")
    logged_in = (await verify(stack, challenge_id, phone.code())).data
    assert (await stack.consumer("GET", "/players/me", headers=bearer(logged_in["token"]))).code == "OK"
    assert (await verify(stack, challenge_id, phone.code())).reason == "UNKNOWN_CHALLENGE"
    assert await stack.database.fetchval("SELECT count(*) FROM logins") == 1


async def test_login_whose_store_answer_was_lost_is_answered(stack: Stack, phone: Phone) -> None:
    """The code is already used, so only a replayed answer can give its owner the tokens."""
    core = stack.process.core
    challenge_id = (await start(stack)).data["challenge_id"]
    scope, player = m.Scope(tenant_id=stack.tenant_id), m.Contact(type=m.ContactType.PHONE, value=PHONE)
    resolved = await core.call(RESOLVE_PLAYER, m.ResolvePlayerRequest(scope=scope, contact=player))
    session = await Refresh(_Losing(core, "BeginLogin"), [b"k" * 32]).begin(scope, resolved.player.id, challenge_id)
    assert session.player.id == resolved.player.id
    assert [row["login_id"] for row in await stack.database.fetch("SELECT login_id FROM logins")] == [session.login_id]
    with pytest.raises(Fault, match="UNKNOWN_CHALLENGE"):
        await Refresh(core, [b"k" * 32]).begin(scope, resolved.player.id, challenge_id)


class _Losing:
    def __init__(self, caller: Caller, name: str) -> None:
        self._caller, self._name = caller, name

    async def call(self, operation: Operation, request: Any) -> Any:
        reply = await self._caller.call(operation, request)
        if operation.name == self._name:
            self._name = ""
            raise Fault(Status.UNAVAILABLE, "CORE_UNAVAILABLE", "the connection was lost")
        return reply
