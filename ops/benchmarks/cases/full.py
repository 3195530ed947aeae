"""A database with millions of plays, and work concurrent with new plays: the auditor, exports, an archive."""

import hashlib
import http.client
import json
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final
from urllib.parse import urlsplit

from ops.api import ApiError
from ops.benchmarks.bench import Bench, beside
from ops.benchmarks.case import Case, Ratio, Run
from ops.benchmarks.cases.plays import Entrant, Plays
from ops.benchmarks.fixture import Fixture
from ops.benchmarks.stack import ENVIRONMENT, Process, StackError, read_url
from runtime.operations.reporting.exports import EXPORTS

DATABASE: Final = "bench_full"
VALKEY_DB: Final = 3
AUDIT_SHARE_MAX: Final = 0.01
"""Share of one connection's time in which the auditor may run statements."""
READ_BYTES: Final = 1 << 16
ARCHIVE_DATABASE: Final = "bench_archive"
STALL_MS_MAX: Final = 100.0
"""How much slower the slowest play may be beside an archive."""

_GROUPS: Final = """SELECT min(leaf_index), max(leaf_index), count(*),
        encode(sha256(string_agg(hash, '' ORDER BY leaf_index)), 'hex')
    FROM log_leaves WHERE kind = 'play' GROUP BY leaf_index >> 10 ORDER BY 1"""


def _server(bench: Bench) -> Process:
    return bench.separate_server(DATABASE, VALKEY_DB)


def _standby(bench: Bench) -> Process:
    """A server that reads exports from a standby."""
    standby = bench.stack.postgres.standby(bench.directory / "standby")
    standby.start()
    url = standby.url(DATABASE)
    return bench.stack.serve("all", "server", database=DATABASE, valkey_db=VALKEY_DB, DATABASE_READ_URL=url)


class _Tenant:
    """The tenant that the cases share: one game each, the first with millions of past plays."""

    def __init__(self) -> None:
        self._made: tuple[Fixture, str] | None = None

    def entrants(self, bench: Bench, server: Process) -> list[Entrant]:
        if self._made is not None:
            fixture, prize_id = self._made
            game_id = fixture.spin(prize_id)
        else:
            fixture = Fixture(bench.stack.core(server))
            prize_id = fixture.prize()
            game_id = fixture.spin(prize_id)
            _fill(bench, fixture, game_id, prize_id, DATABASE)
            self._made = fixture, prize_id
        return [Entrant(game_id, player) for player in bench.players(fixture.tenant_id)]


class BesideTheAuditor(Plays):
    """Plays of one hot game while an auditor runs at its share."""

    def prepare(self, bench: Bench) -> None:
        super().prepare(bench)
        self._seconds = self._spent = 0.0

    def run(self, bench: Bench) -> Run:
        auditor = bench.stack.serve("worker auditor", "auditor", database=DATABASE, valkey_db=VALKEY_DB)
        try:
            began, before = time.perf_counter(), self._used(auditor)
            run = super().run(bench)
            self._seconds += time.perf_counter() - began
            self._spent += self._used(auditor) - before
            return run
        finally:
            bench.stack.end(auditor)

    def finish(self, bench: Bench) -> None:
        """Records what the auditor found, and the duration of a full `tombola audit`."""
        super().finish(bench)
        share = self._spent / self._seconds
        began = time.perf_counter()
        said = _audit(bench)
        looked_at = ", ".join(f"{count:,} of kind {kind}" for kind, count in said["looked_at"].items())
        self.facts += [
            f"a statement of the auditor's was under way for {share:.2%} of {self._seconds:,.0f} s"
            f" (<= {AUDIT_SHARE_MAX:.0%} {'ok' if share <= AUDIT_SHARE_MAX else 'MISSED'})",
            f"tombola audit: {said['checks']} checks over {looked_at} in {time.perf_counter() - began:,.1f} s",
        ]

    @staticmethod
    def _used(auditor: Process) -> float:
        """Seconds during which its statements ran."""
        metrics = read_url(f"{auditor.core_url}/metrics")
        return sum(map(float, re.findall(r"^tombola_audit_seconds_total{\S+ (\S+)$", metrics, re.MULTILINE)))


def _audit(bench: Bench) -> dict[str, Any]:
    """The output of `tombola audit --json`."""
    urls = {"DATABASE_URL": bench.stack.postgres.url(DATABASE), "REDIS_URL": str(bench.stack.servers.redis_url)}
    done = subprocess.run(
        [sys.executable, "-m", "runtime", "audit", "--json"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        env={"PATH": "/usr/bin:/bin", **ENVIRONMENT, **urls},
    )
    if done.returncode != 0:  # 1: it found violations, and logged them before the JSON
        raise StackError(f"tombola audit: {done.stdout[:2000]}{done.stderr[-2000:]}")
    said: dict[str, Any] = json.loads(done.stdout)
    return said


class BesideAnExport(Plays):
    """Plays of one hot game while staff downloads every export, one after another."""

    def prepare(self, bench: Bench) -> None:
        super().prepare(bench)
        self._token = bench.stack.staff_token(self.entrants[0].player.tenant_id)
        self._found: dict[str, str] = {}

    def run(self, bench: Bench) -> Run:
        before = self._most = self.server.rss_bytes
        with beside(self._download):
            run = super().run(bench)
        grown = (self._most - before) / 2**20
        self._found["memory"] = f"the server's memory grew by {grown:.1f} MiB at most, from {before / 2**20:.1f} MiB"
        return run

    def finish(self, bench: Bench) -> None:
        super().finish(bench)
        self.facts += self._found.values()

    def _download(self, over: threading.Event) -> None:
        """Downloads and discards exports until the run is over and each was read once."""
        while not over.is_set() or len(self._found) < len(EXPORTS):
            for name in EXPORTS:
                if not over.is_set() or name not in self._found:
                    self._found[name] = self._read(name)

    def _read(self, name: str) -> str:
        began, rows = time.perf_counter(), 0
        connection = http.client.HTTPConnection(urlsplit(self.server.admin_url).netloc)
        try:
            headers = {"Authorization": f"Bearer {self._token}"}
            connection.request("GET", f"/api/v1/admin/exports/{name}", headers=headers)
            answer = connection.getresponse()
            while part := answer.read(READ_BYTES):
                rows += part.count(b"\n")
                self._most = max(self._most, self.server.rss_bytes)
        except (OSError, http.client.HTTPException) as error:
            return f"export of {name}: {error!r} after {rows:,} rows -- NOT EXACT"
        finally:
            connection.close()
        status = "" if answer.status == 200 else f" -- NOT EXACT: {answer.status}"
        return f"export of {name}: {rows - 1:,} rows in {time.perf_counter() - began:.1f} s{status}"


class BesideAnArchive(Plays):
    """Pairs of runs, one without and one beside the archive, until it has deleted every past play.

    Few connections: the time that a play waits for others of the load is not a stall.
    """

    once, connections = True, 8

    def __init__(self) -> None:
        super().__init__("archived", "plays beside an archive", self._server, self._entrants, database=ARCHIVE_DATABASE)

    def run(self, bench: Bench) -> Run:
        alone, archiving, finished = [], [], False
        with ThreadPoolExecutor(1) as pool:
            while not finished:
                alone.append(super().run(bench))
                over = threading.Event()
                archived = pool.submit(self._archive, over)
                try:
                    archiving.append(super().run(bench))
                finally:
                    over.set()
                finished = archived.result()
        (slowest, p99), (usual, usual_p99) = map(_slowest, (archiving, alone))
        held = "ok" if slowest <= usual + STALL_MS_MAX else "MISSED"
        self._found = (
            f"{self._claim['plays']:,} plays archived beside {sum(run.done for run in archiving):,}: the slowest took"
            f" {slowest:.0f} ms, of {sum(run.done for run in alone):,} without the archive {usual:.0f} ms"
            f" (<= {STALL_MS_MAX:g} more {held}); p99 {p99:.0f} and {usual_p99:.0f} ms"
        )
        return max(archiving, key=lambda run: run.max_ms or 0.0)

    def finish(self, bench: Bench) -> None:
        super().finish(bench)
        self.facts.append(self._found)

    def _server(self, bench: Bench) -> Process:
        """A server with a log, started after the past plays: the log reads plays in the order of their times."""
        bench.stack.make_database(ARCHIVE_DATABASE)
        serve = partial(bench.stack.serve, "all", "server", database=ARCHIVE_DATABASE, valkey_db=11)
        first = serve()
        self._fixture = fixture = Fixture(bench.stack.core(first))
        prize_id, self._path = fixture.prize(), f"/campaigns/{fixture.campaign_id}"
        _fill(bench, fixture, fixture.spin(prize_id), prize_id, ARCHIVE_DATABASE)
        body = {"scope": fixture.scope, "campaign": {"status": "CAMPAIGN_STATUS_ENDED"}, "update_mask": ["status"]}
        fixture.api.put(self._path, body)
        fixture.begin_campaign()
        self._game_id = fixture.spin(fixture.prize())
        bench.stack.end(first)
        return serve(MERKLE_LOG="bench.example", ARCHIVE_AFTER_DAYS="0")

    def _entrants(self, bench: Bench, server: Process) -> list[Entrant]:
        """The players of the other campaign, once the log and the counts have all plays of the ended one."""
        self._fixture.api = bench.stack.core(server)
        self._claim: dict[str, Any] = {"file_sha256": "0" * 64, "digest": "0" * 64, "plays": 1}
        while not self._settled():
            time.sleep(1)
        groups = [line.split("|") for line in bench.stack.sql(_GROUPS, ARCHIVE_DATABASE).splitlines()]
        digest = b""
        for *_, group_hash in groups:
            digest = hashlib.sha256(digest + bytes.fromhex(group_hash)).digest()
        self._claim |= {"digest": digest.hex(), "plays": sum(int(count) for _, _, count, _ in groups)}
        self._claim |= {"first_leaf": int(groups[0][0]), "last_leaf": int(groups[-1][1])}
        return [Entrant(self._game_id, player) for player in bench.players(self._fixture.tenant_id)]

    def _settled(self) -> bool:
        try:
            self._post()
        except ApiError as error:
            return bool(error.envelope["data"]["reason"] == "FILE_DIFFERS")
        except TimeoutError:  # It counts the plays.
            return False
        raise AssertionError("one play of millions was archived")

    def _archive(self, over: threading.Event) -> bool:
        """Archives until `over`. True: every play is deleted."""
        while not over.is_set():
            if (self._post()["archive"] or {}).get("finished_at"):
                return True
        return False

    def _post(self) -> dict[str, Any]:
        return self._fixture.api.post(f"{self._path}/archive", {"scope": self._fixture.scope, **self._claim})


def _slowest(runs: list[Run]) -> tuple[float, float]:
    """The slowest response of all, and the median of the runs' p99, in milliseconds."""
    return max(run.max_ms or 0.0 for run in runs), median(run.p99_ms or 0.0 for run in runs)


def _fill(bench: Bench, fixture: Fixture, game_id: str, prize_id: str, database: str) -> None:
    """Inserts past plays with their rows: rewards and tasks for one in ten, points for one in ten."""
    tenant, campaign = f"'{fixture.tenant_id}'", f"'{fixture.campaign_id}'"
    count, players = bench.scale.full_plays, bench.scale.players
    prefix = bench.players(fixture.tenant_id)[0].player_id[:-19]
    at = f"now() - ({count} - n) * interval '20 milliseconds'"
    terms = '{"past":true}'
    for statement in (
        f"""CREATE TEMPORARY TABLE past AS
            SELECT n, lpad(n::text, 26, '0') AS ulid, '{prefix}' || lpad((n % {players})::text, 19, '0') AS player_id,
                   n / {players} % 10 AS kind, {at} AS at FROM generate_series(1, {count}) AS n;
            INSERT INTO promised_terms (tenant_id, revision_hash, game_id, terms)
            SELECT {tenant}, encode(sha256('{terms}'::bytea), 'hex'), '{game_id}', '{terms}';
            INSERT INTO players (tenant_id, player_id) SELECT DISTINCT {tenant}, player_id FROM past;
            INSERT INTO contacts (tenant_id, contact_id, player_id, type, value)
            SELECT tenant_id, 'contact_' || right(player_id, 19), player_id, 'email', player_id || '@example.com'
            FROM players WHERE tenant_id = {tenant};
            INSERT INTO audit_entries (tenant_id, entry_id, actor, action, subject_type, subject_id, before, after,
                                       created_at)
            SELECT {tenant}, 'audit_' || ulid, 'staff_1', 'player.grant_turns', 'player', player_id, '{{}}', '{{}}', at
            FROM past WHERE kind = 1;
            INSERT INTO plays (tenant_id, play_id, game_id, player_id, session_id, revision, seed, client_seed, payload,
                               outcome, score, wins, points, idempotency_key, request_hash, played_at)
            SELECT {tenant}, 'play_' || ulid, '{game_id}', player_id,
                   'sess_' || ulid || repeat('0', 32) || '.1.' || left(encode(sha256('{terms}'::bytea), 'hex'), 32)
                   || '.' || player_id,
                   1, sha256(n::text::bytea), '', '{{}}',
                   json_build_object('decided', json_build_object('awards', '[]'::json, 'path', '[]'::json),
                       'rewards', CASE WHEN kind = 0 THEN json_build_array(json_build_object('prize_id', '{prize_id}',
                           'reward_id', 'reward_' || ulid, 'quantity', 1, 'name', 'Mug', 'type', 'goods', 'value', 5))
                           WHEN kind = 5 THEN json_build_array(json_build_object('prize_id', '', 'reward_id', '',
                           'quantity', 1, 'name', 'points', 'type', 'points', 'value', 10))
                           ELSE '[]'::json END, 'balances', '[]'::json, 'milestones_granted', '[]'::json),
                   0, CASE WHEN kind IN (0, 5) THEN 1 ELSE 0 END, CASE WHEN kind = 5 THEN 10 ELSE 0 END, md5(n::text),
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
        # The service has already counted the campaign up to now, without these plays.
        f"""SELECT 1 FROM campaign_marks WHERE tenant_id = {tenant} AND campaign_id = {campaign} FOR UPDATE;
            DELETE FROM campaign_player_days WHERE tenant_id = {tenant} AND campaign_id = {campaign};
            DELETE FROM campaign_days WHERE tenant_id = {tenant} AND campaign_id = {campaign};
            UPDATE campaign_marks SET counted_until = '-infinity', players = 0, returned = 0
            WHERE tenant_id = {tenant} AND campaign_id = {campaign}""",
        "VACUUM ANALYZE",
        "CHECKPOINT",
    ):
        bench.stack.sql(statement, database)


_TENANT: Final = _Tenant()
_BESIDE_EXPORTS: Final = (Ratio("full"), Ratio("full", p99=True, most=1.1), Ratio("full", cpu_of="postgres"))

CASES: Final[tuple[Case, ...]] = (
    Plays(
        "full",
        "one hot game in a table that holds millions of plays",
        _server,
        _TENANT.entrants,
        (Ratio("hot", least=0.85),),
        DATABASE,
    ),
    BesideTheAuditor("audited", "the same beside an auditor", _server, _TENANT.entrants, (Ratio("full"),), DATABASE),
    BesideAnExport("exported", "the same beside exports", _server, _TENANT.entrants, _BESIDE_EXPORTS, DATABASE),
    BesideAnExport("exported-standby", "exports from a standby", _standby, _TENANT.entrants, _BESIDE_EXPORTS, DATABASE),
    BesideAnArchive(),
)
