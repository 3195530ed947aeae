"""Ready campaigns: files as `tombola campaigns import` takes them, to begin with.

They have no dates, zone or status of their own: whoever begins with one says them. Names stand in place of ids, as
runtime/commands/campaign_files.py has it.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any, Final

ABOUT: Final = {
    "spring_wheel": "A spin a day, with a large prize now and then.",
    "advent_scratch": "A scratch card for each day.",
    "easter_eggs": "Who catches more draws from better prizes.",
    "winter_gifts": "What is caught counts, as far as it goes.",
    "stamp_collection": "Collected with each play, exchanged for what one wants.",
    "points_ladder": "Points add up, and each rung unlocks a prize by itself.",
    "daily_visit": "A visit earns a turn, and a turn plays the wheel.",
    "high_score": "The best three of the ranking win when it ends.",
}
"""Each by the name of its file, in the order in which they are shown."""


def text_of(name: str) -> str:
    """The file. KeyError where there is none of this name."""
    return (resources.files(__package__) / f"{name}.yaml").read_text("utf-8") if ABOUT[name] else ""


@cache
def campaigns() -> list[dict[str, Any]]:
    """[{"name", "about", "file": {"campaign", "prizes", "games", "quests", "leaderboards"}}]"""
    import yaml  # late: a Core, which shows none of them, starts sooner

    return [{"name": name, "about": about, "file": yaml.safe_load(text_of(name))} for name, about in ABOUT.items()]
