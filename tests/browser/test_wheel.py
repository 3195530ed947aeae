"""The spin wheel, in a real browser: what it shows is what was decided."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.browsing import Visit
from tests.support.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

PUBLIC: dict[str, Any] = {"access": "public"}


async def wheel(fair: World, *labels: str, **fields: Any) -> str:
    """A public wheel that always wins the prize of its first label; the others are losses."""
    prize_id = await fair.prize(name=labels[0])
    segments = [
        {"label": label, "emoji": "🍏", **({} if i else {"prize_id": prize_id})} for i, label in enumerate(labels)
    ]
    return await fair.wheel(prize_id, **PUBLIC, ui={"wheel": {"segments": segments}}, **fields)


async def test_a_win_is_shown_as_it_was_decided(fair: World, visit: Visit) -> None:
    game_id = await wheel(fair, "Toffee apple", "Nothing", "Again nothing", rules={"max_plays_per_day": 3})
    await visit.open(game_id)
    assert await visit.page.inner_text(".left") == "3 plays left"
    await visit.press()
    assert "Toffee apple" in await visit.result() and await visit.kind() == "won"
    assert await visit.page.inner_text(".left") == "2 plays left"
    assert len(await fair.plays()) == 1
