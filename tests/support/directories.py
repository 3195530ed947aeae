import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from ops.servers.postgres import Postgres
from ops.servers.valkey import Valkey

MEMORY: Final = Path("/dev/shm")
"""A file system in memory, where the system has one."""

MEMORY_FREE_MIN: Final = 4 * 2**30
"""Bytes that are free there before a server may have its files there: a run's come to a quarter of it."""


@contextmanager
def server_directory(*, lasting: bool = True) -> Iterator[Path]:
    """A directory that the account PostgreSQL runs as can pass, for the length of the block.

    lasting: on disk, else in memory where there is room (a disk takes ten times as long to copy a database).
    Not one of pytest's: a run as root would make the directory above private, under another run's database.
    """
    in_memory = not lasting and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_FREE_MIN
    with TemporaryDirectory(prefix="tombola-test-", dir=MEMORY if in_memory else None) as name:
        directory = Path(name)
        directory.chmod(0o711)
        yield directory


@contextmanager
def serving_postgres(settings: Mapping[str, str] | None = None) -> Iterator[Postgres]:
    """A running server. A deadlock fails the test: locks were taken in another order than in sql/locks.py."""
    with server_directory(lasting=(settings or {}).get("fsync") != "off") as directory:
        server = Postgres(directory / "postgres", settings)
        server.start()
        try:
            yield server
        finally:
            server.stop()
        assert server.deadlocks() == []


@contextmanager
def serving_valkey() -> Iterator[Valkey]:
    with server_directory() as directory:
        server = Valkey(directory / "valkey")
        server.start()
        yield server
        server.stop()


@contextmanager
def small_disk(*, mebibytes: int) -> Iterator[Path]:
    """A file system of its own that is soon full, for the length of the block. Skips where none can be mounted."""
    with server_directory() as directory:
        options = f"size={mebibytes}m,mode=0711"
        mounting = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tombola-test", str(directory)], capture_output=True, text=True
        )
        if mounting.returncode:
            pytest.skip(f"a small disk takes a mount, which this account may not make: {mounting.stderr.strip()}")
        try:
            yield directory
        finally:
            subprocess.run(["umount", "--lazy", str(directory)], check=True)
