"""Outgoing HTTP to untrusted URLs (SSRF protection): public addresses only, no redirects, one deadline.

The check applies to the resolved address of the socket, just before it connects, for names and literals.
DNS rebinding therefore cannot bypass it. The deny list is explicit, since `ipaddress.is_global` differs
between Python versions and lets some translation prefixes pass.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import aiohttp
from aiohttp.client_proto import ResponseHandler

from runtime.outgoing.resolver import Resolver

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

ATTEMPT_SECONDS: Final = 15.0
"""The deadline of a whole attempt: DNS, connection, request, and reading the response."""

ANSWER_BYTES_MAX: Final = 16 * 1024
"""The most bytes read of a response; the rest is dropped with the connection."""

CONNECTIONS: Final = 512
CONNECTIONS_PER_HOST: Final = 64
RETRY_AFTER_SECONDS_MAX: Final = 24 * 3600.0

DENIED: Final[tuple[Network, ...]] = tuple(
    ipaddress.ip_network(text)
    for text in (
        # IANA's special-purpose registry for IPv4 (RFC 6890 and its successors).
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
        *("192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24"),
        *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        "168.63.129.16/32",  # a public address that a cloud uses for its internal agent
        # Within 2000::/3, the only allowed IPv6 range: protocol assignments with Teredo and ORCHID,
        # documentation, 6to4 (it embeds an IPv4 address), documentation again, AS112.
        *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "2620:4f:8000::/48"),
    )
)
_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_HEAD_END: Final = re.compile(rb"(?:^|\n)\r?\n")


class Unreachable(Exception):
    """The attempt got no response. The message tells an operator why."""


class Refused(OSError):
    """The address is denied."""


class Answer(NamedTuple):
    """status: HTTP status. retry_after_seconds: from Retry-After, 0 without one. body: the first bytes."""

    status: int
    retry_after_seconds: float
    body: bytes


def allowed(address: str, allow: Sequence[Network]) -> bool:
    """Whether a socket may connect to `address`, a literal. `allow` lists networks beyond the public ones."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    if any(ip.version == network.version and ip in network for network in allow):
        return True
    if isinstance(ip, ipaddress.IPv6Address) and ip not in _GLOBAL_UNICAST:
        return False
    return not any(ip.version == network.version and ip in network for network in DENIED)


@lru_cache(maxsize=1024)
def check_url(url: str) -> str | None:
    """The problem of a receiver's URL, or None."""
    try:
        parts = urlsplit(url)
        port = parts.port  # raises for an invalid port
    except ValueError:
        return "must be an http or https URL"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "must be an http or https URL that names a host"
    if parts.username is not None:  # also set, if empty, when there is only a password
        return "must not contain a user or password. Use headers"
    if any(character.isspace() or not character.isprintable() for character in url):
        return "must not contain white space"
    return None


class _Receiving(ResponseHandler):
    """aiohttp's side of a connection, except that a malformed body is like one that breaks off: its status counts.

    aiohttp alone loses a response whose head arrives together with malformed chunks, and if such chunks arrive later,
    it waits for the deadline.
    """

    def data_received(self, data: bytes) -> None:
        is_first = True
        while (is_first or data.startswith(b"HTTP/")) and (end := _HEAD_END.search(data)) and end.end() < len(data):
            super().data_received(data[: end.end()])
            data, is_first = data[end.end() :], False  # After an interim response, another head.
        super().data_received(data)

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        super().set_exception(exc, *cause)
        if self._payload is not None:
            self._payload.feed_eof()


class Connector:
    """Sends to receivers. One per process; call `close` at shutdown. per_host: connections to one host; 0: no limit."""

    def __init__(
        self,
        allow: Sequence[Network] = (),
        *,
        attempt_seconds: float = ATTEMPT_SECONDS,
        per_host: int = CONNECTIONS_PER_HOST,
    ) -> None:
        self._allow = tuple(allow)
        self._per_host = per_host
        self._attempt_seconds = attempt_seconds
        self._session: aiohttp.ClientSession | None = None

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """One attempt, of at most `attempt_seconds`. Raises Unreachable without a status.

        A body that breaks off, or is malformed, is returned as far as it came: the status says what the receiver did.
        """
        return await self.send("POST", url, body, headers)

    async def send(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """As `post`, with any method."""
        if (problem := check_url(url)) is not None:
            raise Unreachable(f"the URL {problem}")
        status, retry_after, start = 0, 0.0, bytearray()
        try:
            async with asyncio.timeout(self._attempt_seconds):
                async with self.session.request(
                    method, url, data=aiohttp.BytesPayload(body), headers=headers, allow_redirects=False
                ) as response:
                    status, retry_after = response.status, _retry_after(response.headers)
                    await _read_start(response, start)
        except (OSError, aiohttp.ClientError, ValueError) as error:
            if not status:
                raise Unreachable(self._why(error)) from None
        return Answer(status, retry_after, bytes(start[:ANSWER_BYTES_MAX]))

    def _why(self, error: Exception) -> str:
        match error:
            case TimeoutError():
                return f"no answer within {self._attempt_seconds:g} s"
            case aiohttp.ClientConnectorError():
                return _reason(error)
            case OSError():
                return f"{type(error).__name__}: {error}"[:300]
        # Without its text: the parser quotes the response, which may echo the request's personal data.
        return f"no valid response ({type(error).__name__})"

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    @property
    def session(self) -> aiohttp.ClientSession:
        """The session, for a client of another protocol; it must set a deadline and follow no redirects."""
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=CONNECTIONS,
                limit_per_host=self._per_host,
                socket_factory=self._socket,
                resolver=Resolver.of_loop(),
                use_dns_cache=False,  # The resolver shares lookups, except those that wait for their tenant's turn.
            )
            connector._factory = partial(_Receiving, loop=asyncio.get_running_loop())  # type: ignore[assignment]
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),  # `post` sets the only deadline
                trust_env=False,  # a proxy would bypass the address check
                auto_decompress=False,  # a decompression bomb stays small; `identity` asks for no compression
                headers={"User-Agent": "Tombola/1", "Accept-Encoding": "identity"},
            )
        return self._session

    def _socket(self, address: Any) -> socket.socket:
        """A socket for a checked address; aiohttp connects to exactly this address."""
        family, kind, protocol, _, sockaddr = address
        if not allowed(str(sockaddr[0]), self._allow):
            raise Refused(f"{sockaddr[0]} is not a public address")
        return socket.socket(family, kind, protocol)


async def _read_start(response: aiohttp.ClientResponse, start: bytearray) -> None:
    """Reads the body into `start` up to ANSWER_BYTES_MAX. The caller's release closes the connection for the rest."""
    async for piece in response.content.iter_any():
        start += piece
        if len(start) >= ANSWER_BYTES_MAX:
            break


def _retry_after(headers: Mapping[str, str]) -> float:
    """The seconds of Retry-After (RFC 9110, 10.2.3); 0 if it is absent or malformed.

    Its date form is compared with the response's Date header, so that clock skew does not matter.
    """
    value = headers.get("Retry-After", "").strip()
    if not value:
        return 0.0
    if value.isascii() and value.isdigit():
        return min(float(value), RETRY_AFTER_SECONDS_MAX)
    try:
        wait = parsedate_to_datetime(value) - parsedate_to_datetime(headers.get("Date", ""))
    except (TypeError, ValueError):
        return 0.0
    return min(max(wait.total_seconds(), 0.0), RETRY_AFTER_SECONDS_MAX)


def _reason(error: aiohttp.ClientConnectorError) -> str:
    cause = error.os_error
    return str(cause) if isinstance(cause, Refused) else f"no connection: {error}"[:300]
