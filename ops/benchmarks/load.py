"""Loads a server from a separate process and reports the results."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ops.benchmarks.generator import write_requests

RUN_SECONDS_MAX: Final = 600
_ROOT: Final = Path(__file__).parents[2]


class LoadFailed(RuntimeError):
    """The generator failed; the message is its output."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result of a load. ok: responses with code OK, the only ones that count."""

    ok: int
    failed: int
    first_failure: str
    seconds: float
    p50_ms: float
    p99_ms: float
    cpu_seconds: float
    max_ms: float = 0.0


class Loader:
    """Sends prepared requests. directory: where the generator reads them from."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def send(self, port: int, requests: list[bytes], connections: int) -> Loaded:
        """Sends each request once, and returns after the last response."""
        return self._generate(port, requests, connections)

    def start_sessions(self, port: int, starts: list[bytes], connections: int) -> list[bytes]:
        """The session of each start. LoadFailed if any is refused."""
        path = self._directory / "sessions"
        loaded = self._generate(port, starts, connections, sessions=str(path))
        if loaded.failed:
            raise LoadFailed(f"{loaded.failed} of {len(starts)} starts failed, the first with {loaded.first_failure}")
        return path.read_bytes().split(b"\n")

    def pairs(self, port: int, starts: list[bytes], plays: list[bytes], connections: int) -> Loaded:
        """Sends each start and immediately its play (`requests.open_play`); a pair counts as one."""
        return self._generate(port, starts, connections, plays=plays)

    def _generate(
        self,
        port: int,
        requests: list[bytes],
        connections: int,
        *,
        plays: list[bytes] | None = None,
        sessions: str = "",
    ) -> Loaded:
        spec = {
            "host": "127.0.0.1",
            "port": port,
            "connections": connections,
            "requests": self._write("requests", requests),
            "plays": self._write("plays", plays) if plays is not None else "",
            "sessions": sessions,
        }
        path = self._directory / "load.json"
        path.write_text(json.dumps(spec))
        return Loaded(**_said([sys.executable, "-m", "ops.benchmarks.generator", str(path)]))

    def _write(self, name: str, requests: list[bytes]) -> str:
        path = self._directory / name
        write_requests(path, requests)
        return str(path)


def _said(command: list[str]) -> dict[str, Any]:
    """The JSON in the generator's last output line."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=_ROOT, timeout=RUN_SECONDS_MAX + 10)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines or not lines[-1].startswith("{"):
        raise LoadFailed(f"{command[0]} ended with {done.returncode}: {(done.stderr or done.stdout)[-2000:]}")
    said: dict[str, Any] = json.loads(lines[-1])
    return said
