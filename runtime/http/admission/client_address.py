"""The client's address for rate limits, also behind proxies.

IPv6 is limited at two widths. A /64 is the smallest assignment to one subscriber, and counts as one address. Many
subscribers have a /48 (RFC 6177) with 65,536 of those, so each /48 has a limit too: `NETWORK_TIMES` that of an address.
That suits a campus with a /64 or more per building; a campus behind a single IPv4 address has less.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Final, NamedTuple

from aiohttp import web

from runtime.settings import Network

Proxies = frozenset[Network] | tuple[Network, ...]
"""A frozenset on hot paths: it caches its hash, which `lru_cache` needs; a tuple computes it every time."""


class Client(NamedTuple):
    """An address (for IPv6 its /64), and its /48; "" for IPv4."""

    address: str
    network: str


UNCOUNTED: Final = Client("", "")
"""The client of a trusted proxy's connections, which count for no address."""

_CLIENT: Final = web.RequestKey("client", Client)


def client_of(request: web.Request, trusted_proxies: Proxies = ()) -> Client:
    """The client for rate limits: as stored by `record_client`, or computed now."""
    return request.get(_CLIENT) or record_client(request, trusted_proxies)


def record_client(request: web.Request, trusted_proxies: Proxies = ()) -> Client:
    """Determines the client and stores it in the request.

    Reads X-Forwarded-For from the right, past trusted proxies, and only if the peer is one: entries left of the first
    untrusted address can be forged.
    """
    client = request[_CLIENT] = _client(_address(request, trusted_proxies))
    return client


def peer_client(peer: str, trusted_proxies: Proxies = ()) -> Client:
    """The client of a connection."""
    return UNCOUNTED if _trusted(peer, trusted_proxies) else _client(peer)


def is_trusted(peer: str, trusted_proxies: Proxies) -> bool:
    """Whether the peer is a trusted proxy, whose headers about the client count."""
    return bool(trusted_proxies) and _trusted(peer, trusted_proxies)


def _address(request: web.Request, trusted_proxies: Proxies) -> str:
    address = request.remote or ""
    if trusted_proxies and _trusted(address, trusted_proxies):
        hops = ",".join(request.headers.getall("X-Forwarded-For", [])).split(",")
        for hop in reversed(hops):
            candidate = _bare(hop.strip())
            if _parse(candidate) is None:
                break
            address = candidate
            if not _trusted(candidate, trusted_proxies):
                break
    return address


def _bare(hop: str) -> str:
    """An address without its port: 192.0.2.1:80, [2001:db8::1]:80."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


@lru_cache(maxsize=8192)
def _parse(address: str) -> str | None:
    """The address in its canonical form, IPv4-mapped IPv6 as IPv4; None if it is invalid."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ip)


@lru_cache(maxsize=8192)
def _trusted(address: str, proxies: Proxies) -> bool:
    parsed = _parse(address)
    return parsed is not None and any(ip_address(parsed) in network for network in proxies)


@lru_cache(maxsize=8192)
def _client(address: str) -> Client:
    parsed = _parse(address)
    if parsed is None:
        return Client("unknown", "")  # A Unix socket's peer: all of them count as one client.
    if ":" not in parsed:
        return Client(parsed, "")
    return Client(str(IPv6Network((parsed, 64), strict=False).network_address), str(IPv6Network((parsed, 48), False)))
