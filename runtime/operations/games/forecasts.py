"""Forecasts: what a stored game will cost from now on, and which prizes run out.

A forecast reads the odds, the remaining stock, caps, releases and values. It may compute for seconds, so it runs in a
separate process with limits on memory and time and a low priority: one at a time per tenant, two in all.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any, Final

import msgspec

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.game.releases import schedule_of
from runtime.actors.game.snapshot import load_prizes, read_rules
from runtime.actors.game.state import POINTS, TURNS
from runtime.actors.game.state import PrizeTerms as StoredPrize
from runtime.errors import Fault, Status, invalid
from runtime.operations import reading
from runtime.operations.checks import Checks
from runtime.operations.games.chances import wins_of
from runtime.rules.forecast import Answer, GameTerms, Task
from runtime.rules.forecast.limits import CPU_SECONDS, LIMITED
from runtime.rules.forecast.terms import ONE_PLAY_EACH, QUANTILES, SEALED_AS_EVEN, WITHOUT_MILESTONES, Costs, PrizeTerms
from runtime.rules.forecast.within import scaled
from runtime.rules.release import EVEN, SEALED
from runtime.stores.clock import Days
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("forecast")
_GAME: Final = sql.load("games")["get"]

PLAYS: Final = 10_000
PLAYS_MAX: Final = 10_000_000
DAYS_MAX: Final = 3_660
AMOUNT_MAX: Final = 10**15
RANGES_MAX: Final = 60
PRIZES_MAX: Final = 200
SECONDS_MAX: Final = 30.0
"""The time limit on a busy machine; the process limits its CPU time."""
RUNNING_MAX: Final = 2
"""The forecasts that this process computes at a time, each of another tenant; further ones are OVERLOADED."""
_DAY_SECONDS: Final = 86_400
_RELEASE_STEPS: Final = 1_000
_ROOT: Final = Path(__file__).parents[3]
_running: Final[set[str]] = set()
"""The tenants whose forecast is being computed."""


async def forecast_game(engine: Engine, request: m.ForecastGameRequest) -> m.ForecastReply:
    """What the game will cost, and which prizes run out, for a number of plays from now on. Changes nothing.

    The distribution is computed, not sampled: from the odds, the stock that is left, caps, releases and
    `on_unavailable`.
    NOT_FOUND UNKNOWN_GAME; FAILED_PRECONDITION NO_ODDS if nothing says what plays win (`wins_of`); INVALID_ARGUMENT on
    `plays` if it takes more than 10 seconds of CPU time or 1 GiB of memory; UNAVAILABLE OVERLOADED while another one of
    the tenant runs.
    """
    game = await reading.one(engine, _GAME, request, "game")
    checks = Checks()
    checks.between("plays", request.plays, 0, PLAYS_MAX)
    checks.between("plays_per_player", request.plays_per_player, 0, PLAYS_MAX)
    checks.between("days", request.days, 0, DAYS_MAX)
    checks.between("budget", request.budget, 0, AMOUNT_MAX)
    checks.raise_found()
    definition = game["definition"]
    rules, rule = read_rules(definition)
    wins = await wins_of(engine, request, definition, rules)
    chances = wins.chances
    if rule.on_unavailable == "fallback" and rule.fallback_prize_id:
        chances.setdefault(rule.fallback_prize_id, float(wins.in_order))
    if len(chances) > PRIZES_MAX:
        raise invalid("id", f"a forecast covers at most {PRIZES_MAX} prizes")
    setting = await _Setting.of(engine, request, game, [one for one in chances if one not in wins.items])
    setting.assumptions += wins.assumptions
    ids, prizes = list(chances), list[PrizeTerms]()
    for one in ids:
        await asyncio.sleep(0)  # Other requests get a turn: a prize with a release takes milliseconds.
        prizes.append(PrizeTerms(one, chances[one]) if one in wins.items else setting.prize(one, chances[one]))
    terms = GameTerms(
        tuple(prizes),
        setting.plays,
        rule.on_unavailable,
        ids.index(rule.fallback_prize_id) if rule.fallback_prize_id in ids else None,
        setting.per_player,
        setting.days,
        wins.in_order,
        wins.wins,
        wins.falls,
    )
    done = await computed(tenant_of(request), Task(terms, float(request.budget) or None))
    return m.ForecastReply(forecast=_shown(game, request, setting, terms, done))


class _Setting:
    """The circumstances of the plays: their number and times, and the prizes' stock."""

    def __init__(self, request: m.ForecastGameRequest, definition: Mapping[str, Any], now: float) -> None:
        limits = definition.get("rules") or {}
        self.plays = request.plays or PLAYS
        self.known_per_player = request.plays_per_player or limits.get("max_plays_per_user", 0)
        self.per_player = min(self.plays, self.known_per_player or 1)
        self.begins = self.ends = now
        self.days = request.days or 1
        self.assumptions = [WITHOUT_MILESTONES] if (definition.get("milestones") or {}).get("rungs") else []
        self.currency = request.currency
        self.stored: dict[str, StoredPrize] = {}
        self.rows: dict[str, Any] = {}

    @classmethod
    async def of(cls, engine: Engine, request: m.ForecastGameRequest, game: Any, prize_ids: list[str]) -> _Setting:
        tenant_id, definition = tenant_of(request), game["definition"]
        setting = cls(request, definition, engine.clock.now())
        dates: Any = await engine.database.fetchrow(_SQL["dates"], tenant_id, game["campaign_id"])
        starts = max(dates["start_date"], definition.get("start_date", 0))
        ends = min(filter(None, (dates["end_date"], definition.get("end_date", 0))), default=0)
        setting.begins = max(setting.begins, starts)
        left = max(0.0, ends - setting.begins)
        if left and not request.days:
            # Limits per day reset at local midnight: seven days from noon to noon have eight of them.
            local = Days(dates["timezone"])
            end = min(max(setting.begins, ends - 1), setting.begins + DAYS_MAX * _DAY_SECONDS)
            first, last = (local.at(at)[0] for at in (setting.begins, end))
            setting.days = min(DAYS_MAX, (last - first).days + 1)
        setting.ends = setting.begins + (left if left and not request.days else setting.days * _DAY_SECONDS)
        setting.stored = await load_prizes(engine.database, tenant_id, set(prize_ids))
        if not setting.known_per_player and any(prize.max_per_user for prize in setting.stored.values()):
            setting.assumptions.append(ONE_PLAY_EACH)
        rows = await engine.database.fetch(_SQL["prizes"], tenant_id, prize_ids)
        setting.rows = {row["prize_id"]: row for row in rows}
        costly = (p for p in setting.stored.values() if p.value > 0 and p.type not in (POINTS, TURNS))
        found = {setting.rows[p.prize_id]["currency"] for p in costly if p.prize_id in setting.rows}
        if not setting.currency:
            if len(found) > 1:
                raise invalid("currency", f"is required, since the prizes have several: {', '.join(sorted(found))}")
            setting.currency = next(iter(found), "")
        return setting

    def prize(self, prize_id: str, chance: float) -> PrizeTerms:
        stored, row = self.stored.get(prize_id), self.rows.get(prize_id)
        if stored is None or row is None or not stored.active:
            return PrizeTerms(prize_id, chance, 0)
        stock: int | None = None if stored.is_points else row["remaining"]
        if stored.takes_code:
            stock = row["codes"] if stock is None else min(stock, row["codes"])
        counts = stored.type not in (POINTS, TURNS) and row["currency"] == self.currency
        freed = self._freed(row["release"]["terms"], row["remaining"]) if row["release"] and row["remaining"] else ()
        value = stored.value if counts else 0.0
        return PrizeTerms(prize_id, chance, stock, value, stored.max_per_user, stored.max_per_day, freed)

    def _freed(self, terms: Mapping[str, Any], remaining: int) -> tuple[tuple[int, int], ...]:
        """The units that are free at each of some plays. Even times stand in for the secret ones of SEALED."""
        if terms["kind"] == SEALED:
            terms = {**terms, "kind": EVEN}
            self.assumptions.append(SEALED_AS_EVEN)
        planned = schedule_of(terms)

        def units_at(play: int) -> int:
            at = self.begins + (play + 0.5) / self.plays * (self.ends - self.begins)
            return max(0, remaining - planned.held_back(at))

        # Halves the spans in which units become free, until the plays at which they do are known closely enough.
        known = {play: units_at(play) for play in {0, self.plays - 1}}
        spans = [(0, self.plays - 1)]
        while spans and len(known) < _RELEASE_STEPS:
            split = [(a, (a + b) // 2, b) for a, b in spans if b - a > 1 and known[a] != known[b]]
            known.update((middle, units_at(middle)) for _, middle, _ in split)
            spans = [span for a, middle, b in split for span in ((a, middle), (middle, b))]
        freed: list[tuple[int, int]] = []
        for play, units in sorted(known.items()):
            if not freed or freed[-1][1] != units:
                freed.append((play, units))
        return tuple(freed)


async def computed(tenant_id: str, task: Task, cpu_seconds: int = CPU_SECONDS) -> Answer:
    """The answer of a process that computes it. INVALID_ARGUMENT on `plays` if it reaches a limit of that process;
    UNAVAILABLE OVERLOADED if others run, or if the machine is too busy.
    """
    if tenant_id in _running or len(_running) >= RUNNING_MAX:
        raise _overloaded("another forecast is being computed; try again")
    _running.add(tenant_id)
    try:
        return await _answered(task, cpu_seconds)
    finally:
        _running.discard(tenant_id)


async def _answered(task: Task, cpu_seconds: int) -> Answer:
    # Without the environment, which contains the secrets of the service.
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "runtime.rules.forecast", str(cpu_seconds)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=_ROOT,
        env={"PATH": os.defpath},
    )
    try:
        async with asyncio.timeout(SECONDS_MAX):
            output, _ = await process.communicate(msgspec.json.encode(task))
    except TimeoutError:
        raise _overloaded("the machine is too busy to compute the forecast; try again") from None
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.returncode in LIMITED:
        problem = f"takes more than {cpu_seconds} seconds to compute: ask for fewer plays, or leave out the budget"
        raise invalid("plays", problem)
    if process.returncode:
        raise RuntimeError(f"the forecast's process ended with {process.returncode}")
    return msgspec.json.decode(output, type=Answer)


def _overloaded(message: str) -> Fault:
    return Fault(Status.UNAVAILABLE, "OVERLOADED", message, retry_after_seconds=2)


def _shown(
    game: Any, request: m.ForecastGameRequest, setting: _Setting, terms: GameTerms, done: Answer
) -> m.GameForecast:
    found, factor = done.forecast, done.factor
    within = terms if factor is None else scaled(terms, factor)
    assumptions = sorted({*found.assumptions, *setting.assumptions})
    return m.GameForecast(
        game_id=game["id"],
        revision=game["revision"],
        plays=terms.plays,
        plays_per_player=terms.per_player,
        days=terms.days,
        currency=setting.currency,
        mean=found.mean,
        **dict(zip(("median", "cost_90", "cost_99"), map(found.costs.quantile, QUANTILES), strict=True)),
        liability=found.liability,
        budget=request.budget,
        over_budget=found.costs.above(request.budget) if request.budget else -1.0,
        odds_factor=-1.0 if factor is None else factor,
        costs=_ranges(found.costs),
        prizes=[
            m.PrizeOutlook(
                prize_id=prize.id,
                name=setting.stored[prize.id].name if prize.id in setting.stored else prize.id,
                chance=-1.0 if terms.in_order else prize.chance,
                stock=-1 if prize.stock is None else prize.stock,
                value=prize.value,
                units_mean=outlook.mean,
                **dict(zip(("units_median", "units_90", "units_99"), outlook.units, strict=True)),
                run_out=outlook.run_out,
                run_out_play=outlook.run_out_at,
                chance_within_budget=-1.0 if factor is None else kept.chance,
            )
            for prize, kept, outlook in zip(terms.prizes, within.prizes, found.prizes, strict=True)
        ],
        play_costs=[m.PlayCost(play=play, cost=cost) for play, cost in sorted(found.cost_of.items())],
        player_costs=found.player_cost_of,
        exact=found.exact and not setting.assumptions,
        error_max=found.error_max,
        cost_error=found.cost_error,
        assumptions=assumptions,
    )


def _ranges(costs: Costs) -> list[m.CostRange]:
    """The distribution in a few ranges, between its 0.05 % and 99.95 % quantiles; the outer ones contain the rest."""
    half = costs.spread / 2
    pairs = [(a, c) for a, c in zip(costs.amounts, costs.chances, strict=True) if c > 0]
    if len(pairs) <= RANGES_MAX:
        return [m.CostRange(low=max(0.0, a - half), high=a + half, probability=c) for a, c in pairs]
    first, last = costs.quantile(0.0005), costs.quantile(0.9995)
    # Each range covers equally many of the possible amounts. Otherwise the ranges would look uneven.
    unit = costs.spread or min(b - a for (a, _), (b, _) in pairwise(pairs))
    width = unit * ceil((last - first + unit) / unit / RANGES_MAX)
    first -= unit / 2
    shares = [0.0] * RANGES_MAX
    for amount, chance in pairs:
        shares[min(RANGES_MAX - 1, max(0, int((amount - first) / width)))] += chance
    return [
        m.CostRange(low=max(0.0, first + k * width), high=first + (k + 1) * width, probability=share)
        for k, share in enumerate(shares)
    ]
