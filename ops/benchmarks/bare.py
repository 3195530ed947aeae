"""Baselines: an aiohttp handler that does nothing, a minimal receiver, and bare POSTs.

python -m ops.benchmarks.bare handler PORT             answers GET / and POST / at once
python -m ops.benchmarks.bare receiver PORT LOG        answers each POST with 204 and records its time
python -m ops.benchmarks.bare hung PORT LOG            records the time of each POST and never answers
python -m ops.benchmarks.bare posts URL COUNT CLIENTS  POSTs with aiohttp's client; prints {"seconds"}
"""

import asyncio
import json
import sys
import time
from array import array
from pathlib import Path
from typing import Final, cast

import aiohttp
import uvloop
from aiohttp import web

ANSWER: Final = b'{"code":"OK","message":"","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","data":{}}'
DELIVERY: Final = json.dumps({"id": "task_" + 26 * "0", "type": "bare", "data": {"filler": "x" * 500}}).encode()
"""About as long as a webhook delivery."""


async def handler(port: int) -> None:
    """The minimum for aiohttp: one route per verb, the body read, a constant response, no access log."""

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=ANSWER, headers={"Content-Type": "application/json"})

    app = web.Application()
    app.router.add_get("/", answer)
    app.router.add_post("/", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


class Receiver(asyncio.Protocol):
    """A minimal webhook receiver: answers 204 to each POST."""

    arrivals: Final = array("d")
    answer = b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"

    def __init__(self) -> None:
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are not derived from asyncio's

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (head := self.buffer.find(b"\r\n\r\n")) >= 0:
            at = self.buffer[:head].lower().find(b"content-length:")
            end = head + 4
            if at >= 0:
                end += int(self.buffer[at + 15 : self.buffer.index(b"\r\n", at)])
            if len(self.buffer) < end:
                return
            self.buffer = self.buffer[end:]
            self.arrivals.append(time.time())
            self.transport.write(self.answer)


class Hung(Receiver):
    """Accepts each POST and never answers."""

    answer = b""


async def receiver(port: int, log: Path, kind: type[Receiver] = Receiver) -> None:
    """Listens. Writes `{count, first, last}` (unix seconds) of the arrivals to `log` twenty times a second."""
    loop = asyncio.get_running_loop()
    await loop.create_server(kind, "127.0.0.1", port)
    while True:
        await asyncio.sleep(0.05)
        came = Receiver.arrivals
        said = {"count": len(came), "first": came[0] if came else 0.0, "last": came[-1] if came else 0.0}
        log.with_suffix(".new").write_text(json.dumps(said))
        log.with_suffix(".new").replace(log)


async def posts(url: str, count: int, clients: int) -> None:
    """`count` POSTs by `clients` tasks over one aiohttp session."""
    left = iter(range(count))
    connector = aiohttp.TCPConnector(limit=clients)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def client() -> None:
            for _ in left:
                async with session.post(url, data=DELIVERY, headers={"Content-Type": "application/json"}) as answer:
                    await answer.read()

        started = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(clients)))
        print(json.dumps({"seconds": time.perf_counter() - started}))


def main(arguments: list[str]) -> None:
    """See the module's docstring."""
    match arguments:
        case ["handler", port]:
            uvloop.run(handler(int(port)))
        case ["receiver", port, log]:
            uvloop.run(receiver(int(port), Path(log)))
        case ["hung", port, log]:
            uvloop.run(receiver(int(port), Path(log), Hung))
        case ["posts", url, count, clients]:
            uvloop.run(posts(url, int(count), int(clients)))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
