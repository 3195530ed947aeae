"""Runs tests against mutants: one PostgreSQL, and one forked child a mutant.

What is costly is done once and inherited: the application and pytest's plugins are imported, the server runs, and has
a migrated database to copy. A child has a fresh pytest, whose tests make databases of their own as always.
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
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import pytest

from ops.proof.mutants.record import STOPPING
from ops.servers.postgres import DISPOSABLE, Postgres

TEMPLATE: Final = "tombola_template"
"""As tests/conftest.py names it."""

STOP_SECONDS: Final = 30.0
_SPARE_SECONDS: Final = 45.0
_PLUGINS_LEFT_OUT: Final = ("valkey", "xdist", "xdist.looponfail")
_PRELOADED: Final = ("runtime.app", "runtime.cli", "tests.support.world", "tests.support.operations")


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


class SharedPostgres:
    """The worker's server, as a child's tests have it: theirs to make databases on, not to start or stop."""

    def __init__(self, server: Postgres) -> None:
        self._server = server

    def __getattr__(self, name: str) -> Any:
        if name in STOPPING:
            raise RuntimeError(f"a mutant's tests share their PostgreSQL: {name} is not for them")
        return getattr(self._server, name)

    def psql(self, command: str, database: str = "postgres") -> str:
        made = re.match(r"create database (\w+)", command)
        if made and made[1] == TEMPLATE:
            return ""
        if made:  # A child that was ended leaves its own behind.
            self._server.psql(f"drop database if exists {made[1]} with (force)")
        return self._server.psql(command, database)


def work(pipe: Connection, log: Path) -> None:
    """Takes jobs from the pipe and gives verdicts, until it gets None."""
    for name in _PRELOADED:
        importlib.import_module(name)
    for plugin in entry_points(group="pytest11"):
        if plugin.name not in _PLUGINS_LEFT_OUT:
            plugin.load()
    directories = importlib.import_module("tests.support.directories")
    with directories.server_directory() as directory:
        server = Postgres(directory / "postgres", DISPOSABLE)
        server.start()
        try:
            _make_template(server)
            while (job := pipe.recv()) is not None:
                pipe.send(judge(server, job, log))
        finally:
            server.stop()


def judge(server: Postgres, job: Job, log: Path) -> Verdict:
    """What the job's tests say of its mutant."""
    if job.mutant is not None and (refusal := job.mutant.refusal(_preparer(server))):
        return Verdict("invalid", refusal, 0.0)
    began = time.monotonic()
    limit = 4 * job.seconds + _SPARE_SECONDS
    pid = os.fork()
    if pid == 0:
        _child(server, job, log)
    status = _wait(pid, began + limit)
    seconds = time.monotonic() - began
    if status is None:
        return Verdict("hung", f"no end after {limit:.0f} s", seconds)
    code = os.waitstatus_to_exitcode(status)
    if code == pytest.ExitCode.OK:
        return Verdict("survived", f"{len(job.tests)} tests", seconds)
    told = log.read_text(errors="replace")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+::\S.*?)(?: - .*)?$", told, re.MULTILINE)
    if code == pytest.ExitCode.TESTS_FAILED and failed:
        return Verdict("killed", failed[1], seconds)
    if code < 0 or code == pytest.ExitCode.TESTS_FAILED:
        return Verdict("killed", f"the tests' process ended with {code}", seconds)
    gone = re.search(r"^ERROR: not found: \S*?/(tests/\S.*)$", told, re.MULTILINE)
    if code == pytest.ExitCode.USAGE_ERROR and gone:
        return Verdict("gone", gone[1], seconds)
    return Verdict("error", "\n".join(told.splitlines()[-5:]), seconds)


def _child(server: Postgres, job: Job, log: Path) -> None:
    """Never returns."""
    code = 3
    try:
        os.setsid()
        with open(log, "wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        directories: Any = importlib.import_module("tests.support.directories")
        directories.serving_postgres = _sharing(server)
        if job.mutant is not None:
            job.mutant.install()
        left_out = [part for plugin in _PLUGINS_LEFT_OUT for part in ("-p", f"no:{plugin}")]
        options = ["-x", "-q", "--tb=line", "-rfE", "--timeout=60", "-p", "no:cacheprovider", *left_out]
        code = int(pytest.main([*options, *job.tests]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _sharing(server: Postgres) -> Callable[..., Any]:
    @contextlib.contextmanager
    def serving(settings: object = None) -> Iterator[SharedPostgres]:
        before = len(server.deadlocks())
        yield SharedPostgres(server)
        assert server.deadlocks()[before:] == []

    return serving


def _wait(pid: int, until: float) -> int | None:
    """The child's status; None where it took too long, and was ended."""
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def _make_template(server: Postgres) -> None:
    import asyncio

    from sql.migrate import migrate

    server.psql(f"create database {TEMPLATE}")
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(migrate(server.url(TEMPLATE)))
    server.psql(f"create database preparing template {TEMPLATE}")


def _preparer(server: Postgres) -> Callable[[str], str]:
    """Says why a statement cannot be prepared; empty where it can."""

    def prepare(text: str) -> str:
        try:
            server.psql(f"PREPARE mutant AS {text}", "preparing")
        except subprocess.CalledProcessError as error:
            return str(error.stderr).strip()
        return ""

    return prepare


@contextlib.contextmanager
def working(processes: int) -> Iterator[list[Connection]]:
    """As many workers for the length of the block: the pipe to each. To be entered before any thread begins."""
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="tombola-mutants-") as directory:
        started = []
        for nth in range(processes):
            ours, theirs = context.Pipe()
            process = context.Process(target=work, args=(theirs, Path(directory) / f"log-{nth}"), daemon=True)
            process.start()
            theirs.close()
            started.append((ours, process))
        yield [pipe for pipe, _ in started]
        for pipe, process in started:
            pipe.send(None)
            process.join(STOP_SECONDS)
