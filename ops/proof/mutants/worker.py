"""Runs tests against mutants: one PostgreSQL, one Valkey, and one forked child a mutant.

What is costly is done once and inherited: the application and the tests are imported and collected, the servers run,
and there is a migrated database to copy. A child breaks itself and runs some of the tests that were collected.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import pytest

from ops.proof.mutants.record import STOPPING
from ops.servers.postgres import DISPOSABLE, Postgres

TEMPLATE: Final = "tombola_template"
"""As tests/conftest.py names it."""

STOP_SECONDS: Final = 30.0
_SPARE_SECONDS: Final = 30.0
_HANG_SECONDS: Final = 10.0
"""What tests wait for a fact: under a mutant it is often one that does not come about."""

_PLUGINS_LEFT_OUT: Final = ("valkey", "xdist", "xdist.looponfail", "cacheprovider")
_SURVIVED, _KILLED, _BROKEN = 0, 1, 3


class Broken(Protocol):
    """A mutant, of whatever kind."""

    @property
    def name(self) -> str: ...

    def install(self) -> None:
        """Breaks this process."""

    def refusal(self, prepare: Callable[[str], str]) -> str:
        """Why it could not be run at all (then it proves nothing); empty where it can."""


class Job(NamedTuple):
    """A mutant (None: the original), the tests to try it with, and how long they take with the original."""

    mutant: Broken | None
    tests: tuple[str, ...]
    seconds: float


class Verdict(NamedTuple):
    """What became of a job: killed | hung | survived | invalid | gone | error.

    by: the test that failed (killed) or is not there any more (gone), else why.
    """

    kind: str
    by: str
    seconds: float

    @property
    def is_kill(self) -> bool:
        return self.kind in ("killed", "hung")


class _Shared:
    """A worker's server, as a child's tests have it: theirs to use, not to start or stop."""

    def __init__(self, server: Any) -> None:
        self._server = server

    def __getattr__(self, name: str) -> Any:
        if name in STOPPING:
            raise RuntimeError(f"a mutant's tests share their servers: {name} is not for them")
        return getattr(self._server, name)


class SharedPostgres(_Shared):
    """With the template made already."""

    def psql(self, command: str, database: str = "postgres") -> str:
        if re.match(rf"create database {TEMPLATE}\b", command):
            return ""
        return str(self._server.psql(command, database))


class Loop:
    """A pytest plugin: in place of running what was collected it takes jobs from the pipe, until there is None."""

    def __init__(self, pipe: Connection, postgres: Postgres, log: Path) -> None:
        self._pipe = pipe
        self._postgres = postgres
        self._log = log
        self._items: dict[str, pytest.Item] = {}
        self._failed = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = {item.nodeid: item for item in session.items}
        while (job := self._pipe.recv()) is not None:
            self._pipe.send(self._judge(job))
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed = report.nodeid
            print(report.longreprtext, flush=True)

    def _judge(self, job: Job) -> Verdict:
        """What the job's tests say of its mutant."""
        for name in job.tests:
            if name not in self._items:
                return Verdict("gone", name, 0.0)
        if job.mutant is not None and (refusal := job.mutant.refusal(self._prepare)):
            return Verdict("invalid", refusal, 0.0)
        began = time.monotonic()
        limit = 3 * job.seconds + _SPARE_SECONDS
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._child(job, writing)
        os.close(writing)
        status = _wait(pid, began + limit)
        with open(reading) as told:
            os.set_blocking(reading, False)
            failed = told.read() or ""
        seconds = time.monotonic() - began
        if status == _SURVIVED:
            return Verdict("survived", f"{len(job.tests)} tests", seconds)
        self._tidy()
        if status is None:
            return Verdict("hung", f"no end after {limit:.0f} s", seconds)
        if status == _KILLED or status < 0:
            return Verdict("killed", failed or f"the tests' process ended with {status}", seconds)
        return Verdict("error", "\n".join(self._log.read_text(errors="replace").splitlines()[-5:]), seconds)

    def _child(self, job: Job, told: int) -> None:
        """Never returns."""
        status = _BROKEN
        try:
            os.setsid()
            with open(self._log, "wb") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            if job.mutant is not None:
                job.mutant.install()
            status = self._run([self._items[name] for name in job.tests])
            os.write(told, self._failed.encode())
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _run(self, items: Sequence[pytest.Item]) -> int:
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                return _KILLED
        return _SURVIVED

    def _tidy(self) -> None:
        """Drops what tests left that were ended in their midst."""
        left = "SELECT datname FROM pg_database WHERE datname ~ '^(test_|empty)'"
        for name in self._postgres.psql(left).split():
            self._postgres.psql(f"drop database if exists {name} with (force)")

    def _prepare(self, text: str) -> str:
        """Why a statement cannot be prepared; empty where it can."""
        try:
            self._postgres.psql(f"PREPARE mutant AS {text}", "preparing")
        except subprocess.CalledProcessError as error:
            return str(error.stderr).strip()
        return ""


def work(pipe: Connection, log: Path, files: Sequence[str]) -> None:
    """Collects the tests of the files, takes jobs from the pipe and gives verdicts, until it gets None."""
    with open(log.with_suffix(".worker"), "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    directories: Any = importlib.import_module("tests.support.directories")
    waiting: Any = importlib.import_module("tests.support.waiting")
    waiting.HANG_SECONDS = _HANG_SECONDS
    with directories.serving_postgres(DISPOSABLE) as postgres, directories.serving_valkey() as valkey:
        _make_template(postgres)
        directories.serving_postgres = _sharing(SharedPostgres(postgres))
        directories.serving_valkey = _sharing(_Shared(valkey))
        options = ["-q", "--capture=no", "--timeout=30"]
        left_out = [part for plugin in _PLUGINS_LEFT_OUT for part in ("-p", f"no:{plugin}")]
        code = pytest.main([*options, *left_out, *files], plugins=[Loop(pipe, postgres, log)])
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            print(f"pytest ended with {code}", flush=True)


def _sharing(server: Any) -> Callable[..., Any]:
    @contextlib.contextmanager
    def serving(settings: object = None) -> Iterator[Any]:
        before = len(server.deadlocks()) if isinstance(server, SharedPostgres) else 0
        yield server
        assert not isinstance(server, SharedPostgres) or server.deadlocks()[before:] == []

    return serving


def _wait(pid: int, until: float) -> int | None:
    """The child's exit code; None where it took too long. It and what it began are ended."""
    status = None
    while status is None and time.monotonic() < until:
        ended, said = os.waitpid(pid, os.WNOHANG)
        if ended:
            status = os.waitstatus_to_exitcode(said)
        else:
            time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if status is None:
        os.waitpid(pid, 0)
    return status


def _make_template(server: Postgres) -> None:
    import asyncio

    from sql.migrate import migrate

    server.psql(f"create database {TEMPLATE}")
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(migrate(server.url(TEMPLATE)))
    server.psql(f"create database preparing template {TEMPLATE}")


@contextlib.contextmanager
def working(processes: int, files: Sequence[str]) -> Iterator[list[Connection]]:
    """As many workers for the length of the block: the pipe to each. To be entered before any thread begins."""
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="tombola-mutants-") as directory:
        started = []
        for nth in range(processes):
            ours, theirs = context.Pipe()
            process = context.Process(target=work, args=(theirs, Path(directory) / f"log-{nth}", files), daemon=True)
            process.start()
            theirs.close()
            started.append((ours, process))
        yield [pipe for pipe, _ in started]
        for pipe, process in started:
            pipe.send(None)
            process.join(STOP_SECONDS)
