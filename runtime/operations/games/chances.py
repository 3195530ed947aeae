"""The chance of each prize in one play, as a forecast needs it.

For `probability` these are its odds; for `score_to_tier` the odds of each tier's group, weighted by the tier's share of
the plays. The request declares the shares, or they are observed in the game's own plays. Other handlers do not draw by
odds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, invalid
from runtime.rules.chances import PrizeChance
from runtime.rules.handlers import probability, score_to_tier
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("forecast")

OBSERVED_MIN: Final = 100
"""Fewer plays say too little about the shares of tiers."""

OBSERVED_MAX: Final = 50_000
"""The tenant's newest plays that are read."""

TIERS_DECLARED: Final = "TIERS_DECLARED"
TIERS_OBSERVED: Final = "TIERS_OBSERVED"
REDRAW_OVER_TIERS: Final = "REDRAW_OVER_TIERS"

_WHY: Final = {
    "lucky_item": "its items cost nothing until a milestone or a draw turns them into prizes",
    "collect_items": "what players catch decides; a play gives at most `max_catchable` of each drop",
    "moments": "each free unit is won by the next play, so the release of its prizes decides the cost",
}


async def chances_of(
    engine: Engine, request: m.ForecastGameRequest, definition: dict[str, Any], config: Any
) -> tuple[dict[str, float], list[str]]:
    """The chance of each prize, and the assumptions. FAILED_PRECONDITION NO_ODDS; INVALID_ARGUMENT for wrong tiers."""
    if isinstance(config, score_to_tier.Config):
        shares, assumption = await _shares(engine, request, config)
        groups = [
            (share, config.prize_groups[tier.prize_group]) for share, tier in zip(shares, config.tiers, strict=True)
        ]
        redraws = definition.get("on_unavailable") == "redraw"
        return _summed(groups), [assumption, *[REDRAW_OVER_TIERS] * redraws]
    if request.tiers:
        raise invalid("tiers", "is only for games with the handler score_to_tier")
    if isinstance(config, probability.Config):
        return _summed([(1.0, config.prizes)]), []
    handler = definition["reward_handler"]
    why = _WHY.get(handler, "this handler declares no odds")
    raise Fault(Status.FAILED_PRECONDITION, "NO_ODDS", f"a game with {handler} has no forecast: {why}")


def _summed(groups: Iterable[tuple[float, Iterable[PrizeChance]]]) -> dict[str, float]:
    chances: dict[str, float] = {}
    for share, prizes in groups:
        for prize in prizes:
            chances[prize.prize_id] = chances.get(prize.prize_id, 0.0) + share * prize.probability
    return chances


async def _shares(
    engine: Engine, request: m.ForecastGameRequest, config: score_to_tier.Config
) -> tuple[list[float], str]:
    """The share of each tier and the assumption: declared by the request, or observed in the newest plays."""
    if request.tiers:
        try:
            shares = [float(share) for share in request.tiers.split(",")]
        except ValueError:
            raise invalid("tiers", "must be numbers, separated by commas") from None
        if len(shares) != len(config.tiers) or not all(0 <= share <= 1 for share in shares) or sum(shares) > 1 + 1e-9:
            problem = f"must be {len(config.tiers)} shares, one for each tier, each from 0 to 1 and at most 1 in sum"
            raise invalid("tiers", problem)
        return shares, TIERS_DECLARED
    rows = await engine.database.fetch(_SQL["scores"], tenant_of(request), request.id, OBSERVED_MAX)
    plays = sum(row["plays"] for row in rows)
    if plays < OBSERVED_MIN:
        message = f"the game has {plays} plays, but observing tiers needs {OBSERVED_MIN}: set `tiers`"
        raise Fault(Status.FAILED_PRECONDITION, "NO_ODDS", message)
    counts = [0] * len(config.tiers)
    for row in rows:
        tier = config.tier_of(row["score"])
        if tier is not None:
            counts[tier] += row["plays"]
    return [count / plays for count in counts], TIERS_OBSERVED
