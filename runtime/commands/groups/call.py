"""`tombola call`: sends any request to the admin edge, by method and path."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from cyclopts import Parameter

from runtime.commands import documents
from runtime.commands.builder import app_of
from runtime.commands.confirm import Yes, confirmed, file_errors
from runtime.commands.connection import DEFAULTS, Connection, NoList, connected, fail, print_json
from runtime.commands.environment import EXIT_USE

app = app_of("call")

STDIN: Final = "-"


@app.default
async def call(
    verb: Literal["GET", "POST", "PUT", "DELETE"],
    path: str,
    body: Annotated[str, Parameter(allow_leading_hyphen=True)] = "",
    /,
    *,
    query: Annotated[tuple[str, ...], Parameter(name=["--query", "-q"], negative=())] = (),
    every: Annotated[bool, Parameter(negative=())] = False,
    key: str = "",
    yes: Yes = False,
    connection: Connection = DEFAULTS,
) -> None:
    """Send any request to the admin edge. Its OpenAPI document (/openapi.json) lists the paths.

    Parameters
    ----------
    verb
        GET, POST, PUT or DELETE. DELETE asks for confirmation.
    path
        The path below /api/v1/admin: /players/player_1/plays
    body
        A JSON or YAML file with the body; - for standard input. Default: an empty object.
    query
        A query parameter as name=value. Repeat for several.
    every
        Fetch every page of a list instead of the first one.
    key
        The Idempotency-Key of a POST.
    """
    pairs = [one.partition("=") for one in query]
    if not path.startswith("/") or "?" in path:
        fail(connection, EXIT_USE, f"{path!r} must be a path below /api/v1/admin that begins with / and has no query")
    if wrong := [one for one, (name, is_given, _) in zip(query, pairs, strict=True) if not (name and is_given)]:
        fail(connection, EXIT_USE, f"{wrong[0]!r} must be name=value")
    if every and verb != "GET":
        fail(connection, EXIT_USE, "--every requires GET")
    params = {name: value for name, _, value in pairs}
    if len(params) < len(pairs):
        fail(connection, EXIT_USE, "a query parameter must not be repeated")
    if every and (paging := [name for name in params if name in ("limit", "cursor")]):
        fail(connection, EXIT_USE, f"--every fetches every page. Omit {paging[0]!r}")
    sent = _body(connection, body)
    async with connected(connection) as edge:
        if every:
            try:
                print_json([item async for item in edge.each(path, params)])
            except NoList:
                fail(connection, EXIT_USE, f"{path!r} is not a list")
            return
        if verb == "DELETE":
            confirmed(connection, yes, f"Delete {path}?")
        print_json(await edge.call(verb, path, params, sent, key))


def _body(connection: Connection, body: str) -> dict[str, Any]:
    if not body:
        return {}
    file = Path(body)
    with file_errors(connection, file):
        read = documents.parse("standard input", sys.stdin.read()) if body == STDIN else documents.read(file)
    fields: Any = read.value
    if not isinstance(fields, dict):
        fail(connection, EXIT_USE, f"{read.name} must be an object")
    return fields
