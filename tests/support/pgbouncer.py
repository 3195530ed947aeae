import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from ops.servers.base import Server, free_port, read_pid, write_private
from ops.servers.postgres import Postgres
from tests.support.directories import server_directory

SUITABLE = (1, 21)
"""The first version that keeps prepared statements in transaction mode."""


@cache
def program() -> str:
    """The program at PGBOUNCER, or the one on PATH; "" unless it is suitable."""
    found = os.environ.get("PGBOUNCER") or shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin") or ""
    if not found:
        return ""
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"PgBouncer (\d+)\.(\d+)", said)
    return found if version is not None and tuple(map(int, version.groups())) >= SUITABLE else ""


class PgBouncer(Server):
    """PgBouncer before `postgres`; options as in pgbouncer.ini."""

    name = "pgbouncer"
    stop_signal = signal.SIGINT
    death_signal = signal.SIGKILL

    def __init__(self, data_dir: Path, postgres: Postgres, options: dict[str, str]) -> None:
        super().__init__(data_dir)
        self._postgres = postgres
        self._options = options
        self.port = free_port()

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def _prepare(self) -> None:
        self.data_dir.mkdir(mode=0o711, exist_ok=True)
        server = self._postgres
        target = f"host=127.0.0.1 port={server.port} user=postgres password={server.password}"
        options = {"listen_addr": "127.0.0.1", "listen_port": str(self.port), "unix_socket_dir": "", "auth_type": "any"}
        options |= {"pidfile": str(self.data_dir / "pgbouncer.pid"), **self._options}
        lines = ["[databases]", f"* = {target}", "[pgbouncer]", *(f"{name} = {it}" for name, it in options.items())]
        write_private(self.data_dir / "pgbouncer.ini", "\n".join(lines) + "\n")
        if os.geteuid() == 0:  # It refuses to run as root.
            self._account = os.stat(server.data_dir).st_uid, os.stat(server.data_dir).st_gid
            for path in (self.data_dir, self.data_dir / "pgbouncer.ini"):
                os.chown(path, *self._account)

    def _command(self) -> list[str]:
        return [program(), str(self.data_dir / "pgbouncer.ini")]

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def _leftover_pid(self) -> int | None:
        return read_pid(self.data_dir / "pgbouncer.pid")


@contextmanager
def pooled(postgres: Postgres, **options: str) -> Iterator[PgBouncer]:
    """A running PgBouncer. Skips the test by name where none is suitable."""
    if not program():
        pytest.skip("PgBouncer 1.21 or newer is not installed; PGBOUNCER names another program")
    with server_directory(lasting=False) as directory:
        server = PgBouncer(directory / "pgbouncer", postgres, options)
        server.start()
        try:
            yield server
        finally:
            server.stop()
