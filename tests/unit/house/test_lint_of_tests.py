"""The lint over tests, and that the tests of this repository pass it."""

from __future__ import annotations

import pytest

from ops.proof import lint

HELPERS = """
class Strict:
    def close(self):
        assert self.open

class Lax:
    def close(self):
        return

def check(database):
    assert database

def recur():
    recur()
"""


def rules(body: str) -> list[str]:
    """The rules that a test of this body breaks."""
    test = f"async def test_it():\n    {body}\n"
    return [found.rule for found in lint.lint({"tests/test_a.py": test, "tests/support/b.py": HELPERS})]


def test_repository_tests_pass_the_lint() -> None:
    assert list(map(str, lint.lint(lint.sources()))) == []


@pytest.mark.parametrize("body", ["play()", "connection.close()", "recur()", "test_it()", "assert True"])
def test_test_that_asserts_nothing_is_found(body: str) -> None:
    assert rules(body) == ["asserts"]


@pytest.mark.parametrize("body", ["assert played()", "with pytest.raises(Fault):\n        play()", "await b.check(1)"])
def test_assertion_counts_directly_or_in_a_helper(body: str) -> None:
    assert rules(body) == []


@pytest.mark.parametrize(
    "pause", ["await asyncio.sleep(0.1)", "run(['sleep', '1'])", "await pool.execute('SELECT pg_sleep(1)')"]
)
def test_sleep_is_found_unless_a_fact_ends_its_loop_or_a_reason_is_given(pause: str) -> None:
    assert rules(f"assert x\n    {pause}") == ["sleeps"]
    assert rules(f"assert x\n    while True:\n        {pause}\n        break") == ["sleeps"]
    assert rules(f"assert x\n    while time.monotonic() < end:\n        {pause}") == ["sleeps"]
    assert rules(f"assert x\n    while not fact():\n        {pause}") == []
    assert rules(f"assert x\n    {pause}  # sleeps: the rate is per second") == []
    assert rules(f"assert x\n    {pause}  # asserts: another rule") == ["sleeps"]
