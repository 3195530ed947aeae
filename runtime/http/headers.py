"""Request headers that have one value."""

from __future__ import annotations

from aiohttp import web

from runtime.errors import invalid


def single_header(request: web.Request, name: str) -> str | None:
    """The header's value, or None. INVALID_ARGUMENT if it is repeated: a proxy or a log may take another value."""
    values = request.headers.getall(name, ())
    if len(values) > 1:
        raise invalid(name, "must be sent only once")
    return values[0] if values else None
