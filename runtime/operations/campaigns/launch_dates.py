"""The launch check of dates: those of the campaign, and of games that have their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from runtime import messages as m


def check_dates(campaign: Any, games: Sequence[Any], now: float) -> Iterator[m.LaunchItem]:
    """Whether the campaign ends in the future, and each game can be played while the campaign runs."""
    start, end = campaign["start_date"], campaign["end_date"]
    if end and end <= now:
        yield m.LaunchItem(m.LaunchLevel.PROBLEM, "end_date", "The end date is in the past")
    elif not end:
        yield m.LaunchItem(m.LaunchLevel.WARNING, "end_date", "No end date is set")
    else:
        yield m.LaunchItem(m.LaunchLevel.OK, "end_date", "The dates are valid")
    for game in games:
        definition, field = game["definition"], f"games/{game['game_id']}"
        if end and definition.get("start_date", 0) >= end:
            message = f"{game['name']} starts after the campaign's end"
            yield m.LaunchItem(m.LaunchLevel.PROBLEM, f"{field}.start_date", message)
        if 0 < definition.get("end_date", 0) <= start:
            message = f"{game['name']} ends before the campaign's start"
            yield m.LaunchItem(m.LaunchLevel.PROBLEM, f"{field}.end_date", message)
