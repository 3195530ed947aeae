"""A URL of several hosts leads to the first that can be used."""

import asyncio

import pytest

from ops.servers.base import free_port
from sql.hosts import Hosts, hosts_of


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://a/d", [("a", None)]),
        ("postgresql://u:p@a:1,[::1]:2,c/d?target_session_attrs=primary", [("a", 1), ("::1", 2), ("c", None)]),
        ("postgresql:///d?host=a,b&port=1,2", [("a", 1), ("b", 2)]),
        ("postgresql:///d?host=/run/a,b&port=3", [("/run/a", 3), ("b", 3)]),
    ],
)
def test_hosts_are_read_as_libpq_reads_them(url: str, hosts: list[tuple[str, int | None]]) -> None:
    assert hosts_of(url) == hosts


async def test_host_that_refuses_or_stays_silent_leaves_time_for_the_next(postgres_url: str) -> None:
    async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.append(writer)

    connected: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(stay_silent, "127.0.0.1", 0)
    async with silent:
        first = f"127.0.0.1:{silent.sockets[0].getsockname()[1]},127.0.0.1:{free_port()},127.0.0.1"
        url = postgres_url.replace("@127.0.0.1", f"@{first}") + "?target_session_attrs=read-write"
        hosts = Hosts(url)
        for _ in range(2):
            connection = await hosts.connect(6.0)
            assert await connection.fetchval("SELECT 1") == 1
            await connection.close()
        assert len(connected) == 1, "the host that answered is tried first"
        for writer in connected:
            writer.close()
