"""Caps and releases, for a game that is too large to follow from state to state."""

from __future__ import annotations

from dataclasses import replace
from math import fsum

from runtime.rules.forecast.counts import binomial
from runtime.rules.forecast.fourier import totals
from runtime.rules.forecast.plays import clipped, thinned, units_of
from runtime.rules.forecast.terms import CAPS_AS_ODDS, RELEASE_AT_END, GameTerms


def caps_as_stock(game: GameTerms) -> GameTerms:
    """The game with daily caps as stock if it has one day, and caps per player as stock if it has one player."""
    prizes = []
    for prize in game.prizes:
        daily = prize.per_day if game.days == 1 else 0
        own = prize.per_player if players_of(game) == 1 else 0
        stock = min((units for units in (prize.stock, daily or None, own or None) if units is not None), default=None)
        kept = (prize.per_player - own, prize.per_day - daily)
        prizes.append(replace(prize, stock=stock, per_player=kept[0], per_day=kept[1]))
    return replace(game, prizes=tuple(prizes))


def without_caps(game: GameTerms) -> tuple[GameTerms, list[str]]:
    """The game with caps expressed as odds and stock, and releases as stock; and what that assumes."""
    if game.wins_several:
        return _without_caps(game)
    assumptions: set[str] = set()
    prizes, refused = [], []
    for i, prize in enumerate(game.prizes):
        stock, accepted = prize.stock, 1.0
        if game.is_capped(i):
            accepted *= _accepted(game.per_player, prize.chance, prize.per_player)
            stock = _least(stock, prize.per_player * players_of(game))
        if prize.per_day:
            accepted *= _accepted(-(-game.plays // game.days), prize.chance * accepted, prize.per_day)
            stock = _least(stock, prize.per_day * game.days)
        if accepted < 1.0 - 1e-9:
            assumptions.add(CAPS_AS_ODDS)
        if prize.freed and (prize.chance or i == game.fallback):
            assumptions.add(RELEASE_AT_END)
            stock = _least(stock, prize.freed[-1][1])
        refused.append(prize.chance * (1.0 - accepted))
        prizes.append(replace(prize, chance=prize.chance * accepted, stock=stock, per_player=0, per_day=0, freed=()))
    lost, whole = fsum(refused), fsum(prize.chance for prize in prizes)
    if game.on_unavailable == "redraw" and whole:
        prizes = [replace(prize, chance=prize.chance * (1.0 + lost / whole)) for prize in prizes]
    elif game.on_unavailable == "fallback" and game.fallback is not None:
        own = prizes[game.fallback]
        prizes[game.fallback] = replace(own, chance=own.chance + lost - refused[game.fallback])
    return replace(game, prizes=tuple(prizes)), sorted(assumptions)


def _without_caps(game: GameTerms) -> tuple[GameTerms, list[str]]:
    """The same for plays that may win several units: refused units are not wanted, or fallback units instead."""
    assumptions: set[str] = set()
    shares: dict[int, float] = {}
    most: dict[int, int] = {}
    prizes = []
    for i, prize in enumerate(game.prizes):
        units, stock = units_of(game, i), prize.stock
        accepted, mean = 1.0, fsum(count * chance for count, chance in units.items())
        if game.is_capped(i):
            stock = _least(stock, prize.per_player * players_of(game))
            kinds = [] if game.falls is None else [kind for kind in game.falls.kinds if kind[0] == i]
            if max(1, game.per_player) == 1 and len(kinds) < 2 and game.on_unavailable != "fallback":
                most[i] = prize.per_player
                mean = fsum(min(count, prize.per_player) * chance for count, chance in units.items())
            elif mean:
                accepted *= _kept(units, game.per_player, prize.per_player)
        if prize.per_day and mean:
            accepted *= _kept(units, -(-game.plays // game.days), prize.per_day, accepted)
            stock = _least(stock, prize.per_day * game.days)
        if prize.freed and (prize.chance or i == game.fallback):
            assumptions.add(RELEASE_AT_END)
            stock = _least(stock, prize.freed[-1][1])
        if accepted < 1.0 - 1e-9:
            shares[i] = accepted
        prizes.append(replace(prize, chance=mean * accepted, stock=stock, per_player=0, per_day=0, freed=()))
    if shares:
        assumptions.add(CAPS_AS_ODDS)
    game = replace(clipped(game, most) if most else game, prizes=tuple(prizes))
    into = game.instead
    shares = {i: share for i, share in shares.items() if i != into}
    return (thinned(game, shares, into) if shares else game), sorted(assumptions)


def _kept(units: dict[int, float], plays: int, cap: int, accepted: float = 1.0) -> float:
    """The share of the units that so many plays want that a cap accepts."""
    total = totals(units, max(1, plays))
    mean = fsum(amount * chance for amount, chance in zip(total.amounts, total.chances, strict=True)) * accepted
    return 1.0 - total.beyond(cap / accepted) * accepted / mean if mean else 1.0


def players_of(game: GameTerms) -> int:
    """How many players play."""
    return -(-game.plays // max(1, game.per_player))


def allowed(game: GameTerms, i: int) -> int:
    """The units of a prize that its caps and its release let the plays win."""
    prize, most = game.prizes[i], game.plays * game.units_max
    most = min(most, prize.freed[-1][1]) if prize.freed else most
    most = min(most, prize.per_day * game.days) if prize.per_day else most
    return min(most, prize.per_player * players_of(game)) if prize.per_player else most


def liability_of(game: GameTerms) -> float:
    """The largest possible cost: every play wins the most valuable prize that is left."""
    left, cost = game.plays * game.units_max, 0.0
    fallback = game.instead if _may_fail(game) else None
    for i in sorted(range(len(game.prizes)), key=lambda i: -game.prizes[i].value):
        prize = game.prizes[i]
        if not prize.chance and i != fallback:
            continue
        largest = game.units_max if i == fallback else game.largest(i)
        most = min(left, game.plays * largest, allowed(game, i))
        most = most if prize.stock is None else min(most, prize.stock)
        cost += most * prize.value
        left -= most
    return cost


def _may_fail(game: GameTerms) -> bool:
    """Whether a draw of another prize than the fallback prize may find no unit."""
    others = (prize for i, prize in enumerate(game.prizes) if i != game.fallback and prize.chance)
    return any(one.stock is not None or one.per_player or one.per_day or one.freed for one in others)


def _accepted(plays: int, chance: float, cap: int) -> float:
    """The share of a prize's draws in so many plays that a cap accepts."""
    return binomial(plays, chance).up_to(cap) / (plays * chance) if chance else 1.0


def _least(stock: int | None, most: int) -> int:
    return most if stock is None else min(stock, most)
