"""Staff who may look for a reward by its whole code try codes: a few, and nobody else is kept out by that."""

import time
from typing import Any

import pytest

from runtime.http.admin import CODE_SEARCHES
from tests.support.stack import Answer, Stack


@pytest.mark.settings(rate_limits=True)
async def test_staff_code_guesses_are_limited_per_person(stack: Stack) -> None:
    async def look(subject: str, **query: Any) -> Answer:
        token = {"Authorization": f"Bearer {stack.token(subject, ('reward_manager',))}"}
        return await stack.admin("GET", "/admin/rewards", headers=token, **query)

    began = time.monotonic()
    seen = [(await look("eve", code=f"GUESS-{nth}")).reason for nth in range(2 * CODE_SEARCHES.burst)]
    refilled = (time.monotonic() - began) * CODE_SEARCHES.per_second
    assert seen.count("") <= CODE_SEARCHES.burst + 1 + refilled and "RATE_LIMITED" in seen
    limited = await look("eve", code="GUESS-1")
    assert (limited.http, int(limited.headers["Retry-After"]) > 0) == (429, True), limited.envelope
    for subject, query in (("ann", {"code": "GUESS-1"}), ("eve", {}), ("eve", {"contact": "x@example.com"})):
        assert (await look(subject, **query)).http == 200
