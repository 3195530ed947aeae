"""`tombola call`: asks the admin edge for whatever it has, by verb and path: what no other command does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from cyclopts import Parameter

from runtime.commands import documents
from runtime.commands.confirm import Yes, confirmed, file_told
from runtime.commands.connection import DEFAULTS, Connection, NoList, connected, fail, print_json
from runtime.commands.environment import EXIT_USE
from runtime.commands.loop import app_of

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
    """Ask the admin edge for anything that it has; its OpenAPI document (/openapi.json) says what that is.

    Parameters
    ----------
    verb
        GET, POST, PUT or DELETE, which asks before it does it.
    path
        Below /api/v1/admin: /players/player_1/plays
    body
        A file of what is sent, as JSON or YAML; - for standard input. Nothing: an empty object.
    query
        name=value of the path's query; another one may be given.
    every
        Of a list every item, page after page, instead of its first page.
    key
        An Idempotency-Key of a POST.
    """
    asked = [one.partition("=") for one in query]
    if not path.startswith("/") or "?" in path:
        fail(connection, EXIT_USE, f"{path!r} is no path below /api/v1/admin: it begins with /, and has no query")
    if wrong := [one for one, (name, is_given, _) in zip(query, asked, strict=True) if not (name and is_given)]:
        fail(connection, EXIT_USE, f"{wrong[0]!r} is not name=value")
    if every and verb != "GET":
        fail(connection, EXIT_USE, "--every is for lists, which GET asks for")
    told = {name: value for name, _, value in asked}
    if len(told) < len(asked):
        fail(connection, EXIT_USE, "a query's name is given once")
    if every and (paging := [name for name in told if name in ("limit", "cursor")]):
        fail(connection, EXIT_USE, f"--every asks for every page: {paging[0]!r} is for one")
    sent = _body(connection, body)
    async with connected(connection) as edge:
        if every:
            try:
                print_json([item async for item in edge.each(path, told)])
            except NoList:
                fail(connection, EXIT_USE, f"{path!r} is no list")
            return
        if verb == "DELETE":
            confirmed(connection, yes, f"Delete {path}?")
        print_json(await edge.call(verb, path, told, sent, key))


def _body(connection: Connection, body: str) -> dict[str, Any]:
    if not body:
        return {}
    file = Path(body)
    with file_told(connection, file):
        read = documents.parse("standard input", sys.stdin.read()) if body == STDIN else documents.read(file)
    given: Any = read.value
    if not isinstance(given, dict):
        fail(connection, EXIT_USE, f"{read.name} must hold an object")
    return given
