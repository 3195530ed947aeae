"""An OpenID provider that is not ours: oidc-provider, which is certified, run by Node (ops/web/provider.js)."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.issuer import SETTINGS, USERS
from tests.support.node import WEB, package
from tests.support.waiting import until


def trusting(url: str) -> dict[str, Any]:
    return {**SETTINGS, "jwks_url": f"{url}/jwks", "jwks_issuer": url}


@asynccontextmanager
async def providing(port: int, client: dict[str, Any], log: Path) -> AsyncIterator[None]:
    """The provider, listening for this client of its until the block ends. What it refused and why is in the log."""
    package("oidc-provider")
    command = ("node", "provider.js", str(port), f"http://127.0.0.1:{port}", json.dumps(client), json.dumps(USERS))
    with log.open("wb") as said:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=WEB, stdout=said, stderr=said, env=dict(os.environ)
        )
    try:

        async def listens() -> bool:
            assert process.returncode is None, log.read_text()
            return "listens" in log.read_text()

        await until(listens)
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
