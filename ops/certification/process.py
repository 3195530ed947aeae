"""A process of Tombola that scenarios kill, pause and stop, and start again on the same ports."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp
import psutil

from ops.servers.base import free_port, free_ports, launch

ROOT: Final = Path(__file__).parents[2]
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.02
ALL: Final = ("core", "consumer", "admin")
PROCESSES_MAX: Final = 4
"""The most processes that `all --processes N` may have here: each has its own METRICS_PORT."""

PORTS: Final = ("CORE_PORT", "CONSUMER_PORT", "ADMIN_PORT", "RPC_PORT", "METRICS_PORT")


class ProcessError(RuntimeError):
    """A process did not start; the message has the end of its log."""


@dataclass
class Process:
    """`tombola ROLE`. environment: its settings; a change takes effect at the next start."""

    name: str
    role: str
    log: Path
    environment: dict[str, str]
    ports: dict[str, int] = field(default_factory=lambda: {name: free_port() for name in PORTS})
    _popen: subprocess.Popen[bytes] | None = None

    def url(self, surface: str) -> str:
        """The URL of its "core", "consumer", "admin" or "metrics" port."""
        return f"http://127.0.0.1:{self.ports[f'{surface.upper()}_PORT']}"

    def __post_init__(self) -> None:
        if self.surfaces == ALL:
            self.ports["METRICS_PORT"] = free_ports(PROCESSES_MAX)

    @property
    def surfaces(self) -> tuple[str, ...]:
        """Its surfaces among "core", "consumer" and "admin"."""
        kind = self.role.split()[0]
        return ALL if kind == "all" else (kind,) if kind in ALL else ()

    @property
    def children(self) -> list[int]:
        """The process ids of `all --processes N`."""
        return [child.pid for child in psutil.Process(self.pid).children()]

    @property
    def rpc_address(self) -> str:
        return f"127.0.0.1:{self.ports['RPC_PORT']}"

    @property
    def pid(self) -> int:
        """Its process id, once started."""
        assert self._popen is not None, f"{self.name} is not started"
        return self._popen.pid

    @property
    def running(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    async def start(self) -> float:
        """Starts it; returns the seconds until it is ready, including the interpreter's start."""
        began = time.monotonic()
        inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        ports = {name: str(port) for name, port in self.ports.items()}
        with self.log.open("ab") as log:
            self._popen = launch(
                [sys.executable, "-m", "runtime", *self.role.split()],
                signal.SIGTERM,
                env={**inherited, "PYTHONPATH": str(ROOT), **ports, **self.environment},
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        await self.ready()
        return time.monotonic() - began

    async def ready(self) -> None:
        """Waits until /readyz is 200. ProcessError if the process ends, or is not ready in time."""
        gives_up, url = time.monotonic() + START_SECONDS, self.url((*self.surfaces, "metrics")[0])
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as http:
            while not await _is_ok(http, f"{url}/readyz"):
                if not self.running or time.monotonic() > gives_up:
                    raise ProcessError(f"{self.name} did not become ready:\n{self.tail()}")
                await asyncio.sleep(_POLL_SECONDS)

    def kill(self) -> None:
        """SIGKILL, as in a crash."""
        assert self._popen is not None
        self._popen.kill()
        self._popen.wait()

    def pause(self) -> None:
        """SIGSTOP: its connections stay open, and nothing answers until `resume`."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    async def stop(self) -> tuple[int, float]:
        """SIGTERM; returns (exit code, seconds of its drain). Kills it after STOP_SECONDS."""
        if self._popen is None or not self.running:
            return 0, 0.0
        began = time.monotonic()
        self.resume()
        self._popen.send_signal(signal.SIGTERM)
        while self._popen.poll() is None:
            if time.monotonic() > began + STOP_SECONDS:
                self.kill()
            await asyncio.sleep(_POLL_SECONDS)
        return int(self._popen.returncode), time.monotonic() - began

    def tail(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-12:])


async def _is_ok(http: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with http.get(url) as answer:
            return answer.status == 200
    except (aiohttp.ClientError, OSError, TimeoutError):
        return False
