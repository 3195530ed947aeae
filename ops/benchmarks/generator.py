"""The bundled load generator: prepared requests over raw sockets, in its own process.

    python -m ops.benchmarks.generator SPEC.json    (prints one JSON object: see `Loaded` in load.py)

A client that builds requests and parses responses on the fly costs more than the server that it measures.
Here requests are prepared bytes, and only status, Content-Length and code of a response are read. Each connection sends
its next request after the response to its last: a closed loop, keep-alive, no pipelining.
"""

import asyncio
import json
import resource
import sys
import time
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import uvloop

OK: Final = b'"code":"OK"'
_LENGTH: Final = b"content-length:"
_SESSION: Final = b'"session_id":"'
_SHOWN_BYTES: Final = 400


class Shot:
    """The state shared by all connections: the remaining requests, and the results.

    plays: empty, or one for each request, sent with the session from its response; the two count as one.
    """

    def __init__(self, requests: list[bytes], plays: list[bytes], *, collect: bool) -> None:
        self.requests = requests
        self.plays = plays
        self.left: Iterator[int] = iter(range(len(requests)))
        self.latencies = array("d")
        self.sessions = [b""] * len(requests) if collect else None
        self.ok = 0
        self.failed = 0
        self.first_failure = b""
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.open = 0

    def ended(self, error: Exception | None = None) -> None:
        """A connection has finished, or was lost before."""
        self.open -= 1
        if self.over.done():
            return
        if error is not None:
            self.over.set_exception(error)
        elif self.open == 0:
            self.over.set_result(None)


class Connection(asyncio.Protocol):
    """One keep-alive connection."""

    def __init__(self, shot: Shot) -> None:
        self.shot = shot
        self.buffer = b""
        self.number = -1
        self.played = False
        self.done = False
        self.sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are not derived from asyncio's

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done:
            self.shot.ended(exc or ConnectionError("the server closed a connection in the middle of the run"))

    def go(self) -> None:
        """Sends the next request, or finishes."""
        number = next(self.shot.left, None)
        if number is None:
            self.done = True
            self.shot.ended()
            self.transport.close()
            return
        self.number = number
        self.sent_at = time.perf_counter()
        self.transport.write(self.shot.requests[number])

    def data_received(self, data: bytes) -> None:
        answer = self.buffer + data if self.buffer else data
        head = answer.find(b"\r\n\r\n")
        if head < 0 or len(answer) < head + 4 + _body_bytes(answer, head):
            self.buffer = answer
            return
        self.buffer = b""
        shot = self.shot
        if OK not in answer:
            shot.failed += 1
            shot.first_failure = shot.first_failure or answer[:_SHOWN_BYTES] + b" ... " + answer[-_SHOWN_BYTES:]
        elif shot.plays and not self.played:
            self.played = True
            self.transport.write(_with_session(shot.plays[self.number], _session_in(answer)))
            return
        else:
            shot.ok += 1
            shot.latencies.append(time.perf_counter() - self.sent_at)
            if shot.sessions is not None:
                shot.sessions[self.number] = _session_in(answer)
        self.played = False
        self.go()


def _body_bytes(answer: bytes, head: int) -> int:
    at = answer.find(b"Content-Length:", 0, head)
    if at < 0:
        at = answer[:head].lower().find(_LENGTH)
        if at < 0:
            return 0
    end = answer.find(b"\r\n", at)
    return int(answer[at + len(_LENGTH) : end])


def _session_in(answer: bytes) -> bytes:
    at = answer.index(_SESSION) + len(_SESSION)
    return answer[at : answer.index(b'"', at)]


def _with_session(play: bytes, session: bytes) -> bytes:
    """Inserts the session into a body that begins with `{"session_id":"`, and the Content-Length into the head."""
    head, _, body = play.partition(b"\r\n\r\n")
    body = body.replace(_SESSION, _SESSION + session, 1)
    return b"%b\r\nContent-Length: %d\r\n\r\n%b" % (head, len(body), body)


def read_requests(path: Path) -> list[bytes]:
    """Requests from a file written by `write_requests`."""
    data, found, at = path.read_bytes(), [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        found.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return found


def write_requests(path: Path, requests: list[bytes]) -> None:
    """Writes a file of requests, each preceded by its length (4 bytes, big-endian)."""
    path.write_bytes(b"".join([len(request).to_bytes(4, "big") + request for request in requests]))


def main(spec: dict[str, Any]) -> None:
    """`spec`: host, port, connections, and the files requests, plays ("": none) and sessions ("": none)."""
    requests = read_requests(Path(spec["requests"]))
    plays = read_requests(Path(spec["plays"])) if spec["plays"] else []
    said, sessions = uvloop.run(_run(spec, requests, plays))
    if spec["sessions"]:
        Path(spec["sessions"]).write_bytes(b"\n".join(sessions))
    print(json.dumps(said))


async def _run(spec: dict[str, Any], requests: list[bytes], plays: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    shot = Shot(requests, plays, collect=bool(spec["sessions"]))
    loop = asyncio.get_running_loop()
    connections = []
    for _ in range(min(spec["connections"], len(shot.requests))):
        _, connection = await loop.create_connection(lambda: Connection(shot), spec["host"], spec["port"])
        connections.append(connection)
    shot.open = len(connections)
    cpu, started = _cpu_seconds(), time.perf_counter()
    for connection in connections:
        connection.go()
    await shot.over
    seconds, cpu_seconds = time.perf_counter() - started, _cpu_seconds() - cpu
    found = sorted(shot.latencies)
    said = {
        "ok": shot.ok,
        "failed": shot.failed,
        "first_failure": shot.first_failure.decode(errors="replace"),
        "seconds": seconds,
        "p50_ms": found[len(found) // 2] * 1000 if found else 0.0,
        "p99_ms": found[len(found) * 99 // 100] * 1000 if found else 0.0,
        "max_ms": found[-1] * 1000 if found else 0.0,
        "cpu_seconds": cpu_seconds,
    }
    return said, shot.sessions or []


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
