"""Embedded PostgreSQL and Valkey together, for `ops/up`, `ops/bench` and the tests.

with EmbeddedServers(Path(".tombola")) as servers:
    ...  # servers.database_url, servers.redis_url
"""

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from ops.servers.base import Server, ServerError, hold
from ops.servers.postgres import Postgres
from ops.servers.valkey import Valkey


class EmbeddedServers:
    """Both servers in one directory: `postgres/`, `valkey/`, their logs, passwords and the lock.

    `database_url` and `redis_url` are None for a server that is not requested (`postgres=False`,
    `valkey=False`: the caller has one elsewhere).
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        postgres: bool = True,
        valkey: bool = True,
        postgres_settings: Mapping[str, str] | None = None,
        durable_valkey: bool = True,
    ) -> None:
        self.data_dir = data_dir.resolve()
        self.postgres = Postgres(self.data_dir / "postgres", postgres_settings) if postgres else None
        self.valkey = Valkey(self.data_dir / "valkey", durable=durable_valkey) if valkey else None
        self._lock: int | None = None

    @property
    def database_url(self) -> str | None:
        return self.postgres.url() if self.postgres else None

    @property
    def redis_url(self) -> str | None:
        return self.valkey.url if self.valkey else None

    def start(self) -> None:
        """Returns once both answer. ServerError if another process uses the directory."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._lock = hold(self.data_dir / "lock")
        try:
            for server in self._servers():
                server.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stops the running servers, newest first. May be repeated."""
        for server in reversed(self._servers()):
            server.stop()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def pids(self) -> dict[str, int]:
        """The process ids of the servers, by name."""
        return {server.name: server.pid for server in self._servers()}

    def failure(self) -> ServerError | None:
        """The first server that ended by itself, with the end of its log; None while all run."""
        return next((error for server in self._servers() if (error := server.failure()) is not None), None)

    def restart_ended(self) -> None:
        """Restarts servers that have ended. ServerError with the end of the log if one does not start."""
        for server in self._servers():
            if not server.is_started:
                server.start()

    def _servers(self) -> list[Server]:
        return [server for server in (self.postgres, self.valkey) if server is not None]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()
