"""Realistic ids, URLs and times for the example bodies of operations.

Tests replace them with real ones (`STAND_FOR`) and send the examples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CAMPAIGN: Final = "camp_01kgk3v6w5e9nb7q2ht8xz4mrd"
GAME: Final = "game_01kgk3vb0qf7hta1sz9dk3c8we"
PRIZE: Final = "prize_01kgk3v8r2e4ybm6n5p7jx0gqa"
PLAYER: Final = "player_01kgk3w4d8fzgs0v6ha2tn9c5b"
REWARD: Final = "reward_01kgk3x1f6m2j8c5q9y4w7n3ta"
MILESTONE: Final = "rung_01kgk3vb0reyc6"
SESSION: Final = "sess_AQpnYW1lXzAxa2drM3Zi..."
PICTURE: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAFklEQVR4nGM85MjDwMDAxMDAwMDAAAANlAETIcGvyAAAAABJRU5ErkJggg=="
)
"""A PNG of 2 x 2 pixels in base64."""
RECEIVER: Final = "https://example.com/hooks/tombola"

STAND_FOR: Final[Mapping[str, str]] = {
    CAMPAIGN: "campaign",
    GAME: "game",
    PRIZE: "prize",
    PLAYER: "player",
    REWARD: "reward",
    MILESTONE: "milestone",
    SESSION: "session",
    RECEIVER: "receiver",
}
"""Value in an example -> the kind of resource that it is the id or URL of."""

EARLIER: Final = 1_767_225_600
LATER: Final = 2_208_988_800
"""Unix seconds of 1 January 2026 and 2040."""
