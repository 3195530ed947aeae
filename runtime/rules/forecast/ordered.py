"""The forecast of a game whose plays win the first available prize. Nothing is drawn, so the cost is certain."""

from __future__ import annotations

from runtime.rules.forecast.terms import (
    PLAYERS_IN_TURN,
    PLAYS_EVEN,
    QUANTILES,
    Costs,
    Forecast,
    GameTerms,
    PrizeForecast,
)


def forecast(game: GameTerms, liability: float, shown: tuple[int, ...]) -> Forecast:
    """The forecast. shown: the plays to report the cost of, by number."""
    line = _Line(game, shown)
    line.run()
    cost = sum(units * prize.value for units, prize in zip(line.given, game.prizes, strict=True))
    prizes = [
        PrizeForecast(prize.id, float(units), (units,) * len(QUANTILES), float(units == prize.stock), float(at))
        for prize, units, at in zip(game.prizes, line.given, line.gone_at, strict=True)
    ]
    assumptions = (PLAYS_EVEN, PLAYERS_IN_TURN) if line.is_capped else (PLAYS_EVEN,)
    costs = [line.cost_of[play] for play in range(1, line.first_plays + 1)]
    shown_costs = {play: line.cost_of[play] for play in shown}
    return Forecast(cost, Costs([cost], [1.0]), prizes, shown_costs, liability, costs, assumptions=assumptions)


class _Line:
    """The plays in order. Plays that win the same prize, and players who win the same, are counted at once."""

    def __init__(self, game: GameTerms, shown: tuple[int, ...]) -> None:
        self._game = game
        self._prizes = range(len(game.prizes))
        self.given, self.gone_at = [0] * len(game.prizes), [0] * len(game.prizes)
        self._today, self._mine = self.given[:], self.given[:]
        self.first_plays = min(game.per_player, 10, game.plays)
        self.is_capped = any(game.is_capped(i) for i in self._prizes)
        self.cost_of: dict[int, float] = {}
        self._free = [prize.stock for prize in game.prizes]
        freed = [(play, i, units) for i, prize in enumerate(game.prizes) for play, units in prize.freed]
        self._freed = sorted(freed, reverse=True)
        reported = {*range(1, self.first_plays + 1), *shown}
        days = {-(-day * game.plays // game.days) for day in range(game.days)}
        self._days = days if any(prize.per_day for prize in game.prizes) else set()
        stops = {play - 1 for play in reported} | reported | self._days | {play for play, _, _ in freed}
        self._stops = sorted({stop for stop in stops if stop < game.plays}, reverse=True)
        self._reported = reported

    def run(self) -> None:
        game, play = self._game, 0
        before: list[int] | None = None  # What was given when this player began, if nothing else has changed since.
        while play < game.plays:
            while self._stops and self._stops[-1] <= play:
                self._stops.pop()
                before = None
            until = self._stops[-1] if self._stops else game.plays
            self._release(play)
            if play in self._days:
                self._today = [0] * len(self.given)
            if self.is_capped and play % game.per_player == 0:
                self._mine = [0] * len(self.given)
                if before is not None:
                    play = self._repeat(play, until, before)
                before = self.given[:]
            ends = play - play % game.per_player + game.per_player if self.is_capped else until
            play = self._win(play, min(until, ends))

    def _release(self, play: int) -> None:
        while self._freed and self._freed[-1][0] <= play:
            _, i, units = self._freed.pop()
            stock = self._game.prizes[i].stock
            self._free[i] = units if stock is None else min(units, stock)

    def _left(self, i: int, *, of_player: bool = True) -> int:
        prize, free = self._game.prizes[i], self._free[i]
        left = self._game.plays if free is None else free - self.given[i]
        left = min(left, prize.per_day - self._today[i]) if prize.per_day else left
        capped = self.is_capped and prize.per_player and of_player  # Otherwise `_mine` is never reset.
        return min(left, prize.per_player - self._mine[i]) if capped else left

    def _win(self, play: int, until: int) -> int:
        """Plays win the first available prize for as long as it is the first. Returns the next play."""
        won = next((i for i in self._prizes if self._left(i) > 0), None)
        if won is None:
            units = until - play
        else:
            units = min(until - play, self._left(won))
            self._take(won, units)
            if self.given[won] == self._game.prizes[won].stock:
                self.gone_at[won] = play + units
        if play + 1 in self._reported:
            self.cost_of[play + 1] = 0.0 if won is None else self._game.prizes[won].value
        return play + units

    def _repeat(self, play: int, until: int, before: list[int]) -> int:
        """Further players win what the last one won, while enough of it is left. Returns the next play."""
        took = [units - earlier for units, earlier in zip(self.given, before, strict=True)]
        times = (until - play) // self._game.per_player
        for i, units in enumerate(took):
            if units:
                times = min(times, (self._left(i, of_player=False) - 1) // units)
        for i, units in enumerate(took):
            self.given[i] += units * max(0, times)
            self._today[i] += units * max(0, times)
        return play + max(0, times) * self._game.per_player

    def _take(self, won: int, units: int) -> None:
        self.given[won] += units
        self._today[won] += units
        self._mine[won] += units
