"""A prize draw among many players, from the close to the check of its evidence file."""

import http.client
import resource
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from ops.api import Api
from ops.benchmarks.bench import Bench
from ops.benchmarks.case import Case, Run
from ops.benchmarks.fixture import Fixture
from ops.benchmarks.stack import StackError
from runtime.commands.evidence.draws import verify

SECONDS_MAX: Final = 60.0
STEP_SECONDS_MAX: Final = 600.0
WINNERS: Final = 100

_TICKETS: Final = """INSERT INTO balances (tenant_id, scope_key, currency, player_id, balance)
    SELECT '{tenant}', '{campaign}', 'ticket', 'player_' || n, 1 + n % 9 FROM generate_series(1, {count}) AS n"""


class Raffle(Case):
    """Freezes a ticket holder's balance each, draws 100 winners, awards them, and checks the downloaded file."""

    name, title, unit, once = "draw", "a prize draw among a million players", "holders", True

    def prepare(self, bench: Bench) -> None:
        self._fixture = Fixture(bench.stack.core(bench.server))
        self._admin = Api(bench.server.admin_url, bench.stack.staff_token(self._fixture.tenant_id))
        self._admin.timeout_seconds = STEP_SECONDS_MAX
        self._prize_id = self._fixture.prize(stock=WINNERS)
        campaign = {"tenant": self._fixture.tenant_id, "campaign": self._fixture.campaign_id}
        bench.stack.sql(_TICKETS.format(count=bench.scale.draw_holders, **campaign))

    def run(self, bench: Bench) -> Run:
        draw = {
            "campaign_id": self._fixture.campaign_id,
            "name": "bench",
            "tickets": {"currency": "ticket"},
            "prizes": [{"prize_id": self._prize_id, "count": WINNERS}],
            "randomness": {"kind": "INTERNAL"},
        }
        draw_id = self._admin.post("/admin/draws", draw)["id"]
        before, began, taken = bench.server.rss_bytes, time.monotonic(), []
        for step in ("close", "draw", "confirm"):
            started = time.monotonic()
            shown = self._admin.post(f"/admin/draws/{draw_id}/{step}", {})
            taken.append(f"{step} {time.monotonic() - started:.1f} s")
        grown = (bench.server.rss_bytes - before) / 2**20
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "draw.jsonl")
            self._download(bench, draw_id, path)
            downloaded = time.monotonic()
            findings = verify(path)
        ended = time.monotonic()
        if shown["holder_count"] != bench.scale.draw_holders or any(finding.ok is False for finding in findings):
            raise StackError(f"the draw is not proven: {findings}")
        seconds, own = ended - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
        taken += [f"download {downloaded - started:.1f} s", f"verify {ended - downloaded:.1f} s"]
        held = "ok" if seconds <= SECONDS_MAX else "MISSED"
        self.facts = [
            f"{shown['holder_count']:,} holders, {shown['ticket_count']:,} tickets: {', '.join(taken)}",
            f"all of it in {seconds:.1f} s (<= {SECONDS_MAX:g} {held})",
            f"the server's memory grew by {grown:.1f} MiB; this process, with the check, has {own:.0f} MiB at most",
        ]
        return Run(done=shown["holder_count"], seconds=seconds)

    def _download(self, bench: Bench, draw_id: str, path: Path) -> None:
        connection = http.client.HTTPConnection(urlsplit(bench.server.url).netloc, timeout=STEP_SECONDS_MAX)
        try:
            connection.request("GET", f"/api/v1/draws/{draw_id}/file?tenant_id={self._fixture.tenant_id}")
            with path.open("wb") as file:
                shutil.copyfileobj(connection.getresponse(), file)
        finally:
            connection.close()


CASES: Final[tuple[Case, ...]] = (Raffle(),)
