"""Single plays: the play at which a prize runs out, and the expected cost of a play."""

from __future__ import annotations

from collections.abc import Callable
from math import fsum, inf
from typing import Final

from runtime.rules.forecast.counts import Counts, binomial, drawn_by, poisson
from runtime.rules.forecast.held import HeldPrize
from runtime.rules.forecast.terms import GameTerms, PrizeTerms

_SOLVED_PLAYS_MAX: Final = 2_000
"""Up to this play, the cost of a play is the difference of two expected costs. Later, run-outs hardly vary."""
_SOLVED_STOCKS_MAX: Final = 3
"""With more stocks, two expected costs would take too long."""


def demand(game: GameTerms, plays: int, fallback: int) -> float:
    """The expected draws that want the fallback prize."""
    found = plays * game.prizes[fallback].chance
    for i, prize in enumerate(game.prizes):
        if i == fallback or not prize.chance:
            continue
        if isinstance(prize, HeldPrize):
            found += plays * (prize.chance - prize.given.mean / game.plays)  # An estimate, except for all plays.
        elif prize.stock is not None:
            count = binomial(plays, prize.chance)
            found += count.mean - count.up_to(prize.stock)
    return found


def is_shared(game: GameTerms, i: int) -> bool:
    """Whether draws for other prizes may take units of this one."""
    limited = any(
        one.chance and (one.stock is not None or isinstance(one, HeldPrize))
        for k, one in enumerate(game.prizes)
        if k != i
    )
    return limited and (game.on_unavailable == "redraw" or (game.on_unavailable == "fallback" and i == game.fallback))


def run_out_at(game: GameTerms, i: int, stock: int, run_out: float) -> float:
    """The expected play of the last unit, if there is one: exact unless draws for other prizes take units of this one,
    where it is the play by which so many units are expected.
    """
    plays, chance = game.plays, game.prizes[i].chance
    if game.on_unavailable == "fallback" and i == game.fallback:
        return first_play(plays, lambda play: demand(game, play, i) >= stock)
    if game.on_unavailable == "redraw" and run_out > 0.5:
        return min(float(plays), _fluid_play(game, stock / chance))
    return drawn_by(plays, chance, stock)


def first_play(plays: int, reached: Callable[[int], bool]) -> float:
    """The first play by which it is reached, or the last play."""
    low, high = 0, plays
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return float(high)


def _fluid_play(game: GameTerms, time: float) -> float:
    """The play at which a stream of draws, without those of prizes that are gone, reaches this time on average.

    Each prize is gone at the time at which its draws are expected to reach its stock.
    """
    prizes = [prize for prize in game.prizes if prize.chance]
    whole = fsum(prize.chance for prize in prizes)
    won = fsum(
        prize.chance * time if prize.stock is None else min(prize.chance * time, prize.stock) for prize in prizes
    )
    return won / whole


def _fluid_time(game: GameTerms, play: int) -> float:
    """The time of the stream at a play: the inverse of `_fluid_play`. Infinity: all prizes are gone."""
    high = float(play)
    while _fluid_play(game, high) < play:
        if high > 1e12:
            return inf
        high *= 2
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _fluid_play(game, middle) < play else (low, middle)
    return high


def cost_of_play(game: GameTerms, play: int, expected: Callable[[GameTerms, int], list[float]]) -> float:
    """The expected cost of the play with this number, counted from 1. Where draws for one prize take units of another,
    it is computed as if their stocks were independent. expected: the units after so many plays.
    """
    before, prizes = play - 1, game.prizes
    if game.on_unavailable == "redraw":
        stocks = sum(1 for prize in prizes if prize.chance and prize.stock)
        released = any(isinstance(prize, HeldPrize) for prize in prizes)
        if not released and play <= _SOLVED_PLAYS_MAX and stocks <= _SOLVED_STOCKS_MAX:
            after, solved = (expected(game, plays) for plays in (play, before))
            return fsum(p.value * (b - a) for p, a, b in zip(prizes, solved, after, strict=True))
        time = _fluid_time(game, before)
        if time == inf:
            return 0.0
        free = [_free(p, before, poisson(p.chance * time)) for p in prizes]
        open_ = fsum(p.chance * one for p, one in zip(prizes, free, strict=True))
        cost = fsum(p.chance * one * p.value for p, one in zip(prizes, free, strict=True))
        return cost / open_ * fsum(p.chance for p in prizes) if open_ > 1e-12 else 0.0
    free = [_free(p, before, binomial(before, p.chance)) for p in prizes]
    if game.on_unavailable != "fallback" or game.fallback is None:
        return fsum(p.chance * one * p.value for p, one in zip(prizes, free, strict=True))
    own, at = prizes[game.fallback], game.fallback
    free[at] = 1.0 if own.stock is None else poisson(demand(game, before, at)).below(own.stock)
    cost = fsum(p.chance * one * p.value for p, one in zip(prizes, free, strict=True))
    missing = fsum(p.chance * (1.0 - one) for i, (p, one) in enumerate(zip(prizes, free, strict=True)) if i != at)
    return cost + missing * free[at] * own.value


def _free(prize: PrizeTerms, before: int, draws: Counts) -> float:
    """The probability that a unit is free after so many plays."""
    if isinstance(prize, HeldPrize):
        return prize.free[before + 1]
    return 1.0 if prize.stock is None else draws.below(prize.stock)


def player_costs(game: GameTerms) -> list[float]:
    """The expected cost of each player's n-th play while all is in stock."""
    found, whole = [], fsum(prize.chance for prize in game.prizes)
    for before in range(min(game.per_player, 10)):
        won = [
            prize.chance * (binomial(before, prize.chance).below(prize.per_player) if game.is_capped(i) else 1.0)
            for i, prize in enumerate(game.prizes)
        ]
        cost, refused = fsum(one * prize.value for one, prize in zip(won, game.prizes, strict=True)), whole - fsum(won)
        if game.on_unavailable == "redraw" and refused < whole:
            cost *= whole / (whole - refused)
        elif game.on_unavailable == "fallback" and game.fallback is not None:
            cost += refused * game.prizes[game.fallback].value
        found.append(cost)
    return found
