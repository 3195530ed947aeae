"""ops/up as its user meets it: one command up, a ready file, the same again, and nothing left after."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from ops.api import Api, answers
from ops.servers.base import wait_for

ROOT = Path(__file__).parents[2]
START_SECONDS = 60
STOP_SECONDS = 40

pytestmark = pytest.mark.skipif(importlib.util.find_spec("runtime.app") is None, reason="there is no server yet")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    if os.geteuid() == 0:  # PostgreSQL's account has to pass pytest's private directories
        for path in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
            path.chmod(0o711)
    return tmp_path / "data"


def four_free_ports() -> int:
    """The first of four ports in a row that nobody listens on."""
    for base in range(20000 + os.getpid() % 500 * 20, 60000, 20):
        probes = [socket.socket() for _ in range(4)]
        try:
            for offset, probe in enumerate(probes):
                probe.bind(("127.0.0.1", base + offset))
            return base
        except OSError:
            continue
        finally:
            for probe in probes:
                probe.close()
    raise RuntimeError("no four free ports in a row")


@contextmanager
def up(data: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """The stack for the length of the block, with its ready file; SIGTERM at the end where it still runs."""
    ready_file = data.parent / "ready.json"
    ready_file.unlink(missing_ok=True)  # a killed run leaves its own, which would be read before the new one is there
    command = [sys.executable, "-m", "ops.devstack", "--data", str(data), "--ready-file", str(ready_file)]
    log = data.parent / "up.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "--port-base", str(four_free_ports()), *arguments],
            cwd=ROOT,
            stdout=output,
            stderr=output,
            text=True,
        )
    try:
        ended = RuntimeError("it ended early")
        wait_for(ready_file.exists, START_SECONDS, lambda: None if process.poll() is None else ended)
        assert stat.S_IMODE(ready_file.stat().st_mode) == 0o600
        yield process, json.loads(ready_file.read_text())
    except BaseException:
        print(log.read_text())
        raise
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_SECONDS)


def family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    parent = psutil.Process(process.pid)
    return [parent, *parent.children(recursive=True)]


def test_a_second_start_finds_what_the_first_one_made(data: Path) -> None:
    with up(data) as (_, first):
        assert answers(f"{first['core_url']}/readyz")
        assert answers(f"{first['core_url']}/healthz")
        admin = Api(first["admin_url"], first["admin_token"])
        names = [item["name"] for item in admin.get("/admin/campaigns")["items"]]
        assert names == ["Autumn Fair"]
        assert set(first["demo"]["games"]) == {"spin_wheel", "scratch", "egg_catcher", "gift_catcher", "collection"}
    with up(data) as (_, second):
        assert second["demo"] == first["demo"]
        assert (second["tenant_id"], second["merchant_id"]) == (first["tenant_id"], first["merchant_id"])
        admin = Api(second["admin_url"], second["admin_token"])
        assert [item["name"] for item in admin.get("/admin/campaigns")["items"]] == names


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_everything_cleanly(data: Path, number: signal.Signals) -> None:
    with up(data, "--no-demo") as (process, ready):
        assert "demo" not in ready
        members = family(process)
        assert {"postgres", "valkey-server"} <= {member.name() for member in members}
        process.send_signal(number)
        assert process.wait(STOP_SECONDS) == 0
    assert not any(member.is_running() for member in members)
    assert not (data.parent / "ready.json").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent died")
def test_a_killed_up_leaves_nothing_running(data: Path) -> None:
    with up(data, "--no-demo") as (process, _):
        members = family(process)
        process.kill()
        process.wait()
        wait_for(lambda: not any(member.is_running() for member in members), STOP_SECONDS)
    with up(data, "--no-demo") as (_, ready):
        assert answers(f"{ready['core_url']}/readyz")


def test_keys_are_made_once_and_kept_private(data: Path) -> None:
    with up(data, "--no-demo"):
        before = (data / "keys.json").read_text()
    with up(data, "--no-demo"):
        assert (data / "keys.json").read_text() == before
    assert stat.S_IMODE((data / "keys.json").stat().st_mode) == 0o600
