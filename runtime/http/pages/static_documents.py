"""Documents served from memory: read once, compressed by the first request for a coding, revalidated by ETag."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from runtime.http.envelope import Handler

try:
    import brotli
except ImportError:  # Without brotli only gzip is served, which is a sixth larger.
    brotli = None


@dataclass(frozen=True, slots=True)
class Variant:
    """One representation of a document, with its headers."""

    body: bytes
    headers: dict[str, str]
    headers_unchanged: dict[str, str]

    @classmethod
    def of(cls, body: bytes, headers: dict[str, str], encoding: dict[str, str]) -> Variant:
        return cls(body, {**headers, **encoding}, headers)  # A 304 has no body to be encoded.

    def answer(self, request: web.Request) -> web.Response:
        known = request.headers.get("If-None-Match", "")
        if self.headers["ETag"] in (tag.strip().removeprefix("W/") for tag in known.split(",")) or known == "*":
            return web.Response(status=304, headers=self.headers_unchanged)
        return web.Response(body=self.body, headers=self.headers)


@dataclass(frozen=True, slots=True)
class Document:
    """A document, and its codings (best first). The first request that accepts a coding compresses it."""

    plain: Variant
    codings: tuple[str, ...]
    _headers: dict[str, str]
    _coded: dict[str, Variant | None] = field(default_factory=dict)

    @classmethod
    def of(cls, body: bytes, headers: Mapping[str, str], *, codings: tuple[str, ...] = ("gzip",)) -> Document:
        """headers: Content-Type, Cache-Control and the like. Adds ETag, and Accept-Encoding to Vary."""
        varies = [*filter(None, [headers.get("Vary")]), "Accept-Encoding"]
        headers = {**headers, "Vary": ", ".join(varies)}
        tag = hashlib.sha256(body).hexdigest()[:32]
        plain = Variant.of(body, {**headers, "ETag": f'"{tag}"'}, {})
        return cls(plain, tuple(coding for coding in codings if coding in _COMPRESSORS), headers)

    async def answer(self, request: web.Request) -> web.Response:
        accepted = request.headers.get("Accept-Encoding", "")
        for coding in self.codings:
            if accepts(coding, accepted):
                if coding not in self._coded:
                    # In a thread: a large file takes 0.2 s, and plays would wait for the event loop.
                    self._coded[coding] = await asyncio.to_thread(self._compressed, coding)
                if (variant := self._coded[coding]) is not None:
                    return variant.answer(request)
        return self.plain.answer(request)

    def _compressed(self, coding: str) -> Variant | None:
        """The document in a coding. None: it is not shorter."""
        shorter = _COMPRESSORS[coding](self.plain.body)
        if len(shorter) >= len(self.plain.body):
            return None
        # A separate ETag, by which caches distinguish representations (RFC 9110, 8.8.3.3).
        tag = self.plain.headers["ETag"].strip('"')
        headers = {**self._headers, "ETag": f'"{tag}-{coding}"'}
        return Variant.of(shorter, headers, {"Content-Encoding": coding})


def accepts(coding: str, accepted: str) -> bool:
    """Whether an Accept-Encoding (RFC 9110, 12.5.3) accepts the coding, by name or by `*`, with a quality above 0."""
    qualities: dict[str, str] = {}
    for one in accepted.lower().split(","):
        name, _, weight = one.partition(";")
        qualities[name.strip()] = weight.strip().removeprefix("q=") or "1"
    quality = qualities.get(coding, qualities.get("*", "0"))
    return quality.strip("0.") != ""


def built_once(make: Callable[[], Document]) -> Handler:
    """Serves a document, built by `make` in a thread on the first request. Concurrent first requests each build it."""
    made: Document | None = None

    async def answer(request: web.Request) -> web.Response:
        nonlocal made
        if made is None:
            made = await asyncio.to_thread(make)  # Takes up to 0.2 s, which would block the event loop.
        return await made.answer(request)

    return answer


def _gzip(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)


_COMPRESSORS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "gzip": _gzip,
    **({"br": brotli.compress} if brotli is not None else {}),
}
