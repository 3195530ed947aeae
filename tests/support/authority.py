"""A time-stamping authority: OpenSSL's, over HTTP."""

import asyncio
import ipaddress
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from aiohttp import web

from tests.support.receiver import Got, receiving
from tests.support.stack import Stack

CONFIG: Final = """
[own]
serial = serial
signer_cert = tsa.pem
signer_key = tsa.key
certs = root.pem
signer_digest = sha256
digests = sha256
default_policy = 1.2.3.4
[ext]
extendedKeyUsage = critical,timeStamping
"""
KEYS: Final = (
    "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout root.key -out root.pem -subj /CN=Root",
    "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout tsa.key -out tsa.csr -subj /CN=Authority",
    "x509 -req -in tsa.csr -CA root.pem -CAkey root.key -CAcreateserial -out tsa.pem -extfile tsa.cnf -extensions ext",
)


class Authority:
    """refused: hashes of notes that it does not stamp. Its certificate is root.pem in the folder."""

    def __init__(self, folder: Path) -> None:
        self.refused, self.folder = list[bytes](), folder

    async def answer(self, got: Got) -> web.StreamResponse:
        (self.folder / "query").write_bytes(got.body)
        await self.openssl("ts -reply -config tsa.cnf -section own -queryfile query -out reply")
        is_refused = any(one in got.body for one in self.refused)
        return web.Response(body=b"" if is_refused else (self.folder / "reply").read_bytes())

    async def openssl(self, command: str) -> None:
        ran = await asyncio.create_subprocess_exec("openssl", *command.split(), cwd=self.folder)
        assert await ran.wait() == 0, command


@asynccontextmanager
async def authority(stack: Stack, folder: Path) -> AsyncIterator[Authority]:
    folder.mkdir()
    (folder / "tsa.cnf").write_text(CONFIG)
    (folder / "serial").write_text("01")
    before, found = stack.engine.settings, Authority(folder)
    for command in KEYS:
        await found.openssl(command)
    async with receiving() as receiver:
        receiver.replies = [found.answer] * 9
        allow = (ipaddress.ip_network("127.0.0.0/8"),)
        stack.engine.settings = replace(before, log_timestamp_url=receiver.url, outbound_allow_cidrs=allow)
        try:
            yield found
        finally:
            stack.engine.settings = before
