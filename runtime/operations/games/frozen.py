"""Frozen campaigns: once active, the odds and rules of their games and the worth of their prizes cannot change.

A frozen campaign cannot be thawed, nor become a draft again, until it has ended. What stays free: texts and looks,
pausing and ending, more stock, more codes, and games that are still drafts. Refused: FAILED_PRECONDITION FROZEN, naming
the campaign and the field.
"""

from __future__ import annotations

from typing import Any, Final

import asyncpg

import sql
from runtime import messages as m
from runtime.operations.campaigns.campaign_admin import frozen_refusal, is_frozen
from runtime.operations.games.definitions import prizes_named

_NAMING: Final = sql.load("prizes")["frozen_games_that_may_name"]

_LOOKS: Final = frozenset({"ui", "name"})
"""The parts of a game's definition that decide nothing."""
_RULES_OF_PRIZE: Final = (
    *("name", "type", "value", "currency", "campaign_id", "max_per_user", "max_per_day", "expires_after_days"),
    *("release", "redemption_mode", "channel", "claim_fields", "terms", "status"),
)


def refuse_changed_game(campaign: Any, before: Any, game: m.Game, definition: dict[str, Any]) -> None:
    """Raises FROZEN if a game of a frozen campaign, once launched, would get other rules or become a draft."""
    if not is_frozen(campaign) or before["status"] == "draft":
        return
    archives = game.status is m.GameStatus.ARCHIVED and before["status"] != "archived"
    if game.status is m.GameStatus.DRAFT or archives:
        raise frozen_refusal(campaign["id"], "status")
    old = before["definition"]
    for name in sorted((set(old) | set(definition)) - _LOOKS):
        if (old.get(name) or None) != (definition.get(name) or None):  # Earlier revisions lack what is at its default.
            raise frozen_refusal(campaign["id"], name)


def refuse_removed_game(campaign: Any, before: Any) -> None:
    """Raises FROZEN if the game of a frozen campaign was launched: another could take its place, with other odds."""
    if is_frozen(campaign) and before["status"] != "draft":
        raise frozen_refusal(campaign["id"], "status")


async def refuse_changed_prize(connection: asyncpg.Connection, tenant_id: str, before: Any, after: Any) -> None:
    """Raises FROZEN if a prize that a frozen campaign's games name would be worth less or be won by other rules."""
    for name in _RULES_OF_PRIZE:
        if before[name] != after[name]:
            await refuse_lowered(connection, tenant_id, before["id"], name)


async def refuse_lowered(connection: asyncpg.Connection, tenant_id: str, prize_id: str, field: str) -> None:
    """Raises FROZEN, naming the field, if games of a frozen campaign name the prize."""
    for row in await connection.fetch(_NAMING, tenant_id, prize_id):
        if prize_id in {named for _, named in prizes_named(row["definition"])}:
            raise frozen_refusal(row["campaign_id"], field)
