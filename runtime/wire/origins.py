"""Origins of web pages (RFC 6454): how they are written down, and which of them an origin that a browser sends is.

Written down are exact ones, `https://brand.example`, and `https://*.brand.example` for every name below
brand.example, however deep, but not that name itself: as in a Content-Security-Policy, where the same list stands.
`http` is for pages of one's own machine: `http://localhost:3000`. The setting CORS_ORIGINS takes such of any port,
`http://localhost:*`, too.

A list is held against an origin by looking up what the list may say that it is (`candidates`): nothing of it is
compared piece by piece, so no suffix, upper case, dot or port that is not written down can make it another's.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, ip_address
from typing import Final

CHARACTERS_MAX: Final = 300
"""Of an origin: a name has at most 253 (RFC 1035, 2.3.4)."""

_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_PORT: Final = r"(?::([1-9][0-9]{0,4}))?"
_EXACT: Final = re.compile(rf"(https?)://((?:{_LABEL}\.)*{_LABEL}|\[::1\]){_PORT}")
_WILDCARD: Final = re.compile(rf"(https)://\*\.((?:{_LABEL}\.)+{_LABEL}){_PORT}")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""The last label of what browsers take for an IPv4 address (URL Standard, "ends in a number checker")."""
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}


def problem(origin: str) -> str:
    """What is wrong with an origin that is to be written down; "" where nothing is."""
    found = _EXACT.fullmatch(origin) or _WILDCARD.fullmatch(origin) if len(origin) <= CHARACTERS_MAX else None
    if found is None:
        return (
            "must be an origin as browsers send it, such as https://brand.example or https://*.brand.example:"
            " lower case, international names as xn--, no path, no slash at the end"
        )
    scheme, host, port = found.groups()
    if not _is_host(host) or (found.re is _WILDCARD and _NUMBER.fullmatch(host.rpartition(".")[2])):
        return "must be of a name, or of an IPv4 address such as 192.0.2.1"
    if scheme == "http" and not _is_loopback(host):
        return "must be https; http is for pages of one's own machine, such as http://localhost:3000"
    if port == _DEFAULT_PORTS[scheme]:
        return f"must leave out :{port}, as browsers do"
    if port is not None and int(port) > 65_535:
        return "must have a port up to 65535, or none"
    return ""


def candidates(origin: str) -> tuple[str, ...]:
    """Every way in which a list may have the origin that a browser sent; none where it is no page's of a host."""
    found = _EXACT.fullmatch(origin) if len(origin) <= CHARACTERS_MAX else None
    if found is None or not _is_host(found[2]):
        return ()
    scheme, host, port = found.groups()
    made = [origin]
    if _is_loopback(host):
        made.append(f"{scheme}://{host}:*")
    if scheme == "https" and not _NUMBER.fullmatch(host.rpartition(".")[2]):
        labels, after = host.split("."), f":{port}" if port else ""
        made += [f"https://*.{'.'.join(labels[first:])}{after}" for first in range(1, len(labels) - 1)]
    return tuple(made)


def _is_host(host: str) -> bool:
    """Whether it is a name, or an address as browsers write it."""
    if host == "[::1]" or not _NUMBER.fullmatch(host.rpartition(".")[2]):
        return True
    try:
        return str(IPv4Address(host)) == host
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    if host in ("localhost", "[::1]") or host.endswith(".localhost"):
        return True
    return bool(_NUMBER.fullmatch(host.rpartition(".")[2])) and ip_address(host).is_loopback
