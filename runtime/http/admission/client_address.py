"""The client's address: who the rates per address hold for, behind proxies too."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address

from aiohttp import web

from runtime.settings import Network


def client_ip(request: web.Request, trusted_proxies: tuple[Network, ...] = ()) -> str:
    """The address that the rates hold for.

    X-Forwarded-For is read from the right, past trusted proxies, only when the peer itself is one:
    what stands left of the first stranger is the stranger's own word. IPv6 counts by /64, which is
    what one subscriber holds (RFC 6177).
    """
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
    return _bucket(address)


def peer_bucket(peer: str, trusted_proxies: Iterable[Network] = ()) -> str:
    """The address that a connection counts for; "" for a trusted proxy's, which are everybody's."""
    return "" if _trusted(peer, tuple(trusted_proxies)) else _bucket(peer)


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
def _trusted(address: str, proxies: tuple[Network, ...]) -> bool:
    parsed = _parse(address)
    return parsed is not None and any(ip_address(parsed) in network for network in proxies)


@lru_cache(maxsize=8192)
def _bucket(address: str) -> str:
    parsed = _parse(address)
    if parsed is None:
        return "unknown"  # A Unix socket's peer: all its clients are one.
    if ":" not in parsed:
        return parsed
    return str(IPv6Network((parsed, 64), strict=False).network_address)
