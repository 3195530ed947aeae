"""Runs tests against mutants: each worker has one PostgreSQL, one Valkey, and one forked child at a time.

A worker imports the application, collects the tests, starts the servers and migrates a database to copy; the children
inherit all of this. A child installs its mutant and runs the tests of its job until one fails.
"""

import asyncio
import contextlib
import importlib
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest

from ops.proof.mutants import code, statements
from ops.servers.postgres import DISPOSABLE
from sql.migrate import migrate

TEMPLATE: Final = "tombola_template"
"""As tests/conftest.py names it."""

RECORDING_SECONDS: Final = 300.0
_SPARE_SECONDS: Final = 30.0
_HANG_SECONDS: Final = 10.0
"""How long tests wait for a fact. Under a mutant it often never comes."""

_OPTIONS: Final = ("-q", "--capture=no", "--timeout=30", "-pno:valkey", "-pno:xdist", "-pno:cacheprovider")
_STOPPING: Final = ("kill", "kill_all", "freeze", "restart_immediately", "stop")
_SURVIVED, _KILLED, _BROKEN = 0, 1, 3


class RecordedTest(NamedTuple):
    """How long a test took, and the statements and functions that it executed."""

    seconds: float
    targets: frozenset[str]


class Job(NamedTuple):
    """A mutant and the ids of its tests; or no mutant, and a test file to record. `seconds`: the expected duration."""

    mutant: Any
    tests: tuple[str, ...]
    seconds: float


class Verdict(NamedTuple):
    """killed | hung | survived | untested | invalid, and why: for a killed mutant the test that failed."""

    kind: str
    by: str


class _Shared:
    """A worker's server for the children's tests. A test that stops a server fails, so it is not recorded."""

    def __init__(self, server: Any) -> None:
        self._server = server

    def __getattr__(self, name: str) -> Any:
        if name in _STOPPING:
            raise RuntimeError(f"mutants share their servers: no test may {name} one")
        return getattr(self._server, name)

    def psql(self, command: str, database: str = "postgres") -> str:
        # The template is there already.
        is_made = re.match(rf"create database {TEMPLATE}\b", command) is not None
        return "" if is_made else str(self._server.psql(command, database))


class Loop:
    """A pytest plugin that takes jobs from the pipe, until None, instead of running the collected tests."""

    def __init__(self, pipe: Connection, postgres: Any, directory: Path) -> None:
        self._pipe, self._postgres = pipe, postgres
        self._log, self._answer = directory / "log", directory / "answer"
        self._items: dict[str, pytest.Item] = {}
        self._failed: set[str] = set()
        self._databases = self._list_databases()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = {item.nodeid: item for item in session.items}
        while (job := self._pipe.recv()) is not None:
            self._pipe.send(self._record(job) if job.mutant is None else self._judge(job))
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._failed.add(report.nodeid)
            print(report.longreprtext, flush=True)

    def _record(self, job: Job) -> dict[str, RecordedTest]:
        (file,) = job.tests
        items = [
            item for name, item in self._items.items() if name == file or name.startswith((f"{file}::", f"{file}["))
        ]
        if self._fork(lambda: self._note(items), job.seconds) != _SURVIVED:
            print(f"{file} could not be recorded", file=sys.__stderr__, flush=True)
            return {}
        return msgspec.msgpack.decode(self._answer.read_bytes(), type=dict[str, RecordedTest])

    def _note(self, items: Sequence[pytest.Item]) -> int:
        recorded = {}
        executed: set[str] = set()
        called: dict[int, Any] = {}

        def see(query: str) -> str:
            executed.add(statements.name_of(query))
            return query

        def call(frame: Any, event: str, argument: object) -> None:
            called[id(frame.f_code)] = frame.f_code  # By its id: the hash of a code is slow.

        statements.hook(see)
        for item, following in zip(items, [*items[1:], None], strict=True):
            began = time.monotonic()
            sys.settrace(call)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            sys.settrace(None)
            if item.nodeid not in self._failed:
                targets = frozenset(executed) | code.names(called.values())
                recorded[item.nodeid] = RecordedTest(time.monotonic() - began, targets)
            executed.clear()
            called.clear()
        self._answer.write_bytes(msgspec.msgpack.encode(recorded))
        return _SURVIVED

    def _judge(self, job: Job) -> Verdict:
        status = self._fork(lambda: self._try(job), 3 * job.seconds + _SPARE_SECONDS)
        if status == _SURVIVED:
            return Verdict("survived", f"{len(job.tests)} tests")
        if status == _KILLED:
            return Verdict("killed", self._answer.read_text())
        if status is None or status < 0:
            return Verdict("hung", f"status {status}")
        return Verdict("invalid", self._log.read_text(errors="replace").rstrip().rpartition("\n")[2])

    def _try(self, job: Job) -> int:
        job.mutant.install(self._prepare)
        items = [self._items[name] for name in job.tests]
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                self._answer.write_text(item.nodeid)
                return _KILLED
        return _SURVIVED

    def _fork(self, work: Callable[[], int], limit_seconds: float) -> int | None:
        """The exit code of a child that does the work; None if it took too long. Its processes are killed."""
        until = time.monotonic() + limit_seconds
        pid = os.fork()
        if pid == 0:
            self._child(work)
        status = None
        try:
            while status is None and time.monotonic() < until:
                ended, said = os.waitpid(pid, os.WNOHANG)
                if ended:
                    status = os.waitstatus_to_exitcode(said)
                else:
                    time.sleep(0.01)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        if status is None:
            os.waitpid(pid, 0)
        for name in self._list_databases() - self._databases:
            self._postgres.psql(f"drop database if exists {name} with (force)")
        return status

    def _child(self, work: Callable[[], int]) -> None:
        """Never returns."""
        status = _BROKEN
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _redirect_output(self._log)
            status = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _list_databases(self) -> set[str]:
        return set(self._postgres.psql("SELECT datname FROM pg_database").split())

    def _prepare(self, text: str) -> None:
        """subprocess.CalledProcessError if the database refuses to prepare the statement."""
        self._postgres.psql(f"PREPARE mutant AS {text}", TEMPLATE)


def work(pipe: Connection, files: Sequence[str]) -> None:
    """Collects the tests of the files, then answers the pipe's jobs until it gets None."""
    with tempfile.TemporaryDirectory(prefix="tombola-mutants-") as directory:
        _redirect_output(Path(directory) / "worker")
        _serve(pipe, Path(directory), files)


def _serve(pipe: Connection, directory: Path, files: Sequence[str]) -> None:
    directories: Any = importlib.import_module("tests.support.directories")
    waiting: Any = importlib.import_module("tests.support.waiting")
    waiting.HANG_SECONDS = _HANG_SECONDS
    with directories.serving_postgres(DISPOSABLE) as postgres, directories.serving_valkey() as valkey:
        postgres.psql(f"create database {TEMPLATE}")
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(migrate(postgres.url(TEMPLATE)))
        directories.serving_postgres = lambda settings=None: contextlib.nullcontext(_Shared(postgres))
        directories.serving_valkey = lambda: contextlib.nullcontext(_Shared(valkey))
        pytest.main([*_OPTIONS, *files], plugins=[Loop(pipe, postgres, directory)])


def _redirect_output(path: Path) -> None:
    with open(path, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115


@contextlib.contextmanager
def working(processes: int, files: Sequence[str]) -> Iterator[list[Connection]]:
    """Starts the workers for the length of the block; yields a pipe to each. Fork before any thread starts."""
    context = multiprocessing.get_context("fork")
    pipes: list[Connection] = []
    workers = []
    for _ in range(processes):
        ours, theirs = context.Pipe()
        workers.append(context.Process(target=work, args=(theirs, files), daemon=True))
        workers[-1].start()
        theirs.close()  # so that `ours` ends with the worker
        pipes.append(ours)
    try:
        yield pipes
    finally:
        for pipe, process in zip(pipes, workers, strict=True):
            with contextlib.suppress(OSError):
                pipe.send(None)
            process.join(30)
