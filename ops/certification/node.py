"""A process of Tombola that is killed, paused and stopped, and started again on the ports that it had."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp
import psutil

from ops.servers.base import free_port, launch

ROOT: Final = Path(__file__).parents[2]
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.02
PORTS: Final = ("CORE_PORT", "CONSUMER_PORT", "ADMIN_PORT", "RPC_PORT", "METRICS_PORT")


class NodeError(RuntimeError):
    """A process did not do what it should; the message has the end of its log."""


@dataclass
class Node:
    """`tombola ROLE` in a process of its own.

    environment: its settings, by variable; what is changed there holds from the next start on. log: what it says, over
    all its starts.
    """

    name: str
    role: str
    log: Path
    environment: dict[str, str]
    ports: dict[str, int] = field(default_factory=lambda: {name: free_port() for name in PORTS})
    directory: Path = ROOT
    _popen: subprocess.Popen[bytes] | None = None

    def url(self, surface: str) -> str:
        """Where its "core", "consumer", "admin" or "metrics" listens."""
        return f"http://127.0.0.1:{self.ports[f'{surface.upper()}_PORT']}"

    @property
    def core_url(self) -> str:
        return self.url("core")

    @property
    def admin_url(self) -> str:
        return self.url("admin")

    @property
    def rpc_address(self) -> str:
        return f"127.0.0.1:{self.ports['RPC_PORT']}"

    @property
    def pid(self) -> int:
        """Its process id. NodeError where it is not started."""
        if self._popen is None:
            raise NodeError(f"{self.name} is not started")
        return self._popen.pid

    @property
    def running(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    def resources(self) -> dict[str, int]:
        """What it holds now: resident memory in bytes, and open files."""
        process = psutil.Process(self.pid)
        return {"rss_bytes": int(process.memory_info().rss), "files": int(process.num_fds())}

    @property
    def ready_port(self) -> int:
        """Where it says whether it is ready."""
        own = self.role if self.role in ("core", "consumer", "admin") else "metrics"
        return self.ports[f"{own.upper()}_PORT"]

    @property
    def _ready_url(self) -> str:
        return f"http://127.0.0.1:{self.ready_port}/readyz"

    # -- its life --------------------------------------------------------------------------------

    def launch(self) -> None:
        """Starts it, and goes on."""
        if self.running:
            raise NodeError(f"{self.name} runs already")
        inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        ports = {name: str(port) for name, port in self.ports.items()}
        with self.log.open("ab") as said:
            self._popen = launch(
                [sys.executable, "-m", "runtime", *self.role.split()],
                signal.SIGTERM,
                env={**inherited, "PYTHONPATH": str(self.directory), **ports, **self.environment},
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )

    async def start(self, http: aiohttp.ClientSession) -> float:
        """Starts it; how many seconds until it said that it is ready, interpreter start included."""
        began = time.monotonic()
        self.launch()
        await self.ready(http)
        return time.monotonic() - began

    async def ready(self, http: aiohttp.ClientSession) -> None:
        """Returns once it says that it is ready. NodeError where it ends instead, or never does."""
        try:
            async with asyncio.timeout(START_SECONDS):
                while not await answers(http, self._ready_url):
                    if not self.running:
                        raise NodeError(f"{self.name} ended by itself:\n{self.tail()}")
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise NodeError(f"{self.name} was not ready within {START_SECONDS:g} s:\n{self.tail()}") from None

    def kill(self) -> None:
        """SIGKILL, as a crash of it would."""
        assert self._popen is not None
        self._popen.kill()
        self._popen.wait()

    def pause(self) -> None:
        """SIGSTOP: its connections stay open, and nothing answers until `resume`."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    async def stop(self) -> tuple[int, float]:
        """SIGTERM, and the drain: (exit code, how many seconds it took). It is killed where it does not end."""
        if self._popen is None or not self.running:
            return 0, 0.0
        began = time.monotonic()
        self.resume()
        self._popen.send_signal(signal.SIGTERM)
        while self._popen.poll() is None:
            if time.monotonic() > began + STOP_SECONDS:
                self.kill()
                break
            await asyncio.sleep(_POLL_SECONDS)
        return int(self._popen.returncode), time.monotonic() - began

    def tail(self) -> str:
        """The end of what it said."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-12:])


async def answers(http: aiohttp.ClientSession, url: str) -> bool:
    """Whether a GET gives 200 just now."""
    try:
        async with http.get(url, timeout=aiohttp.ClientTimeout(total=2)) as answer:
            return answer.status == 200
    except (aiohttp.ClientError, OSError, TimeoutError):
        return False


def with_port(url: str, port: int) -> str:
    """A store's URL with another port."""
    head, _, tail = url.rpartition(":")
    return f"{head}:{port}{tail.lstrip('0123456789')}"


def merged(*environments: Mapping[str, str]) -> dict[str, str]:
    """All of them, the later before the earlier."""
    return {name: value for one in environments for name, value in one.items()}
