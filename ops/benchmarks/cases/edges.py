"""How an edge's calls reach Core: its own connection beside the same frames over grpclib."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from ops.benchmarks.bench import Bench
from ops.benchmarks.case import Case, Ratio, Run
from ops.benchmarks.load import Loaded
from ops.benchmarks.stack import Process, StackError
from ops.servers.base import free_port

CALLERS: Final = (1, 8, 64)
CALLS_PER_SECOND: Final = 20_000
WAYS: Final = {
    "own": "own connection",
    "grpc": "grpclib stream",
    "grpc-guarded": "grpclib stream, sizes checked",
}


class EdgeCalls(Case):
    """Calls over one stream, by so many callers at once, each waiting for its answer."""

    unit = "calls"

    def __init__(self, way: str, callers: int) -> None:
        super().__init__()
        self.name, self.title = f"calls-{callers}-{way}", f"edge to Core, {callers} at once: {WAYS[way]}"
        if way != "grpc":
            self.ratios = (Ratio(f"calls-{callers}-grpc", least=1.0 if way == "own" else None),)
        self._way = way
        self._callers = callers

    def prepare(self, bench: Bench) -> None:
        self._core = bench.shared(f"calls-core-{self._way}", lambda: self._serve(bench))

    def run(self, bench: Bench) -> Run:
        count = bench.scale.count(CALLS_PER_SECOND if self._callers > 1 else CALLS_PER_SECOND / 8)
        run = bench.measure(lambda: self._ask(count))
        return replace(run, database_trips=None, ephemeral_trips=None, p50_ms=None, p99_ms=None)

    def _serve(self, bench: Bench) -> Process:
        port = free_port()
        return bench.stack.helper("calls-core", port, "core", self._way, str(port), module="ops.benchmarks.edge_calls")

    def _ask(self, count: int) -> Loaded:
        arguments = ["edge", self._way, str(self._core.port), str(count), str(self._callers)]
        command = [sys.executable, "-m", "ops.benchmarks.edge_calls", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3])
        if done.returncode != 0:
            raise StackError(done.stderr[-2000:])
        said = json.loads(done.stdout)
        return Loaded(count, 0, "", said["seconds"], 0.0, 0.0, said["cpu_seconds"])


CASES: Final = (
    *(EdgeCalls(way, callers) for callers in CALLERS for way in ("grpc", "own")),
    EdgeCalls("grpc-guarded", 8),
)
