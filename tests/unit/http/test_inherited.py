"""A listening socket that processes inherit one after the other: what waits in it outlives each of them."""

import asyncio
import socket

import pytest
from aiohttp import web

from runtime.http.envelope import ok
from runtime.http.serving import Runner, make_app, serve
from runtime.inherited import open_sockets, share
from tests.support.raw_http import get, read_answer


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
