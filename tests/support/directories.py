"""Directories for embedded servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def server_directory() -> Iterator[Path]:
    """A directory that the account PostgreSQL runs as can pass, for the length of the block.

    Not one of pytest's: it makes the directory above all of its own private whenever a run begins, so a run as
    root would take the database from under another.
    """
    with TemporaryDirectory(prefix="tombola-test-") as name:
        directory = Path(name)
        directory.chmod(0o711)
        yield directory
