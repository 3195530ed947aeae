"""How long each export of a million rows takes, and how much memory the process that sends it.

    python -m ops.benchmarks.exports

Prints the table of docs/bench.md: Core and its edges in one process, a client that reads as fast as it is sent.
"""

from __future__ import annotations

import argparse
import http.client
import os
import sys
import threading
import time
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from ops.benchmarks.crowd import SHARE_WON, fill
from ops.benchmarks.fixture import Fixture
from ops.benchmarks.stack import Process, StackError, served, staff_token
from runtime.operations.reporting.exports import EXPORTS

PLAYERS: Final = 100_000
READ_BYTES: Final = 1 << 16
LOOK_SECONDS: Final = 0.05

_AS_MANY_AS_PLAYS: Final = (
    # A crowd wins one play in SHARE_WON: each such row so many times.
    f"""INSERT INTO rewards (tenant_id, reward_id, player_id, prize_id, campaign_id, game_id, play_id, name, type,
                             value, quantity, status, won_at, fulfilled_at)
        SELECT tenant_id, reward_id || n, player_id, prize_id, campaign_id, game_id, play_id, name, type, value,
               quantity, status, won_at, fulfilled_at
        FROM rewards CROSS JOIN generate_series(1, {SHARE_WON - 1}) AS n WHERE tenant_id = '<tenant>'""",
    f"""INSERT INTO tasks (tenant_id, task_id, reward_id, prize_id, campaign_id, player_id, channel, status, attempts,
                           last_error, created_at, updated_at)
        SELECT tenant_id, task_id || n, reward_id || n, prize_id, campaign_id, player_id, channel, status, attempts,
               last_error, created_at, updated_at
        FROM tasks CROSS JOIN generate_series(1, {SHARE_WON - 1}) AS n WHERE tenant_id = '<tenant>'""",
    f"""INSERT INTO ledger_entries (tenant_id, entry_id, seq, scope_key, currency, player_id, amount, balance_after,
                                    reason, reference_id, created_at)
        SELECT tenant_id, entry_id || n, seq + n * 100000000, scope_key, currency, player_id, amount, balance_after,
               reason, reference_id, created_at
        FROM ledger_entries CROSS JOIN generate_series(1, {SHARE_WON - 1}) AS n WHERE tenant_id = '<tenant>'""",
    f"""INSERT INTO audit_entries (tenant_id, entry_id, actor, action, subject_type, subject_id, before, after,
                                   created_at)
        SELECT tenant_id, entry_id || n, actor, action, subject_type, subject_id, before, after, created_at
        FROM audit_entries CROSS JOIN generate_series(1, {SHARE_WON - 1}) AS n WHERE tenant_id = '<tenant>'""",
    "VACUUM ANALYZE",
    "CHECKPOINT",
)


@dataclass(frozen=True, slots=True)
class Exported:
    """An export: what came, in how many seconds, and the sender's memory in bytes before it and at its most."""

    name: str
    rows: int
    size: int
    seconds: float
    before: int
    most: int


class Watch:
    """The most memory that a process held for the length of the block."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.most = 0

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while True:
            self.most = max(self.most, self._process.rss_bytes)
            if self._over.wait(LOOK_SECONDS):
                return


def export(server: Process, admin_url: str, token: str, name: str) -> Exported:
    """Reads all of it, and keeps none. StackError where it breaks off."""
    before = server.rss_bytes
    began = time.perf_counter()
    connection = http.client.HTTPConnection(urlsplit(admin_url).netloc)
    rows = size = 0
    try:
        with Watch(server) as watch:
            connection.request("GET", f"/api/v1/admin/exports/{name}", headers={"Authorization": f"Bearer {token}"})
            response = connection.getresponse()
            if response.status != 200:
                raise StackError(f"{name}: {response.status} {response.read(500)!r}")
            while part := response.read(READ_BYTES):
                rows += part.count(b"\n")
                size += len(part)
    except http.client.HTTPException as error:
        raise StackError(f"{name} broke off after {rows:,} rows: {error!r}") from error
    finally:
        connection.close()
    return Exported(name, rows - 1, size, time.perf_counter() - began, before, watch.most)


def table(found: list[Exported], load: float) -> str:
    """As docs/bench.md has it."""
    lines = [
        f"{os.cpu_count()} cores, with a load of {load:.1f} by others when it began.",
        "",
        "| export | rows | took | size | memory before | at its most |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for one in found:
        size, before, most = (f"{number / 1e6:,.0f} MB" for number in (one.size, one.before, one.most))
        lines.append(f"| `{one.name}` | {one.rows:,} | {one.seconds:.1f} s | {size} | {before} | {most} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Fills, exports and prints."""
    parser = argparse.ArgumentParser(prog="python -m ops.benchmarks.exports", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, metavar="N")
    rows = parser.parse_args().rows
    load = os.getloadavg()[0]
    with served("exports-") as (stack, server, admin_url):
        crowd = fill(stack, Fixture(stack.core(server)), min(PLAYERS, rows), rows)
        for statement in _AS_MANY_AS_PLAYS:
            stack.sql(statement.replace("<tenant>", crowd.tenant_id))
        token = staff_token(stack, crowd.tenant_id)
        found = []
        for name in EXPORTS:
            found.append(export(server, admin_url, token, name))
            print(found[-1], file=sys.stderr)
        print(table(found, load), end="")


if __name__ == "__main__":
    main()
