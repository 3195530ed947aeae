import asyncio
import gzip
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import psutil
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from runtime import trace
from runtime.errors import Fault, Status
from runtime.http.bodies import read_body, stream_body
from runtime.http.envelope import extra_headers, ok
from runtime.http.serving import Runner, make_app, serve
from runtime.inherited import open_sockets, share
from tests.support.memory import forget_peak, peak
from tests.support.raw_http import get, post, read_answer, send
from tests.support.waiting import HANG_SECONDS

BODY_MAX = 1_000


@pytest.fixture
async def runner() -> AsyncIterator[Runner]:
    async def plain(request: web.Request) -> web.Response:
        return ok({"trace": trace.current.get()})

    async def encoded(request: web.Request) -> web.Response:
        return ok(b'{"a":1}', headers={"X-A": "1"}, http_status=201)

    async def refuse(request: web.Request) -> web.Response:
        extra_headers(request)["RateLimit"] = "r"
        raise Fault(Status.RESOURCE_EXHAUSTED, "RATE_LIMITED", "slowly", retry_after_seconds=1.2, policy="ip")

    async def breaks(request: web.Request) -> web.Response:
        raise RuntimeError("the secret")

    async def loses_its_database(request: web.Request) -> web.Response:
        raise ConnectionRefusedError("the secret")

    async def echo(request: web.Request) -> web.Response:
        return ok({"length": len(await read_body(request))})

    async def stream(request: web.Request) -> web.Response:
        return ok({"length": sum([len(piece) async for piece in stream_body(request, 100_000)])})

    app = make_app(body_bytes_max=BODY_MAX)
    app.router.add_get("/plain", plain)
    app.router.add_get("/encoded", encoded)
    app.router.add_get("/refuse", refuse)
    app.router.add_get("/breaks", breaks)
    app.router.add_get("/loses", loses_its_database)
    app.router.add_post("/echo", echo)
    app.router.add_post("/stream", stream)
    runner = await serve(app, "127.0.0.1", 0, shutdown_seconds=1)
    yield runner
    await runner.cleanup()


async def test_data_comes_in_the_envelope(runner: Runner) -> None:
    answer = await send(runner, get("/encoded"))
    assert (answer.status, answer.headers["x-a"]) == (201, "1")
    assert (answer.envelope["code"], answer.envelope["message"], answer.envelope["data"]) == ("OK", "", {"a": 1})


@pytest.mark.parametrize(
    "request_sent",
    [*map(get, ("/plain", "/encoded", "/refuse", "/breaks", "/nowhere")), get("/plain", method="PUT"), b"?"],
    ids=("plain", "with headers", "refused", "broken", "unknown", "wrong verb", "no HTTP"),
)
async def test_answer_has_the_headers_nosniff_no_store_and_server(runner: Runner, request_sent: bytes) -> None:
    headers = (await send(runner, request_sent if request_sent != b"?" else b"nonsense\r\n\r\n")).headers
    assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")
    assert headers["server"] == "tombola"


async def test_callers_trace_goes_on_in_any_version_of_traceparent(runner: Runner) -> None:
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    envelope = (await send(runner, get("/plain", f"traceparent: 00-{trace_id}-00f067aa0ba902b7-01"))).envelope
    assert envelope["trace_id"] == envelope["data"]["trace"] == trace_id
    sent = f"traceparent: 01-{trace_id}-00f067aa0ba902b7-01-what-comes-next"
    assert (await send(runner, get("/plain", sent))).envelope["trace_id"] == trace_id


@pytest.mark.parametrize(
    "traceparent",
    [
        *("garbage", "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        '00-4bf92f3577b34da6a3ce929d0e0e473"-00f067aa0ba902b7-01',
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
        "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01more",
    ],
)
async def test_wrong_traceparent_is_replaced(runner: Runner, traceparent: str) -> None:
    envelope = (await send(runner, get("/plain", f"traceparent: {traceparent}"))).envelope
    assert envelope["trace_id"] == envelope["data"]["trace"] != "4bf92f3577b34da6a3ce929d0e0e4736"


async def test_fault_carries_status_reason_facts_and_headers(runner: Runner) -> None:
    answer = await send(runner, get("/refuse"))
    assert (answer.status, answer.headers["retry-after"], answer.headers["ratelimit"]) == (429, "2", "r")
    assert answer.envelope["code"] == "RESOURCE_EXHAUSTED"
    assert answer.envelope["data"] == {"reason": "RATE_LIMITED", "policy": "ip"}


@pytest.mark.parametrize("path", ["/breaks", "/loses"])
async def test_unexpected_error_leaks_nothing_and_is_logged_with_its_trace(runner: Runner, path: str) -> None:
    with capture_logs() as lines:
        answer = await send(runner, get(path))
    assert (answer.status, answer.envelope["code"], answer.reason) == (500, "INTERNAL", "INTERNAL")
    assert b"secret" not in answer.body
    logged = next(line for line in lines if line["event"] == "unexpected_error")
    assert logged["trace_id"] == answer.envelope["trace_id"]
    assert "secret" in str(logged["exc_info"])


async def test_unknown_route_and_a_wrong_method(runner: Runner) -> None:
    unknown = await send(runner, get("/nowhere"))
    assert (unknown.status, unknown.envelope["code"], unknown.reason) == (404, "NOT_FOUND", "UNKNOWN_ROUTE")
    wrong = await send(runner, get("/echo", method="DELETE"))
    assert (wrong.status, wrong.envelope["code"], wrong.reason) == (405, "UNIMPLEMENTED", "METHOD_NOT_ALLOWED")
    assert wrong.headers["allow"] == "POST"


@pytest.mark.parametrize(
    "garbage",
    [
        *(b"GARBAGE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"G\x00T / HTTP/1.1\r\n\r\n"),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",  # TLS to a plain port.
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 20_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"A%d: 1\r\n" % i for i in range(500)) + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na",
        b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nabc\r\n",
    ],
)
async def test_request_that_the_parser_refuses_is_answered_in_the_envelope(runner: Runner, garbage: bytes) -> None:
    reader, writer = await asyncio.open_connection(*runner.addresses[0][:2])
    writer.write(garbage)
    answer = await read_answer(reader)
    assert (answer.status, answer.envelope["code"], answer.reason) == (400, "INVALID_ARGUMENT", "MALFORMED_REQUEST")
    assert await reader.read() == b""  # What follows garbage is garbage: the connection ends.
    writer.close()


@pytest.mark.parametrize("path", ["/echo", "/stream"])
@pytest.mark.parametrize("rest", [b"", b"ZZ\r\nabc\r\n"])
async def test_broken_body_is_given_up(runner: Runner, path: str, rest: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.http.bodies.BODY_SECONDS", 0.05)
    reader, writer = await asyncio.open_connection(*runner.addresses[0][:2])
    writer.write(get(path, "Transfer-Encoding: chunked", "Expect: 100-continue", method="POST", body=b"3\r\nabc\r\n"))
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"  # The handler is about to read.
    writer.write(rest)
    answer = await read_answer(reader)
    assert (answer.status, answer.reason) == (408, "BODY_INCOMPLETE")
    writer.close()


async def test_bad_expectation_is_answered_in_the_envelope(runner: Runner) -> None:
    answer = await send(runner, post("/echo", b"", "Expect: 200-maybe"))
    assert (answer.status, answer.reason) == (417, "EXPECTATION_FAILED")
    elsewhere = await send(runner, post("/nowhere", b"", "Expect: 200-maybe"))
    assert (elsewhere.status, elsewhere.reason) == (417, "EXPECTATION_FAILED")


async def test_body_is_read_up_to_its_limit(runner: Runner) -> None:
    assert (await send(runner, post("/echo", b"a" * BODY_MAX))).envelope["data"] == {"length": BODY_MAX}
    assert (await send(runner, post("/stream", b"a" * 50_000))).envelope["data"] == {"length": 50_000}


@pytest.mark.parametrize("path", ["/echo", "/stream"])
async def test_large_body_is_refused_before_it_is_sent(runner: Runner, path: str) -> None:
    answer = await send(runner, get(path, "Content-Length: 1000000000", method="POST"))
    assert (answer.status, answer.envelope["code"], answer.reason) == (413, "INVALID_ARGUMENT", "BODY_TOO_LARGE")
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("path", ["/echo", "/stream"])
@pytest.mark.fault(
    "Oversized, compressed bomb, 64 MiB RPC message", size="64 MiB over a socket", figure="413, under 20 MiB"
)
async def test_chunked_body_is_counted_and_not_held(runner: Runner, path: str) -> None:
    own = psutil.Process()
    before = forget_peak(own)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(1_000):
            yield b"10000\r\n" + b"a" * 65_536 + b"\r\n"

    answer = await send(runner, get(path, "Transfer-Encoding: chunked", method="POST"), pieces=pieces())
    assert (answer.status, answer.reason) == (413, "BODY_TOO_LARGE")
    assert peak(own) - before < 20 * 2**20, "of 64 MiB sent"


@pytest.mark.parametrize("path", ["/echo", "/stream"])
async def test_compressed_bomb_is_not_inflated(runner: Runner, path: str) -> None:
    bomb = gzip.compress(bytes(500_000), 9)
    assert len(bomb) < BODY_MAX
    answer = await send(runner, post(path, bomb, "Content-Encoding: gzip"))
    assert (answer.status, answer.envelope["code"], answer.reason) == (415, "INVALID_ARGUMENT", "ENCODING_UNSUPPORTED")


async def test_connection_serves_on_after_a_refusal(runner: Runner) -> None:
    reader, writer = await asyncio.open_connection(*runner.addresses[0][:2])
    for path, status in [("/nowhere", 404), ("/breaks", 500), ("/plain", 200)]:
        writer.write(get(path))
        assert (await read_answer(reader)).status == status
    writer.close()


async def test_client_that_hangs_up_changes_nothing() -> None:
    began, finished, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        began.set()
        await go_on.wait()
        finished.set()
        return ok({})

    app = make_app()
    app.router.add_get("/slow", slow)
    runner = await serve(app, "127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*runner.addresses[0][:2])
    writer.write(get("/slow"))
    await began.wait()
    writer.transport.abort()
    await writer.wait_closed()
    go_on.set()
    async with asyncio.timeout(HANG_SECONDS):
        await finished.wait()
    assert (await send(runner, get("/slow"))).status == 200
    await runner.cleanup()


PATHS = (
    *("/api/games/game_1/play", "/api/games/game_1/play?session=2", "/api/games/game_1/play/", "/api/games//play"),
    *("/api//game_1/play", "//api/games/game_1/play", "/api/games/all/play", "/api/games/all"),
    *("/api/games/game-1.a/play", "/api/games/game%5F1/play", "/api/games/game%2F1/play", "/api/games/g%C3%A9/play"),
    *("/api/games/g\N{LATIN SMALL LETTER E WITH ACUTE}/play", "/api/games/{id}/play"),
    *("/api/games/../games/game_1/play", "/api/games/game_1", "/api/games/game_1/odds"),
    *("/api/games/game_1/prizes/game_2/play", "/api/players/player_1/terms", "/api/players/me/terms"),
    *("http://127.0.0.1/api/games/game_1/play", "*"),
)


async def test_path_finds_the_handler_that_aiohttp_finds() -> None:
    said: dict[str, list[Any]] = {"direct": [], "plain": []}

    def handler(name: str) -> Any:
        async def answer(request: web.Request) -> web.Response:
            return ok([name, dict(request.match_info), request.match_info.route.resource.canonical])  # type: ignore[union-attr]

        return answer

    app = make_app()
    app.router.add_post("/api/games/{id}/play", handler("play"))
    app.router.add_get("/api/games/{id}/odds", handler("odds"))
    app.router.add_get("/api/games/all", handler("all"))
    app.router.add_get("/api/games/{id}", handler("game"))
    app.router.add_post("/api/games/{id}/prizes/{prize}/play", handler("prize"))
    app.router.add_post("/api/players/{id}/terms", handler("terms"))
    app.router.add_post("/api/players/me/terms", handler("own"))
    runner = await serve(app, "127.0.0.1", 0)
    plain = web.AppRunner(app)
    try:
        await plain.setup()
        await web.TCPSite(plain, "127.0.0.1", 0).start()
        for path in PATHS:
            for method in ("GET", "POST", "PUT"):
                answers = [await send(one, get(path, method=method)) for one in (runner, plain)]  # type: ignore[arg-type]
                statuses = [answer.status for answer in answers]
                assert statuses[0] == statuses[1], (method, path)
                if statuses[0] == 200:
                    said["direct"].append(json.loads(answers[0].body)["data"])
                    said["plain"].append(json.loads(answers[1].body)["data"])
    finally:
        await runner.cleanup()
        await plain.cleanup()
    assert said["direct"] == said["plain"]
    assert ["play", {"id": "game_1"}, "/api/games/{id}/play"] in said["direct"]


async def test_access_log_samples_requests() -> None:
    async def plain(request: web.Request) -> web.Response:
        raise Fault(Status.UNAVAILABLE, "OVERLOADED", "try again") if request.query["token"] == "secret" else KeyError

    app = make_app()
    app.router.add_get("/", plain)
    runner = await serve(app, "127.0.0.1", 0, access_log_every=10)
    with capture_logs() as lines:
        for token in (*["secret"] * 20, "other"):
            await send(runner, get(f"/?token={token}"))
    logged = [(line["path"], line["http_status"]) for line in lines if line["event"] == "request"]
    assert logged == [("/", 503)] * 2 + [("/", 500)]
    await runner.cleanup()


async def serving(listener: socket.socket, *, seconds: float = 1) -> Runner:
    """A server on its own descriptor of the socket, as a process has it."""

    async def plain(request: web.Request) -> web.Response:
        return ok({})

    app = make_app()
    app.router.add_get("/plain", plain)
    return await serve(app, "", 0, sockets=[listener.dup()], shutdown_seconds=seconds)


async def test_connection_that_waits_when_a_server_stops_is_answered_by_the_next() -> None:
    (listener,) = open_sockets("127.0.0.1", 0)
    with listener:
        await (await serving(listener)).cleanup()
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(get("/plain"))
        following = await serving(listener)
        assert (await read_answer(reader)).status == 200
        writer.close()
        await following.cleanup()


async def test_idle_connection_of_a_stopping_server_is_answered_once_more_and_told_to_close() -> None:
    (listener,) = open_sockets("127.0.0.1", 0)
    with listener:
        runner = await serving(listener, seconds=10)
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(get("/plain"))
        assert (await read_answer(reader)).headers.get("connection") != "close"
        stopping = asyncio.ensure_future(runner.cleanup())
        await asyncio.sleep(0)
        writer.write(get("/plain"))
        assert (await read_answer(reader)).headers["connection"] == "close"
        assert await reader.read() == b""
        await stopping


async def test_shared_port_is_refused_while_another_program_listens_there() -> None:
    (first,) = open_sockets("127.0.0.1", 0)
    (second,) = share([first])
    with first, second:
        assert first.getsockname() == second.getsockname()
        first.listen()
        with pytest.raises(OSError):
            open_sockets(*first.getsockname())
