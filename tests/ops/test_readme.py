"""The README is true: its commands and its code are run against a stack that `ops/up` started."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime.http.admin import markdown as roles_table
from runtime.settings import markdown as settings_table
from tests.support.up import up

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
STARTS = ("./ops/up", "./ops/test", "./ops/bench")


def blocks(language: str) -> list[str]:
    """The fenced blocks of that language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def at(text: str, ready: dict[str, Any]) -> str:
    """The text for this stack's addresses instead of the default ones."""
    for port, url in (("8080", "core_url"), ("8081", "consumer_url"), ("8082", "admin_url")):
        text = text.replace(f"http://127.0.0.1:{port}", ready[url])
    return text


@pytest.mark.timeout(400)
@pytest.mark.skipif(shutil.which("curl") is None, reason="the README's commands use curl")
def test_the_readme_does_what_it_says(data_dir: Path) -> None:
    commands = [block for block in blocks("sh") if not block.startswith(STARTS)]
    programs = [block for block in blocks("python") if "def register" not in block]
    assert commands and programs
    (data_dir.parent / "double_or_nothing.py").write_text(plugin())
    with up(data_dir) as (_, ready):
        here = data_dir.parent
        shell = run(["bash", "-euo", "pipefail", "-c", at("\n".join(commands), ready)], here)
        answers = [json.loads(answer) for answer in shell.stdout.replace("}{", "}\n{").splitlines()]
        assert len(answers) >= 2 and all(answer["code"] == "OK" for answer in answers), shell.stdout
        for program in programs:
            assert run([sys.executable, "-c", at(program, ready)], here).stdout


def test_the_plugin_of_the_readme_is_a_reward_handler(tmp_path: Path) -> None:
    (tmp_path / "double_or_nothing.py").write_text(plugin())
    program = (
        "from runtime.registry import load_plugins; from runtime.rules import *\n"
        "load_plugins(['double_or_nothing'])\n"
        "rules = compose('none', 'double_or_nothing', 'basic', {'prize_id': 'prize_1'})\n"
        "def attempt(seed):\n"
        "    return Attempt(rules.config, GameRule(), Words(seed), {}, (), lambda prize_id, quantity: True)\n"
        "won = [rules.reward_handler.decide(attempt(bytes([n] * 32))).awards for n in range(100)]\n"
        "assert {len(awards) for awards in won} == {0, 1} and {a.quantity for awards in won for a in awards} == {2}\n"
        "print('ok')"
    )
    assert run([sys.executable, "-c", program], tmp_path).stdout == "ok\n"


@pytest.mark.parametrize(("name", "table"), [("settings", settings_table), ("roles", roles_table)])
def test_its_tables_are_those_of_the_code(name: str, table: Callable[[], str]) -> None:
    shown = README.split(f"<!-- {name} -->\n")[1].split(f"<!-- /{name} -->")[0]
    assert shown.strip() == table().strip()


def plugin() -> str:
    """The README's example of a reward handler."""
    return next(block for block in blocks("python") if "def register" in block)


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command in a folder, with the project importable; fails the test with its output."""
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    environ = {"PATH": path, "PYTHONPATH": f"{ROOT}:{folder}", "HOME": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done
