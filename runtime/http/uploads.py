"""Reads an uploaded file: as JSON with the file in base64, or as the file itself."""

from __future__ import annotations

import base64
from typing import Final

import msgspec
from aiohttp import web

from runtime.errors import invalid
from runtime.http.bodies import read_body
from runtime.operations.assets.decoding import UPLOAD_BYTES_MAX

TYPES: Final = ("image/png", "image/jpeg", "image/webp", "font/woff2")
_BYTES_MAX: Final = UPLOAD_BYTES_MAX * 4 // 3 + 16 * 1024
"""Of the JSON form."""


async def read_upload(request: web.Request, field: str) -> bytes:
    """The body as JSON. A file becomes {name, `field`}; its name is in the query. No accepted file begins with a brace.

    The Content-Type is not evidence of the type, so it is only compared with the accepted ones.
    """
    body = await read_body(request, _BYTES_MAX, *TYPES)
    if body[:1].isspace() or body.startswith(b"{") or not body:
        return body
    if len(body) > UPLOAD_BYTES_MAX:
        raise invalid(field, f"must be at most {UPLOAD_BYTES_MAX} bytes")
    content = base64.b64encode(body).decode()
    return msgspec.json.encode({"name": request.query.get("name", ""), field: content})
