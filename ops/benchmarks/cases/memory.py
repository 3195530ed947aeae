"""Memory that Core keeps for games that are no longer played."""

import time
from typing import Final

from ops.benchmarks import requests
from ops.benchmarks.bench import Bench
from ops.benchmarks.case import Case, Run
from ops.benchmarks.fixture import Fixture
from ops.benchmarks.load import Loaded, LoadFailed
from ops.benchmarks.stack import Process

IDLE_SECONDS: Final = 2
BYTES_A_GAME_MAX: Final = 2048
WARM_GAMES: Final = 200
STEADY_SECONDS: Final = 2.0
STEADY_BYTES: Final = 64 * 1024
WAIT_SECONDS_MAX: Final = 60.0


class IdleGames(Case):
    """Plays each of many games once, lets them become idle, and measures Core's additional memory."""

    name, title, unit = "idle-games", "10,000 games played once, then idle", "games"
    once = True

    def prepare(self, bench: Bench) -> None:
        self._server = bench.stack.serve("all", "server", valkey_db=7, IDLE_SECONDS=str(IDLE_SECONDS))
        self._fixture = Fixture(bench.stack.core(self._server))
        self._game_id = self._fixture.spin(self._fixture.prize())

    def run(self, bench: Bench) -> Run:
        warm, games = self._copies(bench, "warm", WARM_GAMES), self._copies(bench, "idle", bench.scale.idle_games)
        # Allocate first what does not depend on the number of games: players, tokens, connections, arenas.
        for _ in range(3):
            self._play(bench, warm)
        before = steady_rss_bytes(self._server)
        run = bench.measure(lambda: self._pairs(bench, games))
        peak = self._server.rss_bytes
        grown = steady_rss_bytes(self._server) - before
        each = grown / len(games)
        verdict = "ok" if each < BYTES_A_GAME_MAX else "MISSED"
        self.facts = [
            f"Core held {before / 2**20:.1f} MiB, {peak / 2**20:.1f} MiB after playing {len(games):,} games, and "
            f"{each:,.0f} bytes a game more than before when they were idle (< {BYTES_A_GAME_MAX} {verdict})"
        ]
        return run

    def _copies(self, bench: Bench, name: str, count: int) -> list[str]:
        """Copies of the first game; by SQL, since their creation is not measured."""
        tenant_id = self._fixture.tenant_id
        for table, columns in (
            ("games", "campaign_id, name, type, status, revision"),
            ("game_revisions", "revision, definition"),
        ):
            bench.stack.sql(
                f"""INSERT INTO {table} (tenant_id, game_id, {columns})
                    SELECT tenant_id, 'game_{name}' || lpad(n::text, 22, '0'), {columns}
                    FROM {table}, generate_series(1, {count}) AS n
                    WHERE tenant_id = '{tenant_id}' AND game_id = '{self._game_id}'"""
            )
        return [f"game_{name}{number:022d}" for number in range(1, count + 1)]

    def _play(self, bench: Bench, games: list[str]) -> None:
        players = bench.players(self._fixture.tenant_id)
        self._pairs(bench, [games[number % len(games)] for number in range(len(players))])

    def _pairs(self, bench: Bench, games: list[str]) -> Loaded:
        players = bench.players(self._fixture.tenant_id)
        entrants = [(game_id, players[number % len(players)]) for number, game_id in enumerate(games)]
        starts = [requests.start(*entrant) for entrant in entrants]
        plays = [requests.open_play(*entrant) for entrant in entrants]
        loaded = bench.loader.pairs(self._server.port, starts, plays, bench.scale.connections)
        if loaded.failed:
            raise LoadFailed(loaded.first_failure)
        return loaded


def steady_rss_bytes(process: Process) -> int:
    """The process's memory once its actors had time to exit and it is stable."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    time.sleep(2 * IDLE_SECONDS)
    found = process.rss_bytes
    while time.monotonic() < deadline:
        time.sleep(STEADY_SECONDS)
        again = process.rss_bytes
        if abs(again - found) <= STEADY_BYTES:
            return again
        found = again
    return found


CASES: Final[tuple[Case, ...]] = (IdleGames(),)
