import asyncio
import atexit
import json
import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.stack import Stack

ROOT = Path(__file__).parents[2]


class Forks:
    """The process that runs the commands of this test process (tests/support/command_forks.py), one after the other."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.support.command_forks"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
        self._turn = threading.Lock()
        atexit.register(self._process.terminate)

    def ask(self, command: dict[str, Any]) -> int:
        assert self._process.stdin is not None and self._process.stdout is not None
        with self._turn:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
            return int(self._process.stdout.readline())


@cache
def forks() -> Forks:
    return Forks()


@dataclass
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


async def run(directory: Path, *arguments: str, stdin: bytes = b"", **environment: str) -> Ran:
    names = ("in", "out", "err")
    with tempfile.TemporaryDirectory() as scratch:
        files = {name: Path(scratch) / name for name in names}
        files["in"].write_bytes(stdin)
        command = {"arguments": arguments, "environment": {**os.environ, "PYTHONPATH": str(ROOT), **environment}}
        command |= {"folder": str(directory), **{name: str(path) for name, path in files.items()}}
        code = await asyncio.to_thread(forks().ask, command)
        out, err = ((files[name].read_text() if files[name].exists() else "") for name in names[1:])
    return Ran(code, out, err)


async def tombola(*arguments: str, **environment: str) -> tuple[int, str, str]:
    ran = await run(ROOT, *arguments, COLUMNS="200", **environment)
    return ran.code, ran.out, ran.err


async def begun(*arguments: str, **environment: str) -> asyncio.subprocess.Process:
    env, command = {"PATH": os.environ["PATH"], "COLUMNS": "200", **environment}, (sys.executable, "-m", "runtime")
    streams = {"stdin": subprocess.DEVNULL, **dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)}
    return await asyncio.create_subprocess_exec(*command, *arguments, cwd=ROOT, env=env, **streams)


class Operator:
    def __init__(self, stack: Stack, directory: Path) -> None:
        self.stack = stack
        self.directory = directory
        self.roles: tuple[str, ...] = ("admin",)

    async def __call__(self, *arguments: str, stdin: bytes = b"", **environment: str) -> Ran:
        own = {"TOMBOLA_ADMIN_URL": self.stack.process.admin_url}
        own |= {"TOMBOLA_TOKEN": self.stack.token("operator_ines", self.roles), "COLUMNS": "100"}
        return await run(self.directory, *arguments, stdin=stdin, **{**own, **environment})

    def file(self, text: str, name: str = "campaign.yaml") -> str:
        (self.directory / name).write_text(text)
        return name

    async def audit(self) -> int:
        entries = (await self.stack.admin("GET", "/admin/audit", limit=100)).data["items"]
        return len([entry for entry in entries if entry["action"] != "staff.sign_in"])
