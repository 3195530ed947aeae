"""Milestones and rankings."""

from typing import Final

from ops.benchmarks import requests
from ops.benchmarks.bench import Bench
from ops.benchmarks.case import Case, Ratio, Run
from ops.benchmarks.cases.plays import Entrant, Plays, one_server
from ops.benchmarks.fixture import Fixture
from ops.benchmarks.stack import Process

FIRST_GUESS_PER_SECOND: Final = 2_000.0


class Milestones(Plays):
    """Plays that each credit a wallet and reach a milestone, which is granted inside the play.

    A milestone is granted to a player once, so each run has its own game and currency.
    """

    def __init__(self) -> None:
        super().__init__(
            "milestone",
            "a play that credits a wallet and crosses a milestone",
            one_server,
            self._no_entrants,
            (Ratio("hot", most=1.3, cost=True),),
        )
        self._runs = 0

    def _no_entrants(self, bench: Bench, server: Process) -> list[Entrant]:
        self._fixture = Fixture(bench.stack.core(server))
        self._prize_id = self._fixture.prize()
        return []

    def _play(self, bench: Bench, count: int) -> Run:
        self._runs += 1
        players = bench.players(self._fixture.tenant_id)
        each = -(-count // len(players))
        game_id = self._fixture.collection(self._prize_id, f"leaf_{self._runs}", range(1, each + 1))
        self._games.add(game_id)
        self.entrants = [Entrant(game_id, player) for player in players]
        return super()._play(bench, count)


class Rankings(Case):
    """Anonymous reads of the top 20 of a board with every player."""

    name, title, unit = "rankings", "rankings, cached", "reads"
    ratios = (Ratio("bare-get", least=0.4),)

    def prepare(self, bench: Bench) -> None:
        fixture = Fixture(bench.stack.core(bench.server))
        players = bench.players(fixture.tenant_id)
        game_id = fixture.spin(fixture.prize())
        board_id = fixture.leaderboard(game_id)
        starts = [requests.start(game_id, player) for player in players]
        bench.loader.pairs(bench.server.port, starts, [requests.open_play(game_id, player) for player in players], 16)
        self._request = requests.get(f"/leaderboards/{board_id}/rankings", tenant_id=fixture.tenant_id)
        self._rate = self._read(bench, bench.scale.count(FIRST_GUESS_PER_SECOND / 4)).per_second

    def run(self, bench: Bench) -> Run:
        return self._read(bench, bench.scale.count(self._rate))

    def _read(self, bench: Bench, count: int) -> Run:
        sent = [self._request] * count
        return bench.measure(lambda: bench.loader.send(bench.server.port, sent, bench.scale.connections))


CASES: Final[tuple[Case, ...]] = (
    Milestones(),
    Rankings(),
)
