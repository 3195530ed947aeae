"""When a request waits for a second person: what each DUAL_* setting watches. Which operations may: `review.KINDS`.

Live is what can be played now, and what ever was: else pausing a game, or its campaign, would be a way around. So is
an active game of a campaign that was played, paused or not. Launching is not watched, changing what is live is; but how
much one play gives is watched of what is not live, too. What is not watched at all stands in docs/how-to/approvals.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import asyncpg

import sql
from runtime.actors.game.state import POINTS, TURNS
from runtime.operations.games.definitions import Definition, most_given, prizes_named
from runtime.rules import Award, Credit, Worth
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
    large = after["type"] == POINTS and adjustment(settings, after["value"])
    large |= after["type"] == TURNS and turns(settings, after["value"])
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
    connection: asyncpg.Connection,
    settings: Settings,
    tenant_id: str,
    before: _Row,
    after: _Row,
    games: Iterable[_Row],
) -> bool:
    """Whether a prize waits: by its points, since a play may give more of it in all, or (DUAL_ODDS) since it is worth
    something else where it can be won. games: of `games_of`.
    """
    if points(settings, before, after) or any(games):
        return True
    if not settings.dual_odds or not _differ(WORTH, before, after):
        return False
    return bool(await connection.fetchval(_SQL["prize_is_live"], tenant_id, after["id"]))


async def games_of(
    connection: asyncpg.Connection, settings: Settings, tenant_id: str, before: _Row, after: _Row
) -> list[dict[str, Any]]:
    """The games one play of which may give more than the limits where a prize changes, and the most that it does."""
    if not _limits(settings) or not _differ(("type", "value"), before, after):
        return []
    rows = await connection.fetch(_SQL["games_of_prize"], tenant_id, after["id"])
    prizes = await _prizes(connection, tenant_id, *(row["definition"] for row in rows))
    found = []
    for row in rows:
        was = _most(row["definition"], {**prizes, before["id"]: before})
        most = _most(row["definition"], {**prizes, after["id"]: after})
        if _more(settings, was, most):
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
    """Whether a game waits: since a play may give more than the limits, or (DUAL_ODDS) its odds change while it is
    live, or it comes into a campaign that is; the last two not where it `launches` with its campaign.
    """
    if _limits(settings):
        definitions = [row["definition"] for row in (before, after) if row is not None]
        prizes = await _prizes(connection, tenant_id, *definitions)
        was = {} if before is None else _most(before["definition"], prizes)
        if _more(settings, was, _most(after["definition"], prizes)):
            return True
    if launches or not settings.dual_odds:
        return False
    row = await connection.fetchrow(_SQL["game_is_live"], tenant_id, after["id"], after["campaign_id"])
    assert row is not None, "a game's campaign is never removed"
    was_active = before is not None and before["status"] == "active"
    campaign_is_live = bool(row["campaign_active"] or row["campaign_was_played"])
    if row["was_played"] or (was_active and campaign_is_live):
        return before is None or _differ(ODDS, before["definition"], after["definition"])
    return campaign_is_live and after["status"] == "active" and not was_active


async def _prizes(connection: asyncpg.Connection, tenant_id: str, *definitions: Definition) -> dict[str, _Row]:
    named = {prize_id for definition in definitions for _, prize_id in prizes_named(definition)}
    return {row["id"]: row for row in await connection.fetch(_SQL["prizes"], tenant_id, sorted(named))}


def _most(definition: Definition, prizes: Mapping[str, _Row]) -> dict[str, float]:
    """The most that one play of a game gives: turns, of each currency that its handler credits, and in all."""
    scope, credits = definition["wallet_scope"], dict[str, float]()
    # Where a prize runs short, the fallback stands in for each unit.
    instead = definition["fallback_prize_id"] if definition["on_unavailable"] == "fallback" else ""

    def worth_of(kind: str) -> Worth:
        def worth(given: Award | Credit) -> float:
            if isinstance(given, Credit):
                return given.quantity if kind == POINTS else 0
            rows = [prizes[prize_id] for prize_id in (given.prize_id, instead) if prize_id in prizes]
            return float(given.quantity * max((row["value"] for row in rows if row["type"] == kind), default=0))

        return worth

    def note_credit(given: Award | Credit) -> float:
        if isinstance(given, Credit):
            # By its wallet and name: as much of another currency is something else.
            name = f"{scope} {given.item}"
            credits[name] = max(credits.get(name, 0), given.quantity)
        return 0

    def total(kind: str) -> float:
        rungs = [prizes[one] for one in _granted(definition) if one in prizes]
        by_rungs = sum(row["value"] for row in rungs if row["type"] == kind)
        by_handler = most_given(definition, worth_of(kind))
        if by_rungs and not by_handler:
            named = [prizes[one] for _, one in prizes_named(definition) if one in prizes]
            by_handler = max((row["value"] for row in named if row["type"] == kind), default=0)
        return float(by_handler + by_rungs)

    most_given(definition, note_credit)
    return {TURNS: total(TURNS), f"{scope}: all": total(POINTS), **credits}


def _granted(definition: Definition) -> list[str]:
    """The prizes of rungs that a play grants by itself: of a wallet that is full already, all at once."""
    milestones = definition["milestones"] or {}
    return [rung["prize_id"] for rung in milestones.get("rungs", ()) if milestones.get("auto_grant")]


def _limits(settings: Settings) -> bool:
    """Whether there is a limit to what one play may give."""
    return settings.dual_adjustment_above > 0 or settings.dual_turns_above > 0


def _more(settings: Settings, before: Mapping[str, float], after: Mapping[str, float]) -> bool:
    """Whether one play may give more than a limit of something, and as much of it as it did not before."""
    return any(
        (turns if what == TURNS else adjustment)(settings, most) and most != before.get(what)
        for what, most in after.items()
    )


def _differ(names: Iterable[str], before: _Row | None, after: _Row) -> bool:
    return before is None or any(before[name] != after[name] for name in names)
