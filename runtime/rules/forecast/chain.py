"""The forecast of a small game: every state of its stock after every play, with its probability."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from math import fsum, prod
from typing import Final, TypeAlias

from runtime.rules.forecast.plays import won
from runtime.rules.forecast.terms import (
    PLAYERS_IN_TURN,
    QUANTILES,
    Costs,
    Forecast,
    GameTerms,
    PrizeForecast,
    Wanted,
)

WORK_MAX: Final = 1_000_000
"""The most transitions computed state by state: one or two seconds."""

State: TypeAlias = tuple[int, ...]
"""Units given of each prize, then units that today's plays, and this player's plays, took of each capped prize."""


def is_small(game: GameTerms, work_max: int = WORK_MAX) -> bool:
    """Whether the states are few enough."""
    if game.falls is not None or game.in_order:
        return False
    wanted = game.plays * game.units_max
    most = [wanted if prize.stock is None else min(prize.stock, wanted) for prize in game.prizes]
    states = prod(units + 1 for units in most if units)
    for i, prize in enumerate(game.prizes):
        states *= (min(prize.per_day, game.plays * game.units_max) or 0) + 1
        states *= prize.per_player + 1 if game.is_capped(i) else 1
    return states * game.plays * (1 + max(len(game.prizes), len(game.wins))) <= work_max


def forecast(game: GameTerms, liability: float, shown: tuple[int, ...]) -> Forecast:
    """The exact forecast. shown: the plays to report the cost of, by number."""
    return _Chain(game).forecast(liability, shown)


class _Chain:
    def __init__(self, game: GameTerms) -> None:
        self._game = game
        self._prizes = range(len(game.prizes))
        count = len(game.prizes)
        self._day_at = {i: 0 for i in self._prizes if game.prizes[i].per_day}
        self._player_at = {i: 0 for i in self._prizes if game.is_capped(i)}
        for place, i in enumerate(self._day_at):
            self._day_at[i] = count + place
        for place, i in enumerate(self._player_at):
            self._player_at[i] = count + len(self._day_at) + place
        self._outcomes = lru_cache(maxsize=None)(self._decided)

    def forecast(self, liability: float, shown: tuple[int, ...]) -> Forecast:
        game, prizes = self._game, self._prizes
        width = len(game.prizes) + len(self._day_at) + len(self._player_at)
        states: Mapping[State, float] = {(0,) * width: 1.0}
        values = [prize.value for prize in game.prizes]
        gone, gone_at = [0.0] * len(values), [0.0] * len(values)
        cost_of, costs_by_player = {}, [0.0] * min(game.per_player, 10)
        for play in range(game.plays):
            free = self._free(play)
            following: defaultdict[State, float] = defaultdict(float)
            cost = 0.0
            for state, weight in self._begun(play, states).items():
                for taken, chance in self._outcomes(self._left(state, free)):
                    after = self._taken(state, taken)
                    following[after] += weight * chance
                    for i, count in taken:
                        cost += weight * chance * count * values[i]
                        if after[i] == game.prizes[i].stock:
                            gone[i] += weight * chance
                            gone_at[i] += weight * chance * (play + 1)
            if play + 1 in shown:
                cost_of[play + 1] = cost
            if play < len(costs_by_player):
                costs_by_player[play] = cost
            states = following
        costs, units = _summed(states, values), [_counted(states, i) for i in prizes]
        found = [
            PrizeForecast(
                game.prizes[i].id,
                fsum(count * chance for count, chance in units[i].items()),
                tuple(_quantile(units[i], share) for share in QUANTILES),
                1.0 if game.prizes[i].stock == 0 else min(1.0, gone[i]),
                gone_at[i] / gone[i] if gone[i] > 1e-12 else 0.0,
            )
            for i in prizes
        ]
        mean = fsum(amount * chance for amount, chance in zip(costs.amounts, costs.chances, strict=True))
        is_timed = bool(self._day_at) or any(prize.freed for prize in game.prizes)
        in_turn = self._player_at and (game.on_unavailable != "lose" or is_timed)
        return Forecast(
            mean,
            costs,
            found,
            cost_of,
            liability,
            costs_by_player,
            error_max=1e-9,
            assumptions=(PLAYERS_IN_TURN,) if in_turn else (),
        )

    def _begun(self, play: int, states: Mapping[State, float]) -> Mapping[State, float]:
        """The states as the play finds them: a day, or a player, may begin with it."""
        game = self._game
        over: list[int] = []
        if self._day_at and play * game.days // game.plays != (play - 1) * game.days // game.plays:
            over += self._day_at.values()
        if self._player_at and play % game.per_player == 0:
            over += self._player_at.values()
        if not over or play == 0:
            return states
        begun: defaultdict[State, float] = defaultdict(float)
        for state, weight in states.items():
            begun[tuple(0 if at in over else units for at, units in enumerate(state))] += weight
        return begun

    def _free(self, play: int) -> list[int | None]:
        """The units of each prize that may have been given after this play."""
        free: list[int | None] = []
        for prize in self._game.prizes:
            freed = [units for since, units in prize.freed if since <= play]
            free.append(prize.stock if not freed else freed[-1] if prize.stock is None else min(freed[-1], prize.stock))
        return free

    def _left(self, state: State, free: list[int | None]) -> tuple[int, ...]:
        """The units of each prize that the next play may take, up to the most that a play can win."""
        game, left = self._game, []
        for i in self._prizes:
            free_units, prize, most = free[i], game.prizes[i], game.units_max
            most = most if free_units is None else min(most, free_units - state[i])
            if i in self._day_at:
                most = min(most, prize.per_day - state[self._day_at[i]])
            if i in self._player_at:
                most = min(most, prize.per_player - state[self._player_at[i]])
            left.append(max(0, most))
        return tuple(left)

    def _taken(self, state: State, taken: Wanted) -> State:
        if not taken:
            return state
        after = [*state]
        for i, units in taken:
            for at in {i, self._day_at.get(i, i), self._player_at.get(i, i)}:
                after[at] += units
        return tuple(after)

    def _decided(self, left: tuple[int, ...]) -> tuple[tuple[Wanted, float], ...]:
        """What a play wins."""
        game = self._game
        if not game.wins:
            found = decided(game, tuple(units > 0 for units in left))
            return tuple((() if i is None else ((i, 1),), chance) for i, chance in found)
        chances: defaultdict[Wanted, float] = defaultdict(float)
        for chance, wanted in game.wins:
            chances[won(game, wanted, left)] += chance
        chances[()] += max(0.0, 1.0 - fsum(chances.values()))
        return tuple((taken, chance) for taken, chance in chances.items() if chance > 1e-15)


def decided(game: GameTerms, available: tuple[bool, ...]) -> tuple[tuple[int | None, float], ...]:
    """The prize that a play wins (None: a loss) while these prizes are available, with the probability of each."""
    chances = {i: prize.chance for i, prize in enumerate(game.prizes) if prize.chance and available[i]}
    missing = fsum(prize.chance for i, prize in enumerate(game.prizes) if not available[i])
    whole = fsum(chances.values())
    if game.on_unavailable == "redraw" and whole:
        chances = {i: chance * (1.0 + missing / whole) for i, chance in chances.items()}
    elif game.on_unavailable == "fallback" and game.fallback is not None and available[game.fallback]:
        chances[game.fallback] = chances.get(game.fallback, 0.0) + missing
    lost = 1.0 - fsum(chances.values())
    return (*chances.items(), (None, lost)) if lost > 1e-15 else tuple(chances.items())


def _summed(states: Mapping[State, float], values: list[float]) -> Costs:
    costs: defaultdict[float, float] = defaultdict(float)
    for state, weight in states.items():
        costs[round(fsum(units * value for units, value in zip(state, values, strict=False)), 9)] += weight
    amounts = sorted(costs)
    return Costs(amounts, [costs[amount] for amount in amounts])


def _counted(states: Mapping[State, float], at: int) -> dict[int, float]:
    counts: defaultdict[int, float] = defaultdict(float)
    for state, weight in states.items():
        counts[state[at]] += weight
    return dict(sorted(counts.items()))


def _quantile(counts: Mapping[int, float], share: float) -> int:
    total = 0.0
    for count, chance in counts.items():
        total += chance
        if total >= share - 1e-9:
            return count
    return max(counts)
