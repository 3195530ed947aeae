"""Followers of plays: the cost of one pass of each over all tenants, for the same plays of one and of many tenants."""

import asyncio
import time
from typing import Any, Final

import sql
from ops.benchmarks.bench import Bench
from ops.benchmarks.case import Case, Ratio, Run
from runtime.actors.engine import Engine
from runtime.operations.campaigns import analytics
from runtime.operations.log.appending import Appender
from runtime.operations.reporting import counting
from runtime.settings import Key, Settings
from runtime.stores.databases import opened
from runtime.stores.ephemeral import Ephemeral
from runtime.stores.publisher import Publisher
from runtime.streams.backfill import CHUNK

PLAYS: Final = 100_000
"""New plays of a pass: those of SECONDS on a machine at its limit."""
SECONDS: Final = 15.0
"""The time that they are spread over."""
_SETTINGS: Final[dict[str, Any]] = {
    "database_statement_timeout_seconds": 60.0,
    "merkle_log": "bench.example",
    "server_keys": (Key("1", bytes(32)),),
}
_BACKFILL: Final = sql.load("backfill")["plays"]
_RANKINGS: Final = sql.load("leaderboards")["touched"]
_AUDITOR: Final = sql.load("conservation")["changed"]


def _scene(tenants: int) -> str:
    of_tenants = f"FROM generate_series(0, {tenants - 1}) AS n"
    return f"""
        INSERT INTO tenants (tenant_id, name) SELECT 'tenant_' || n, 'T' {of_tenants};
        INSERT INTO campaigns (tenant_id, campaign_id, merchant_id, name, status)
            SELECT 'tenant_' || n, 'camp', 'merchant', 'C', 'active' {of_tenants};
        INSERT INTO games (tenant_id, game_id, campaign_id, name, type, status, revision)
            SELECT 'tenant_' || n, 'game', 'camp', 'G', 'spin_wheel', 'active', 1 {of_tenants};
        INSERT INTO game_players (tenant_id, game_id, player_id, plays, day, day_plays)
            SELECT 'tenant_' || n, 'game', 'player_0', 1, current_date, 1 {of_tenants}
    """


def _plays(tenants: int) -> str:
    """Plays of the last SECONDS, of 1,000 players in all, and watermarks from before them. Batches share a time."""
    return f"""
        INSERT INTO plays (tenant_id, play_id, game_id, player_id, session_id, revision, seed, client_seed, payload,
                           outcome, score, wins, points, played_at)
        SELECT 'tenant_' || n % {tenants}, gen_random_uuid(), 'game', 'player_' || n % 1000, '', 1, '', '', '{{}}',
               '{{"decided": {{"path": [["prize", "prize_1"], ["prize", "prize_1"]], "metadata": {{}}}}}}', 5, n % 2, 0,
               now() + make_interval(secs => n / 32 * {32 * SECONDS / PLAYS} - {SECONDS})
        FROM generate_series(0, {PLAYS - 1}) AS n;
        UPDATE figure_marks SET counted_until = now() - interval '{SECONDS + 1} seconds';
        UPDATE campaign_marks SET counted_until = now() - interval '{SECONDS + 1} seconds';
        UPDATE log_trees SET logged_until = since, read_from = since, newest = since
        FROM (SELECT now() - interval '{SECONDS + 1} seconds' AS since) AS s
    """


class Followers(Case):
    """Lets each follower read the same number of plays of some tenants; measures the CPU time of each."""

    def __init__(self, name: str, title: str, ratios: tuple[Ratio, ...] = (), *, tenants: int) -> None:
        super().__init__()
        self.name, self.title, self.ratios, self._tenants = name, title, ratios, tenants
        self._database = f"bench_followers_{tenants}"
        self._cpu: dict[str, float] = {}
        self._own: dict[str, float] = {}

    def prepare(self, bench: Bench) -> None:
        bench.stack.make_database(self._database)
        bench.stack.sql(_scene(self._tenants), self._database)
        asyncio.run(self._passes(bench))  # The first passes create the watermarks.

    def run(self, bench: Bench) -> Run:
        bench.stack.sql(_plays(self._tenants), self._database)
        bench.stack.sql("VACUUM ANALYZE", self._database)
        time.sleep(1.0)  # The watermark of counts stays a second behind.
        began = time.monotonic()
        self._cpu = asyncio.run(self._passes(bench))
        return Run(done=PLAYS, seconds=time.monotonic() - began, cpu_seconds={"postgres": sum(self._cpu.values())})

    def finish(self, bench: Bench) -> None:
        said = ", ".join(f"{name} {cpu:.2f} s (Core {self._own[name]:.2f} s)" for name, cpu in self._cpu.items())
        self.facts = [f"PostgreSQL's CPU time: {said}"]

    async def _passes(self, bench: Bench) -> dict[str, float]:
        """Runs one pass of each follower. Returns PostgreSQL's CPU seconds of each."""
        url, redis_url = bench.stack.postgres.url(self._database), bench.stack.servers.redis_url
        settings = Settings(database_url=url, redis_url=redis_url or "", **_SETTINGS)
        found: dict[str, float] = {}
        async with opened(settings, size=1) as database:
            ephemeral = Ephemeral(settings.redis_url, timeout_seconds=1.0)
            engine = Engine(settings, database, ephemeral, Publisher(ephemeral, shards=1, length_max=1000))
            for name, work in {
                "figures": counting.count_all,
                "campaigns": analytics.count_all,
                "backfill": self._backfill,
                "rankings": self._rankings,
                "auditor": self._auditor,
                "log": Appender().append_all,
            }.items():
                before, own = bench.stack.read().cpu["postgres"], time.process_time()
                await work(engine)
                self._own[name] = time.process_time() - own
                found[name] = bench.stack.read().cpu["postgres"] - before
        return found

    async def _backfill(self, engine: Engine) -> None:
        since, until = await _window(engine)
        for number in range(self._tenants):
            after, last_id = since, ""
            rows: list[Any] = [None] * CHUNK
            while len(rows) == CHUNK:
                about = (f"tenant_{number}", since, until, after, last_id, CHUNK)
                rows = await engine.database.fetch(_BACKFILL, *about)
                if rows:
                    after, last_id = rows[-1]["at"], rows[-1]["id"]

    async def _rankings(self, engine: Engine) -> None:
        since, _ = await _window(engine)
        for number in range(self._tenants):
            await engine.database.fetch(_RANKINGS, f"tenant_{number}", since.timestamp())

    async def _auditor(self, engine: Engine) -> None:
        for number in range(self._tenants):
            await engine.database.fetch(_AUDITOR, f"tenant_{number}", *await _window(engine))


async def _window(engine: Engine) -> Any:
    """The time of the new plays."""
    return await engine.database.fetchrow(f"SELECT now() - interval '{SECONDS + 5} seconds' AS since, now() AS until")


CASES: Final[tuple[Case, ...]] = (
    Followers("followers-1", f"followers read {PLAYS:,} plays of one tenant", tenants=1),
    Followers("followers-200", "the same of 200 tenants", (Ratio("followers-1", most=3.0, cpu=True),), tenants=200),
)
