"""A pytest plugin that notes which test executes what, statements and functions: `pytest -p ops.proof.mutants.record`.

The note (`.tombola/mutants/tests.json`) holds tests that passed, and grows: a run of some tests says those anew.
What a process of its own executes for a test is not seen, nor is a test noted that stops or freezes a server:
mutants share them.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import sys
import time
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import msgspec
import pytest

from ops.proof.mutants import code, hook
from ops.servers.postgres import Postgres
from ops.servers.valkey import Valkey

NOTE: Final = Path(__file__).resolve().parents[3] / ".tombola" / "mutants" / "tests.json"

STOPPING: Final = ("kill", "kill_all", "freeze", "restart_immediately", "stop")
"""What a test may do to a server only where it has one to itself."""


class Noted(msgspec.Struct, frozen=True):
    """What a test took, and what it executed."""

    seconds: float
    statements: tuple[str, ...]
    functions: tuple[str, ...] = ()


class Recorder:
    """Notes one process' tests."""

    def __init__(self) -> None:
        self._executed: set[str] = set()
        self._called: dict[int, CodeType] = {}
        self._in_test = False
        self._fit = True
        self._tests: dict[str, Noted | None] = {}

    def begin(self) -> None:
        hook.install(self._see)
        for server, name in itertools.product((Postgres, Valkey), STOPPING):
            if hasattr(server, name):
                setattr(server, name, self._watched(getattr(server, name)))

    def _call(self, frame: FrameType, event: str, argument: object) -> None:
        # By its id: a code's hash is computed anew each time.
        self._called[id(frame.f_code)] = frame.f_code

    def _see(self, query: str) -> str:
        if name := hook.name_of(query):
            self._executed.add(name)
        return query

    def _watched(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            self._fit = self._fit and not self._in_test
            return method(*args, **kwargs)

        return watched

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._executed, self._called, self._fit, began = set(), {}, True, time.monotonic()
        sys.settrace(self._call)
        try:
            result = yield
        finally:
            sys.settrace(None)
        seconds = round(time.monotonic() - began, 2)
        noted = Noted(seconds, tuple(sorted(self._executed)), tuple(sorted(_functions(self._called.values()))))
        self._tests[item.nodeid] = noted if self._fit else None
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        self._in_test = True
        try:
            return (yield)
        finally:
            self._in_test = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._fit = False

    def pytest_sessionfinish(self) -> None:
        if self._tests:
            _merge(self._tests)


def _functions(called: Iterable[CodeType]) -> set[str]:
    """Their full names, of those that can be broken; what is defined within a function is part of it."""
    modules = code.files()
    return {
        f"{modules[one.co_filename]}.{one.co_qualname.partition('.<locals>')[0]}"
        for one in called
        if one.co_filename in modules
    }


def read() -> dict[str, Noted]:
    """The tests that were noted, by their ids."""
    return msgspec.json.decode(NOTE.read_bytes(), type=dict[str, Noted]) if NOTE.exists() else {}


def _merge(tests: dict[str, Noted | None]) -> None:
    NOTE.parent.mkdir(parents=True, exist_ok=True)
    with open(NOTE.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        merged = {name: noted for name, noted in {**read(), **tests}.items() if noted is not None}
        NOTE.write_text(json.dumps(msgspec.to_builtins(merged), indent=0, sort_keys=True))


def pytest_configure(config: pytest.Config) -> None:
    # The controller of pytest-xdist runs none itself.
    if hasattr(config, "workerinput") or not getattr(config.option, "numprocesses", None):
        recorder = Recorder()
        recorder.begin()
        config.pluginmanager.register(recorder, "mutants recorder")
