"""A process of Tombola as an operator starts it, with its output in a file; on free ports, ended by its own pid."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from tests.support.stack import PATIENT
from tests.support.waiting import HANG_SECONDS


@asynccontextmanager
async def process(log: Path, port: int, *command: str, **environment: str) -> AsyncIterator[str]:
    """`python -m runtime COMMAND` for the length of the block, once `port` is ready; the URL of that port.

    environment: its settings, by variable, in place of those that wait patiently for the stores. What it writes on
    standard output and error is in `log`.
    """
    own = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "TMPDIR")}
    own |= {name.upper(): str(value) for name, value in PATIENT.items()} | {"METRICS_PORT": "0", "DEVELOPMENT": "on"}
    with log.open("ab") as written:
        running = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "runtime", *command, env={**own, **environment}, stdout=written, stderr=written
        )
    try:
        async with asyncio.timeout(HANG_SECONDS), aiohttp.ClientSession() as http:
            while not await _ready(http, f"http://127.0.0.1:{port}/readyz"):
                assert running.returncode is None, log.read_text()
                await asyncio.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        if running.returncode is None:
            running.send_signal(signal.SIGTERM)
        async with asyncio.timeout(HANG_SECONDS):
            await running.wait()


async def _ready(http: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with http.get(url) as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False
