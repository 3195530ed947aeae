import asyncio
import ipaddress
import socket
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from runtime import trace
from runtime.outgoing import resolver
from runtime.outgoing.connector import ANSWER_BYTES_MAX, Connector, Unreachable, allowed, check_url
from tests.support.waiting import HANG_SECONDS

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)


class Receiver:
    """A raw server on 127.0.0.1 that counts its connections."""

    def __init__(self) -> None:
        self.connections = 0
        self.hung_up = asyncio.Event()
        self.servers: list[asyncio.Server] = []

    async def serve(self, answer: bytes | None, drip_seconds: float = 0) -> str:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connections += 1
            try:
                await reader.readuntil(b"\r\n\r\n")
                if answer is None:
                    await reader.read()
                elif drip_seconds:
                    writer.write(answer)
                    while True:
                        writer.write(b"x")
                        await writer.drain()
                        await asyncio.sleep(drip_seconds)  # sleeps: between two drops
                else:
                    writer.write(answer)
                    await writer.drain()
                    await reader.read()
                    self.hung_up.set()
            except (ConnectionError, asyncio.IncompleteReadError):
                pass  # who was given up on hung up
            finally:
                writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        self.servers.append(server)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    yield receiver
    for server in receiver.servers:
        server.close()


def fixture_of(*allow: Any, seconds: float = HANG_SECONDS) -> Any:
    async def connecting() -> AsyncIterator[Connector]:
        connector = Connector(allow, attempt_seconds=seconds)
        yield connector
        await connector.close()

    return pytest.fixture(connecting)


connector, hasty, public_only = fixture_of(*LOOPBACK), fixture_of(*LOOPBACK, seconds=0.5), fixture_of()


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.31.0.1"),
        *("192.0.0.192", "192.0.2.1", "192.168.1.1", "198.18.0.1", "198.19.255.255", "224.0.0.1", "255.255.255.255"),
        *("168.63.129.16", "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1"),
        *("64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "fc00::1", "fd00::1", "fe80::1"),
        *("fe80::1%eth0", "fec0::1", "ff02::1", "3fff::1", "5f00::1", "not an address", "127.1"),
    ],
)
@pytest.mark.fault("SSRF", size="every kind of address", figure="denied")
def test_address_that_is_not_public_is_denied(address: str) -> None:
    assert not allowed(address, ())


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "8.8.8.8", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "223.255.255.255"]
)
def test_public_address_is_allowed(address: str) -> None:
    assert allowed(address, ())


def test_allowed_network_opens_itself_alone() -> None:
    assert allowed("127.0.0.1", LOOPBACK) and allowed("::ffff:127.0.0.1", LOOPBACK)
    assert not allowed("::1", LOOPBACK) and not allowed("10.0.0.1", LOOPBACK)


@pytest.mark.parametrize(
    "url",
    [
        *("", "ftp://a.example", "//a.example", "http://", "http://a:99999/", "http://a:0/", "http://u:p@a.example/"),
        *("http://u@a.example/", "http://:p@a.example/", "http://a b/", "http://a.example/\u200b"),
        "file:///etc/passwd",
    ],
)
def test_url_that_is_none_is_refused(url: str) -> None:
    assert check_url(url)


async def test_answer_is_read_with_its_retry_time(receiver: Receiver, connector: Connector) -> None:
    url = await receiver.serve(b"HTTP/1.1 429 No\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\nno")
    assert await connector.post(url, b"{}", {}) == (429, 7.0, b"no")
    dates = b"Date: Wed, 21 Oct 2015 07:28:00 GMT\r\nRetry-After: Wed, 21 Oct 2015 07:29:30 GMT\r\n"
    url = await receiver.serve(b"HTTP/1.1 503 No\r\n" + dates + b"Content-Length: 0\r\n\r\n")
    assert (await connector.post(url, b"{}", {})).retry_after_seconds == 90.0


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "2130706433", "0x7f000001", "127.1", "localhost", "[::ffff:127.0.0.1]", "0"]
)
@pytest.mark.fault("SSRF", size="7 spellings", figure="0 connections")
async def test_loopback_in_any_spelling_is_refused(receiver: Receiver, public_only: Connector, host: str) -> None:
    port = (await receiver.serve(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")).split(":")[2]
    with pytest.raises(Unreachable):
        await public_only.post(f"http://{host}:{port}", b"{}", {})
    assert receiver.connections == 0


@pytest.mark.fault("SSRF", size="2 look-ups", figure="0 connections")
async def test_name_that_is_rebound_is_never_connected(
    receiver: Receiver, public_only: Connector, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = (await receiver.serve(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")).split(":")[2]
    for address in ("192.0.2.1", "127.0.0.1"):
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)  # noqa: B023  Called within the iteration.
        monkeypatch.setattr(resolver, "CACHE_SECONDS", 0)
        with pytest.raises(Unreachable, match=f"^{address} is not a public"):
            await public_only.post(f"http://receiver.example:{port}", b"{}", {})
    assert receiver.connections == 0


async def test_hung_lookups_of_a_tenant_do_not_delay_another_tenant(
    receiver: Receiver, hasty: Connector, connector: Connector, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answer, look_up = list[str](), threading.Event(), socket.getaddrinfo

    def hanging(host: str, *args: Any, **more: Any) -> Any:
        asked.append(host)
        assert host == "quick.example" or answer.wait()
        return look_up("127.0.0.1", *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", hanging)
    monkeypatch.setattr(connector, "_session", hasty.session)
    _, _, port = (await receiver.serve(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")).split(":")
    hosts = [f"host{nth}.example" for nth in range(resolver.PER_TENANT)]
    trace.tenant.set("tenant_hung")
    for _ in range(2):  # quick.example has no turn, so its lookup is not shared with other tenants.
        sent = [hasty.post(f"http://{host}:{port}", b"{}", {}) for host in (*hosts, "quick.example")]
        assert {str(one) for one in await asyncio.gather(*sent, return_exceptions=True)} == {"no answer within 0.5 s"}
    trace.tenant.set("tenant_other")
    assert (await connector.post(f"http://quick.example:{port}", b"{}", {})).status == 200
    assert asked == [*hosts, "quick.example"], "a running lookup is shared, also by later attempts"
    answer.set()
    trace.tenant.set("tenant_hung")
    assert (await connector.post(f"http://{hosts[0]}:{port}", b"{}", {})).status == 200


@pytest.mark.fault("SSRF", size="307 to loopback", figure="1 connection")
async def test_redirect_is_an_answer_and_is_not_followed(receiver: Receiver, connector: Connector) -> None:
    other = await receiver.serve(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    url = await receiver.serve(f"HTTP/1.1 307 Go\r\nLocation: {other}\r\nContent-Length: 0\r\n\r\n".encode())
    assert (await connector.post(url, b"{}", {})).status == 307
    assert receiver.connections == 1


@pytest.mark.parametrize(
    ("answer", "drip_seconds"), [(None, 0), (b"HTTP/1.1 200 OK\r\nX-Slow: ", 0.05)], ids=["hangs", "drips headers"]
)
@pytest.mark.fault(
    "Slow or dripping webhook", size="a patience of 0.5 s", figure="given up within it", smaller="0.5 s for 15 s"
)
async def test_receiver_that_hangs_or_drips_is_given_up(
    receiver: Receiver, hasty: Connector, answer: bytes | None, drip_seconds: float
) -> None:
    with pytest.raises(Unreachable, match=r"no answer within 0\.5 s"):
        await hasty.post(await receiver.serve(answer, drip_seconds), b"{}", {})


CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxx\r\n"
EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"


@pytest.mark.parametrize(
    ("start", "drip_seconds"), [(CHUNKS, 0), (CHUNKS, 0.05), (CHUNKS + b"x", 0), (EARLY + CHUNKS + b"x", 0)]
)
async def test_status_before_a_broken_body_counts(
    receiver: Receiver, hasty: Connector, connector: Connector, start: bytes, drip_seconds: float
) -> None:
    is_malformed = (start, drip_seconds) != (CHUNKS, 0)
    async with asyncio.timeout(HANG_SECONDS / 2):  # A malformed body ends before the connector's deadline.
        answer = (connector if is_malformed else hasty).post(await receiver.serve(start, drip_seconds), b"{}", {})
        assert await answer == (200, 0.0, b"xx")


@pytest.mark.parametrize("answer", [b"+49301234567\r\n\r\n", b"HTTP/1.1 200 OK\r\n+49301234567\r\n\r\n"])
async def test_error_has_nothing_of_a_malformed_answer(receiver: Receiver, connector: Connector, answer: bytes) -> None:
    with pytest.raises(Unreachable, match=r"^no valid response \(\w+\)$"):
        await connector.post(await receiver.serve(answer), b"{}", {})


async def test_endless_answer_is_cut_and_its_connection_ended(receiver: Receiver, connector: Connector) -> None:
    start = b"x" * ANSWER_BYTES_MAX
    url = await receiver.serve(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n" + start)
    assert await connector.post(url, b"{}", {}) == (200, 0.0, start)
    async with asyncio.timeout(HANG_SECONDS):
        await receiver.hung_up.wait()


async def test_connections_that_are_kept_end_with_the_connector(receiver: Receiver, connector: Connector) -> None:
    await connector.post(await receiver.serve(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), b"{}", {})
    assert not receiver.hung_up.is_set()
    await connector.close()
    async with asyncio.timeout(HANG_SECONDS):
        await receiver.hung_up.wait()


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [(b"", 0.0), (b"soon", 0.0), (b"-7", 0.0), (b"12", 12.0), ("\u00b2".encode(), 0.0), (b"9" * 4000, 86400.0)],
)
async def test_retry_after_is_bounded(receiver: Receiver, connector: Connector, asked: bytes, seconds: float) -> None:
    url = await receiver.serve(b"HTTP/1.1 503 No\r\nRetry-After: " + asked + b"\r\nContent-Length: 0\r\n\r\n")
    assert (await connector.post(url, b"{}", {})).retry_after_seconds == seconds


async def test_receiver_that_is_away_and_url_that_is_none_are_reported(connector: Connector) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for url, error in ((f"http://127.0.0.1:{port}/", "no connection"), ("ftp://a", "the URL must be an http")):
        with pytest.raises(Unreachable, match=error):
            await connector.post(url, b"{}", {})
