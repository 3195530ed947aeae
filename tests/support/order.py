"""Begins the longest files first (tests/longest.txt): a long one begun late would be waited for alone."""

from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

FILE: Final = Path(__file__).parents[1] / "longest.txt"
PART: Final = 1 / 40
"""Of all tests' time: what takes as much should be named. Half as long it is waited for at the most, by two."""

RUN_SECONDS_MIN: Final = 300.0
"""A run of some tests says nothing of all."""


def longest() -> list[str]:
    return [line for line in FILE.read_text().splitlines() if not line.startswith("#")]


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def begin_with_the_longest(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(longest())}
    items.sort(key=lambda item: places.get(file_of(item.nodeid), len(places)))


def to_name(reports: list[Any]) -> list[str]:
    """What to say of files that took long and are not named, each with its seconds; the longest first."""
    seconds: Counter[str] = Counter()
    for report in reports:
        seconds[file_of(report.nodeid)] += report.duration
    whole = sum(seconds.values())
    if whole < RUN_SECONDS_MIN:
        return []
    late = [(name, took) for name, took in seconds.most_common() if took >= PART * whole and name not in longest()]
    return [f"{name} took {took:.0f} s of {whole:.0f}: name it in tests/longest.txt" for name, took in late]
