"""What the plays of a game win, as a forecast needs it.

A handler's `odds` say it, if they do not depend on the player (`probability`, `lucky_item`, and plugins that have
them). For `score_to_tier` and `collect_items` the players decide: the request declares the shares of the plays or of
the falling items, or they are observed in the game's own plays. For `moments` the order of the prizes decides.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import fsum
from typing import Any, Final

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, invalid
from runtime.rules import Credit, Odds, Rules
from runtime.rules.chances import SUM_TOLERANCE
from runtime.rules.forecast.counts import binomial
from runtime.rules.forecast.terms import Falls, Wanted
from runtime.rules.handlers import collect_items, lucky_item, moments, probability, score_to_tier
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("forecast")

OBSERVED_MIN: Final = 100
"""Fewer plays say too little about the players."""

OBSERVED_MAX: Final = 50_000
"""The tenant's newest plays whose scores are read."""

CAUGHT_MAX: Final = 10_000
"""The tenant's newest plays whose caught items are read."""

TIERS_DECLARED: Final = "TIERS_DECLARED"
TIERS_OBSERVED: Final = "TIERS_OBSERVED"
REDRAW_OVER_TIERS: Final = "REDRAW_OVER_TIERS"
CATCHES_DECLARED: Final = "CATCHES_DECLARED"
CATCHES_OBSERVED: Final = "CATCHES_OBSERVED"
ALL_CAUGHT: Final = "ALL_CAUGHT"
PLUGIN_ODDS: Final = "PLUGIN_ODDS"


@dataclass(slots=True)
class Wins:
    """What plays win. chances: the expected units per play of each prize or wallet item. The rest as in `GameTerms`."""

    chances: dict[str, float]
    assumptions: list[str] = field(default_factory=list)
    items: frozenset[str] = frozenset()
    in_order: bool = False
    wins: tuple[tuple[float, Wanted], ...] = ()
    falls: Falls | None = None


async def wins_of(engine: Engine, request: m.ForecastGameRequest, definition: Mapping[str, Any], rules: Rules) -> Wins:
    """What the game's plays win. FAILED_PRECONDITION NO_ODDS; INVALID_ARGUMENT for wrong `tiers` or `caught`."""
    config = rules.config
    for name, handler in (("tiers", score_to_tier), ("caught", collect_items)):
        if getattr(request, name) and not isinstance(config, handler.Config):
            raise invalid(name, f"is only for games with the handler {handler.__name__.rpartition('.')[2]}")
    if isinstance(config, score_to_tier.Config):
        shares, assumption = await _tiers(engine, request, config)
        rows = [
            (share * prize.probability, prize.prize_id)
            for share, tier in zip(shares, config.tiers, strict=True)
            for prize in config.prize_groups[tier.prize_group]
        ]
        redraws = definition.get("on_unavailable") == "redraw"
        return Wins(summed(rows), [assumption, *[REDRAW_OVER_TIERS] * redraws])
    if isinstance(config, collect_items.Config):
        return await _caught(engine, request, config)
    if isinstance(config, moments.Config):
        return Wins({prize.prize_id: 1.0 for prize in config.prizes}, in_order=True)
    handler = definition["reward_handler"]
    odds = getattr(rules.reward_handler, "odds", None)
    if odds is None:
        message = f"a game with {handler} has no forecast, since this plugin declares no odds: add `odds` to it"
        raise Fault(Status.FAILED_PRECONDITION, "NO_ODDS", message)
    return by_odds(handler, odds(config), built_in=isinstance(config, probability.Config | lucky_item.Config))


def by_odds(handler: str, odds: Iterable[Odds], *, built_in: bool) -> Wins:
    """The wins of plays with these odds. FAILED_PRECONDITION NO_ODDS if they are none."""
    rows = list(odds)
    units = [quantity for _, won in rows for _, quantity in map(_named, won)]
    total = fsum(chance for chance, _ in rows)
    if any(chance < 0 for chance, _ in rows) or total > 1 + SUM_TOLERANCE or min(units, default=1) < 1:
        message = f"the odds of {handler} are not probabilities of at most 1 in sum, of at least one unit each"
        raise Fault(Status.FAILED_PRECONDITION, "NO_ODDS", message)
    chances = summed((chance * quantity, name) for chance, won in rows for name, quantity in map(_named, won))
    found = Wins(chances, [] if built_in else [PLUGIN_ODDS])
    found.items = frozenset(one.item for _, won in rows for one in won if isinstance(one, Credit))
    if any(sum(quantity for _, quantity in map(_named, won)) > 1 for _, won in rows):
        at = {name: i for i, name in enumerate(chances)}
        wanted = (_wanted((at[name], quantity) for name, quantity in map(_named, won)) for _, won in rows)
        found.wins = tuple(zip((chance for chance, _ in rows), wanted, strict=True))
    return found


def _named(won: Any) -> tuple[str, int]:
    return (won.item if isinstance(won, Credit) else won.prize_id), won.quantity


def summed(rows: Iterable[tuple[float, str]]) -> dict[str, float]:
    """The chance of each name, of rows (chance, name) that may repeat it."""
    found: dict[str, float] = {}
    for chance, name in rows:
        found[name] = found.get(name, 0.0) + chance
    return found


def _wanted(units: Iterable[tuple[int, int]]) -> Wanted:
    found: dict[int, int] = {}
    for prize, quantity in units:
        found[prize] = found.get(prize, 0) + quantity
    return tuple(sorted(found.items()))


async def _tiers(
    engine: Engine, request: m.ForecastGameRequest, config: score_to_tier.Config
) -> tuple[list[float], str]:
    """The share of each tier and the assumption: declared by the request, or observed in the newest plays."""
    if request.tiers:
        shares = _shares("tiers", request.tiers, len(config.tiers))
        if fsum(shares) > 1 + SUM_TOLERANCE:
            raise invalid("tiers", f"must be at most 1 in sum, and add up to {fsum(shares):g}")
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


async def _caught(engine: Engine, request: m.ForecastGameRequest, config: collect_items.Config) -> Wins:
    """What plays catch: as declared by the request, as in the newest plays, or all that falls."""
    ids = list(dict.fromkeys(drop.prize_id for drop in config.drops if drop.prize_id and drop.frequency))
    shares, assumption = [1.0] * len(config.drops), ALL_CAUGHT
    if request.caught:
        declared = _shares("caught", request.caught, 1, len(config.drops))
        shares, assumption = declared if len(declared) > 1 else declared * len(config.drops), CATCHES_DECLARED
    else:
        rows = await engine.database.fetch(_SQL["caught"], tenant_of(request), request.id, CAUGHT_MAX)
        plays = sum(row["plays"] for row in rows)
        if plays >= OBSERVED_MIN:
            found: defaultdict[Wanted, float] = defaultdict(float)
            for row in rows:
                found[_counted(config, ids, json.loads(row["counted"]))] += row["plays"] / plays
            return _catches(ids, Wins({}, [CATCHES_OBSERVED], wins=tuple((c, wanted) for wanted, c in found.items())))
    total = sum(drop.frequency for drop in config.drops)
    kinds = tuple(
        (ids.index(drop.prize_id), drop.frequency / total * share, min(drop.max_catchable, config.total_items))
        for drop, share in zip(config.drops, shares, strict=True)
        if drop.prize_id and drop.frequency
    )
    return _catches(ids, Wins({}, [assumption], falls=Falls(config.total_items, kinds)))


def _counted(config: collect_items.Config, ids: list[str], counted: Mapping[str, int]) -> Wanted:
    """What these items would win now."""
    drops = [(config.drops_by_type[kind], count) for kind, count in counted.items() if kind in config.drops_by_type]
    limited = ((drop.prize_id, min(count, drop.max_catchable)) for drop, count in drops if drop.prize_id in ids)
    return _wanted((ids.index(prize_id), count) for prize_id, count in limited if count)


def _catches(ids: list[str], found: Wins) -> Wins:
    """With the expected units per play of each prize."""
    units = [(chance * count, ids[i]) for chance, wanted in found.wins for i, count in wanted]
    if found.falls is not None:
        items = found.falls.items
        units += [(binomial(items, chance).up_to(most), ids[i]) for i, chance, most in found.falls.kinds]
    found.chances = dict.fromkeys(ids, 0.0) | summed(units)
    return found


def _shares(name: str, text: str, *counts: int) -> list[float]:
    try:
        shares = [float(share) for share in text.split(",")]
    except ValueError:
        raise invalid(name, "must be numbers, separated by commas") from None
    if len(shares) not in counts or not all(0 <= share <= 1 for share in shares):
        wanted = " or ".join(f"{count} share{'s' * (count > 1)}" for count in dict.fromkeys(counts))
        raise invalid(name, f"must be {wanted}, separated by commas, each from 0 to 1")
    return shares
