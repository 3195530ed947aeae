"""The list of the longest test files."""

from __future__ import annotations

from tests.support import order


def test_listed_files_exist_and_are_listed_once() -> None:
    named = order.longest()
    assert len(set(named)) == len(named) > 10
    assert [name for name in named if not (order.FILE.parents[1] / name).is_file()] == []
