"""Odds as declared, and as drawn; forecasts against every sequence of a small game, and the states of larger ones."""

import functools
import itertools
import math
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from runtime.operations.reporting.odds_test import ALPHA, expected_range, log_ratio
from runtime.rules import Drop, Outcome
from runtime.rules.base import GameRule
from runtime.rules.declared import Result, declared
from runtime.rules.forecast import (
    Forecast,
    GameTerms,
    Task,
    answer,
    chain,
    forecast,
    large,
    liability_of,
    redraw,
    several,
    stopped,
)
from runtime.rules.forecast.counts import binomial
from runtime.rules.forecast.fourier import FALL, significant
from runtime.rules.forecast.grid import costs_of
from runtime.rules.forecast.plays import listed
from runtime.rules.forecast.sums import Bent, Steady, mean_turn
from runtime.rules.forecast.terms import QUANTILES, REDRAW_AVERAGE, RUN_OUT_ESTIMATED, Falls, PrizeTerms
from runtime.rules.forecast.within import scaled
from runtime.rules.handlers import lucky_item, score_to_tier

Play = Callable[..., Outcome]
State = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]

THREE = tuple(PrizeTerms(name, chance, stock, value) for name, chance, stock, value in (
    ("car", 0.1, 1, 100.0), ("bike", 0.2, 2, 10.0), ("sweet", 0.3, None, 1.0)))  # fmt: skip
FIRST_WORDS = [(i + 0.5) / 10 for i in range(10)]
SECOND_WORDS = [(i + 0.5) / 60 for i in range(60)]
"""Each prize has a whole number of these words, whichever prizes are available."""

GAMES = {
    "lose": GameTerms(THREE, 6),
    "fallback": GameTerms(THREE, 6, "fallback", 2),
    "limited fallback": GameTerms(THREE, 6, "fallback", 1),
    "unlisted fallback": GameTerms((*THREE, PrizeTerms("pen", 0.0, 2, 0.5)), 6, "fallback", 3),
    "redraw": GameTerms(THREE, 6, "redraw"),
    "all limited": GameTerms((*THREE[:2], PrizeTerms("sweet", 0.3, 3, 1.0)), 6, "redraw"),
}
CAPPED = (
    *(PrizeTerms("car", 0.1, 3, 100.0, per_day=1), PrizeTerms("bike", 0.2, 3, 10.0, per_player=1)),
    PrizeTerms("sweet", 0.3, 3, 1.0, freed=((0, 0), (2, 1), (4, 3))),
)
POLICIES: dict[str, Any] = {
    policy: {"on_unavailable": policy, "fallback": 2 if policy == "fallback" else None, "per_player": 2, "days": 2}
    for policy in ("lose", "fallback", "redraw")
}
FALLS = Falls(3, ((0, 0.3, 2), (1, 0.25, 1), (0, 0.2, 1)))
CAPPED_GAMES = {f"{policy} capped": GameTerms(CAPPED, 6, **rule) for policy, rule in POLICIES.items()}
CAPPED_GAMES |= {f"{policy} caught": GameTerms(CAPPED, 6, **rule, falls=FALLS) for policy, rule in POLICIES.items()}
CAPPED_GAMES |= {f"in order, {n} each": GameTerms(CAPPED, 60, per_player=n, days=4, in_order=True) for n in (1, 3)}


def decide(play: Play, game: GameTerms, left: list[int]) -> dict[tuple[tuple[int, int], ...], float]:
    """What a play wins, by the real rule, with the probability of each result."""
    names = [prize.id for prize in game.prizes]
    options: dict[str, Any] = {
        "stock": dict(zip(names, left, strict=True)),
        "on_unavailable": game.on_unavailable,
        "fallback_prize_id": "" if game.fallback is None else names[game.fallback],
    }
    outcomes: list[tuple[float, Outcome]] = []
    if game.in_order:
        outcomes = [(1.0, play("moments", {"prizes": [{"prize_id": name} for name in names]}, **options))]
    elif game.falls:
        kinds = (*game.falls.kinds, (-1, 1 - sum(chance for _, chance, _ in game.falls.kinds), 9))
        of = {str(k): ([*names, ""][i], most) for k, (i, _, most) in enumerate(kinds)}
        drops = [
            {"type": k, "prize_id": prize, "frequency": 1, "max_catchable": most} for k, (prize, most) in of.items()
        ]
        options["config"] = {"drops": drops, "total_items": game.falls.items, "interval_ms": 1}
        options["payload"] = {"caught_items": [str(n) for n in range(game.falls.items)]}
        for fallen in itertools.product(range(len(kinds)), repeat=game.falls.items):
            plan = tuple(Drop(str(n), str(k), n) for n, k in enumerate(fallen))
            outcomes.append((math.prod(kinds[k][1] for k in fallen), play("collect_items", plan=plan, **options)))
    else:
        options["config"] = {"prizes": [{"prize_id": p.id, "probability": p.chance} for p in game.prizes if p.chance]}
        for first in FIRST_WORDS:
            found = [play("probability", words=(first, 0.5), **options)]
            if ["word", 1, 0.5] in found[0].path:
                found = [play("probability", words=(first, second), **options) for second in SECOND_WORDS]
            outcomes += [(0.1 / len(found), outcome) for outcome in found]
    won: defaultdict[tuple[tuple[int, int], ...], float] = defaultdict(float)
    for chance, outcome in outcomes:
        won[tuple((names.index(award.prize_id), award.quantity) for award in outcome.awards)] += chance
    return won


def brute_force(play: Play, game: GameTerms) -> tuple[dict[float, float], list[float], list[float], list[float]]:
    """Costs with their probabilities; the expected units and P(run out) of each prize; each play's expected cost."""
    nothing = (0,) * len(game.prizes)
    states: dict[State, float] = {(nothing, nothing, nothing): 1.0}
    decided = functools.cache(lambda *left: decide(play, game, list(left)))
    cost_of = []
    for number in range(game.plays):
        following: defaultdict[State, float] = defaultdict(float)
        cost = 0.0
        for (given, today, player), weight in states.items():
            today = nothing if number * game.days % game.plays == 0 else today
            player = nothing if game.per_player and number % game.per_player == 0 else player
            left = []
            for i, prize in enumerate(game.prizes):
                free = [units for since, units in prize.freed if since <= number]
                limits = [free[-1] - given[i]] if free else [] if prize.stock is None else [prize.stock - given[i]]
                limits += [prize.per_day - today[i]] * bool(prize.per_day)
                left.append(min([9, *limits, *[prize.per_player - player[i]] * bool(prize.per_player)]))
            for won, chance in decided(*left).items():
                added = [dict(won).get(i, 0) for i in range(len(nothing))]
                counts = [tuple(map(sum, zip(of, added, strict=True))) for of in (given, today, player)]
                following[counts[0], counts[1], counts[2]] += weight * chance
                cost += weight * chance * sum(units * game.prizes[i].value for i, units in won)
        states = dict(following)
        cost_of.append(cost)
    costs: defaultdict[float, float] = defaultdict(float)
    for (given, _, _), weight in states.items():
        costs[sum(n * prize.value for n, prize in zip(given, game.prizes, strict=True))] += weight
    means = [sum(w * given[i] for (given, _, _), w in states.items()) for i in range(len(game.prizes))]
    gone = [sum(w for (g, _, _), w in states.items() if g[i] == p.stock) for i, p in enumerate(game.prizes)]
    return dict(costs), means, gone, cost_of


def assert_same(found: Forecast, brute: Any, within: float) -> None:
    costs, means, gone, _ = brute
    for amount in costs:
        assert found.costs.above(amount) == pytest.approx(sum(c for a, c in costs.items() if a > amount), abs=within)
    assert [prize.mean for prize in found.prizes] == pytest.approx(means, abs=within)
    assert [prize.run_out for prize in found.prizes] == pytest.approx(gone, abs=within)
    assert found.mean == pytest.approx(sum(a * c for a, c in costs.items()), abs=100 * within)
    assert found.exact and found.error_max >= 0 and max(costs) <= found.liability


@pytest.mark.parametrize("name", [*GAMES, *CAPPED_GAMES])
def test_forecast_is_that_of_all_sequences(play: Play, name: str) -> None:
    game = {**GAMES, **CAPPED_GAMES}[name]
    brute, small = brute_force(play, game), forecast(game)
    small.assumptions = () if name in CAPPED_GAMES else small.assumptions
    assert_same(small, brute, 1e-9)
    assert small.cost_of == pytest.approx({play: brute[3][play - 1] for play in small.cost_of})
    if name in GAMES:
        assert_same(large.forecast(game, liability_of(game), (1,)), brute, 1e-6)


@pytest.mark.parametrize("stocks", [(28, 43, None), (28, None, 40), (7, 43, 35)])
def test_forecast_of_many_catches_is_near_that_of_their_states(stocks: Any) -> None:
    prizes = tuple(PrizeTerms("abc"[i], 1.0, stocks[i], value) for i, value in enumerate((10.0, 3.0, 1.0)))
    game = GameTerms(prizes, 30, "fallback", 2, falls=Falls(5, ((0, 0.2, 2), (1, 0.3, 3))))
    found, exact = several.forecast(game, 0.0, ()), chain.forecast(listed(game), 0.0, ())
    for one, state in zip(found.prizes, exact.prizes, strict=True):
        assert (one.mean, one.run_out) == pytest.approx((state.mean, state.run_out), abs=0.02)
    for share in (0.01, *QUANTILES):
        assert found.costs.quantile(share) == pytest.approx(exact.costs.quantile(share), abs=found.cost_error + 1)


@pytest.mark.parametrize("policy", ["lose", "fallback"])
@pytest.mark.parametrize("caps", [{"per_player": 1}, {"per_day": 3}])
def test_forecast_of_many_capped_plays_is_that_of_their_states(caps: Any, policy: Any) -> None:
    prizes = (PrizeTerms("a", 0.7, None, 3.0, **caps), PrizeTerms("b", 0.3, None, 1.25), PrizeTerms("c", 0.0, 9))
    game, shown = GameTerms(prizes, 60, policy, 1, per_player=6, days=6), (1, 9, 60)
    found, exact = several.forecast(game, 0.0, shown), chain.forecast(game, 0.0, shown)
    assert found.exact and found.cost_of == pytest.approx(exact.cost_of)
    assert found.player_cost_of == pytest.approx(exact.player_cost_of)
    assert [one.mean for one in found.prizes] == pytest.approx([one.mean for one in exact.prizes])
    assert [found.costs.above(at) for at in range(99)] == pytest.approx([exact.costs.above(at) for at in range(99)])
    assert several.forecast(replace(game, plays=359, days=60), 0.0, shown).assumptions == ("PLAYS_ROUNDED",)
    huge_days = several.forecast(replace(game, plays=600_000), 0.0, ())
    assert ("CAPS_AS_ODDS" in huge_days.assumptions) is ("per_day" in caps)


def test_forecast_of_a_release_is_that_of_its_states() -> None:
    prize, shown = PrizeTerms("a", 0.2, 10, 5.0, freed=tuple((6 * nth, nth + 1) for nth in range(10))), (1, 20, 60)
    found, exact = (of(GameTerms((prize,), 60), 0.0, shown) for of in (large.forecast, chain.forecast))
    assert found.exact and found.cost_of == pytest.approx(exact.cost_of)
    (one,), (other,) = found.prizes, exact.prizes
    assert (one.mean, one.run_out, one.run_out_at) == pytest.approx((other.mean, other.run_out, other.run_out_at))
    assert [found.costs.above(at) for at in range(51)] == pytest.approx([exact.costs.above(at) for at in range(51)])
    pair = (prize, PrizeTerms("b", 0.3, None, 1.0))
    among = large.forecast(GameTerms(pair, 60), 0.0, ())
    assert (among.mean, among.assumptions) == (pytest.approx(exact.mean + 18), ("INDEPENDENT_PRIZES",))
    free = GameTerms((prize, PrizeTerms("b", 0.3)), 60, "fallback", 1)
    found, exact = (of(free, 0.0, shown) for of in (large.forecast, chain.forecast))
    assert found.exact and found.cost_of == pytest.approx(exact.cost_of)
    assert [one.mean for one in found.prizes] == pytest.approx([one.mean for one in exact.prizes])
    assert found.costs.quantile(0.9) == pytest.approx(exact.costs.quantile(0.9))
    assert forecast(GameTerms((replace(prize, per_player=1),), 60, per_player=6)).assumptions == ("PLAYERS_IN_TURN",)


@pytest.mark.parametrize(("policy", "fallback"), [("lose", None), ("fallback", 2), ("fallback", 1), ("redraw", None)])
def test_forecast_of_a_large_game_is_that_of_its_states(policy: Any, fallback: int | None) -> None:
    prizes = (PrizeTerms("a", 0.1, 4, 100.0), PrizeTerms("b", 0.2, 13, 10.0), PrizeTerms("c", 0.7, None, 7.0))
    for kept in (prizes, (*prizes[:2], PrizeTerms("c", 0.3, None, 1.0))):
        game = GameTerms(kept, 50, policy, fallback)
        exact = chain.forecast(game, 0.0, (1,))
        found = large.forecast(game, 0.0, (1,))
        assert found.assumptions == (() if policy == "lose" or fallback == 2 else (RUN_OUT_ESTIMATED,))
        assert [one.units for one in found.prizes[:2]] == [one.units for one in exact.prizes[:2]]
        assert [one.run_out for one in found.prizes] == pytest.approx([one.run_out for one in exact.prizes], abs=1e-6)
        for part in QUANTILES:
            assert found.costs.quantile(part) == pytest.approx(exact.costs.quantile(part), abs=found.cost_error + 0.01)


def test_forecast_of_a_million_plays_is_binomial_and_run_out_is_that_of_the_last_unit() -> None:
    found = forecast(GameTerms((PrizeTerms("cup", 0.5, None, 2.0),), 10**6))
    assert found.exact and not found.prizes[0].run_out and found.liability == 2 * 10**6
    assert (found.mean, found.costs.above(10**6)) == (pytest.approx(10**6), pytest.approx(0.5, abs=1e-3))
    assert found.costs.quantile(0.99) == pytest.approx(10**6 + 2 * 2.3263 * 500, abs=3)
    cup, pen = forecast(GameTerms((PrizeTerms("cup", 0.01, 1, 2.0), PrizeTerms("pen", 0.5, 100)), 10**6)).prizes
    assert cup.run_out == pen.run_out == 1 and (cup.run_out_at, pen.run_out_at) == pytest.approx((100, 200))
    rest = PrizeTerms("pen", 0.05)
    found = forecast(GameTerms((PrizeTerms("cup", 0.95, 9_000, 1.0), rest), 10_000, "redraw"))
    assert found.prizes[1].units == (1_000, 1_000, 1_000)
    for policy, fallback in (("redraw", None), ("fallback", 0)):
        alone = forecast(GameTerms((PrizeTerms("cup", 2e-4, 1), rest), 10_000, policy, fallback))
        assert alone.prizes[0].run_out_at == pytest.approx(5_000 - 10_000 / math.expm1(2), rel=1e-3)


@pytest.mark.parametrize("policy", ["lose", "redraw"])
def test_factor_keeps_the_budget(policy: Any) -> None:
    prizes = (PrizeTerms("tv", 0.001, 20, 400.0), PrizeTerms("mug", 0.05, None, 8.0), PrizeTerms("thanks", 0.5))
    game = GameTerms(prizes, 10_000, policy)
    factor = answer(Task(game, 5_000.0)).factor
    assert factor is not None and 0.3 < factor < 1
    assert forecast(scaled(game, factor)).costs.above(5_000) <= 0.011
    assert forecast(scaled(game, factor * 1.02)).costs.above(5_000) > 0.011
    assert answer(Task(game, 10**7)).factor == pytest.approx(0.5 / 0.051)


MUG = PrizeTerms("mug", 0.005, None, 8.0)
BUDGETS: Any = {
    "far above other costs": (GameTerms((PrizeTerms("car", 5e-7, 1, 49_999.0), MUG), 10_000), 600, 1.09),
    "among other costs": (GameTerms((PrizeTerms("car", 1e-4, 1, 29_999.0), MUG), 10_000), 30_450, 0.83),
    "of the fallback prize": (
        GameTerms((PrizeTerms("pin", 0.5, 10), replace(MUG, chance=0.0)), 10_000, "fallback", 1),
        99,
        0,
    ),
    "of what falls": (GameTerms((replace(MUG, chance=2.0),), 10_000, falls=Falls(20, ((0, 0.5, 2),))), 80_000, 0.11),
}


@pytest.mark.parametrize("name", BUDGETS)
def test_factor_is_that_of_the_distribution_of_the_forecast(name: str) -> None:
    game, budget, factor = BUDGETS[name]
    assert (done := answer(Task(game, budget))).factor == pytest.approx(factor, rel=0.03)
    assert factor == 0 or 0.005 < forecast(scaled(game, done.factor)).costs.above(budget) <= 0.01


PINS = PrizeTerms("pin", 0.01, 10, 1.0), PrizeTerms("thanks", 0.94, None, 0.0)
STEPS: Any = {
    "lose": (GameTerms((PrizeTerms("voucher", 0.05, None, 10.0), *PINS), 1_000), True),
    "redraw": (GameTerms((PrizeTerms("voucher", 0.05, None, 10.0), *PINS), 1_000, "redraw"), False),
    "wide": (GameTerms((PrizeTerms("car", 5e-5, None, 1_999.0), PrizeTerms("pin", 0.01, None, 20.0)), 10_000), False),
}


@pytest.mark.parametrize("name", STEPS)
def test_forecast_of_multiples_of_one_amount_has_their_steps_or_a_cost_error(name: str) -> None:
    game, is_exact = STEPS[name]
    (car, pin), found, costs = game.prizes[:2], forecast(game), defaultdict[float, float](float)
    for drawn, chance in enumerate((pins := binomial(game.plays, pin.chance)).weights, pins.first):
        given = drawn if pin.stock is None else min(drawn, pin.stock)
        others = game.plays - (given if game.on_unavailable == "redraw" else drawn)
        cars = binomial(others, car.chance / (1 - pin.chance))
        for count, weight in enumerate(cars.weights, cars.first):
            costs[given * pin.value + count * car.value] += chance * weight
    assert found.exact is is_exact
    margin = found.cost_error + found.costs.spread
    for least in sorted(costs)[::7]:
        high, low = found.costs.above(least - margin), found.costs.above(least + margin)
        assert low - 1e-6 <= sum(chance for cost, chance in costs.items() if cost > least) <= high + 1e-6


@pytest.mark.parametrize("values", [(1.0, 10.0), (3.0, 7.5), (0.0, 999.0)])
def test_arguments_that_are_passed_over_are_negligible(values: tuple[float, float]) -> None:
    parts = [Steady(0.7, values[0]), Steady(0.3, values[1])]
    turns, deviation = [math.tau * j / 4096 for j in range(2049)], math.sqrt(0.21) * (values[1] - values[0])
    found = significant(turns, 10_000, deviation, functools.partial(mean_turn, parts))
    every = ((j, turn, mean_turn(parts, turn)) for j, turn in enumerate(turns))
    assert list(found) == [one for one in every if 10_000 * math.log(abs(one[2]) or 1e-300) > -FALL]


EDGES = {
    "all gone": ((1 / 600, 5, 25.0), (1 / 750, 1, 1.0), (0.018, 30, 25.0)),
    "never drawn": ((0.0, 5, 10.0), (0.02, 30, 25.13), (0.02, 21, 33.333)),
    "as many wins as units": ((0.02, 30, 1.0), (0.0054, 8, 7.0)),
}


@pytest.mark.parametrize("name", EDGES)
def test_redraw_forecast_at_the_edge_of_its_costs_is_that_of_its_states(name: str) -> None:
    game = GameTerms(tuple(PrizeTerms(str(i), *of) for i, of in enumerate(EDGES[name])), 1_500, "redraw")
    exact, found = chain.forecast(game, liability_of(game), ()), large.forecast(game, liability_of(game), ())
    assert [one.mean for one in found.prizes] == pytest.approx([one.mean for one in exact.prizes], rel=1e-4)
    assert [one.run_out for one in found.prizes] == pytest.approx([one.run_out for one in exact.prizes], abs=1e-5)
    assert found.costs.above(0) == pytest.approx(1, abs=1e-5)
    for share in (0.01, 0.5, 0.99):
        margin = found.cost_error + found.costs.spread
        assert found.costs.quantile(share) == pytest.approx(exact.costs.quantile(share), abs=margin)


@pytest.mark.parametrize("wins", [1.0, 0.5])
def test_redraws_at_an_average_time_are_near_their_integral(wins: float) -> None:
    limited = tuple(Bent(0.05, value, int(500 * wins)) for value in (10.0, 50.0, 7.0, 90.0))
    stream = redraw.Stream(10_000, wins, 0, (Steady(0.8, 20.0),), limited, 0.0)
    exact = redraw.distribution(stream, 1e9, 2048, counted=True)
    found, astray = stopped.estimate(stream, 1e9, 2048, counted=True)
    assert exact is not None and exact.error < 1e-6 and astray < 100
    assert [one.mean for one in found.given] == pytest.approx([one.mean for one in exact.given], abs=0.5)
    (costs, near) = (costs_of(one.grid) for one in (exact, found))
    for share in (0.01, *QUANTILES):
        assert near.quantile(share) == pytest.approx(costs.quantile(share), abs=450), "a third of a deviation"


def test_redraws_whose_integral_misses_a_part_are_estimated() -> None:
    prizes = [PrizeTerms(str(v), c, int(1e5 * c) - 130, v) for c, v in ((0.245, 10.0), (0.147, 50.0), (0.098, 7.0))]
    found = forecast(GameTerms((*prizes, PrizeTerms("pen", 0.01, None, 1.0)), 100_000, "redraw"))
    assert found.error_max < 1e-3 and REDRAW_AVERAGE in found.assumptions
    assert found.mean == pytest.approx(sum(one.value * (one.stock or 0) for one in prizes) + 1_390, rel=1e-3)


def test_redraw_forecast_of_many_plays_and_stocks_is_bounded() -> None:
    """Millions of plays overflow no float, and many stocks end within the test's time."""
    certain = (PrizeTerms("sold", 0.7, 4_000_000, 1.5), PrizeTerms("few", 0.2, 4_285, 0.37), PrizeTerms("pen", 0.1))
    assert forecast(GameTerms(certain, 10**7, "redraw")).mean == pytest.approx(4e6 * 1.5 + 4_285 * 0.37)
    stocks = tuple(PrizeTerms(str(i), 0.09 + 0.001 * i, 90 + i, 10.5 * i + 0.37) for i in range(10))
    assert forecast(GameTerms(stocks, 1_000, "redraw")).assumptions
    two = forecast(GameTerms((PrizeTerms("a", 0.5, 2_500, 5.0), PrizeTerms("b", 0.5, 2_500, 7.0)), 5_000, "redraw"))
    assert (two.mean, two.costs.quantile(0.01), two.prizes[0].run_out) == pytest.approx((30_000, 30_000, 1)), "all gone"


@pytest.mark.parametrize("policy", ["lose", "redraw"])
def test_odds_of_one_and_of_zero_have_a_forecast(policy: Any) -> None:
    for chance, mean in ((0.125, 36 * 1_250), (0.0, 0)):
        prizes = tuple(PrizeTerms(str(n), chance, 1_250, 1.0 + n) for n in range(8))
        assert forecast(GameTerms(prizes, 10_000, policy)).mean == pytest.approx(mean, rel=0.02)


def test_rare_prize_and_large_day_under_caps_have_a_forecast() -> None:
    rare = (PrizeTerms("car", 1e-7, 1, 5_000.0), PrizeTerms("pen", 0.1, None, 1.0, per_player=1))
    assert forecast(GameTerms(rare, 10_000, per_player=5)).mean == pytest.approx(5 + 2_000 * (1 - 0.9**5), abs=0.01)
    daily = forecast(GameTerms((PrizeTerms("cup", 0.05, 100, 10.0, per_day=150),), 10_000))
    assert daily.cost_of[1] == pytest.approx(0.5) and daily.cost_of[5_000] < 1e-6
    of_the_day = GameTerms((PrizeTerms("cup", 0.3, 40, 10.0, per_day=25), rare[1]), 2_000, per_player=5)
    assert (found := forecast(of_the_day)).exact and (found.prizes[0].mean, found.prizes[0].run_out) == (
        pytest.approx(25),
        0,
    )


def test_cost_is_within_the_liability_and_an_estimated_run_out_is_named() -> None:
    terms = (PrizeTerms("a", 20 / 1500, 20, 25.0), PrizeTerms("b", 0.04, 30, 0.37), PrizeTerms("c", 1.1 / 1500, 1, 1.0))
    found = forecast(GameTerms(terms, 1_500, "fallback", 2))
    assert found.assumptions == ("FALLBACK_UNLIMITED", RUN_OUT_ESTIMATED)
    assert 0 <= found.costs.quantile(0) < found.costs.quantile(1) == pytest.approx(found.liability)
    assert found.costs.above(found.liability) == 0
    endless = (PrizeTerms("mug", 0.3, None, 8.0), PrizeTerms("car", 0.0, None, 20_000.0))
    assert liability_of(GameTerms(endless, 100, "fallback", 1)) == 800, "no draw falls back"


LIMIT = math.log(2 / ALPHA)


def plays_until_alarm(random: Random, chance: float, most: int) -> int | None:
    """When a game that declares 0.1 is reported, if it is looked at every ten plays."""
    count = 0
    for plays in range(1, most + 1):
        count += random.random() < chance
        if plays % 10 == 0 and log_ratio(count, plays, 0.1) >= LIMIT:
            return plays
    return None


def test_true_odds_raise_no_alarm_and_wrong_ones_do() -> None:
    random = Random(7)
    assert {plays_until_alarm(random, 0.1, 3_000) for _ in range(200)} == {None}
    assert None not in [plays_until_alarm(random, 0.09, 60_000) for _ in range(20)]


def test_range_ends_where_the_ratio_reaches_the_limit() -> None:
    for plays, chance in ((10, 0.5), (10_000, 0.1), (10_000_000, 0.0001), (1_000, 0.999)):
        low, high = expected_range(plays, chance, 2)
        assert low <= plays * chance <= high
        assert all(log_ratio(count, plays, chance) < LIMIT for count in (low, high))
        outside = [count for count in (low - 1, high + 1) if 0 <= count <= plays]
        assert all(log_ratio(count, plays, chance) >= LIMIT for count in outside)
    assert expected_range(9, 0.0, 2) == (0, 0) and expected_range(9, 1.0, 2) == (9, 9)


TIERS = [{"min": 10, "max": 20, "prize_group": "some"}]
TIERED = score_to_tier.parse({"tiers": TIERS, "prize_groups": {"some": [{"prize_id": "mug", "probability": 0.25}]}})


def test_score_in_a_tier_draws_from_its_group_and_any_other_loses() -> None:
    for segments, slot in ((None, -1), ((None, None), 1), (("mug", None), 1)):
        assert declared(TIERED, GameRule(segments=segments), {"score": 9}) == {Result("", "", slot): 1.0}
    found = declared(TIERED, GameRule(segments=("mug", None)), {"score": 10})
    assert found == {Result("mug", "", 0): 0.25, Result("", "", 1): 0.75}


def test_items_are_drawn_by_their_weights_and_caught_ones_declare_none() -> None:
    items = [
        {"item": name, "weight": 3 - 2 * i, "quantity": 1, "slot_index": i} for i, name in enumerate(("coin", "gem"))
    ]
    found = declared(lucky_item.parse({"items": items}), GameRule(), {})
    assert found == {Result("", "coin", 0): 0.75, Result("", "gem", 1): 0.25}
    assert declared(None, GameRule(), {}) == {}, "caught items declare no odds"


@pytest.mark.nightly
@pytest.mark.parametrize("policy", ["lose", "fallback", "redraw"])
def test_forecast_of_a_million_plays_of_fifty_prizes_is_that_of_simulated_ones(policy: Any) -> None:
    random, plays = Random(3), 10**6
    chances = [0.9 * one / 1_275 for one in range(1, 51)]
    stocks = [
        None if nth % 5 == 0 else round(plays * one * random.uniform(0.99, 1.01)) for nth, one in enumerate(chances)
    ]
    prizes = tuple(PrizeTerms(str(n), *one, 1.0 + n) for n, one in enumerate(zip(chances, stocks, strict=True)))
    found = forecast(GameTerms(prizes, plays, policy, 0 if policy == "fallback" else None))
    left = [plays if stock is None else stock for stock in stocks]
    limits = list(itertools.accumulate(chances))
    for _ in range(plays):
        prize = bisect(limits, random.random())
        while policy == "redraw" and prize < 50 and not left[prize]:
            prize = bisect(limits, 0.9 * random.random())
        if prize < 50:
            left[prize if left[prize] or policy == "lose" else 0] -= 1 if left[prize] or policy == "fallback" else 0
    units = [(stock or plays) - rest for stock, rest in zip(stocks, left, strict=True)]
    for prize, count in zip(found.prizes, units, strict=True):
        assert count == pytest.approx(prize.mean, abs=6 * math.sqrt(prize.mean)), prize.id
    assert 1e-4 < found.costs.above(sum(units[n] * prizes[n].value for n in range(50))) < 1 - 1e-4
