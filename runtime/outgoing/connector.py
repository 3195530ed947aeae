"""Outgoing HTTP to addresses that somebody else chose: only public ones, no redirects, never for long.

The check is on the address of the socket that is about to connect, after the name was resolved, for
a literal as for a name: a name that resolves to something else the second time (DNS rebinding) finds
the same check. The deny list is explicit, since `ipaddress.is_global` differs between versions of
Python and lets some translation prefixes pass.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import aiohttp

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

ATTEMPT_SECONDS: Final = 15.0
"""All of an attempt: name, connection, request, and the answer's last byte that is read."""

ANSWER_BYTES_MAX: Final = 16 * 1024
"""What is read of an answer; the rest is left, and the connection with it."""

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
        "168.63.129.16/32",  # public by number, but a cloud's own agent by use
        # Within 2000::/3, which is all of IPv6 that is allowed: protocol assignments with Teredo and ORCHID,
        # documentation, 6to4 (it holds an IPv4 address), documentation again, AS112.
        *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "2620:4f:8000::/48"),
    )
)
_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")


class Unreachable(Exception):
    """The attempt had no answer. The message says why, in words for an operator."""


class Refused(OSError):
    """The address is one that may not be reached."""


class Answer(NamedTuple):
    """status: HTTP's. retry_after_seconds: what Retry-After asks for, 0 where it asks nothing. body: its start."""

    status: int
    retry_after_seconds: float
    body: bytes


def allowed(address: str, allow: Sequence[Network]) -> bool:
    """Whether a socket may connect to `address`, a literal. `allow` are networks beyond the public ones."""
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
    """What is wrong with a URL as a receiver's address, or None."""
    try:
        parts = urlsplit(url)
        port = parts.port  # raises for a port that is no port
    except ValueError:
        return "must be an http or https URL"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "must be an http or https URL that names a host"
    if parts.username is not None:  # a password comes with one, if an empty one
        return "must not hold a user or password; use headers"
    if any(character.isspace() or not character.isprintable() for character in url):
        return "must not hold white space"
    return None


class Connector:
    """POSTs to receivers. One per process; `close` it at the end."""

    def __init__(self, allow: Sequence[Network] = (), *, attempt_seconds: float = ATTEMPT_SECONDS) -> None:
        self._allow = tuple(allow)
        self._attempt_seconds = attempt_seconds
        self._session: aiohttp.ClientSession | None = None

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """One attempt, of `attempt_seconds` at most. Raises Unreachable where no answer came."""
        if (problem := check_url(url)) is not None:
            raise Unreachable(f"the URL {problem}")
        try:
            async with asyncio.timeout(self._attempt_seconds):
                async with self._open().post(
                    url, data=aiohttp.BytesPayload(body), headers=headers, allow_redirects=False
                ) as response:
                    start = await _read_start(response)
                    return Answer(response.status, _retry_after(response.headers), start)
        except TimeoutError:
            raise Unreachable(f"no answer within {self._attempt_seconds:g} s") from None
        except aiohttp.ClientConnectorError as error:
            raise Unreachable(_why(error)) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Unreachable(f"{type(error).__name__}: {error}"[:300]) from error

    async def close(self) -> None:
        """Closes the connections that are kept."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=CONNECTIONS,
                    limit_per_host=CONNECTIONS_PER_HOST,
                    socket_factory=self._socket,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),  # one deadline, ours, over everything
                trust_env=False,  # a proxy would connect for us, unchecked
                auto_decompress=False,  # a bomb stays as small as it came
                headers={"User-Agent": "Tombola/1"},
            )
        return self._session

    def _socket(self, address: Any) -> socket.socket:
        """A socket for an address that was checked: what aiohttp connects is this very address."""
        family, kind, protocol, _, sockaddr = address
        if not allowed(str(sockaddr[0]), self._allow):
            raise Refused(f"{sockaddr[0]} is not a public address")
        return socket.socket(family, kind, protocol)


async def _read_start(response: aiohttp.ClientResponse) -> bytes:
    """At most ANSWER_BYTES_MAX of the body. A longer one is cut, and its connection closed by the caller's release.

    What is left of it is not waited for.
    """
    if response.content.at_eof():  # as after most deliveries: nothing was sent
        return b""
    start = bytearray()
    async for piece in response.content.iter_any():
        start += piece
        if len(start) >= ANSWER_BYTES_MAX:
            break
    return bytes(start[:ANSWER_BYTES_MAX])


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that Retry-After asks for (RFC 9110, 10.2.3); 0 where it asks nothing that can be read.

    Its date form is read against the answer's own Date, so that nobody's clock is compared with another's.
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


def _why(error: aiohttp.ClientConnectorError) -> str:
    cause = error.os_error
    return str(cause) if isinstance(cause, Refused) else f"no connection: {error}"[:300]
