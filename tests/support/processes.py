import asyncio
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import asyncpg

from ops.servers.base import free_port
from runtime.operations import API
from tests.support.stack import PATIENT, TENANT
from tests.support.waiting import HANG_SECONDS

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "runtime")


@asynccontextmanager
async def process(log: Path, port: int, *command: str, **environment: str) -> AsyncIterator[str]:
    """The URL of the port, once ready. environment: settings by variable; `log` gets standard output and error."""
    own = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "TMPDIR")}
    own |= {name.upper(): str(value) for name, value in PATIENT.items()} | {"METRICS_PORT": "0", "DEVELOPMENT": "on"}
    with log.open("ab") as written:
        env = {**own, **environment}
        running = await asyncio.create_subprocess_exec(*COMMAND, *command, env=env, stdout=written, stderr=written)
    try:
        await _until_ready(running, f"http://127.0.0.1:{port}/readyz", log)
        yield f"http://127.0.0.1:{port}"
    finally:
        if running.returncode is None:
            running.send_signal(signal.SIGTERM)
        async with asyncio.timeout(HANG_SECONDS):
            await running.wait()


async def _until_ready(running: asyncio.subprocess.Process, url: str, log: Path) -> None:
    """Fails the test where the process ends instead, with what it said."""
    async with asyncio.timeout(HANG_SECONDS), aiohttp.ClientSession() as http:
        while not await _ready(http, url):
            assert running.returncode is None, log.read_text()
            await asyncio.sleep(0.02)


async def _ready(http: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with http.get(url) as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


class CoreProcess:
    """`python -m runtime all` on ports that it keeps over restarts.

    directory: where the version lies that it is started from; this one, unless told otherwise. environment: in
    place of its settings, by variable.
    """

    def __init__(self, database_url: str, redis_url: str, log: Path, **environment: str) -> None:
        self.directory = ROOT
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._environment = {
            **{name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "TMPDIR")},
            "DATABASE_URL": database_url,
            "REDIS_URL": redis_url,
            **{name: f"1:{secrets.token_hex(32)}" for name in ("SERVER_KEYS", "CODE_KEYS")},
            "JWT_SECRET": secrets.token_hex(32),
            "CORE_PORT": str(port),
            **{f"{name}_PORT": "0" for name in ("CONSUMER", "ADMIN", "RPC", "METRICS")},
            "DEVELOPMENT": "on",
            "RATE_LIMITS": "off",
            "DRAIN_SECONDS": "20",
            **environment,
        }

    async def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *COMMAND, "all", cwd=self.directory, env=self._environment, stdout=log, stderr=log
            )
        for port in ("CORE_PORT", "CONSUMER_PORT", "ADMIN_PORT"):
            if (number := self._environment[port]) != "0":
                await _until_ready(self._process, f"http://127.0.0.1:{number}/readyz", self._log)

    async def failure(self) -> str:
        """What it says as it ends by itself. TimeoutError where it does not."""
        async with asyncio.timeout(HANG_SECONDS):
            assert await self._process.wait() == 1
        return self._log.read_text().splitlines()[-1]

    def send(self, what: signal.Signals) -> None:
        self._process.send_signal(what)

    async def end(self, how: signal.Signals) -> int:
        if self._process.returncode is None:
            self._process.send_signal(how)
        async with asyncio.timeout(HANG_SECONDS):
            return await self._process.wait()


async def make_wheel(core: CoreProcess, connection: asyncpg.Connection, *, total: int) -> str:
    await connection.execute("INSERT INTO tenants (tenant_id, name) VALUES ($1, 'Test') ON CONFLICT DO NOTHING", TENANT)
    async with aiohttp.ClientSession(base_url=core.url) as http:

        async def make(kind: str, **fields: object) -> str:
            async with http.post(f"{API}/{kind}s", json={"scope": {"tenant_id": TENANT}, kind: fields}) as answer:
                return str((await answer.json())["data"][kind]["id"])

        campaign_id = await make("campaign", name="Autumn", status="active")
        prize_id = await make("prize", name="Mug", type="goods", stock={"total": total})
        config = {"prizes": [{"prize_id": prize_id, "probability": 1}]}
        rule = {"reward_handler": "probability", "handler_config": config}
        return await make("game", name="Wheel", type="spin_wheel", campaign_id=campaign_id, status="active", **rule)
