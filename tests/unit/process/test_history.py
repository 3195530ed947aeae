"""Which history of the database is which."""

from __future__ import annotations

import pytest

from runtime.stores.history import History


@pytest.mark.parametrize(
    ("before", "now", "continues"),
    [
        (History("7.16384.00000001", 100), History("7.16384.00000001", 100), True),
        (History("7.16384.00000001", 100), History("7.16384.00000001", 101), True),
        # A copy of the same files from before, as a disk's snapshot is: what was written since is not there.
        (History("7.16384.00000001", 100), History("7.16384.00000001", 99), False),
        # Restored to a point in time, or promoted: another timeline.
        (History("7.16384.00000001", 100), History("7.16384.00000002", 101), False),
        # Another server, or tables made anew.
        (History("7.16384.00000001", 100), History("8.16384.00000001", 101), False),
        (History("7.16384.00000001", 100), History("7.24576.00000001", 101), False),
    ],
)
def test_history_continues_only_as_itself_and_forward(before: History, now: History, continues: bool) -> None:
    assert now.continues(before) is continues
    assert now.continues(History.parse(str(before))) is continues


@pytest.mark.parametrize("text", ["", "x", "7.16384.00000001", "7.16384.00000001:", "7.16384.00000001:-5", "a:b:c"])
def test_unreadable_history_is_continued_by_none(text: str) -> None:
    assert not History("7.16384.00000001", 100).continues(History.parse(text))
