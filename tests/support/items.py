"""All items of a collection, page by page."""

from __future__ import annotations

from typing import Any

from tests.support.stack import Stack


async def every_item(stack: Stack, path: str, *, player: str = "", **query: Any) -> list[dict[str, Any]]:
    """The items of all pages, as a player reads them; without a player, as staff do."""
    items: list[dict[str, Any]] = []
    cursor = ""
    while True:
        asked = stack.consumer("GET", path, player=player, cursor=cursor, **query) if player else None
        page = (await (asked or stack.admin("GET", path, cursor=cursor, **query))).data
        assert len(page["items"]) <= int(query.get("limit", 100))
        items += page["items"]
        cursor = page["pagination"]["next_cursor"]
        if not page["pagination"]["has_more"]:
            return items
