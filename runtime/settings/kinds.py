"""Kinds of settings: each parses an environment variable and words its error message."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import parse_qs, parse_qsl, urlsplit

from sql.hosts import hosts_of

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

KEY_BYTES: Final = 32

CPU_LIMIT: Final = Path("/sys/fs/cgroup/cpu.max")
"""A container's CPU limit: a quota and a period in microseconds."""


class Key(NamedTuple):
    """A named secret of 32 bytes. Its repr shows only the name, so logs do not contain the secret."""

    id: str
    secret: bytes

    def __repr__(self) -> str:
        return f"Key({self.id})"


class Kind(NamedTuple):
    """Parses a variable: `parse` raises ValueError with the allowed values."""

    label: str
    parse: Callable[[str], Any]


def text() -> Kind:
    """Any text."""
    return Kind("text", str)


def name() -> Kind:
    """A host name, with a path or without; empty: none."""

    def parse(value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9._:/-]{0,200}", value):
            raise ValueError("must be a name such as promo.example.com: letters, digits and . _ : / -")
        return value

    return Kind("name", parse)


def choice(*options: str) -> Kind:
    """One of these words."""

    def parse(value: str) -> str:
        if value not in options:
            raise ValueError(f"must be one of {', '.join(options)}")
        return value

    return Kind(" or ".join(options), parse)


def flag() -> Kind:
    """On or off."""

    def parse(value: str) -> bool:
        match value.lower():
            case "on" | "true" | "yes" | "1":
                return True
            case "off" | "false" | "no" | "0":
                return False
        raise ValueError("must be on or off")

    return Kind("on or off", parse)


def integer(low: int, high: int = 2**31 - 1, unit: str = "count") -> Kind:
    """A whole number within bounds."""

    def parse(value: str) -> int:
        if not re.fullmatch(r"[+-]?\d{1,19}", value) or not low <= int(value) <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return int(value)

    return Kind(unit, parse)


def processes(most: int) -> Kind:
    """A number of processes; `auto`: one per CPU that this process may use."""
    counted = integer(1, most).parse

    def parse(value: str) -> int:
        if value == "auto":
            return min(most, cpus())
        try:
            found: int = counted(value)
        except ValueError:
            raise ValueError(f"must be a whole number from 1 to {most}, or auto") from None
        return found

    return Kind("count or auto", parse)


def cpus() -> int:
    """The CPUs of this process: those it may run on, within its container's limit (cgroup v2); at least 1."""
    allowed = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    try:
        quota, period = CPU_LIMIT.read_text().split()
        return max(1, min(allowed, int(quota) // int(period)))
    except (OSError, ValueError):
        return allowed  # There is no limit ("max"), or no cgroup v2.


def number(low: float, high: float, unit: str) -> Kind:
    """A number within bounds."""

    def parse(value: str) -> float:
        try:
            found = float(value)
        except ValueError:
            found = float("nan")
        if not low <= found <= high:  # false for nan
            raise ValueError(f"must be a number from {low:g} to {high:g}")
        return found

    return Kind(unit, parse)


def url(*schemes: str) -> Kind:
    """A URL with one of these schemes, without trailing slashes; empty: none."""

    def parse(value: str) -> str:
        if not value:
            return value
        try:
            parts = urlsplit(value)
            parts.port  # noqa: B018  (raises for a port that is no port)
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in schemes or not (parts.hostname or parts.path or parts.query):
            raise ValueError(f"must be a URL that begins with {' or '.join(f'{scheme}://' for scheme in schemes)}")
        return value.rstrip("/")

    return Kind("URL", parse)


PRIMARY: Final = ("read-write", "primary")
"""target_session_attrs of a URL for writes."""

STANDBY: Final = "standby"
"""target_session_attrs of a URL for reports."""


class Bucket(NamedTuple):
    """A bucket of objects. url: the prefix of their URLs."""

    url: str
    region: str


def bucket() -> Kind:
    """The URL of a bucket (`bucket_of`); empty: none."""

    def parse(value: str) -> str:
        if value:
            bucket_of(value)
        return value

    return Kind("URL", parse)


def bucket_of(value: str) -> Bucket:
    """A bucket of a storage that speaks S3's protocol: `s3://NAME/PREFIX?endpoint=URL&region=REGION`.

    Only the name is required. Without an endpoint, the bucket is in AWS. Raises ValueError.
    """
    wrong = "must be s3://BUCKET?endpoint=URL&region=REGION"
    try:
        parts = urlsplit(value)
        query = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
        region = query.pop("region", "us-east-1")
        endpoint = urlsplit(query.pop("endpoint", f"https://s3.{region}.amazonaws.com"))
        endpoint.port  # noqa: B018  (raises for an invalid port)
    except ValueError:
        raise ValueError(wrong) from None
    name, prefix = parts.netloc, parts.path.strip("/")
    if parts.scheme != "s3" or query or not re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,62}", name):
        raise ValueError(wrong)
    segments = prefix.split("/") if prefix else ()
    if not all(re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", one) for one in segments):
        raise ValueError(wrong)
    if not re.fullmatch(r"[a-z0-9-]{1,64}", region):
        raise ValueError(wrong)
    if endpoint.scheme not in ("http", "https") or not endpoint.hostname or endpoint.query or endpoint.fragment:
        raise ValueError("endpoint must be an http or https URL")
    if endpoint.username is not None:
        raise ValueError("endpoint must not contain a user or password: use ASSETS_KEY_ID and ASSETS_SECRET_KEY")
    return Bucket("/".join(filter(None, (endpoint.geturl().rstrip("/"), name, prefix))), region)


def postgres(*attributes: str) -> Kind:
    """A URL of Postgres. If it names several hosts, its target_session_attrs must be one of `attributes`."""

    def parse(value: str) -> str:
        if not value:
            return value
        try:
            parts = urlsplit(value)
            hosts = hosts_of(value)
        except ValueError:
            parts, hosts = urlsplit(""), []
        if parts.scheme not in ("postgresql", "postgres") or not (parts.netloc or parts.path or parts.query):
            raise ValueError("must be a URL that begins with postgresql:// or postgres://")
        if len(hosts) > 1 and parse_qs(parts.query).get("target_session_attrs", [""])[-1] not in attributes:
            raise ValueError(f"names several hosts and must end with ?target_session_attrs={attributes[0]}")
        return value.rstrip("/")

    return Kind("URL", parse)


def database_list(*attributes: str) -> Kind:
    """Databases by name: `eu=postgresql://... us=postgresql://...`, separated by blanks; URLs as of `postgres`."""
    address = postgres(*attributes)

    def parse(value: str) -> tuple[tuple[str, str], ...]:
        found: dict[str, str] = {}
        for number, item in enumerate(value.split(), 1):
            name, _, target = item.partition("=")
            # The item is not shown whole: it has a password.
            if not re.fullmatch(r"[a-z][a-z0-9_-]{0,31}", name):
                raise ValueError(
                    f"entry {number} must be name=URL; a name is 1 to 32 lower-case letters, digits, - or _,"
                    " and begins with a letter"
                )
            if name == "home" or name in found:
                raise ValueError(f"{name}: the name is taken" + (" by DATABASE_URL" if name == "home" else ""))
            try:
                found[name] = address.parse(target)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
            if not found[name]:
                raise ValueError(f"{name}: the URL is missing")
        return tuple(found.items())

    return Kind("name=URL list", parse)


def _items(value: str) -> list[str]:
    return [item.strip() for item in value.split(",") if item.strip()]


def words(label: str = "list", pattern: str = r"\S+", right: str = "words") -> Kind:
    """Words that match `pattern`, separated by commas. `right` describes them in the error message."""

    def parse(value: str) -> tuple[str, ...]:
        found = tuple(_items(value))
        for item in found:
            if not re.fullmatch(pattern, item):
                raise ValueError(f"must be {right}, separated by commas; {item!r} is not")
        return found

    return Kind(label, parse)


def networks() -> Kind:
    """IP networks, separated by commas."""

    def parse(value: str) -> tuple[Network, ...]:
        try:
            return tuple(ipaddress.ip_network(item) for item in _items(value))
        except ValueError as error:
            raise ValueError(f"must be networks such as 10.0.0.0/8, separated by commas; {error}") from None

    return Kind("CIDR list", parse)


def groups(known: tuple[str, ...]) -> Kind:
    """Consumer groups among the known ones: on (all), off (none), or a list."""

    def parse(value: str) -> tuple[str, ...]:
        match value.lower():
            case "on" | "true" | "yes" | "1" | "all":
                return known
            case "" | "off" | "false" | "no" | "0":
                return ()
        found = tuple(_items(value))
        if unknown := set(found).difference(known):
            raise ValueError(f"must be on, off, or a list of {', '.join(known)}; {', '.join(sorted(unknown))} is not")
        return found

    return Kind("on, off or list", parse)


def secret_text(least: int) -> Kind:
    """A secret of at least so many bytes; empty: none."""

    def parse(value: str) -> str:
        if value and len(value.encode()) < least:
            raise ValueError(f"must have at least {least} bytes; make one with `openssl rand -hex 32`")
        return value

    return Kind("secret", parse)


def secrets(least: int) -> Kind:
    """Secrets of at least so many bytes, separated by commas."""
    one = secret_text(least)

    def parse(value: str) -> tuple[str, ...]:
        return tuple(one.parse(item) for item in _items(value))

    return Kind("secret list", parse)


def public_key() -> Kind:
    """An X25519 public key, as base64 of DER; empty: none."""
    right = "must be an X25519 public key: `openssl pkey -in KEY -pubout -outform DER | base64 -w0`"

    def parse(value: str) -> str:
        # Imported here: most processes have no such setting.
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_der_public_key

        if not value:
            return value
        try:
            public = load_der_public_key(base64.b64decode(value, validate=True))
            if not isinstance(public, X25519PublicKey):
                raise ValueError
            X25519PrivateKey.generate().exchange(public)  # Refuses points of small order, whose copies anyone can open.
        except (ValueError, UnsupportedAlgorithm):
            raise ValueError(right) from None
        return value

    return Kind("public key", parse)


def keys() -> Kind:
    """Named keys (`Key`), separated by commas."""
    right = f"must be id:secret pairs separated by commas, each secret {KEY_BYTES} bytes in hex or base64"

    def parse(value: str) -> tuple[Key, ...]:
        found = tuple(_key(item) for item in _items(value))
        if len({key.id for key in found}) < len(found):
            raise ValueError(f"{right}; ids must be unique")
        return found

    def _key(item: str) -> Key:
        identifier, colon, encoded = item.partition(":")
        if not colon or not re.fullmatch(r"[A-Za-z0-9_-]{1,16}", identifier):
            # Do not show the item: without a colon it may be the bare secret.
            raise ValueError(f"{right}; an id is 1 to 16 letters, digits, - or _")
        try:
            if len(encoded) == 2 * KEY_BYTES:
                secret = bytes.fromhex(encoded)
            else:
                secret = base64.b64decode(
                    encoded.replace("-", "+").replace("_", "/") + "=" * (-len(encoded) % 4), validate=True
                )
        except (ValueError, binascii.Error):
            raise ValueError(f"{right}; the secret of {identifier!r} is neither") from None
        if len(secret) != KEY_BYTES:
            raise ValueError(f"{right}; that of {identifier!r} has {len(secret)} bytes")
        return Key(identifier, secret)

    return Kind("id:key list", parse)
