"""Plays: what they cost beside a bare aiohttp handler and beside pgbench, and how they scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from ops.api import Api
from ops.benchmarks import requests
from ops.benchmarks.bench import Bench
from ops.benchmarks.case import Case, Ratio, Run
from ops.benchmarks.fixture import Fixture
from ops.benchmarks.requests import Player
from ops.benchmarks.stack import Process
from ops.servers.base import free_port

MANY: Final = 50
CHAIN: Final = 10
"""Plays of one player in a row."""

FIRST_GUESS_PER_SECOND: Final = 3_000.0


class Entrant(NamedTuple):
    """A game, and who plays it."""

    game_id: str
    player: Player


class Bare(Case):
    """The ceiling of one aiohttp process, and of the generator with it."""

    unit = "requests"

    def __init__(self, verb: str) -> None:
        super().__init__()
        self.name = f"bare-{verb.lower()}"
        self.title = f"bare aiohttp handler, {verb}"
        self._verb = verb

    def prepare(self, bench: Bench) -> None:
        def make() -> Process:
            port = free_port()
            return bench.stack.helper("bare", port, "handler", str(port))

        self._port = bench.shared("bare", make).port
        if self._verb == "GET":
            self._request = b"GET / HTTP/1.1\r\nHost: bench\r\n\r\n"
        else:
            player = bench.players("tenant_bare", 1)[0]
            request = requests.play("game_01m6sz0000000000000000000", player, 180 * b"x")
            self._request = (
                b"POST / " + request.partition(b" HTTP/1.1")[1].lstrip() + request.partition(b" HTTP/1.1")[2]
            )
        self._rate = self._send(bench, 5_000).per_second

    def run(self, bench: Bench) -> Run:
        run = self._send(bench, bench.scale.count(self._rate))
        used = run.cpu_seconds["generator"]
        self.facts = [f"the generator used {used / run.seconds:.0%} of a core for {run.per_second:,.0f} requests/s"]
        return run

    def _send(self, bench: Bench, count: int) -> Run:
        run = bench.measure(lambda: bench.loader.send(self._port, [self._request] * count, bench.scale.connections))
        return replace(run, database_trips=None, ephemeral_trips=None)


class Plays(Case):
    """Plays of sessions that were started before, by players with tokens, each under an Idempotency-Key.

    server: the process that is loaded. entrants: which player plays which game, in turn.
    """

    def __init__(
        self,
        name: str,
        title: str,
        server: Callable[[Bench], Process],
        entrants: Callable[[Bench, Process], Sequence[Entrant]],
        ratios: tuple[Ratio, ...] = (),
        database: str = "bench",
    ) -> None:
        super().__init__()
        self.name, self.title, self.ratios = name, title, ratios
        self._make_server, self._make_entrants, self._database = server, entrants, database
        self._played = 0

    def prepare(self, bench: Bench) -> None:
        self.server = self._make_server(bench)
        self.entrants = self._make_entrants(bench, self.server)
        # The first plays make the players, fill the actors' memories and show how many fit into a run.
        first = self._play(bench, max(2 * len(self.entrants), bench.scale.count(FIRST_GUESS_PER_SECOND / 4)))
        self._rate = first.per_second

    def run(self, bench: Bench) -> Run:
        run = self._play(bench, bench.scale.count(self._rate))
        self._rate = run.per_second or self._rate
        return run

    def finish(self, bench: Bench) -> None:
        """Every answered play has its row, and the stock adds up."""
        tenants = ", ".join(sorted({f"'{player.tenant_id}'" for _, player in self.entrants}))
        games = ", ".join(sorted({f"'{game_id}'" for game_id, _ in self.entrants}))
        wrong = bench.stack.sql(
            f"""SELECT count(*) FROM stock s WHERE tenant_id IN ({tenants}) AND (total <> remaining + awarded
                OR awarded <> (SELECT coalesce(sum(r.quantity), 0) FROM rewards r
                               WHERE r.tenant_id = s.tenant_id AND r.prize_id = s.prize_id))""",
            self._database,
        )
        rows = bench.stack.sql(
            f"""SELECT coalesce(sum(plays), 0) FROM game_players
                WHERE tenant_id IN ({tenants}) AND game_id IN ({games})""",
            self._database,
        )
        exact = wrong == "0" and int(rows) == self._played
        self.facts = [
            f"{self._played:,} plays answered OK, {int(rows):,} in the database; stock that does not add up: {wrong}"
            + ("" if exact else " -- NOT EXACT")
        ]

    def _play(self, bench: Bench, count: int) -> Run:
        entrants = [self.entrants[number % len(self.entrants)] for number in range(count)]
        port, connections = self.server.port, bench.scale.connections
        sessions = bench.loader.start_sessions(port, [requests.start(*entrant) for entrant in entrants], connections)
        plays = [requests.play(*entrant, session) for entrant, session in zip(entrants, sessions, strict=True)]
        run = bench.measure(lambda: bench.loader.send(port, plays, connections))
        self._played += run.done
        return run


class Pairs(Plays):
    """A start and its play, one after the other: a pair counts as one play."""

    def _play(self, bench: Bench, count: int) -> Run:
        entrants = [self.entrants[number % len(self.entrants)] for number in range(count)]
        starts = [requests.start(*entrant) for entrant in entrants]
        plays = [requests.open_play(*entrant) for entrant in entrants]
        run = bench.measure(lambda: bench.loader.pairs(self.server.port, starts, plays, bench.scale.connections))
        self._played += run.done
        return run


class Chains(Plays):
    """Plays that ask for the next session, which the same player plays at once."""

    def _play(self, bench: Bench, count: int) -> Run:
        port, connections = self.server.port, bench.scale.connections
        chains = [self.entrants[number % len(self.entrants)] for number in range(-(-count // CHAIN))]
        sessions = bench.loader.start_sessions(port, [requests.start(*entrant) for entrant in chains], connections)
        firsts = [
            requests.play(*entrant, session, chained=True) for entrant, session in zip(chains, sessions, strict=True)
        ]
        others = [requests.open_play(*entrant, chained=True) for entrant in chains for _ in range(CHAIN - 1)]
        run = bench.measure(lambda: bench.loader.chains(port, firsts, others, connections))
        self._played += run.done
        return run


class TwoCores(Plays):
    """Plays over two Core processes, and at the end a prize that runs out over both of them."""

    def finish(self, bench: Bench) -> None:
        super().finish(bench)
        core = bench.shared("core-1", lambda: _core(bench, "core-1"))
        fixture, stock, players = Fixture(bench.stack.core(core)), 500, bench.players
        prize_id = fixture.prize(stock=stock, constraints={"max_per_user": 1})
        games = [fixture.spin(prize_id, 1.0) for _ in range(10)]
        crowd = players(fixture.tenant_id, 1_000)
        entrants = [Entrant(game_id, player) for game_id in games[:4] for player in crowd]
        port, connections = self.server.port, bench.scale.connections
        sessions = bench.loader.start_sessions(port, [requests.start(*entrant) for entrant in entrants], connections)
        plays = [requests.play(*entrant, session) for entrant, session in zip(entrants, sessions, strict=True)]
        loaded = bench.loader.send_bundled(port, plays, connections)
        tenant = f"tenant_id = '{fixture.tenant_id}'"
        given, left, most, rows = bench.stack.sql(
            f"""SELECT (SELECT count(*) FROM rewards WHERE {tenant}), (SELECT remaining FROM stock WHERE {tenant}),
                       (SELECT max(awarded) FROM prize_players WHERE {tenant}),
                       (SELECT count(*) FROM plays WHERE {tenant})"""
        ).split("|")
        exact = (given, left, most, rows) == (str(stock), "0", "1", str(len(entrants))) and loaded.ok == len(entrants)
        self.facts.append(
            f"a stock of {stock} with max_per_user 1, played {len(entrants):,} times over both: {given} given, {left}"
            f" left, {most} at most to one player, {rows} plays, {loaded.failed} errors"
            + ("" if exact else " -- NOT EXACT")
        )


# -- servers ---------------------------------------------------------------------------------


def one_server(bench: Bench) -> Process:
    """`tombola all`."""
    return bench.server


def no_batches(bench: Bench) -> Process:
    """`tombola all` whose actors take one play a batch, and whose commits hold one."""
    return bench.shared("batch-1", lambda: bench.stack.serve("all", "server", valkey_db=2, BATCH_LIMIT="1"))


def full_server(bench: Bench) -> Process:
    """`tombola all` on a database of its own."""

    def make() -> Process:
        bench.stack.make_database("bench_full")
        return bench.stack.serve("all", "server", database="bench_full", valkey_db=3)

    return bench.shared("full", make)


def edge_over(cores: int) -> Callable[[Bench], Process]:
    """A consumer edge in a process of its own over as many Core processes."""

    def make(bench: Bench) -> Process:
        names = [f"core-{number}" for number in range(1, cores + 1)]
        addresses = ",".join(_core(bench, name).rpc_address for name in names)
        return bench.shared(
            f"edge-{cores}", lambda: bench.stack.serve("consumer", "edge", valkey_db=4, CORE_RPC_ADDRESSES=addresses)
        )

    return make


def _core(bench: Bench, name: str) -> Process:
    return bench.shared(name, lambda: bench.stack.serve("core", "core", valkey_db=4))


# -- entrants -----------------------------------------------------------------------------------


def spins(games: int) -> Callable[[Bench, Process], list[Entrant]]:
    """Every player of one tenant, each at one of so many games that share a prize."""

    def make(bench: Bench, server: Process) -> list[Entrant]:
        fixture = Fixture(_api(bench, server))
        prize_id = fixture.prize()
        ids = [fixture.spin(prize_id) for _ in range(games)]
        return _around(ids, bench.players(fixture.tenant_id))

    return make


def sure_spins(bench: Bench, server: Process) -> list[Entrant]:
    """One game in which every play wins."""
    fixture = Fixture(_api(bench, server))
    return _around([fixture.spin(fixture.prize(), 1.0)], bench.players(fixture.tenant_id))


def tenants(count: int) -> Callable[[Bench, Process], list[Entrant]]:
    """So many tenants with one game each; the players divided among them."""

    def make(bench: Bench, server: Process) -> list[Entrant]:
        entrants: list[Entrant] = []
        each = max(1, bench.scale.players // count)
        for _ in range(count):
            fixture = Fixture(_api(bench, server))
            entrants += _around([fixture.spin(fixture.prize())], bench.players(fixture.tenant_id, each))
        # One of each tenant after the other, so that all are at it all the time.
        return [entrants[tenant * each + number] for number in range(each) for tenant in range(count)]

    return make


def spins_among(bench: Bench, server: Process) -> list[Entrant]:
    """One game, in a table that holds millions of plays of its players and its game already."""
    entrants = spins(1)(bench, server)
    _fill(bench, entrants)
    return entrants


def _around(games: list[str], players: list[Player]) -> list[Entrant]:
    return [Entrant(games[number % len(games)], player) for number, player in enumerate(players)]


def _api(bench: Bench, server: Process) -> Api:
    """Core's REST of the process, or of the Core behind it."""
    return bench.stack.core(server if server.core_url else _core(bench, "core-1"))


def _fill(bench: Bench, entrants: list[Entrant]) -> None:
    """Plays of the past: as many as the scale says, of the entrants in turn, with ids and times that grow."""
    game_id, player = entrants[0]
    count = bench.scale.full_plays
    prefix = player.player_id[: -len(str(len(entrants)))]
    width = len(player.player_id) - len(prefix)
    bench.stack.sql(
        f"""INSERT INTO plays (tenant_id, play_id, game_id, player_id, session_id, revision, seed, client_seed, payload,
                               outcome, score, wins, points, idempotency_key, request_hash, played_at)
            SELECT '{player.tenant_id}', 'play_0' || lpad(n::text, 25, '0'), '{game_id}',
                   '{prefix}' || lpad((n % {len(entrants)})::text, {width}, '0'), 'sess_' || repeat('x', 160), 1,
                   sha256(n::text::bytea), '', '{{}}', '{_OUTCOME}', 0, 0, 0, md5(n::text), '\\x{"00" * 16}',
                   now() - ({count} - n) * interval '1 second'
            FROM generate_series(1, {count}) AS n""",
        "bench_full",
    )
    bench.stack.sql("VACUUM ANALYZE plays", "bench_full")
    bench.stack.sql("CHECKPOINT", "bench_full")


_OUTCOME: Final = (
    '{"decided":{"awards":[],"credits":[],"metadata":{"slot_index":-1},"path":[]},'
    '"rewards":[],"balances":[],"milestones_granted":[]}'
)


BARE: Final = (Bare("GET"), Bare("POST"))

CASES: Final = (
    Plays(
        "hot",
        "one hot game",
        one_server,
        spins(1),
        (Ratio("pgbench", least=2.0), Ratio("bare-get", least=0.18), Ratio("bare-post")),
    ),
    Plays("hot-wins", "one hot game, every play wins", one_server, sure_spins, (Ratio("hot"),)),
    Plays("games-50", "50 games, one tenant", one_server, spins(MANY), (Ratio("hot", least=0.85),)),
    Plays("tenants-50", "50 tenants, one game each", one_server, tenants(MANY), (Ratio("hot", least=0.5),)),
    Pairs("pair", "start and play as a pair", one_server, spins(1), (Ratio("hot"),)),
    Chains(
        "next",
        "each play of the session that came with the last",
        one_server,
        spins(1),
        (Ratio("hot", least=0.9),),
    ),
    Plays("batch-1", "actor off (BATCH_LIMIT=1)", no_batches, spins(1), (Ratio("hot"),)),
    Plays("split-1", "one Core process behind one edge", edge_over(1), spins(MANY), (Ratio("games-50"),)),
    TwoCores(
        "split-2", "two Core processes behind one edge", edge_over(2), spins(MANY), (Ratio("split-1", least=1.0),)
    ),
    Plays(
        "full",
        "table already holding 3 million plays",
        full_server,
        spins_among,
        (Ratio("hot", least=0.85),),
        "bench_full",
    ),
)
