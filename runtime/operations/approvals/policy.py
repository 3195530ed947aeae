"""Which requests need approval: the rules of each DUAL_* setting. The operations concerned: `review.KINDS`.

A game is live if it can be played or ever was. Otherwise pausing it or its campaign would avoid the approval. An active
game of a campaign that was played is live too, even while the campaign is paused. A launch needs no approval, but a
change of a live game does. The limits on what one play gives also hold for games that are not live. Exceptions are in
docs/how-to/approvals.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import asyncpg

import sql
from runtime.actors.game.state import POINTS, TURNS
from runtime.operations.games.definitions import Definition, max_worth_of_play, prizes_named
from runtime.rules import Award, Credit, Worth
from runtime.settings import Settings

_SQL: Final = sql.load("approvals")

ODDS: Final = (
    *("seed_generator", "reward_handler", "handler_config", "on_unavailable", "fallback_prize_id"),
    "milestones",
)
"""Fields of a game's definition that decide its draws and its rungs' grants."""

WORTH: Final = ("type", "value", "currency", "campaign_id", "release")
"""Fields of a prize that decide the worth of a win and when it can be won, and its campaign."""

GRANTS: Final = ("turns", "type", "condition", "campaign_id")
"""Fields of a quest that decide how many turns it gives, to whom and how often."""

GIFT: Final = ("turns", "currency", "scope_key", "amount")
"""Fields of a pack that decide what a code gives."""

_Row: TypeAlias = Mapping[str, Any] | asyncpg.Record


def adjustment(settings: Settings, amount: float) -> bool:
    """Whether a balance movement, up or down, needs approval (DUAL_ADJUSTMENT_ABOVE)."""
    return 0 < settings.dual_adjustment_above < abs(amount)


def points(settings: Settings, before: _Row | None, after: _Row) -> bool:
    """Whether a prize, live or not, needs approval for the points or turns of one unit."""
    large = after["type"] == POINTS and adjustment(settings, after["value"])
    large |= after["type"] == TURNS and turns(settings, after["value"])
    return large and _differ(("type", "value"), before, after)


def turns(settings: Settings, amount: float) -> bool:
    """Whether a grant of turns needs approval (DUAL_TURNS_ABOVE)."""
    return 0 < settings.dual_turns_above < amount


def quest(settings: Settings, before: _Row | None, after: _Row) -> bool:
    """Whether a quest, active or not, needs approval for the turns it gives (DUAL_TURNS_ABOVE)."""
    return turns(settings, after["turns"]) and _differ(GRANTS, before, after)


def pack(settings: Settings, before: _Row | None, after: _Row) -> bool:
    """Whether a pack needs approval for the turns or the amount that each code gives."""
    large = turns(settings, after["turns"]) or adjustment(settings, after["amount"])
    return large and _differ(GIFT, before, after)


def revocations(settings: Settings, count: int) -> bool:
    """Whether a bulk revocation needs approval (DUAL_REVOCATIONS_ABOVE)."""
    return 0 < settings.dual_revocations_above < count


async def prize(
    connection: asyncpg.Connection,
    settings: Settings,
    tenant_id: str,
    before: _Row,
    after: _Row,
    games: Iterable[_Row],
) -> bool:
    """Whether a prize needs approval: for its points, for what one play may give, or, with DUAL_ODDS, for a change of
    worth while it can be won. games: from `games_over_limit`.
    """
    if points(settings, before, after) or any(games):
        return True
    if not settings.dual_odds or not _differ(WORTH, before, after):
        return False
    return bool(await connection.fetchval(_SQL["prize_is_live"], tenant_id, after["id"]))


async def games_over_limit(
    connection: asyncpg.Connection, settings: Settings, tenant_id: str, before: _Row, after: _Row
) -> list[dict[str, Any]]:
    """Games in which this change of a prize lifts one play above a limit, and the most that a play gives."""
    if not _limits(settings) or not _differ(("type", "value"), before, after):
        return []
    rows = await connection.fetch(_SQL["games_of_prize"], tenant_id, after["id"])
    prizes = await _prizes(connection, tenant_id, *(row["definition"] for row in rows))
    found = []
    for row in rows:
        was = _maximum(row["definition"], {**prizes, before["id"]: before})
        most = _maximum(row["definition"], {**prizes, after["id"]: after})
        if _exceeds_limit(settings, was, most):
            found.append({"id": row["id"], "name": row["name"], "most_before": was, "most": most})
    return found


async def game(
    connection: asyncpg.Connection,
    settings: Settings,
    tenant_id: str,
    before: _Row | None,
    after: _Row,
    *,
    launches: bool = False,
) -> bool:
    """Whether a game needs approval: for what one play may give, or, with DUAL_ODDS, for changed odds of a live game
    or a game added to a live campaign. launches: it is created with its campaign, so DUAL_ODDS does not apply.
    """
    if _limits(settings):
        definitions = [row["definition"] for row in (before, after) if row is not None]
        prizes = await _prizes(connection, tenant_id, *definitions)
        was = {} if before is None else _maximum(before["definition"], prizes)
        if _exceeds_limit(settings, was, _maximum(after["definition"], prizes)):
            return True
    if launches or not settings.dual_odds:
        return False
    row = await connection.fetchrow(_SQL["game_is_live"], tenant_id, after["id"], after["campaign_id"])
    assert row is not None, "a game's campaign is never deleted"
    was_active = before is not None and before["status"] == "active"
    campaign_is_live = bool(row["campaign_active"] or row["campaign_was_played"])
    if row["was_played"] or (was_active and campaign_is_live):
        return before is None or _differ(ODDS, before["definition"], after["definition"])
    return campaign_is_live and after["status"] == "active" and not was_active


async def _prizes(connection: asyncpg.Connection, tenant_id: str, *definitions: Definition) -> dict[str, _Row]:
    named = {prize_id for definition in definitions for _, prize_id in prizes_named(definition)}
    return {row["id"]: row for row in await connection.fetch(_SQL["prizes"], tenant_id, sorted(named))}


def _maximum(definition: Definition, prizes: Mapping[str, _Row]) -> dict[str, float]:
    """The most that one play of a game gives: turns, points in sum, and each currency that its handler credits."""
    scope, credits = definition["wallet_scope"], dict[str, float]()
    # The fallback prize replaces each unit of a prize that is out of stock.
    fallback = definition["fallback_prize_id"] if definition["on_unavailable"] == "fallback" else ""

    def worth_of(kind: str) -> Worth:
        """Measures a win in points or turns; anything else is worth 0."""

        def worth(win: Award | Credit) -> float:
            if isinstance(win, Credit):
                return win.quantity if kind == POINTS else 0
            rows = [prizes[prize_id] for prize_id in (win.prize_id, fallback) if prize_id in prizes]
            return float(win.quantity * max((row["value"] for row in rows if row["type"] == kind), default=0))

        return worth

    def record_credit(win: Award | Credit) -> float:
        if isinstance(win, Credit):
            # Keyed by wallet and currency: an equal amount in another currency is a change.
            name = f"{scope} {win.item}"
            credits[name] = max(credits.get(name, 0), win.quantity)
        return 0

    def total(kind: str) -> float:
        rungs = [prizes[one] for one in _auto_granted(definition) if one in prizes]
        by_rungs = sum(row["value"] for row in rungs if row["type"] == kind)
        by_handler = max_worth_of_play(definition, worth_of(kind))
        if by_rungs and not by_handler:
            named = [prizes[one] for _, one in prizes_named(definition) if one in prizes]
            by_handler = max((row["value"] for row in named if row["type"] == kind), default=0)
        return float(by_handler + by_rungs)

    max_worth_of_play(definition, record_credit)
    return {TURNS: total(TURNS), f"{scope}: all": total(POINTS), **credits}


def _auto_granted(definition: Definition) -> list[str]:
    """The prizes of automatically granted rungs: one play may reach them all if the wallet is full already."""
    milestones = definition["milestones"] or {}
    return [rung["prize_id"] for rung in milestones.get("rungs", ()) if milestones.get("auto_grant")]


def _limits(settings: Settings) -> bool:
    return settings.dual_adjustment_above > 0 or settings.dual_turns_above > 0


def _exceeds_limit(settings: Settings, before: Mapping[str, float], after: Mapping[str, float]) -> bool:
    """Whether one play may give a changed amount of something, above its limit."""
    return any(
        (turns if item == TURNS else adjustment)(settings, most) and most != before.get(item)
        for item, most in after.items()
    )


def _differ(names: Iterable[str], before: _Row | None, after: _Row) -> bool:
    return before is None or any(before[name] != after[name] for name in names)
