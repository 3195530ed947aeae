"""A PostgreSQL that stands in another's place: at its port, with its password, over files of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ops.certification.stack import Stack
from ops.servers.base import write_private
from ops.servers.postgres import Postgres

SMALL_WAL = {"max_wal_size": "48MB", "min_wal_size": "32MB"}


def successor(server: Postgres, directory: Path, settings: Mapping[str, str]) -> Postgres:
    """One that will listen where `server` does; its files are still to be put there."""
    directory.mkdir(exist_ok=True)
    directory.chmod(0o711)
    other = Postgres(directory / "postgres", {**server.settings, **settings})
    other.port = server.port
    write_private(directory / "postgres.password", server.password)
    return other


def base_backup(server: Postgres, copy: Postgres) -> None:
    """Copies a running server's files, as a restore begins with them."""
    program = server.bin_dir / "pg_basebackup"
    subprocess.run(
        [
            *(program, "-h", "127.0.0.1", "-p", str(server.port), "-U", "postgres"),
            *("-D", copy.data_dir, "-X", "none", "-c", "fast"),
        ],
        check=True,
        env={**os.environ, "PGPASSWORD": server.password},
    )
    _give(copy, server)


def restore(copy: Postgres, server: Postgres, archive: Path, point: str) -> None:
    """Starts the copy, brought forward to the point."""
    (copy.data_dir / "recovery.signal").touch()
    with (copy.data_dir / "postgresql.auto.conf").open("a") as settings:
        settings.write(
            f"restore_command = 'cp {archive}/%f %p'\n"
            f"recovery_target_name = '{point}'\n"
            "recovery_target_action = 'promote'\n"
        )
    _give(copy, server)
    copy.start()


def move(stack: Stack, directory: Path, settings: Mapping[str, str]) -> None:
    """Stops the stack's server and goes on over a copy of its files; of its log of writes what is needed."""
    server = stack.postgres
    server.stop()
    other = successor(server, directory, settings)
    told = subprocess.run(
        [server.bin_dir / "pg_controldata", server.data_dir], check=True, capture_output=True, text=True
    ).stdout
    needed = next(line.split()[-1] for line in told.splitlines() if "REDO WAL file" in line)

    def left_out(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if name != needed] if folder.endswith("/pg_wal") else []

    shutil.copytree(server.data_dir, other.data_dir, ignore=left_out)
    _give(other, server)
    stack.servers.postgres = other
    other.start()


def _give(copy: Postgres, server: Postgres) -> None:
    """The files belong to who owns the server's: it runs as that account."""
    if os.geteuid() == 0:
        owner = server.data_dir.stat()
        for path in (copy.data_dir, *copy.data_dir.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid)
        copy.data_dir.chmod(0o700)


def size_of(server: Postgres) -> int:
    """The bytes of its files, without its log of writes."""
    files = (path for path in server.data_dir.rglob("*") if "pg_wal" not in path.parts)
    return sum(path.stat().st_size for path in files if path.is_file())


@contextmanager
def small_disk(directory: Path, size_bytes: int) -> Iterator[str]:
    """A file system of its own at `directory` for the length of the block; why not, where none can be mounted."""
    directory.mkdir()
    options = f"size={size_bytes},mode=0711"
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tombola-certify", str(directory)], capture_output=True, text=True
    )
    try:
        yield mounting.stderr.strip() if mounting.returncode else ""
    finally:
        if not mounting.returncode:
            subprocess.run(["umount", "--lazy", str(directory)], check=True)


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """Nothing more goes onto the disk for the length of the block."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue  # It is full, for pieces of this size.
    try:
        yield
    finally:
        filler.unlink()
