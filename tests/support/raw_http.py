"""HTTP over a raw socket: requests as bytes, and the answer's envelope."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from runtime.http.serving import Runner
from tests.support.waiting import HANG_SECONDS


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def envelope(self) -> dict[str, Any]:
        assert self.headers["content-type"].startswith("application/json")
        envelope: dict[str, Any] = json.loads(self.body)
        assert list(envelope) == ["code", "message", "trace_id", "data"]
        assert len(envelope["trace_id"]) == 32
        return envelope

    @property
    def reason(self) -> str:
        return str(self.envelope["data"]["reason"])


async def send(runner: Runner, request: bytes, *, pieces: AsyncIterator[bytes] | None = None) -> Answer:
    reader, writer = await asyncio.open_connection(*runner.addresses[0][:2])
    try:
        async with asyncio.timeout(HANG_SECONDS):
            writer.write(request)
            if pieces is not None:
                try:
                    async for piece in pieces:
                        writer.write(piece)
                        await writer.drain()
                except ConnectionError:
                    pass  # refused before it was all sent
            return await read_answer(reader)
    finally:
        writer.close()


async def read_answer(reader: asyncio.StreamReader) -> Answer:
    status_line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    return Answer(int(status_line.split()[1]), headers, await reader.readexactly(int(headers["content-length"])))


def get(path: str, *headers: str, method: str = "GET", body: bytes = b"") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode("latin-1") + body


def post(path: str, body: bytes, *headers: str) -> bytes:
    return get(path, f"Content-Length: {len(body)}", *headers, method="POST", body=body)
