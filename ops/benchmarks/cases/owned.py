"""What players own: milestones, claims, redeems, rankings, wallets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Final

from ops.benchmarks import requests
from ops.benchmarks.bench import Bench
from ops.benchmarks.case import Case, Ratio, Run
from ops.benchmarks.cases.plays import Entrant, Plays, one_server
from ops.benchmarks.fixture import Fixture
from ops.benchmarks.stack import Process

FIRST_GUESS_PER_SECOND: Final = 2_000.0
NO_SLOWER: Final = 0.95
"""Two runs of the very same thing differ by as much."""


class Milestones(Plays):
    """Plays that each credit a wallet and cross a rung, which is granted inside the play.

    A rung is granted to a player once, so each run has a game and a currency of its own.
    """

    def __init__(self) -> None:
        super().__init__(
            "milestone",
            "a play that credits a wallet and crosses a milestone",
            one_server,
            self._no_entrants,
            (Ratio("hot", most=1.3, cost=True),),
        )
        self._games = 0

    def _no_entrants(self, bench: Bench, server: Process) -> list[Entrant]:
        self._fixture = Fixture(bench.stack.core(server))
        self._prize_id = self._fixture.prize()
        return []

    def _play(self, bench: Bench, count: int) -> Run:
        self._games += 1
        players = bench.players(self._fixture.tenant_id)
        each = -(-count // len(players))
        game_id = self._fixture.collection(
            self._prize_id, f"leaf_{self._games}", range(1, each + 1), mode="CUMULATIVE_UNLOCK", auto_grant=True
        )
        self.entrants = [Entrant(game_id, player) for player in players]
        return super()._play(bench, count)

    def finish(self, bench: Bench) -> None:
        """Every play has its grant, and the ledgers add up."""
        tenant = f"tenant_id = '{self._fixture.tenant_id}'"
        plays, grants, wrong = bench.stack.sql(
            f"""SELECT (SELECT count(*) FROM plays WHERE {tenant}),
                       (SELECT count(*) FROM milestone_grants WHERE {tenant}),
                       (SELECT count(*) FROM balances b WHERE {tenant} AND balance <>
                        (SELECT sum(amount) FROM ledger_entries e WHERE e.tenant_id = b.tenant_id
                         AND e.player_id = b.player_id AND e.scope_key = b.scope_key AND e.currency = b.currency))"""
        ).split("|")
        self.facts = [f"{plays} plays, {grants} rungs granted; balances that are not the sum of their ledger: {wrong}"]


class Deeds(Case):
    """Something that each player does once to something of their own, made by SQL before each run."""

    def prepare(self, bench: Bench) -> None:
        self.fixture = Fixture(bench.stack.core(bench.server))
        self.players = bench.players(self.fixture.tenant_id)
        self._runs = 0
        first = self._do(bench, bench.scale.count(FIRST_GUESS_PER_SECOND / 4))
        self._rate = first.per_second

    def run(self, bench: Bench) -> Run:
        return self._do(bench, bench.scale.count(self._rate))

    @abstractmethod
    def make(self, bench: Bench, number: int, count: int) -> list[bytes]:
        """The requests of run `number`, for what was made for them."""

    def _do(self, bench: Bench, count: int) -> Run:
        self._runs += 1
        made = self.make(bench, self._runs, count)
        return bench.measure(lambda: bench.loader.send(bench.server.port, made, bench.scale.connections))


class Claims(Deeds):
    """Claims of rewards that wait for it."""

    name, title, unit = "claims", "claims", "claims"
    ratios = (Ratio("hot"),)

    def make(self, bench: Bench, number: int, count: int) -> list[bytes]:
        prize_id = self.fixture.prize(mode="ON_CLAIM")
        ids = [f"reward_{number:06d}{n:020d}" for n in range(count)]
        prefix = self.players[0].player_id[:-19]
        bench.stack.sql(
            f"""INSERT INTO rewards (tenant_id, reward_id, player_id, prize_id, campaign_id, name, type, value,
                                     quantity)
                SELECT '{self.fixture.tenant_id}', 'reward_{number:06d}' || lpad(n::text, 20, '0'),
                       '{prefix}' || lpad((n % {len(self.players)})::text, 19, '0'), '{prize_id}',
                       '{self.fixture.campaign_id}', 'Coffee voucher', 'voucher', 5, 1
                FROM generate_series(0, {count - 1}) AS n"""
        )
        return [
            requests.post(f"/rewards/{reward_id}/claim", b"{}", self._player(n), key=requests.idempotency_key())
            for n, reward_id in enumerate(ids)
        ]

    def _player(self, number: int) -> requests.Player:
        return self.players[number % len(self.players)]


class Redeems(Deeds):
    """Redeems that each spend a balance on a rung of their own."""

    name, title, unit = "redeems", "redeems", "redeems"
    ratios = (Ratio("hot"),)

    def make(self, bench: Bench, number: int, count: int) -> list[bytes]:
        each, currency = -(-count // len(self.players)), f"nut_{number}"
        game_id = self.fixture.collection(
            self.fixture.prize(), currency, range(1, each + 1), mode="SPEND_EXCHANGE", auto_grant=False
        )
        balance = each * (each + 1) // 2
        prefix = self.players[0].player_id[:-19]
        tenant_id, scope_key, everybody = self.fixture.tenant_id, self.fixture.campaign_id, len(self.players)
        players = f"""SELECT '{tenant_id}' AS tenant_id, '{scope_key}' AS scope_key, '{currency}' AS currency,
                             '{prefix}' || lpad(n::text, 19, '0') AS player_id, n
                      FROM generate_series(0, {everybody - 1}) AS n"""
        bench.stack.sql(
            f"""INSERT INTO balances (tenant_id, scope_key, currency, player_id, balance)
                SELECT tenant_id, scope_key, currency, player_id, {balance} FROM ({players})"""
        )
        bench.stack.sql(
            f"""INSERT INTO ledger_entries (tenant_id, entry_id, seq, scope_key, currency, player_id, amount,
                                            balance_after, reason, reference_id)
                SELECT tenant_id, 'entry_0{number:05d}' || lpad(n::text, 20, '0'), 0, scope_key, currency, player_id,
                       {balance}, {balance}, 'adjustment', '' FROM ({players})"""
        )
        bodies = [f'{{"milestone_id":"rung_{rung}"}}'.encode() for rung in range(1, each + 1)]
        return [
            requests.post(f"/games/{game_id}/redeem", body, player, key=requests.idempotency_key())
            for body in bodies
            for player in self.players
        ][:count]


class Reads(Case):
    """One GET, again and again."""

    unit = "reads"

    def __init__(
        self,
        name: str,
        title: str,
        make: Callable[[Bench], bytes],
        ratios: tuple[Ratio, ...] = (),
    ) -> None:
        super().__init__()
        self.name, self.title, self.ratios = name, title, ratios
        self._make = make

    def prepare(self, bench: Bench) -> None:
        self._request = self._make(bench)
        self._rate = self._read(bench, bench.scale.count(FIRST_GUESS_PER_SECOND / 4)).per_second

    def run(self, bench: Bench) -> Run:
        return self._read(bench, bench.scale.count(self._rate))

    def _read(self, bench: Bench, count: int) -> Run:
        return bench.measure(
            lambda: bench.loader.send(bench.server.port, [self._request] * count, bench.scale.connections)
        )


def rankings(bench: Bench) -> bytes:
    """The top 20 of a board on which every player is, asked for by nobody in particular."""
    fixture = Fixture(bench.stack.core(bench.server))
    game_id = fixture.spin(fixture.prize())
    board_id = fixture.leaderboard(game_id)
    players = bench.players(fixture.tenant_id)
    sessions = bench.loader.start_sessions(bench.server.port, [requests.start(game_id, one) for one in players], 16)
    plays = [requests.play(game_id, *pair) for pair in zip(players, sessions, strict=True)]
    bench.loader.send_bundled(bench.server.port, plays, 16)
    return requests.get(f"/leaderboards/{board_id}/rankings", tenant_id=fixture.tenant_id)


def wallet_of(entries: Callable[[Bench], int], path: str) -> Callable[[Bench], bytes]:
    """What a player with so many ledger entries reads: ten of them at most, so that the answers are as long."""

    def make(bench: Bench) -> bytes:
        fixture, count = Fixture(bench.stack.core(bench.server)), entries(bench)
        player = bench.players(fixture.tenant_id, 1)[0]
        row = f"'{fixture.tenant_id}', '{fixture.campaign_id}', 'points', '{player.player_id}'"
        bench.stack.sql(
            f"INSERT INTO balances (tenant_id, scope_key, currency, player_id, balance) VALUES ({row}, {count})"
        )
        bench.stack.sql(
            f"""INSERT INTO ledger_entries (tenant_id, scope_key, currency, player_id, entry_id, seq, amount,
                                            balance_after, reason, reference_id)
                SELECT {row}, 'entry_0' || lpad(n::text, 25, '0'), n, 1, n, 'play_reward', 'play_' || n
                FROM generate_series(1, {count}) AS n"""
        )
        bench.stack.sql("VACUUM ANALYZE ledger_entries")
        return requests.get(f"{path}?scope_key={fixture.campaign_id}&limit=10", player)

    return make


def _few(bench: Bench) -> int:
    return 10


def _many(bench: Bench) -> int:
    return bench.scale.ledger_entries


CASES: Final[tuple[Case, ...]] = (
    Milestones(),
    Claims(),
    Redeems(),
    Reads(
        "rankings",
        "rankings, cached",
        rankings,
        (Ratio("bare-get", least=0.4),),
    ),
    Reads("wallet-10", "wallet of a player with 10 entries", wallet_of(_few, "/wallet")),
    Reads(
        "wallet-100000",
        "wallet of a player with 100,000 entries",
        wallet_of(_many, "/wallet"),
        (Ratio("wallet-10", least=NO_SLOWER),),
    ),
    Reads(
        "ledger-10",
        "first ledger page of a player with 10 entries",
        wallet_of(_few, "/wallet/ledger"),
    ),
    Reads(
        "ledger-100000",
        "first ledger page of a player with 100,000 entries",
        wallet_of(_many, "/wallet/ledger"),
        (Ratio("ledger-10", least=NO_SLOWER),),
    ),
)
