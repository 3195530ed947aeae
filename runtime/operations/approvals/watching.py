"""When a request waits for a second person: what each DUAL_* setting watches. Which operations may: `deciding.KINDS`.

Live is what can be played now, and what ever was: else pausing a game, or its campaign, would be a way around. So is
an active game of a campaign that was played, paused or not.
Launching is not watched, changing what is live is. What is not watched at all stands in docs/deploy.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import asyncpg

import sql
from runtime.settings import Settings

_SQL: Final = sql.load("approvals")

ODDS: Final = (
    *("seed_generator", "reward_handler", "handler_config", "on_unavailable", "fallback_prize_id"),
    "milestones",
)
"""What of a game's definition decides the draws, and what its rungs grant."""

WORTH: Final = ("type", "value", "currency", "campaign_id")
"""What of a prize decides what a win is worth, and whose it is."""

GRANTS: Final = ("turns", "type", "condition", "campaign_id")
"""What of a quest decides how many turns it gives, to whom and how often."""

_Row: TypeAlias = Mapping[str, Any] | asyncpg.Record


def adjustment(settings: Settings, amount: float) -> bool:
    """Whether a balance's movement waits (DUAL_ADJUSTMENT_ABOVE), up or down."""
    return 0 < settings.dual_adjustment_above < abs(amount)


def points(settings: Settings, before: _Row | None, after: _Row) -> bool:
    """Whether a prize waits, live or not: a win of it moves a balance (DUAL_ADJUSTMENT_ABOVE), or gives turns."""
    large = after["type"] == "points" and adjustment(settings, after["value"])
    large |= after["type"] == "turns" and turns(settings, after["value"])
    return large and _differ(("type", "value"), before, after)


def turns(settings: Settings, amount: float) -> bool:
    """Whether turns that staff gives wait (DUAL_TURNS_ABOVE)."""
    return 0 < settings.dual_turns_above < amount


def quest(settings: Settings, before: _Row | None, after: _Row) -> bool:
    """Whether a quest waits, active or not: what it gives is more than staff alone may (DUAL_TURNS_ABOVE)."""
    return turns(settings, after["turns"]) and _differ(GRANTS, before, after)


def revocations(settings: Settings, count: int) -> bool:
    """Whether revocations in bulk wait (DUAL_REVOCATIONS_ABOVE)."""
    return 0 < settings.dual_revocations_above < count


async def prize(
    connection: asyncpg.Connection, settings: Settings, tenant_id: str, before: _Row | None, after: _Row
) -> bool:
    """Whether a prize waits: by its points, or since it is worth something else where it can be won (DUAL_ODDS)."""
    if points(settings, before, after):
        return True
    if not settings.dual_odds or before is None or not _differ(WORTH, before, after):
        return False
    return bool(await connection.fetchval(_SQL["prize_is_live"], tenant_id, after["id"]))


async def game(
    connection: asyncpg.Connection, settings: Settings, tenant_id: str, before: _Row | None, after: _Row
) -> bool:
    """Whether a game waits (DUAL_ODDS): its odds change while it is live, or it comes into a campaign that is."""
    if not settings.dual_odds:
        return False
    row = await connection.fetchrow(_SQL["game_is_live"], tenant_id, after["id"], after["campaign_id"])
    assert row is not None, "a game's campaign is never removed"
    was_active = before is not None and before["status"] == "active"
    campaign_is_live = bool(row["campaign_active"] or row["campaign_was_played"])
    if row["was_played"] or (was_active and campaign_is_live):
        return before is None or _differ(ODDS, before["definition"], after["definition"])
    return campaign_is_live and after["status"] == "active" and not was_active


def _differ(names: Iterable[str], before: _Row | None, after: _Row) -> bool:
    return before is None or any(before[name] != after[name] for name in names)
