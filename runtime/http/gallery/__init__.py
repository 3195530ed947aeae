"""Campaign templates: files for `tombola campaigns import`.

They have no start, time zone or status: the user of a template sets them. Names replace ids, as in
runtime/commands/campaign_files.py.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any, Final

ABOUT: Final = {
    "spring_wheel": "One spin a day, with a large prize now and then.",
    "advent_scratch": "A scratch card for each day of Advent.",
    "advent_calendar": "A door for each day until Christmas, each with a game of its own.",
    "easter_eggs": "The more eggs a player catches, the better the prizes.",
    "winter_gifts": "Each caught gift counts, up to a limit.",
    "stamp_collection": "Players collect leaves by playing, and exchange them for prizes.",
    "points_ladder": "Points add up, and each milestone unlocks a prize automatically.",
    "daily_visit": "A daily visit earns a turn on the wheel.",
    "high_score": "The top three of the leaderboard win when it ends.",
}
"""File name -> description, in display order."""


def text_of(name: str) -> str:
    """The content of a template file. KeyError if the name is unknown."""
    return (resources.files(__package__) / f"{name}.yaml").read_text("utf-8") if ABOUT[name] else ""


@cache
def campaigns() -> list[dict[str, Any]]:
    """[{"name", "about", "file": {"campaign", "prizes", "games", "quests", "leaderboards"}}]"""
    import yaml  # late: a Core, which shows none of them, starts sooner

    return [{"name": name, "about": about, "file": yaml.safe_load(text_of(name))} for name, about in ABOUT.items()]
