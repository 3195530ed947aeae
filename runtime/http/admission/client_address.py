"""The client: who the rates per address hold for, behind proxies too.

IPv6 counts at two widths. A /64 is the least that one subscriber holds, and counts as an address. But many hold a /48
(RFC 6177), and with it 65,536 of those: so what a /48 does counts together as well, as `NETWORK_TIMES` addresses'. That
is what a campus has which gives each building a /64 or more; one that has IPv4 alone, behind one address, has less.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Final, NamedTuple

from aiohttp import web

from runtime.settings import Network

Proxies = frozenset[Network] | tuple[Network, ...]
"""A frozenset where it is asked often: its hash, by which answers are remembered, is made once, a tuple's each time."""


class Client(NamedTuple):
    """An address, IPv6 by its /64; and the /48 that it is of, "" where there is none."""

    address: str
    network: str


EVERYBODY: Final = Client("", "")
"""What a trusted proxy's connections count for: nobody in particular."""

_CLIENT: Final = web.RequestKey("client", Client)


def client_of(request: web.Request, trusted_proxies: Proxies = ()) -> Client:
    """Who the rates hold for: as `note_client` noted it, or as it would."""
    return request.get(_CLIENT) or note_client(request, trusted_proxies)


def note_client(request: web.Request, trusted_proxies: Proxies = ()) -> Client:
    """Works it out, once for each request.

    X-Forwarded-For is read from the right, past trusted proxies, only when the peer itself is one:
    what stands left of the first stranger is the stranger's own word.
    """
    client = request[_CLIENT] = _client(_address(request, trusted_proxies))
    return client


def peer_client(peer: str, trusted_proxies: Proxies = ()) -> Client:
    """Who a connection counts for."""
    return EVERYBODY if _trusted(peer, trusted_proxies) else _client(peer)


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
    """The address in its one spelling, mapped IPv4 as IPv4; None when it is none."""
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
        return Client("unknown", "")  # A Unix socket's peer: all its clients are one.
    if ":" not in parsed:
        return Client(parsed, "")
    return Client(str(IPv6Network((parsed, 64), strict=False).network_address), str(IPv6Network((parsed, 48), False)))
