"""Login, refresh and logout with Valkey gone, frozen or flushed: as with it (spec.md, "Consistency rules" 3)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ops.servers.valkey import Valkey
from tests.support.login import Phone, bearer, log_in, log_out, refresh, start, verify
from tests.support.stack import AS_SHIPPED, Stack

pytestmark = pytest.mark.settings(**AS_SHIPPED)


@pytest.fixture(params=["killed", "frozen", "flushed"])
def away(request: pytest.FixtureRequest, valkey_server: Valkey) -> Iterator[_Away]:
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


async def test_players_log_in_stay_in_and_log_out_without_the_ephemeral_store(
    stack: Stack, phone: Phone, away: _Away
) -> None:
    begun = (await start(stack)).data["challenge_id"]
    code = phone.code()
    before = await log_in(stack, phone, "+15550199")
    away.take()
    finished = (await verify(stack, begun, code)).data
    second = (await refresh(stack, before["refresh_token"])).data
    third = (await refresh(stack, second["refresh_token"])).data
    anew = await log_in(stack, phone, "+15550177")
    assert {finished["player"]["id"], third["player"]["id"], anew["player"]["id"]} == {
        row["player_id"] for row in await stack.database.fetch("SELECT player_id FROM players")
    }
    # What was used up stays used up.
    assert (await verify(stack, begun, code)).reason == "UNKNOWN_CHALLENGE"
    assert (await refresh(stack, before["refresh_token"])).reason == "TOKEN_INVALID"
    assert (await log_out(stack, anew["token"])).code == "OK"
    assert (await stack.consumer("GET", "/players/me", headers=bearer(anew["token"]))).reason == "TOKEN_INVALID"
    assert (await refresh(stack, anew["refresh_token"])).reason == "TOKEN_INVALID"


async def test_what_was_guessed_wrong_stays_counted(stack: Stack, phone: Phone, away: _Away) -> None:
    challenge_id = (await start(stack)).data["challenge_id"]
    assert (await verify(stack, challenge_id, phone.wrong())).envelope["data"]["attempts_left"] == 4
    away.take()
    assert (await verify(stack, challenge_id, phone.wrong())).envelope["data"]["attempts_left"] == 3
    assert (await start(stack)).reason == "RESEND_TOO_SOON"
