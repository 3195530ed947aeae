"""Who floods logins finds a rate of its own, and leaves the play path its connections to the database."""

from __future__ import annotations

import asyncio
import ipaddress

import pytest

from runtime.core import bounded_at_once
from tests.support.login import bearer, log_out, start, verify
from tests.support.stack import Answer, Stack
from tests.support.waiting import until
from tests.support.world import new_world

_WAITING = "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted"


@pytest.mark.settings(
    rate_limits=True,
    rate_login_per_second=0.001,
    rate_login_burst=5,
    trusted_proxies=(ipaddress.ip_network("127.0.0.0/8"),),
)
async def test_an_address_has_few_logins_and_the_next_address_its_own(stack: Stack) -> None:
    async def of(address: str) -> Answer:
        return await verify(stack, "chal_" + "0" * 32, "000000", headers={"X-Forwarded-For": address})

    answers = [await of("203.0.113.66") for _ in range(8)]
    assert [answer.reason for answer in answers] == ["UNKNOWN_CHALLENGE"] * 5 + ["RATE_LIMITED"] * 3
    assert answers[-1].envelope["data"]["policy"] == "login"
    assert (await of("198.51.100.7")).reason == "UNKNOWN_CHALLENGE"
    # What it reads is not held to what it logs in.
    answer = await stack.consumer("GET", "/players/me", headers={"X-Forwarded-For": "203.0.113.66"})
    assert answer.reason == "TOKEN_MISSING"


async def test_plays_commit_while_logins_wait_for_each_other(stack: Stack) -> None:
    """Every login of a contact locks one row; with that row held, as many as there are connections would wait."""
    pool = stack.process.settings.database_pool_size
    async with new_world(stack) as world:
        game = await world.wheel()
        await start(stack)
        async with stack.database.connection() as holder, holder.transaction():
            await holder.execute("SELECT 1 FROM login_guesses FOR UPDATE")
            flood = [asyncio.create_task(start(stack)) for _ in range(3 * pool)]

            async def waiting() -> int:
                return int(await holder.fetchval(_WAITING))

            async def as_many_wait_as_may() -> bool:
                return await waiting() >= bounded_at_once(pool)

            await until(as_many_wait_as_may)
            assert (await world.round(game)).code == "OK"
            assert await waiting() == bounded_at_once(pool)
        answers = await asyncio.gather(*flood)
    assert {answer.reason for answer in answers} == {"RESEND_TOO_SOON"}


async def test_a_guest_who_has_nothing_leaves_nothing_to_remember_by_logging_out(stack: Stack) -> None:
    """Every edge keeps what was revoked in memory for a month, and guests are anybody's to make."""
    async with new_world(stack) as world:
        game = await world.wheel(await world.prize(), access="public")
        idle, winner = [(await world.start(game, "")).data for _ in range(2)]
        played = await world.play(game, winner["session_id"], "")
        assert played.code == "OK"
        for token in (idle["guest_token"], winner["guest_token"]):
            assert (await log_out(stack, token, everywhere=True)).code == "OK"
        rows = await stack.database.fetch("SELECT subject FROM revocations")
        assert [row["subject"] for row in rows] == [
            row["player_id"] for row in await stack.database.fetch("SELECT DISTINCT player_id FROM plays")
        ]
        me = await stack.consumer("GET", "/players/me", headers=bearer(winner["guest_token"]))
        assert me.reason == "TOKEN_INVALID"
