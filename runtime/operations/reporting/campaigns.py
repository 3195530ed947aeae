"""Campaign figures for a date range: funnel, days and hours, costs, and a comparison with the declared odds.

A session has no row until it is played, so starts are counted separately (runtime/actors/starts.py).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import sql
from runtime import messages as m
from runtime.actors import starts
from runtime.actors.engine import Engine
from runtime.background import attempt
from runtime.errors import unknown
from runtime.operations.campaigns import analytics
from runtime.operations.checks import Checks
from runtime.operations.games.chances import summed
from runtime.operations.reporting import counting, views
from runtime.operations.reporting.costs import by_currency, of_one
from runtime.operations.reporting.odds_test import expected_range
from runtime.operations.row import STAFF, Operation
from runtime.stores.database import Database
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("figures")
_OF_VIEWS: Final = sql.load("views")

_SOURCES_READ: Final = 5 * views.SOURCES_MAX
"""Sources that a statement returns: more than are shown, since the largest by entries may not be those by plays."""


DAY_MIN, DAY_MAX = "1970-01-01", "9999-12-30"
"""The range of days. Both ends of a day have a valid `datetime` in every time zone."""


async def get_campaign_figures(engine: Engine, request: m.GetCampaignFiguresRequest) -> m.CampaignFiguresReply:
    """Figures of a campaign, or of one of its games, for a date range. NOT_FOUND UNKNOWN_CAMPAIGN, UNKNOWN_GAME."""
    tenant_id, campaign_id, days = tenant_of(request), request.id, (request.from_day, request.to_day)
    checks = Checks()
    for name, day in zip(("from_day", "to_day"), days, strict=True):
        if day and not _is_day(day):
            checks.problem(name, f"must be a day from {DAY_MIN} to {DAY_MAX}, such as 2026-03-01")
    checks.raise_found()
    key = (tenant_id, campaign_id, merchant_of(request), *days)
    if await engine.database.fetchrow(_SQL["campaign"], *key) is None:
        raise unknown("campaign", campaign_id)
    written = engine.starts.has(tenant_id)
    await attempt(starts.JOB, engine.starts.write_tenant(tenant_id), tenant_id=tenant_id)

    async def fold() -> None:
        nonlocal written
        written |= await views.fold(engine, tenant_id)

    await attempt(views.JOB, fold(), tenant_id=tenant_id)
    written |= await counting.count_if_stale(engine, tenant_id)
    written |= await analytics.count_if_stale(engine, tenant_id, campaign_id)
    read = partial(_read, about=key, game_id=request.game_id)
    return await engine.database.read(read, written=written)


async def _read(database: Database, *, about: tuple[str, ...], game_id: str) -> m.CampaignFiguresReply:
    """Reads the figures. about: the parameters of the campaign's statement."""
    tenant_id, campaign_id, _, *days = about
    # One snapshot: otherwise a count that ends in between is in some of the figures only.
    async with database.connection() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        campaign: Any = await connection.fetchrow(_SQL["campaign"], *about)
        if campaign is None:
            raise unknown("campaign", campaign_id)
        filters = (tenant_id, campaign_id, campaign["since"], campaign["until"], game_id)
        games = await connection.fetch(_SQL["games"], *filters)
        if game_id and not games:
            raise unknown("game", game_id)
        hours = await connection.fetch(_SQL["hours"], *filters, campaign["timezone"])
        prizes = await connection.fetch(_SQL["prizes"], *filters, timeout=analytics.READ_SECONDS)
        draws = await connection.fetch(_SQL["draws"], tenant_id, campaign_id, game_id, timeout=analytics.READ_SECONDS)
        viewed = await connection.fetch(_OF_VIEWS["totals"], *filters, campaign["timezone"])
        sources = await connection.fetch(_SQL["sources"], *filters, _SOURCES_READ, timeout=analytics.READ_SECONDS)
        claims = await connection.fetch(_SQL["claims"], *filters, _SOURCES_READ, timeout=analytics.READ_SECONDS)
        entries = await connection.fetch(
            _OF_VIEWS["entries"], *filters[:4], _SOURCES_READ, timeout=analytics.READ_SECONDS
        )
        of_days = await connection.fetch(_SQL["day_players"], tenant_id, campaign_id, *days)
        if game_id:
            players: Any = await connection.fetchrow(_SQL["game_players"], tenant_id, game_id)
        else:
            players = await connection.fetchrow(_SQL["players"], tenant_id, campaign_id, *days)
        # Results that are declared but were never drawn need names too.
        by_revision = groupby(draws, key=itemgetter("game_id", "revision"))
        revisions = [(rows, declared(rows[0]["declared"])) for rows in ([*group] for _, group in by_revision)]
        results = {row["drawn"] for row in draws}
        results |= {name for _, groups in revisions for chances in groups.values() for name in chances}
        named = await connection.fetch(_SQL["names"], tenant_id, sorted(results))
    costs = by_currency(prizes)
    day_players = {row["day"]: row["players"] for row in of_days}
    by = defaultdict(list)
    for row in viewed:
        by[row["by"]].append(row)
    (total,) = by["total"]
    funnel = m.Funnel(
        views=total["views"],
        visitors=total["visitors"],
        starts=sum(row["starts"] for row in games),
        plays=sum(row["plays"] for row in games),
        wins=sum(row["wins"] for row in games),
        **{name: sum(row[name] for row in prizes) for name in ("rewards", "claimed", "fulfilled")},
    )
    return m.CampaignFiguresReply(
        figures=m.CampaignFigures(
            timezone=campaign["timezone"],
            counted_until=campaign["counted_until"] or 0,
            players=players["players"],
            returning_players=players["returning"],
            funnel=funnel,
            cost=of_one(costs),
            costs=costs,
            by_day=_days([*hours, *by["time"]], day_players),
            by_hour=_hours([*hours, *by["time"]]),
            by_source=_sources([*by["source"], *entries], [*sources, *claims], funnel),
            by_device=_views(by["device"], "device"),
            by_country=[one for one in _views(by["country"], "country") if one.name or len(by["country"]) > 1],
            entries=sum(row["entries"] for row in entries),
            opted_in=sum(row["opted_in"] for row in entries),
            games=[m.GameFigures(**row) for row in games],
            prizes=[
                m.PrizeCost(**{name: row[name] for name in ("prize_id", "name", "units", "cost", "currency")})
                for row in prizes
            ],
            odds=_revisions(revisions, {row["prize_id"]: row["name"] for row in named}),
        )
    )


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text and DAY_MIN <= text <= DAY_MAX
    except ValueError:
        return False


def _days(rows: Iterable[Any], players: Mapping[date, int]) -> list[m.DayFigures]:
    sums = _sums(rows, ("day",), ("plays", "wins", "views", "visitors"))
    return [
        m.DayFigures(day=day.isoformat(), players=players.get(day, 0), **counts)
        for (day,), counts in sorted(sums.items(), key=lambda item: item[0])
    ]


def _hours(rows: Iterable[Any]) -> list[m.HourFigures]:
    sums = _sums(rows, ("hour",), ("plays", "wins", "views", "visitors"))
    return [m.HourFigures(hour=hour, **sums.get((hour,), {})) for hour in range(24)]


def _views(rows: Iterable[Any], name: str) -> list[m.ViewFigures]:
    found = [m.ViewFigures(name=row[name], views=row["views"], visitors=row["visitors"]) for row in rows]
    return sorted(found, key=lambda one: (-one.views, one.name))


def _sources(rows: Iterable[Any], played: Sequence[Any], whole: m.Funnel) -> list[m.SourceFigures]:
    """Counts by source, with the smallest added up: entries name more sources than views do.

    Plays, wins and claims without a source are the difference to the whole.
    """
    of_plays = ("plays", "wins", "claimed")
    rest_of = {name: getattr(whole, name) - sum(row.get(name, 0) for row in played) for name in of_plays}
    unknown_source = {**dict.fromkeys(views.SOURCE, ""), **{name: max(0, count) for name, count in rest_of.items()}}
    counts = ("views", "visitors", "entries", "opted_in", *of_plays)
    sums = _sums([*rows, *played, *([unknown_source] if any(rest_of.values()) else ())], views.SOURCE, counts)
    ordered = sorted(sums, key=lambda one: (*(-sums[one][name] for name in ("views", "entries", "plays")), one))
    for source in [one for one in ordered if one != views.OTHER][views.SOURCES_MAX :]:
        rest = sums.setdefault(views.OTHER, dict.fromkeys(counts, 0))
        for name, count in sums.pop(source).items():
            rest[name] += count
    named = (*(one for one in ordered if one != views.OTHER), views.OTHER)
    return [m.SourceFigures(*source, **sums[source]) for source in named if source in sums]


def _sums(rows: Iterable[Any], names: Sequence[str], counts: Sequence[str]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Sums of counts by the values of `names`. A row may lack a count."""
    sums: defaultdict[tuple[Any, ...], dict[str, Any]] = defaultdict(lambda: dict.fromkeys(counts, 0))
    for row in rows:
        kept = sums[tuple(row[name] for name in names)]
        for name in counts:
            kept[name] += row.get(name, 0)
    return dict(sums)


def _revisions(
    revisions: Iterable[tuple[list[Any], Mapping[str, Mapping[str, float]]]], names: Mapping[str, str]
) -> list[m.RevisionFigures]:
    """The draws of each revision with declared odds, by prize group. revisions: rows of draws, and odds by group."""
    made = []
    for rows, groups in revisions:
        draws: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for row in rows:
            draws[row["prize_group"]][row["drawn"]] = row["draws"]
        # All groups share the probability of a false alarm, those without plays included.
        results = sum(len(chances.keys() | draws.get(group, {}).keys()) for group, chances in groups.items())
        made += [
            m.RevisionFigures(
                game_id=rows[0]["game_id"],
                name=rows[0]["name"],
                revision=rows[0]["revision"],
                draws=sum(draws[group].values()),
                odds=odds(groups[group], draws[group], names, results),
                prize_group=group,
            )
            for group in sorted(groups.keys() & draws.keys())
        ]
    return made


def declared(definition: Mapping[str, Any] | None) -> dict[str, dict[str, float]]:
    """The declared odds of a revision by prize group: prize or item -> chance, "" for a loss. Without groups, the group
    is ""; {} if it declares no odds.
    """
    config = (definition or {}).get("config") or {}
    match (definition or {}).get("handler"):
        case "probability":
            return {"": _chances(config.get("prizes", ()))}
        case "score_to_tier":
            return {group: _chances(prizes) for group, prizes in config["prize_groups"].items()}
        case "lucky_item":
            whole = math.fsum(item["weight"] for item in config.get("items", ()))
            return {"": summed((item["weight"] / whole, item["item"]) for item in config.get("items", ()))}
    return {}


def _chances(prizes: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    chances = summed((prize["probability"], prize["prize_id"]) for prize in prizes)
    return {**chances, "": max(0.0, 1.0 - math.fsum(chances.values()))}


def odds(
    chances: Mapping[str, float], draws: Mapping[str, int], names: Mapping[str, str], results: int
) -> list[m.OddsFigures]:
    """The observed and expected count of each result that is declared or was drawn. results: of all groups."""
    whole = sum(draws.values())
    found = []
    for drawn in sorted(chances.keys() | draws.keys(), key=lambda name: (not name, -chances.get(name, 0.0), name)):
        chance, count = min(1.0, chances.get(drawn, 0.0)), draws.get(drawn, 0)
        low, high = expected_range(whole, chance, results)
        found.append(
            m.OddsFigures(
                drawn=drawn,
                name=names.get(drawn, drawn),
                declared=chance,
                draws=count,
                expected=whole * chance,
                low=low,
                high=high,
                by_chance=low <= count <= high,
            )
        )
    return found


GET_CAMPAIGN_FIGURES: Final = Operation(
    "GetCampaignFigures",
    "GET /campaigns/{id}/figures",
    run=get_campaign_figures,
    admin=STAFF,
    lengthy=True,
    refusals=("UNKNOWN_GAME",),
)
