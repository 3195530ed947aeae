"""Reads an uploaded file: as JSON with the file in base64, as a form with the file in a part, or as the file itself."""

from __future__ import annotations

import base64
from typing import Final

import msgspec
from aiohttp import web
from multipart import MultipartError, MultipartSegment, PushMultipartParser, parse_options_header

from runtime.errors import invalid
from runtime.http.bodies import read_body, type_of
from runtime.operations.assets.decoding import UPLOAD_BYTES_MAX

FILES: Final = ("image/png", "image/jpeg", "image/webp", "font/woff2")
FORM: Final = "multipart/form-data"
TYPES: Final = (*FILES, FORM)
NAME_CHARACTERS_MAX: Final = 200
FILE: Final = "file"
"""The usual name of a file's part in forms and no-code tools, accepted too."""

_PARTS_MAX: Final = 4
_BYTES_MAX: Final = UPLOAD_BYTES_MAX * 4 // 3 + 16 * 1024
"""The size limit of any body: the JSON form with base64 is the largest."""


async def read_upload(request: web.Request, field: str) -> bytes:
    """The upload as JSON bytes {"name", `field`: base64}. INVALID_ARGUMENT on `field`.

    A JSON body is returned as sent. Its first byte identifies it: no accepted file begins with a brace or white space.
    The name is the form's part `name`, otherwise the query's, otherwise the form's file name.
    The Content-Type is not evidence of the file's type, so it is only compared with the accepted ones. A form is read
    whole, so the limits of bodies apply to it too.
    """
    body = await read_body(request, _BYTES_MAX, *TYPES)
    name = request.query.get("name", "")
    if type_of(request, *TYPES) == FORM:
        body, name = _form(body, request.headers["Content-Type"], field, name)
    elif body[:1].isspace() or body.startswith(b"{") or not body:
        return body
    if len(body) > UPLOAD_BYTES_MAX:
        raise invalid(field, f"must be at most {UPLOAD_BYTES_MAX} bytes")
    content = base64.b64encode(body).decode()
    return msgspec.json.encode({"name": name, field: content})


def _form(body: bytes, content_type: str, field: str, name: str) -> tuple[bytes, str]:
    """The file of a form, and its name: the part `name`, otherwise the query's (`name`), otherwise the file's own.

    INVALID_ARGUMENT on `field` if the form is malformed or does not have exactly one file, or on an unknown part.
    """
    files: list[tuple[bytes, str]] = []
    for part, value in _parts(body, content_type, field):
        if part.name == "name":
            name = value.decode(errors="replace")
        elif part.name in (field, FILE):
            files.append((value, (part.filename or "")[:NAME_CHARACTERS_MAX]))
        else:
            raise invalid(str(part.name)[:NAME_CHARACTERS_MAX], f"is unknown: the form has the parts {FILE} and name")
    if len(files) != 1:
        raise invalid(field, f"must be one file: the form has {len(files)}")
    [(file, file_name)] = files
    if not file:
        raise invalid(field, "is required")
    return file, name or file_name


def _parts(body: bytes, content_type: str, field: str) -> list[tuple[MultipartSegment, bytes]]:
    boundary = parse_options_header(content_type)[1].get("boundary", "")
    found: list[tuple[MultipartSegment, bytes]] = []
    pieces: list[bytes] = []
    try:
        with PushMultipartParser(boundary, len(body), max_segment_count=_PARTS_MAX, strict=True) as parser:
            for event in parser.parse(body):
                if isinstance(event, MultipartSegment):
                    segment, pieces = event, []
                elif event is not None:
                    pieces.append(event)
                else:
                    found.append((segment, b"".join(pieces)))
    except MultipartError as error:
        raise invalid(field, f"the form is malformed: {error}") from None
    return found
