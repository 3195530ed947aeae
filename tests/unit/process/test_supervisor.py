"""The supervisor of several processes, with small programs in place of the service."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from ops.servers.base import free_port, free_ports
from runtime import supervisor
from runtime.cli import stop_with_supervisor
from runtime.supervisor import Port, Supervisor, SupervisorError
from tests.support.waiting import until

PROGRAM = """
import os, pathlib, signal, sys
from runtime import inherited
handed = inherited.take(os.environ)
mode = pathlib.Path(os.environ["MODE"]).read_text()
with open(os.environ["LOG"], "a") as log:
    log.write(f"{handed.number} {os.environ.get('OTHER', '')} {os.environ['OWN_PORT']}\\n")
if mode == "broken":
    sys.exit(3)
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.write(handed.link, inherited.READY)
if mode == "crashing":
    sys.exit(4)
os.read(handed.link, 1)
"""
"""Serves until its link ends. Its mode is in a file."""


def programs() -> list[psutil.Process]:
    """Those that run now, among this process's children."""
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # It has just ended.
            if PROGRAM in child.cmdline():
                found.append(child)
    return found


class Stage:
    def __init__(self, directory: Path) -> None:
        self.mode, self.log = directory / "mode", directory / "log"
        self.python = directory / "python"
        self.python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        self.python.chmod(0o755)
        self.say("serving")
        self.base = free_ports(2)

    def say(self, mode: str) -> None:
        self.mode.write_text(mode)

    def supervisor(self, *ports: Port) -> Supervisor:
        shared, own = Port("SHARED_PORT", "127.0.0.1", free_port()), Port("OWN_PORT", "127.0.0.1", self.base, each=True)
        environment = {**os.environ, "MODE": str(self.mode), "LOG": str(self.log)}
        more = {"environment": environment, "environment_of_others": {"OTHER": "yes"}, "drain_seconds": 1}
        return Supervisor([str(self.python), "-c", PROGRAM], [shared, own, *ports], 2, **more)

    def started(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def starts(self, count: int) -> Callable[[], Awaitable[bool]]:
        async def reached() -> bool:
            return len(self.started()) >= count and len(programs()) >= 2

        return reached


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


async def ended(running: asyncio.Task[None]) -> None:
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_each_process_has_its_number_port_and_environment_until_a_signal_stops_all(stage: Stage) -> None:
    running = asyncio.create_task(stage.supervisor().run())
    await until(stage.starts(2))
    os.kill(os.getpid(), signal.SIGTERM)
    await running
    assert stage.started() == [f"1  {stage.base}", f"2 yes {stage.base + 1}"]
    assert not programs()


async def test_process_that_outlasts_its_drain_is_killed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "KILL_SECONDS", 0.0)
    stage.say("stubborn")
    running = asyncio.create_task(stage.supervisor().run())
    await until(stage.starts(2))
    await ended(running)
    assert not programs()


async def test_program_that_cannot_start_is_started_once_and_reported(stage: Stage) -> None:
    stage.say("broken")
    with pytest.raises(SupervisorError, match="process 1 did not start: it ended with status 3"):
        await stage.supervisor().run()
    assert len(stage.started()) == 1


async def test_processes_that_keep_dying_end_their_supervisor(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "BACK_OFF_SECONDS", 0.1)
    stage.say("crashing")
    with pytest.raises(SupervisorError, match=r"ended 3 times within 60 s; process \d \(\d+\) ended with status 4"):
        await stage.supervisor().run()


async def test_dead_process_is_replaced_and_the_other_goes_on(stage: Stage) -> None:
    running = asyncio.create_task(stage.supervisor().run())
    await until(stage.starts(2))
    one, other = programs()
    one.kill()
    await until(stage.starts(3))
    assert other.is_running() and one not in programs()
    await ended(running)


async def test_failed_rolling_restart_keeps_the_old_processes(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    running = asyncio.create_task(stage.supervisor().run())
    said = ""

    async def has_said(text: str) -> bool:
        nonlocal said
        said += capsys.readouterr().err
        return text in said

    await until(lambda: has_said("2 processes serve"))
    before = set(programs())
    stage.say("broken")
    os.kill(os.getpid(), signal.SIGHUP)
    await until(lambda: has_said("rolling restart given up: the new process 1 ended with status 3"))
    stage.python.unlink()
    os.kill(os.getpid(), signal.SIGHUP)
    await until(lambda: has_said("rolling restart given up: the new process 1 could not be started"))
    assert set(programs()) == before
    await ended(running)


async def test_ports_that_cannot_be_shared_are_refused_by_name(stage: Stage) -> None:
    with pytest.raises(SupervisorError, match="ZERO_PORT must not be 0"):
        stage.supervisor(Port("ZERO_PORT", "127.0.0.1", 0))
    with pytest.raises(SupervisorError, match="CLASHING_PORT"):
        stage.supervisor(Port("CLASHING_PORT", "127.0.0.1", stage.base + 1))
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        with pytest.raises(SupervisorError, match="free it, or set TAKEN_PORT"):
            stage.supervisor(Port("TAKEN_PORT", "127.0.0.1", taken.getsockname()[1]))


async def test_process_stops_once_when_its_supervisor_has_ended() -> None:
    (link, end), stop = socket.socketpair(), asyncio.Event()
    with link:
        stop_with_supervisor(link.fileno(), stop)
        end.close()
        await stop.wait()
        assert not asyncio.get_running_loop().remove_reader(link), "it stays readable, and the loop would not rest"
