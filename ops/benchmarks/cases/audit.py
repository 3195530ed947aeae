"""The auditor: what its going on costs the database while plays go on, and what a look at everything costs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import psutil

from ops.benchmarks.bench import Bench
from ops.benchmarks.case import Ratio, Run
from ops.benchmarks.cases.plays import Entrant, Plays
from ops.benchmarks.fixture import Fixture
from ops.benchmarks.stack import ENVIRONMENT, Process, StackError, read_url

DATABASE: Final = "bench_audit"
PLAYS_EACH: Final = 30
"""Of a player of the past. One in ten wins, and one in ten gives points."""

SHARE_MAX: Final = 0.01
"""Of the time, in which a statement of its is under way: of one connection's, whatever the others do meanwhile."""


def audited_server(bench: Bench) -> Process:
    """`tombola all` on a database of its own."""

    def make() -> Process:
        bench.stack.make_database(DATABASE)
        return bench.stack.serve("all", "server", database=DATABASE, valkey_db=5)

    return bench.shared("audited", make)


def spins_among_the_past(bench: Bench, server: Process) -> list[Entrant]:
    """One game, in a database that holds as many plays as the scale says, with all that they left."""
    fixture = Fixture(bench.stack.core(server))
    prize_id = fixture.prize()
    game_id = fixture.spin(prize_id)
    players = bench.players(fixture.tenant_id)
    _fill(bench, fixture, game_id, prize_id)
    return [Entrant(game_id, player) for player in players]


class BesideTheAuditor(Plays):
    """Plays of one hot game while an auditor goes on, at its share."""

    def prepare(self, bench: Bench) -> None:
        super().prepare(bench)
        self._auditor = bench.stack.serve("worker auditor", "auditor", database=DATABASE, valkey_db=5)
        self._spent: list[tuple[float, ...]] = []

    def run(self, bench: Bench) -> Run:
        before, began = self._used(bench), time.perf_counter()
        run = super().run(bench)
        seconds = time.perf_counter() - began
        self._spent.append((seconds, *(after - begun for after, begun in zip(self._used(bench), before, strict=True))))
        return run

    def finish(self, bench: Bench) -> None:
        """What it found, and what looking at everything costs: `tombola audit`."""
        bench.stack.end(self._auditor)
        seconds, own, every, processor, of = (sum(each) for each in zip(*self._spent, strict=True))
        met = "ok" if own <= SHARE_MAX * seconds else "MISSED"
        began = time.perf_counter()
        said = _audit(bench)
        took = time.perf_counter() - began
        looked_at = ", ".join(f"{count:,} of kind {kind}" for kind, count in said["looked_at"].items())
        self.facts = [
            f"a statement of the auditor's was under way for {own / seconds:.2%} of {seconds:,.0f} s"
            f" (<= {SHARE_MAX:.0%} {met}): {own / every:.2%} of the time of all statements,"
            f" {processor / of:.2%} of PostgreSQL's processor time",
            f"tombola audit: {said['checks']} checks over {looked_at} in {took:,.1f} s;"
            f" violations: {len(said['open'])}" + (" -- NOT EXACT" if said["open"] else ""),
        ]

    def _used(self, bench: Bench) -> tuple[float, float, float, float]:
        """Seconds up to now: of the auditor's statements and of all; of its backends' processor and of PostgreSQL's."""
        metrics = read_url(f"{self._auditor.core_url}/metrics")
        own = sum(float(said) for said in re.findall(r"^tombola_audit_seconds_total{\S+ (\S+)$", metrics, re.MULTILINE))
        query = "SELECT active_time / 1000 FROM pg_stat_database WHERE datname = current_database()"
        every = float(bench.stack.sql(query, DATABASE))
        mine = psutil.Process(self._auditor.popen.pid).net_connections("tcp")
        ports = ",".join(str(one.laddr.port) for one in mine if one.laddr) or "0"
        pids = bench.stack.sql(f"SELECT pid FROM pg_stat_activity WHERE client_port IN ({ports})", DATABASE)
        times = [psutil.Process(int(pid)).cpu_times() for pid in pids.split()]
        return own, every, sum(one.user + one.system for one in times), bench.stack.read().cpu["postgres"]


def _audit(bench: Bench) -> dict[str, Any]:
    """What `tombola audit --json` says."""
    urls = {"DATABASE_URL": bench.stack.postgres.url(DATABASE), "REDIS_URL": str(bench.stack.servers.redis_url)}
    done = subprocess.run(
        [sys.executable, "-m", "runtime", "audit", "--json"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        env={"PATH": "/usr/bin:/bin", **ENVIRONMENT, **urls},
    )
    if done.returncode not in (0, 1):
        raise StackError(done.stderr[-2000:])
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def _fill(bench: Bench, fixture: Fixture, game_id: str, prize_id: str) -> None:
    """Plays of the past with all that they left: counters, rewards with their tasks, points, stock."""
    tenant, campaign = f"'{fixture.tenant_id}'", f"'{fixture.campaign_id}'"
    count = bench.scale.full_plays
    players = max(1, count // PLAYS_EACH)
    at = f"now() - ({count} - n) * interval '20 milliseconds'"
    terms = '{"past":true}'
    for statement in (
        f"""CREATE TEMPORARY TABLE past AS
            SELECT n, lpad(n::text, 26, '0') AS ulid, 'past_' || lpad((n % {players})::text, 9, '0') AS player_id,
                   n / {players} % 10 AS kind, {at} AS at FROM generate_series(1, {count}) AS n;
            INSERT INTO promised_terms (tenant_id, revision_hash, game_id, terms)
            SELECT {tenant}, encode(sha256('{terms}'::bytea), 'hex'), '{game_id}', '{terms}';
            INSERT INTO players (tenant_id, player_id) SELECT DISTINCT {tenant}, player_id FROM past;
            INSERT INTO plays (tenant_id, play_id, game_id, player_id, session_id, revision, seed, client_seed, payload,
                               outcome, score, wins, points, idempotency_key, request_hash, played_at)
            SELECT {tenant}, 'play_' || ulid, '{game_id}', player_id,
                   'sess_' || ulid || repeat('0', 32) || '.1.' || left(encode(sha256('{terms}'::bytea), 'hex'), 32)
                   || '.' || player_id,
                   1, sha256(n::text::bytea), '', '{{}}',
                   json_build_object('decided', json_build_object('awards', '[]'::json, 'path', '[]'::json),
                       'rewards', CASE WHEN kind = 0 THEN json_build_array(json_build_object('prize_id', '{prize_id}',
                           'reward_id', 'reward_' || ulid, 'quantity', 1, 'name', 'Mug', 'type', 'goods', 'value', 5))
                           ELSE '[]'::json END, 'balances', '[]'::json, 'milestones_granted', '[]'::json),
                   0, CASE WHEN kind = 0 THEN 1 ELSE 0 END, CASE WHEN kind = 5 THEN 10 ELSE 0 END, md5(n::text),
                   '\\x{"00" * 16}', at
            FROM past ORDER BY n;
            INSERT INTO game_players (tenant_id, game_id, player_id, plays, day, day_plays)
            SELECT {tenant}, '{game_id}', o.player_id, o.plays, o.day,
                   (SELECT count(*) FROM plays AS p WHERE p.tenant_id = {tenant} AND p.player_id = o.player_id
                      AND p.game_id = '{game_id}' AND (p.played_at AT TIME ZONE 'UTC')::date = o.day)
            FROM (SELECT player_id, count(*) AS plays, max((at AT TIME ZONE 'UTC')::date) AS day
                  FROM past GROUP BY player_id) AS o;
            INSERT INTO rewards (tenant_id, reward_id, player_id, prize_id, campaign_id, game_id, play_id, name, type,
                                 value, quantity, status, won_at, fulfilled_at)
            SELECT {tenant}, 'reward_' || ulid, player_id, '{prize_id}', {campaign}, '{game_id}', 'play_' || ulid,
                   'Mug', 'goods', 5, 1, 'fulfilled', at, at FROM past WHERE kind = 0 ORDER BY n;
            INSERT INTO tasks (tenant_id, task_id, reward_id, prize_id, campaign_id, player_id, channel, status,
                               created_at, updated_at)
            SELECT {tenant}, 'task_' || ulid, 'reward_' || ulid, '{prize_id}', {campaign}, player_id, 'none',
                   'delivered', at, at FROM past WHERE kind = 0 ORDER BY n;
            INSERT INTO prize_players (tenant_id, prize_id, player_id, awarded)
            SELECT {tenant}, '{prize_id}', player_id, count(*) FROM past WHERE kind = 0 GROUP BY player_id;
            INSERT INTO prize_days AS d (tenant_id, prize_id, day, awarded)
            SELECT {tenant}, '{prize_id}', (at AT TIME ZONE 'UTC')::date, count(*) FROM past WHERE kind = 0 GROUP BY 3
            ON CONFLICT (tenant_id, prize_id, day) DO UPDATE SET awarded = d.awarded + excluded.awarded;
            UPDATE stock AS s SET awarded = s.awarded + o.won, remaining = s.remaining - o.won
            FROM (SELECT count(*) AS won FROM past WHERE kind = 0) AS o
            WHERE s.tenant_id = {tenant} AND s.prize_id = '{prize_id}';
            INSERT INTO ledger_entries (tenant_id, entry_id, seq, scope_key, currency, player_id, amount, balance_after,
                                        reason, reference_id, created_at)
            SELECT {tenant}, 'entry_' || ulid, n, {campaign}, 'points', player_id, 10,
                   10 * row_number() OVER (PARTITION BY player_id ORDER BY n), 'play_reward', 'play_' || ulid, at
            FROM past WHERE kind = 5 ORDER BY n;
            INSERT INTO balances (tenant_id, scope_key, currency, player_id, balance, seq)
            SELECT {tenant}, {campaign}, 'points', player_id, 10 * count(*), max(n)
            FROM past WHERE kind = 5 GROUP BY player_id""",
        # The service has counted the campaign up to now, without them.
        f"""SELECT 1 FROM campaign_marks WHERE tenant_id = {tenant} AND campaign_id = {campaign} FOR UPDATE;
            DELETE FROM campaign_player_days WHERE tenant_id = {tenant} AND campaign_id = {campaign};
            DELETE FROM campaign_days WHERE tenant_id = {tenant} AND campaign_id = {campaign};
            UPDATE campaign_marks SET counted_until = '-infinity', players = 0, returned = 0
            WHERE tenant_id = {tenant} AND campaign_id = {campaign}""",
        "VACUUM ANALYZE",
        "CHECKPOINT",
    ):
        bench.stack.sql(statement, DATABASE)


CASES: Final = (
    BesideTheAuditor(
        "audited",
        "one hot game, and an auditor beside it",
        audited_server,
        spins_among_the_past,
        (Ratio("hot"),),
        DATABASE,
    ),
)
