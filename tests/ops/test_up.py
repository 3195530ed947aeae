"""ops/up as its user meets it: one command up, a ready file, the same again, and nothing left after."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ops.api import Api, answers
from ops.servers.base import wait_for
from tests.support.up import STOP_SECONDS, up

pytestmark = pytest.mark.timeout(400)


def family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    parent = psutil.Process(process.pid)
    return [parent, *parent.children(recursive=True)]


def test_a_second_start_finds_what_the_first_one_made(data_dir: Path) -> None:
    with up(data_dir) as (_, first):
        assert answers(f"{first['core_url']}/readyz")
        assert answers(f"{first['core_url']}/healthz")
        admin = Api(first["admin_url"], first["admin_token"])
        names = [item["name"] for item in admin.get("/admin/campaigns")["items"]]
        assert names == ["Autumn Fair"]
        assert set(first["demo"]["games"]) == {"spin_wheel", "scratch", "egg_catcher", "gift_catcher", "collection"}
    with up(data_dir) as (_, second):
        assert second["demo"] == first["demo"]
        assert (second["tenant_id"], second["merchant_id"]) == (first["tenant_id"], first["merchant_id"])
        admin = Api(second["admin_url"], second["admin_token"])
        assert [item["name"] for item in admin.get("/admin/campaigns")["items"]] == names


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_everything_cleanly(data_dir: Path, number: signal.Signals) -> None:
    with up(data_dir, "--no-demo") as (process, ready):
        assert "demo" not in ready
        members = family(process)
        assert {"postgres", "valkey-server"} <= {member.name() for member in members}
        process.send_signal(number)
        assert process.wait(STOP_SECONDS) == 0
    assert not any(member.is_running() for member in members)
    assert not (data_dir.parent / "ready.json").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent died")
def test_a_killed_up_leaves_nothing_running(data_dir: Path) -> None:
    with up(data_dir, "--no-demo") as (process, _):
        members = family(process)
        process.kill()
        process.wait()
        wait_for(lambda: not any(member.is_running() for member in members), STOP_SECONDS)
    with up(data_dir, "--no-demo") as (_, ready):
        assert answers(f"{ready['core_url']}/readyz")


def test_keys_are_made_once_and_kept_private(data_dir: Path) -> None:
    with up(data_dir, "--no-demo"):
        before = (data_dir / "keys.json").read_text()
    with up(data_dir, "--no-demo"):
        assert (data_dir / "keys.json").read_text() == before
    assert stat.S_IMODE((data_dir / "keys.json").stat().st_mode) == 0o600
