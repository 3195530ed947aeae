"""A consumer group of runtime/groups.py is wherever somebody would look for it: none is forgotten, none left over."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from runtime.groups import GROUPS, ConsumerGroup

ROOT = Path(__file__).parents[2]
ARCHITECTURE = (ROOT / "docs/explanation/architecture.md").read_text()


def commands_of_workers(containers: list[dict[str, Any]], field: str) -> list[list[str]]:
    """The commands, of these, that run a consumer group."""
    return [one[field] for one in containers if one.get(field, [""])[0] == "worker"]


def test_compose_runs_each_as_a_service_of_its_name() -> None:
    services = yaml.safe_load((ROOT / "ops/compose.yaml").read_text())["services"]
    assert commands_of_workers(list(services.values()), "command") == [["worker", name] for name in GROUPS]
    assert all(services[name]["command"] == ["worker", name] for name in GROUPS)


def test_kubernetes_runs_each_as_a_deployment_of_its_name() -> None:
    documents = yaml.safe_load_all((ROOT / "ops/kubernetes/tombola.yaml").read_text())
    deployed = {one["metadata"]["name"]: one["spec"] for one in documents if one["kind"] == "Deployment"}
    pods = {name: spec["template"]["spec"]["containers"] for name, spec in deployed.items()}
    containers = [container for found in pods.values() for container in found]
    assert commands_of_workers(containers, "args") == [["worker", name] for name in GROUPS]
    for name in GROUPS:
        assert [container["args"] for container in pods[f"tombola-{name}"]] == [["worker", name]]
        labels = {"app": "tombola", "role": name}
        spec = deployed[f"tombola-{name}"]
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"] == labels


def test_architecture_page_names_each_group() -> None:
    reading = [group.name for group in GROUPS.values() if group.stream is not None]
    picture = (ROOT / "docs/pictures/architecture.svg").read_text()
    assert [name for name in reading if name.capitalize() not in picture] == []
    assert f"| the consumer groups: {', '.join(GROUPS)} |" in ARCHITECTURE, "the table of rooms"


def test_worker_help_states_the_purpose_of_each_group() -> None:
    command = [sys.executable, "-m", "runtime", "worker", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"COLUMNS": "1000"}, cwd=ROOT)
    shown = re.sub(r"\s+", " ", done.stdout)
    for group in GROUPS.values():
        assert f"{group.name} {group.purpose}" in shown
    assert f"[choices: {', '.join(GROUPS)}]" in shown


@pytest.mark.parametrize("group", GROUPS.values(), ids=lambda group: group.name)
def test_group_loads_the_coroutine_that_its_row_names(group: ConsumerGroup) -> None:
    run = group.load()
    assert inspect.iscoroutinefunction(run)
    assert [*inspect.signature(run).parameters][:2] == ["engine", "stop"]


def test_group_streams_are_one_per_shard_with_the_shard_as_hash_tag() -> None:
    for group in GROUPS.values():
        streams = group.streams(3)
        assert len(set(streams)) == (3 if group.stream is not None else 0)
        assert all(f"{{{shard}}}" in stream for shard, stream in enumerate(streams))


AUTOGROUP = Path("/proc/self/autogroup")
YIELDS = """
import asyncio, os, sys
from runtime.cli import AUTOGROUP, yield_session
if os.geteuid() == 0:
    libc = __import__("ctypes").CDLL(None)
    os.setgroups([])
    os.setuid(65534)
    libc.prctl(4, 1)  # PR_SET_DUMPABLE: else its own files in /proc are root's
print("imported", flush=True)
sys.stdin.readline()
asyncio.run(yield_session(7))
print(AUTOGROUP.read_text())
"""


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="this kernel does not share its processors by session")
def test_workers_that_start_together_all_yield_to_other_sessions() -> None:
    command = [sys.executable, "-c", YIELDS]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    own = [subprocess.Popen(command, start_new_session=True, **pipes) for _ in range(4)]  # type: ignore[call-overload]
    assert [one.stdout.readline() for one in own] == ["imported\n"] * 4
    for one in own:
        one.stdin.write("go\n")
        one.stdin.flush()
    said = [one.communicate()[0] for one in own]
    assert [text.split()[-1] for text in said] == ["7"] * 4
    shared = subprocess.run(command, input="go\n", capture_output=True, text=True, check=True, cwd=ROOT)
    assert shared.stdout.split()[-1] != "7", "a session of somebody else's is left as it is"
