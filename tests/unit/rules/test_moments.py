"""A play wins the first prize that is free."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from runtime.rules import Award, Outcome

CONFIG = {"prizes": [{"prize_id": "car"}, {"prize_id": "mug"}]}


@pytest.mark.parametrize(
    ("free", "rule", "won"),
    [
        ({"car": 1}, {}, "car"),
        ({"car": 0}, {}, "mug"),
        ({"car": 0, "mug": 0}, {}, None),
        ({"car": 0, "mug": 0}, {"on_unavailable": "fallback", "fallback_prize_id": "sticker"}, "sticker"),
    ],
)
def test_first_free_prize_is_won(
    play: Callable[..., Outcome], free: dict[str, int], rule: dict[str, str], won: str | None
) -> None:
    outcome = play("moments", CONFIG, stock=free, segments=("mug", None, "car"), **rule)
    assert outcome.awards == ([Award(won, 1)] if won else [])
    assert outcome.metadata["slot_index"] == {"car": 2, "mug": 0, None: 1, "sticker": -1}[won]
    assert outcome.path[0] == ["available", "car", 1, won == "car"]
