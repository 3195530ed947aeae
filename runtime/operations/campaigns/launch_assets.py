"""The launch check of uploaded pictures and fonts: whether each one that is shown exists.

A campaign file of another installation may name pictures that were not uploaded here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import asyncpg
import msgspec

import sql
from runtime import messages as m
from runtime.rules.ui import ASSET

_MISSING: Final = sql.load("assets")["missing"]
_URL: Final = re.compile(ASSET)


async def missing_assets(
    connection: asyncpg.Connection, tenant_id: str, campaign: Any, games: Sequence[Any], prizes: Sequence[Any]
) -> list[m.LaunchItem]:
    """A warning for each part that shows an asset which the tenant does not have."""
    parts = [("The campaign", "settings", campaign["settings"])]
    parts += [(game["name"], f"games/{game['game_id']}.ui", game["definition"]["ui"]) for game in games]
    parts += [(prize["name"], f"prizes/{prize['prize_id']}.image_url", prize["image_url"]) for prize in prizes]
    shown = [(name, field, set(_URL.findall(msgspec.json.encode(value).decode()))) for name, field, value in parts]
    urls = sorted(set().union(*(found for _, _, found in shown)))
    gone = {row["url"] for row in await connection.fetch(_MISSING, tenant_id, urls)} if urls else set()
    return [
        m.LaunchItem(
            level=m.LaunchLevel.WARNING,
            field=field,
            message=f"{name} shows a picture or font that does not exist: upload it again ({url})",
        )
        for name, field, found in shown
        for url in sorted(found & gone)
    ]
