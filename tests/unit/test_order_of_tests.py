"""The files of tests that take longest are begun first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.support import order
from tests.support.order import FILE


def items(*files: str) -> list[Any]:
    return [SimpleNamespace(nodeid=f"{file}::test_{nth}") for nth, file in enumerate(files)]


def test_each_file_that_is_named_is_there_once() -> None:
    named = order.longest()
    assert len(set(named)) == len(named) > 10
    assert [name for name in named if not (FILE.parents[1] / name).is_file()] == []


def test_named_files_go_first_and_all_others_stay_in_order() -> None:
    first, second = order.longest()[:2]
    given = items("a", second, "b", first, second, "a")
    order.begin_with_the_longest(given)
    assert [item.nodeid for item in given] == [
        f"{first}::test_3",
        f"{second}::test_1",
        f"{second}::test_4",
        "a::test_0",
        "b::test_2",
        "a::test_5",
    ]


def test_a_long_file_that_is_not_named_is_told_of_after_a_whole_run() -> None:
    def reports(seconds: float) -> list[Any]:
        files = {order.longest()[0]: 9 * seconds, "tests/test_new.py": seconds, "tests/test_short.py": 1.0}
        return [SimpleNamespace(nodeid=f"{name}::test", duration=took) for name, took in files.items()]

    assert order.to_name(reports(40.0)) == ["tests/test_new.py took 40 s of 401: name it in tests/longest.txt"]
    assert order.to_name(reports(9.0)) == []
