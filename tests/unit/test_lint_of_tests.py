"""The lint over tests finds what could not fail, and the tests of this repository have nothing of it."""

from __future__ import annotations

from textwrap import dedent

import pytest

from ops.proof import lint


def rules(*sources: str) -> list[tuple[int, str]]:
    """(line, rule) of what is found in files of these contents."""
    files = {f"tests/test_{nth}.py": dedent(source).lstrip() for nth, source in enumerate(sources)}
    return [(found.line, found.rule) for found in lint.lint(files)]


def test_the_tests_of_this_repository_could_all_fail() -> None:
    assert list(map(str, lint.lint(lint.sources()))) == []


@pytest.mark.parametrize(
    "body",
    [
        "assert played()",
        "with pytest.raises(Fault):\n        play()",
        "check(database)",
        "await invariants.check(database)",
        "until(lambda: True)",
        "raise AssertionError('unreachable')",
    ],
)
def test_a_test_asserts_by_itself_or_by_a_helper(body: str) -> None:
    helper = "def check(database):\n    assert database\n"
    assert rules(f"async def test_it():\n    {body}\n", helper) == []


@pytest.mark.parametrize(
    "body",
    [
        "play()",
        "connection.close()",  # One of the two closes that there are asserts nothing.
        "recur()",
        "test_other()",
        "assert True",
        "assert (played() == 1, 'no')",
        "assert (play for play in plays)",
        "assert [played()]",
        "assert {'played': played()}",
        "assert f'plays: {plays}'",
        "assert plays == plays",
        "assert plays.count is plays.count",
        "assert len(played()) >= 0",
        "assert played() or True",
        "return\n    assert played()",
        "if False:\n        assert played()",
        "try:\n        play()\n    except Fault as fault:\n        assert fault.reason",
        "assert ready()",  # A coroutine, which is true.
        "ready()",
        "def inner():\n        assert played()",
    ],
)
def test_a_test_that_asserts_nothing_is_found(body: str) -> None:
    helper = """
        class Strict:
            def close(self):
                assert True

        class Lax:
            def close(self):
                return

        def recur():
            recur()

        async def ready():
            assert True is not False
    """
    assert rules(f"def test_it():\n    {body}\n", helper) == [(1, "asserts")]


@pytest.mark.parametrize(
    "test",
    ["[*plays]", "f'{plays}'", "plays == others", "len(plays) >= 1", "played() or False", "played() == played()"],
)
def test_what_may_be_false_is_an_assertion(test: str) -> None:
    assert rules(f"def test_it():\n    assert {test}\n") == []


def test_whatever_is_raised_is_asked_for_by_its_name_or_by_what_it_says() -> None:
    for name in ("Exception", "BaseException"):
        assert rules(f"def test_it():\n    with pytest.raises({name}):\n        play()\n") == [(2, "asserts")]
    assert rules("def test_it():\n    with pytest.raises(Exception, match='sold out'):\n        play()\n") == []
    assert rules("def test_it():\n    with pytest.raises(Fault):\n        play()\n") == []


def test_what_is_defined_inside_a_function_lends_nothing_to_others() -> None:
    helper = "def serve():\n    def write():\n        assert True\n"
    assert rules("def test_it():\n    connection.write()\n", helper) == [(1, "asserts")]


@pytest.mark.parametrize(
    "code",
    [
        "try:\n    play()\nexcept Fault:\n    pass\n",
        "try:\n    play()\nexcept Fault:\n    'never mind'\n",
        "for _ in plays:\n    try:\n        play()\n    except (Fault, OSError):\n        continue\n",
        "with suppress(Exception):\n    play()\n",
        "with contextlib.suppress(Fault, BaseException):\n    play()\n",
        "try:\n    play()\nexcept:\n    failed = True\n",
        "def f():\n    try:\n        play()\n    except Fault:\n        return\n",
        "for _ in plays:\n    try:\n        play()\n    except Fault:\n        break\n",
        "try:\n    play()\nexcept Exception as error:\n    print(error)\n",
        "try:\n    play()\nexcept Exception:\n    failed = True\n",
        "with suppress(*FAULTS):\n    play()\n",
        "with suppress(AssertionError):\n    check()\n",
        "try:\n    check()\nexcept AssertionError:\n    failed = True\n",
        "try:\n    check()\nexcept (Fault, AssertionError):\n    print('no')\n",
        "def f():\n    try:\n        check()\n    finally:\n        return None\n",
        "from contextlib import suppress as quiet\nwith quiet(Exception):\n    play()\n",
        "async def f():\n    await asyncio.gather(play(), return_exceptions=True)\n",
    ],
)
def test_a_dropped_exception_is_found(code: str) -> None:
    assert [rule for _, rule in rules(code)] == ["swallows"]


def test_an_exception_that_is_looked_at_is_not() -> None:
    assert rules("try:\n    play()\nexcept Fault as fault:\n    failed.append(fault)\n") == []
    assert rules("with suppress(ProcessLookupError):\n    kill()\n") == []
    assert rules("def f():\n    try:\n        return play()\n    except Fault:\n        return None\n") == []
    assert rules("try:\n    play()\nexcept Exception as error:\n    failed.append(error)\n") == []
    assert rules("async def f():\n    said = await asyncio.gather(play(), return_exceptions=True)\n") == []


@pytest.mark.parametrize(
    "code",
    [
        "await asyncio.sleep(0.1)",
        "time.sleep(pause)",
        "sleep(1)",
        "event.wait(0.5)",
        "await asyncio.wait(tasks, timeout=0.5)",
        "run(['sleep', '1'])",
        "await connection.execute('SELECT pg_sleep(1)')",
    ],
)
def test_a_sleep_is_found(code: str) -> None:
    assert rules(f"async def wait():\n    {code}\n") == [(2, "sleeps")]
    assert rules(f"async def wait():\n    while True:\n        {code}\n") == [(3, "sleeps")]


def test_a_sleep_by_another_name_and_one_until_a_time_are_found() -> None:
    assert rules("from asyncio import sleep as nap\nasync def wait():\n    await nap(1)\n") == [(3, "sleeps")]
    assert rules("def wait():\n    while time.monotonic() < ends:\n        time.sleep(0.1)\n") == [(3, "sleeps")]


def test_a_loop_that_is_left_in_its_first_round_is_a_sleep() -> None:
    assert rules("async def wait():\n    while True:\n        await asyncio.sleep(5)\n        break\n") == [
        (3, "sleeps")
    ]
    assert rules("def wait():\n    while waiting:\n        time.sleep(5)\n        return\n") == [(3, "sleeps")]


def test_a_sleep_between_two_looks_at_a_fact_is_not() -> None:
    assert rules("async def wait():\n    while not fact():\n        await asyncio.sleep(0.1)\n") == []
    assert rules("def wait():\n    while True:\n        if fact():\n            return\n        time.sleep(1)\n") == []
    assert rules("async def wait():\n    await asyncio.sleep(0)\n") == []


def test_a_reason_at_the_line_or_above_it_excuses_one_rule() -> None:
    assert rules("async def wait():\n    await asyncio.sleep(1)  # sleeps: the drip is tested\n") == []
    assert rules("# asserts: its machine does\ndef test_it():\n    run()\n") == []
    assert rules("async def wait():\n    # swallows: wrong rule\n    await asyncio.sleep(1)\n") == [
        (3, "sleeps"),
        (2, "swallows"),
    ]


def test_a_reason_that_excuses_nothing_is_found() -> None:
    assert rules("def test_it():\n    assert it()  # sleeps: no more\n") == [(2, "sleeps")]
