"""Origins of web pages (RFC 6454): validates configured origins, and matches a browser's origin against them.

A configured origin is exact, `https://brand.example`, or a wildcard, `https://*.brand.example`, for all subdomains at
any depth but not brand.example itself, as in a Content-Security-Policy, where the same list is used. `http` is only for
the local machine: `http://localhost:3000`. The setting CORS_ORIGINS also accepts any port: `http://localhost:*`.

Matching looks up the exact and wildcard forms of the browser's origin (`candidates`) in the list. Nothing is compared
by prefix or suffix, so no trick with a suffix, upper case, dot or port can match another origin.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, ip_address
from typing import Final

CHARACTERS_MAX: Final = 300
"""The maximum length of an origin: a host name has at most 253 (RFC 1035, 2.3.4)."""

HOST_CHARACTERS_MAX: Final = 253

_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_PORT: Final = r"(?::([1-9][0-9]{0,4}))?"
_EXACT: Final = re.compile(rf"(https?)://((?:{_LABEL}\.)*{_LABEL}|\[::1\]){_PORT}")
_WILDCARD: Final = re.compile(rf"(https)://\*\.((?:{_LABEL}\.)+{_LABEL}){_PORT}")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""The last label of a host that browsers parse as an IPv4 address (URL Standard, "ends in a number checker")."""
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}


def host_problem(host: str) -> str:
    """The problem of a brand's host name; "" if it is valid."""
    is_name = re.fullmatch(rf"(?:{_LABEL}\.)+{_LABEL}", host) if len(host) <= HOST_CHARACTERS_MAX else None
    if is_name and _is_host(host) and not _NUMBER.fullmatch(host.rpartition(".")[2]):
        return ""
    return "must be a host name such as play.brand.example: lower case, international names as xn--, without a port"


def problem(origin: str) -> str:
    """The problem of a configured origin; "" if it is valid."""
    found = _EXACT.fullmatch(origin) or _WILDCARD.fullmatch(origin) if len(origin) <= CHARACTERS_MAX else None
    if found is None:
        return (
            "must be an origin as browsers send it, such as https://brand.example or https://*.brand.example:"
            " lower case, international names as xn--, no path, no slash at the end"
        )
    scheme, host, port = found.groups()
    if not _is_host(host) or (found.re is _WILDCARD and _NUMBER.fullmatch(host.rpartition(".")[2])):
        return "must have a host name, or an IPv4 address such as 192.0.2.1"
    if scheme == "http" and not _is_loopback(host):
        return "must be https; http is only for the local machine, such as http://localhost:3000"
    if port == _DEFAULT_PORTS[scheme]:
        return f"must omit :{port}, the default port, as browsers do"
    if port is not None and int(port) > 65_535:
        return "must have a port up to 65535, or none"
    return ""


def candidates(origin: str) -> tuple[str, ...]:
    """All configured forms that match the origin a browser sent; empty if it is not an origin with a host."""
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
    """Whether it is a name, or an address in the browsers' form."""
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
