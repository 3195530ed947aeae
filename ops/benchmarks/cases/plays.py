"""Plays: their cost relative to a bare aiohttp handler and to pgbench, and their scaling."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import asyncpg

from ops.api import Api
from ops.benchmarks import requests
from ops.benchmarks.bench import Bench, beside
from ops.benchmarks.case import Case, Ratio, Run
from ops.benchmarks.fixture import CHANCE, Fixture
from ops.benchmarks.load import Loaded
from ops.benchmarks.requests import Player
from ops.benchmarks.stack import Process, cpu_seconds
from ops.servers.base import free_port

MANY: Final = 50
CODES: Final = 200_000
"""Codes of a prize that every play wins."""
PRIZES: Final = 200
POOL: Final = "bench_pool"
"""The database with the full pool; separate, because of the statistics of its codes."""

SECOND: Final = "bench_second"
"""The second database."""

FIRST_GUESS_PER_SECOND: Final = 3_000.0


class Entrant(NamedTuple):
    """A game and a player."""

    game_id: str
    player: Player


class Bare(Case):
    """The upper limit of one aiohttp process and of the generator."""

    name, title, unit = "bare-get", "bare aiohttp handler, GET", "requests"
    request = b"GET / HTTP/1.1\r\nHost: bench\r\n\r\n"

    def prepare(self, bench: Bench) -> None:
        port = free_port()
        self._port = bench.stack.helper("bare", port, "handler", str(port)).port
        self._rate = self._send(bench, 5_000).per_second

    def run(self, bench: Bench) -> Run:
        run = self._send(bench, bench.scale.count(self._rate))
        used = run.cpu_seconds["generator"]
        self.facts = [f"the generator used {used / run.seconds:.0%} of a core for {run.per_second:,.0f} requests/s"]
        return run

    def _send(self, bench: Bench, count: int) -> Run:
        run = bench.measure(lambda: bench.loader.send(self._port, [self.request] * count, bench.scale.connections))
        return replace(run, database_trips=None, ephemeral_trips=None, wal_bytes=None)


class BarePost(Bare):
    """The same for a request with the size and headers of a play."""

    name, title = "bare-post", "bare aiohttp handler, POST"
    request = requests.BARE_PLAY

    def run(self, bench: Bench) -> Run:
        run = super().run(bench)
        # Named as the process that `hot` loads, for the ratio of the two.
        return replace(run, cpu_seconds={"server": run.cpu_seconds["bare"]})


class Plays(Case):
    """Plays of sessions started before, by players with tokens, each with an Idempotency-Key.

    server: the loaded process. entrants: which player plays which game, in turn. processes: how many the server has;
    each gets the usual number of connections, unless the class says another.
    """

    connections = 0

    def __init__(
        self,
        name: str,
        title: str,
        server: Callable[[Bench], Process],
        entrants: Callable[[Bench, Process], Sequence[Entrant]],
        ratios: tuple[Ratio, ...] = (),
        database: str = "bench",
        second: str = "",
        processes: int = 1,
    ) -> None:
        super().__init__()
        self.name, self.title, self.ratios = name, title, ratios
        self._make_server, self._make_entrants, self._databases = server, entrants, [database, *filter(None, [second])]
        self._processes = processes
        self._played = self._past = 0
        self._games: set[str] = set()

    def prepare(self, bench: Bench) -> None:
        self.server = self._make_server(bench)
        self.entrants = self._make_entrants(bench, self.server)
        self._games |= {game_id for game_id, _ in self.entrants}
        self._past = self._rows(bench)
        # The first plays create the players, fill the actors' caches and determine how many fit into a run.
        first = self._play(bench, max(2 * len(self.entrants), bench.scale.count(FIRST_GUESS_PER_SECOND / 4)))
        self._rate = first.per_second

    def run(self, bench: Bench) -> Run:
        run = self._play(bench, bench.scale.count(self._rate))
        self._rate = run.per_second or self._rate
        return run

    def finish(self, bench: Bench) -> None:
        """Verifies that every successful play has its row, and that the stock adds up."""
        tenants = ", ".join(sorted({f"'{player.tenant_id}'" for _, player in self.entrants}))
        query = f"""SELECT count(*) FROM stock AS s WHERE tenant_id IN ({tenants})
            AND (total > 0 AND total <> remaining + awarded
                 OR awarded <> (SELECT coalesce(sum(r.quantity), 0) FROM rewards AS r
                                WHERE r.tenant_id = s.tenant_id AND r.prize_id = s.prize_id))"""
        wrong = sum(int(bench.stack.sql(query, name)) for name in self._databases)
        rows = self._rows(bench) - self._past
        exact = wrong == 0 and rows == self._played
        self.facts = [
            f"{self._played:,} plays answered OK, {rows:,} in the database; stock that does not add up: {wrong}"
            + ("" if exact else " -- NOT EXACT")
        ]

    def _rows(self, bench: Bench) -> int:
        """The number of plays that the database counts for the case's games."""
        games = ", ".join(f"'{game_id}'" for game_id in ("", *self._games))
        query = f"SELECT coalesce(sum(plays), 0) FROM game_players WHERE game_id IN ({games})"
        return sum(int(bench.stack.sql(query, name)) for name in self._databases)

    def _play(self, bench: Bench, count: int) -> Run:
        entrants = [self.entrants[number % len(self.entrants)] for number in range(count)]
        port, connections = self.server.port, self.connections or bench.scale.connections * self._processes
        sessions = bench.loader.start_sessions(port, [requests.start(*entrant) for entrant in entrants], connections)
        plays = [requests.play(*entrant, session) for entrant, session in zip(entrants, sessions, strict=True)]
        run = self._measure(bench, lambda: bench.loader.send(port, plays, connections))
        self._played += run.done
        return run

    def _measure(self, bench: Bench, load: Callable[[], Loaded]) -> Run:
        return bench.measure(load)


class OverCores(Plays):
    """Plays over one or more Core processes: the share of each in their CPU, and of lock waits in active backends."""

    def _measure(self, bench: Bench, load: Callable[[], Loaded]) -> Run:
        cores = [_core(bench, f"core-{number}").popen.pid for number in range(1, self._processes + 1)]
        before = [cpu_seconds(pid) for pid in cores]
        sampled = Counter[str]()
        with beside(lambda over: asyncio.run(self._sample(bench, sampled, over))):
            run = bench.measure(load)
        used = [cpu_seconds(pid) - spent for pid, spent in zip(cores, before, strict=True)]
        shares = " + ".join(f"{one / sum(used):.0%}" for one in used)
        return replace(run, note=f"Core {shares}, lock waits {sampled['lock'] / max(1, sampled['active']):.0%}")

    async def _sample(self, bench: Bench, sampled: Counter[str], over: threading.Event) -> None:
        connection = await asyncpg.connect(bench.stack.postgres.url("bench"))
        while not over.is_set():
            sampled.update(dict((await connection.fetch(_ACTIVE))[0]))
            await asyncio.sleep(0.02)
        await connection.close()


_ACTIVE: Final = """SELECT count(*) AS active, count(*) FILTER (WHERE wait_event_type = 'Lock') AS lock
    FROM pg_stat_activity WHERE state = 'active' AND backend_type = 'client backend' AND pid <> pg_backend_pid()"""


class Pairs(Plays):
    """A start followed by its play: a pair counts as one play."""

    def _play(self, bench: Bench, count: int) -> Run:
        entrants = [self.entrants[number % len(self.entrants)] for number in range(count)]
        starts = [requests.start(*entrant) for entrant in entrants]
        plays = [requests.open_play(*entrant) for entrant in entrants]
        run = bench.measure(lambda: bench.loader.pairs(self.server.port, starts, plays, bench.scale.connections))
        self._played += run.done
        return run


# -- servers ---------------------------------------------------------------------------------


def one_server(bench: Bench) -> Process:
    """`tombola all`."""
    return bench.server


def two_processes(bench: Bench) -> Process:
    """`tombola all --processes 2`."""
    return bench.processes(2)


def two_databases(bench: Bench) -> Process:
    """`tombola all` whose tenants live in two databases of one server."""

    def make() -> Process:
        bench.stack.make_database(SECOND)
        url = bench.stack.postgres.url(SECOND)
        return bench.stack.serve("all", "server", valkey_db=10, DATABASES=f"{SECOND}={url}")

    return bench.shared("databases-2", make)


def no_batches(bench: Bench) -> Process:
    """`tombola all` with batches and commits of one play."""
    return bench.shared("batch-1", lambda: bench.stack.serve("all", "server", valkey_db=2, BATCH_LIMIT="1"))


def edge_over(cores: int) -> Callable[[Bench], Process]:
    """A consumer edge in its own process, in front of several Core processes."""

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
    """Every player of one tenant, divided among several games that share a prize."""

    def make(bench: Bench, server: Process) -> list[Entrant]:
        fixture = Fixture(_api(bench, server))
        prize_id = fixture.prize()
        ids = [fixture.spin(prize_id) for _ in range(games)]
        return _around(ids, bench.players(fixture.tenant_id))

    return make


def code_spins(bench: Bench, server: Process) -> list[Entrant]:
    """One game in which every play wins a code of a large pool."""
    fixture = Fixture(_api(bench, server))
    prize_id = fixture.prize(
        fulfillment={"redemption_mode": "REDEMPTION_MODE_ON_WIN", "channel": "voucher_code"}, stock=0
    )
    fixture.api.post(f"/prizes/{prize_id}/codes", {"scope": fixture.scope, "codes": ["FIRST-ONE"]})
    bench.stack.sql(_codes(CODES, "FROM codes", f"prize_id = '{prize_id}'"))
    return _around([fixture.spin(prize_id, 1.0)], bench.players(fixture.tenant_id))


def _codes(count: int, source: str, where: str) -> str:
    """SQL that adds codes to each of these pools."""
    return f"""INSERT INTO codes (tenant_id, prize_id, code_id, key_id, ciphertext, code_hash)
        SELECT tenant_id, prize_id, 'code_' || lpad(n::text, 26, '0'), key_id, ciphertext, sha256(n::text::bytea)
        FROM generate_series(1, {count}) AS n,
             (SELECT tenant_id, prize_id, key_id, ciphertext {source} WHERE {where})"""


def pooled_spins(full: bool) -> Callable[[Bench, Process], list[Entrant]]:
    """One game with many prizes with code pools, full or empty, that wins another prize."""

    def make(bench: Bench, server: Process) -> list[Entrant]:
        fixture = Fixture(_api(bench, server))
        coded = {"redemption_mode": "REDEMPTION_MODE_ON_WIN", "channel": "voucher_code"}
        ids = [fixture.prize(), *(fixture.prize(fulfillment=coded, stock=0) for _ in range(PRIZES - 1))]
        if full:
            # The first pool holds nine tenths, as after one large import.
            each = bench.scale.pool_codes // 10 // (PRIZES - 1)
            sealed = "FROM (SELECT tenant_id, prize_id, '' AS key_id, ''::bytea AS ciphertext FROM prizes)"
            rest = f"tenant_id = '{fixture.tenant_id}' AND prize_id <> '{ids[0]}'"
            bench.stack.sql(
                _codes(bench.scale.pool_codes - each * (PRIZES - 1), sealed, f"prize_id = '{ids[1]}'"), POOL
            )
            bench.stack.sql(_codes(each, sealed, f"{rest} AND prize_id <> '{ids[1]}'"), POOL)
        chances = [CHANCE, *([1e-12] * (PRIZES - 1))]
        drawn = [{"prize_id": one, "probability": chance} for one, chance in zip(ids, chances, strict=True)]
        game_id = fixture.game("probability", {"prizes": drawn})
        return _around([game_id], bench.players(fixture.tenant_id))

    return make


def pool_server(bench: Bench) -> Process:
    """`tombola all` on the database with the full pool."""
    return bench.separate_server(POOL, 9)


def tenants(count: int, *databases: str) -> Callable[[Bench, Process], list[Entrant]]:
    """Several tenants with one game each, and the players divided among them. databases: where they live, in turn."""

    def make(bench: Bench, server: Process) -> list[Entrant]:
        entrants: list[Entrant] = []
        each = max(1, bench.scale.players // count)
        for nth in range(count):
            fixture = Fixture(_api(bench, server), databases[nth % len(databases)] if databases else "")
            entrants += _around([fixture.spin(fixture.prize())], bench.players(fixture.tenant_id, each))
        # Interleave the tenants, so that all are active all the time.
        return [entrants[tenant * each + number] for number in range(each) for tenant in range(count)]

    return make


def _around(games: list[str], players: list[Player]) -> list[Entrant]:
    return [Entrant(games[number % len(games)], player) for number, player in enumerate(players)]


def _api(bench: Bench, server: Process) -> Api:
    """A client for Core's REST of the process, or of the Core behind it."""
    return bench.stack.core(server if server.core_url else _core(bench, "core-1"))


BARE: Final = (Bare(),)

CASES: Final = (
    BarePost(),  # Just before `hot`, so that the two alternate and their ratio is the median of pairs.
    Plays(
        "hot",
        "one hot game",
        one_server,
        spins(1),
        (Ratio("pgbench", least=2.0), Ratio("bare-get", least=0.18), Ratio("bare-post", most=3.3, cpu_of="server")),
    ),
    Plays(
        "processes-2",
        "one hot game, two processes that share ports",
        two_processes,
        spins(1),
        (Ratio("hot", most=1.1, cpu_of="server"), Ratio("hot", most=1.25, cpu_of="postgres")),
        processes=2,
    ),
    Plays("codes", "one hot game, every play wins a code", one_server, code_spins, (Ratio("hot"),)),
    Plays("games-50", "50 games, one tenant", one_server, spins(MANY), (Ratio("hot", least=0.85),)),
    Plays(
        "tenants-50",
        "50 tenants, one game each",
        one_server,
        tenants(MANY),
        (Ratio("hot", least=0.8), Ratio("hot", most=2.0, cpu_of="postgres")),
    ),
    Plays(
        "tenants-50-2-databases",
        "50 tenants, one game each, in two databases",
        two_databases,
        tenants(MANY, "home", SECOND),
        (Ratio("tenants-50", most=1.05, cpu_of="server"), Ratio("tenants-50", most=1.1, cpu_of="postgres")),
        second=SECOND,
    ),
    Pairs("pair", "start and play as a pair", one_server, spins(1), (Ratio("hot"),)),
    Pairs("pool-empty", "a pair of a game with 200 pools, empty", one_server, pooled_spins(False)),
    Pairs(
        "pool-full",
        "a pair of a game with 200 pools, of 5 million codes",
        pool_server,
        pooled_spins(True),
        (Ratio("pool-empty", most=1.05, cpu=True),),
        POOL,
    ),
    Plays("batch-1", "actor off (BATCH_LIMIT=1)", no_batches, spins(1), (Ratio("hot"),)),
    Plays("split-1", "one Core process behind one edge", edge_over(1), spins(MANY), (Ratio("games-50"),)),
    Plays("split-2", "two Core processes behind one edge", edge_over(2), spins(MANY), (Ratio("split-1", least=1.0),)),
    OverCores("hot-1-core", "one hot game, one Core process behind one edge", edge_over(1), spins(1)),
    OverCores(
        "hot-2-cores",
        "the same over two Core processes",
        edge_over(2),
        spins(1),
        (Ratio("hot-1-core", most=1.15, cpu_of="core"), Ratio("hot-1-core", most=1.25, cpu_of="postgres")),
        processes=2,
    ),
)
