"""Caps and releases, for a game that is too large to follow from state to state."""

from __future__ import annotations

from dataclasses import replace
from math import fsum

from runtime.rules.forecast.counts import binomial
from runtime.rules.forecast.terms import CAPS_AS_ODDS, RELEASE_AT_END, GameTerms


def without_caps(game: GameTerms) -> tuple[GameTerms, list[str]]:
    """The game with caps expressed as odds and stock, and releases as stock; and what that assumes."""
    assumptions: set[str] = set()
    prizes, refused = [], []
    for prize in game.prizes:
        stock, accepted = prize.stock, 1.0
        if 0 < prize.per_player < game.per_player:
            accepted *= _accepted(game.per_player, prize.chance, prize.per_player)
            stock = _least(stock, prize.per_player * players_of(game))
        if prize.per_day:
            accepted *= _accepted(-(-game.plays // game.days), prize.chance * accepted, prize.per_day)
            stock = _least(stock, prize.per_day * game.days)
        if accepted < 1.0 - 1e-9:
            assumptions.add(CAPS_AS_ODDS)
        if prize.freed:
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


def players_of(game: GameTerms) -> int:
    """How many players play."""
    return -(-game.plays // max(1, game.per_player))


def liability_of(game: GameTerms) -> float:
    """The largest possible cost: every play wins the most valuable prize that is left."""
    left, cost = game.plays, 0.0
    for i in sorted(range(len(game.prizes)), key=lambda i: -game.prizes[i].value):
        prize = game.prizes[i]
        if not prize.chance and not (i == game.fallback and game.on_unavailable == "fallback"):
            continue
        most = left if prize.stock is None else min(left, prize.stock)
        most = min(most, prize.freed[-1][1]) if prize.freed else most
        most = min(most, prize.per_day * game.days) if prize.per_day else most
        most = min(most, prize.per_player * players_of(game)) if prize.per_player else most
        cost += most * prize.value
        left -= most
    return cost


def _accepted(plays: int, chance: float, cap: int) -> float:
    """The share of a prize's draws in so many plays that a cap accepts."""
    return binomial(plays, chance).up_to(cap) / (plays * chance) if chance else 1.0


def _least(stock: int | None, most: int) -> int:
    return most if stock is None else min(stock, most)
