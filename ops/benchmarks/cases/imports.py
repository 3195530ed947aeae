"""Imports of codes, of prizes and of packs: one large import alone, plays beside it, and codes that players enter."""

import http.client
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from ops.benchmarks import requests
from ops.benchmarks.bench import Bench, beside
from ops.benchmarks.case import Case, Ratio, Run
from ops.benchmarks.cases.plays import Plays, one_server, spins
from ops.benchmarks.fixture import Fixture
from ops.benchmarks.stack import Process, StackError

SECONDS_MAX: Final = 30.0
GROWTH_MIB_MAX: Final = 64.0
TRANSACTION_SECONDS_MAX: Final = 1.0
PIECE: Final = 5_000
"""Codes in one piece of the body."""

_LONGEST: Final = """SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND query ~ 'INTO (pack_)?codes'"""


@dataclass(frozen=True, slots=True)
class Target:
    """What is imported into, by a server's admin edge. path: of its codes."""

    server: Process
    token: str
    path: str
    fixture: Fixture

    @classmethod
    def prize(cls, bench: Bench, server: Process) -> "Target":
        fixture = Fixture(bench.stack.core(server))
        coded = {"redemption_mode": "REDEMPTION_MODE_ON_WIN", "channel": "voucher_code"}
        path = f"prizes/{fixture.prize(fulfillment=coded, stock=0)}/codes"
        return cls(server, bench.stack.staff_token(fixture.tenant_id), path, fixture)

    @classmethod
    def pack(cls, bench: Bench, server: Process) -> "Target":
        fixture = Fixture(bench.stack.core(server))
        path = f"packs/{fixture.pack()}/codes"
        return cls(server, bench.stack.staff_token(fixture.tenant_id), path, fixture)

    def send(self, begins: str, count: int, over: Callable[[], bool] = lambda: False) -> int:
        """Imports codes that begin with `begins` by one request, until `over`. Returns how many were added."""
        connection = http.client.HTTPConnection(urlsplit(self.server.admin_url).netloc, timeout=300)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "text/plain"}
        try:
            connection.request(
                "POST", f"/api/v1/admin/{self.path}", _body(begins, count, over), headers, encode_chunked=True
            )
            answer = connection.getresponse()
            said: dict[str, Any] = json.loads(answer.read())
        finally:
            connection.close()
        if answer.status != 200:
            raise StackError(f"the import answered {answer.status}: {said}")
        return int(said["data"]["added"])


def _body(begins: str, count: int, over: Callable[[], bool]) -> Iterator[bytes]:
    for first in range(0, count, PIECE):
        if over():
            return
        yield "".join(f"{begins}-{n:07d}\n" for n in range(first, min(first + PIECE, count))).encode()


class Import(Case):
    """One request with many codes, on an idle server."""

    unit, once = "codes", True

    def __init__(self, name: str, title: str, target: Callable[[Bench, Process], Target]) -> None:
        super().__init__()
        self.name, self.title, self._make = name, title, target

    def prepare(self, bench: Bench) -> None:
        self._target = self._make(bench, bench.server)
        self._target.send("FIRST", PIECE)

    def run(self, bench: Bench) -> Run:
        count, before = bench.scale.import_codes, bench.server.rss_bytes
        most: dict[str, float] = {"memory": before, "transaction": 0.0}

        def watch(over: threading.Event) -> None:
            while not over.wait(0.2):
                most["memory"] = max(most["memory"], bench.server.rss_bytes)
                most["transaction"] = max(most["transaction"], float(bench.stack.sql(_LONGEST)))

        readings, began = bench.stack.read(), time.monotonic()
        with beside(watch):
            added = self._target.send("MANY", count)
        seconds, after = time.monotonic() - began, bench.stack.read()
        if added != count:
            raise StackError(f"{added} of {count} codes were added")
        grown = (most["memory"] - before) / 2**20
        self.facts = [
            f"{added:,} codes in {_held(seconds, SECONDS_MAX, 's')}",
            f"the server's memory grew by {_held(grown, GROWTH_MIB_MAX, 'MiB')}",
            f"the longest transaction seen took {_held(most['transaction'], TRANSACTION_SECONDS_MAX, 's')}",
        ]
        return Run(
            done=added,
            seconds=seconds,
            cpu_seconds=after.cpu_since(readings, seconds),
            wal_bytes=after.wal_bytes - readings.wal_bytes,
            others=after.others_since(readings),
        )


def _held(value: float, most: float, unit: str) -> str:
    return f"{value:.1f} {unit} (<= {most:g} {'ok' if value <= most else 'MISSED'})"


class BesideImports(Plays):
    """Plays of one hot game while codes are imported, into a prize of another tenant."""

    def prepare(self, bench: Bench) -> None:
        super().prepare(bench)
        self._target = Target.prize(bench, self.server)
        self._numbers = itertools.count()
        self._added: list[str] = []

    def run(self, bench: Bench) -> Run:
        found: list[int | Exception] = []

        def send(over: threading.Event) -> None:
            try:
                found.append(self._target.send(f"BESIDE{next(self._numbers)}", bench.scale.import_codes, over.is_set))
            except (OSError, http.client.HTTPException, StackError) as error:
                found.append(error)

        began = time.monotonic()
        with beside(send):
            run = super().run(bench)
        seconds = time.monotonic() - began
        if isinstance(found[0], Exception):
            raise StackError(f"the import failed: {found[0]!r}")
        self._added.append(f"{found[0] / seconds:,.0f}")
        return run

    def finish(self, bench: Bench) -> None:
        super().finish(bench)
        self.facts.append(f"codes imported per second beside the plays: {', '.join(self._added)}")


class Redeem(Case):
    """Codes of a pack that players enter, each once."""

    name, title, unit = "redeem", "codes that players enter", "codes"

    def prepare(self, bench: Bench) -> None:
        self._target = Target.pack(bench, bench.server)
        self._numbers, self._done = itertools.count(), 0
        self._players = bench.players(self._target.fixture.tenant_id)
        self._rate = self._enter(bench, 10 * bench.scale.connections).per_second

    def run(self, bench: Bench) -> Run:
        return self._enter(bench, bench.scale.count(self._rate))

    def finish(self, bench: Bench) -> None:
        tenant_id = self._target.fixture.tenant_id
        query = f"SELECT count(*) FROM redemptions WHERE tenant_id = '{tenant_id}'"
        rows = int(bench.stack.sql(query))
        exact = "" if rows == self._done else " -- NOT EXACT"
        self.facts = [f"{self._done:,} codes answered OK, {rows:,} recorded in the database{exact}"]

    def _enter(self, bench: Bench, count: int) -> Run:
        begins, campaign_id = f"ENTER{next(self._numbers)}", self._target.fixture.campaign_id
        self._target.send(begins, count)
        entered = [
            requests.post(
                "/codes/redeem",
                b'{"campaign_id":"%b","code":"%b-%07d"}' % (campaign_id.encode(), begins.encode(), n),
                self._players[n % len(self._players)],
                key=requests.idempotency_key(),
            )
            for n in range(count)
        ]
        run = bench.measure(lambda: bench.loader.send(bench.server.port, entered, bench.scale.connections))
        self._done += run.done
        return run


CASES: Final[tuple[Case, ...]] = (
    Import("import", "one import of a million codes", Target.prize),
    Import("import-pack", "one import of a million codes of a pack", Target.pack),
    Redeem(),
    BesideImports(
        "imported", "one hot game, and an import beside it", one_server, spins(1), (Ratio("hot", least=0.9),)
    ),
)
