"""How operator commands reach the admin edge, and how they end when it refuses.

Exit codes: 0 done, 1 refused by the service, 2 wrong use, 3 the file is wrong, 4 the service cannot be
reached, 5 not confirmed, 6 not done yet, since it waits for a second person. What is wrong goes to standard error: as
lines, or with --json as one object
`{"error": {code, reason, message, violations}}`.
"""

from __future__ import annotations

import json as codec
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Final, NoReturn

import aiohttp
from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from runtime.commands import documents
from runtime.commands.environment import EXIT_USE

EXIT_REFUSED: Final = 1
EXIT_FILE: Final = 3
EXIT_UNREACHABLE: Final = 4
EXIT_UNCONFIRMED: Final = 5
EXIT_WAITING: Final = 6

PAGE: Final = 100
ACCEPTED: Final = 202
"""Not done yet: what was asked waits for a second person (`tombola approvals`)."""
_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=120)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Connection:
    """Options that every command of the admin edge has.

    Parameters
    ----------
    admin_url
        Where the admin edge is.
    token
        A token of a management role, an API token (`tmb_...`) too; better in the environment than in a shell's history.
    json
        Print JSON for machines instead of text for people.
    """

    admin_url: Annotated[str, Parameter(env_var="TOMBOLA_ADMIN_URL")] = "http://127.0.0.1:8082"
    token: Annotated[str, Parameter(env_var="TOMBOLA_TOKEN", show_default=False)] = ""
    json: Annotated[bool, Parameter(negative=())] = False


DEFAULTS: Final = Connection()
"""Where nothing is said on the command line, the environment is asked."""


class NoList(Exception):
    """What is at the path has no items."""


class Refused(Exception):
    """The service's refusal: its HTTP status and envelope."""

    def __init__(self, http: int, envelope: Mapping[str, Any]) -> None:
        super().__init__(str(envelope.get("message", "")))
        self.http = http
        self.code = str(envelope.get("code", ""))
        self.message = str(envelope.get("message", ""))
        self.trace_id = str(envelope.get("trace_id", ""))
        data = envelope.get("data")
        self.data: dict[str, Any] = data if isinstance(data, dict) else {}

    @property
    def violations(self) -> list[dict[str, Any]]:
        return list(self.data.get("violations", ()))


class Edge:
    """The admin edge, as commands ask it: paths below /api/v1/admin, answers without their envelope."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http = http
        self._url = f"{url.rstrip('/')}/api/v1/admin"

    async def get(self, path: str, asked: Mapping[str, Any] | None = None, /, **query: Any) -> dict[str, Any]:
        """What is at a path. Raises Refused."""
        said = {name: str(value) for name, value in {**(asked or {}), **query}.items() if value != ""}
        return await self._ask("GET", path, params=said)

    async def post(self, path: str, body: Mapping[str, Any], key: str = "") -> dict[str, Any]:
        """The answer to a POST, under an Idempotency-Key where one is given. Raises Refused."""
        return await self._ask("POST", path, json=body, headers={"Idempotency-Key": key} if key else {})

    async def call(
        self, verb: str, path: str, query: Mapping[str, str], body: Mapping[str, Any], key: str = ""
    ) -> dict[str, Any]:
        """The answer to any verb; what has no body is sent none. Raises Refused."""
        sent = {"json": body} if verb in ("POST", "PUT") else {}
        return await self._ask(verb, path, params=query, headers={"Idempotency-Key": key} if key else {}, **sent)

    async def send(self, path: str, body: AsyncIterator[bytes], content_type: str, key: str = "") -> dict[str, Any]:
        """POSTs a body as it is read, never holding it whole, under a key where one is given. Raises Refused."""
        headers = {"Content-Type": content_type, **({"Idempotency-Key": key} if key else {})}
        return await self._ask("POST", path, data=body, headers=headers)

    async def read(self, path: str, **query: Any) -> AsyncIterator[bytes]:
        """What is at a path and no JSON, as it comes. Raises Refused; ClientPayloadError where it is cut off."""
        said = {name: str(value) for name, value in query.items() if value != ""}
        async with self._http.get(self._url + path, params=said) as answer:
            if answer.status >= 400:
                raise Refused(answer.status, await _envelope(answer, self._url))
            async for piece in answer.content.iter_any():
                yield piece

    async def each(
        self, path: str, asked: Mapping[str, Any] | None = None, /, **query: Any
    ) -> AsyncIterator[dict[str, Any]]:
        """Every item of a list, page after page. Raises Refused, NoList."""
        cursor = ""
        while True:
            page = await self.get(path, asked, **query, limit=PAGE, cursor=cursor)
            if "items" not in page:
                raise NoList(path)
            for item in page["items"]:
                yield item
            if not page["pagination"]["has_more"]:
                return
            cursor = page["pagination"]["next_cursor"]

    async def first(self, path: str, most: int, **query: Any) -> list[dict[str, Any]]:
        """The first items of a list, `most` at most."""
        items: list[dict[str, Any]] = []
        if most > 0:
            async for item in self.each(path, **query):
                items.append(item)
                if len(items) >= most:
                    break
        return items

    async def _ask(self, verb: str, path: str, **more: Any) -> dict[str, Any]:
        async with self._http.request(verb, self._url + path, **more) as answer:
            envelope = await _envelope(answer, self._url)
            if answer.status >= 400 or answer.status == ACCEPTED:
                raise Refused(answer.status, envelope)
            return dict(envelope["data"])


async def _envelope(answer: aiohttp.ClientResponse, url: str) -> dict[str, Any]:
    try:
        envelope: dict[str, Any] = await answer.json(content_type=None)
        envelope["data"]
    except (ValueError, KeyError, TypeError):
        raise Refused(answer.status, {"message": f"{url} is no admin edge: no envelope in its answer"}) from None
    return envelope


@asynccontextmanager
async def connected(connection: Connection) -> AsyncIterator[Edge]:
    """The edge, for the length of the block. Ends the process where there is no token, nothing listens, or the service
    refuses what the block asks.
    """
    if not connection.token:
        fail(connection, EXIT_USE, "a token is needed: --token or TOMBOLA_TOKEN (see `tombola token mint`)")
    if not connection.admin_url.startswith(("http://", "https://")):
        url = connection.admin_url
        fail(
            connection,
            EXIT_USE,
            f"{url!r} is no URL of an admin edge: should it be http://{url.partition('://')[2] or url}?",
        )
    headers = {"Authorization": f"Bearer {connection.token}"}
    try:
        async with aiohttp.ClientSession(headers=headers, timeout=_TIMEOUT) as http:
            yield Edge(http, connection.admin_url)
    except Refused as refused:
        tell_refused(connection, refused)
    except (aiohttp.ClientError, TimeoutError) as error:
        fail(connection, EXIT_UNREACHABLE, f"{connection.admin_url} cannot be reached: {error or type(error).__name__}")


def tell_refused(connection: Connection, refused: Refused, where: str = "") -> NoReturn:
    """Ends the process with a refusal. `where`: the file and resource that it is about."""
    lines = [
        f"{row['field']}: {row['description']}" if row["field"] else row["description"] for row in refused.violations
    ]
    if not lines:
        lines = [f"{refused.code} {refused.data.get('reason', '')}: {refused.message}".strip()]
    if refused.http >= 500 and refused.trace_id:
        lines.append(f"trace {refused.trace_id}")
    problem = {
        "code": refused.code,
        "reason": refused.data.get("reason", ""),
        "message": refused.message,
        "violations": refused.violations,
    }
    waits = refused.data.get("approval")
    if waits:
        problem["approval"] = waits
        lines.append(f"tombola approvals show {waits['id']}")
    fail(connection, EXIT_WAITING if waits else EXIT_REFUSED, *(where + line for line in lines), error=problem)


def fail(connection: Connection, exit_code: int, *lines: str, error: Mapping[str, Any] | None = None) -> NoReturn:
    """Ends the process with `exit_code` after saying why on standard error."""
    if connection.json:
        print(codec.dumps({"error": error or {"message": "; ".join(lines)}}), file=sys.stderr)
    else:
        for line in lines:
            print(f"tombola: {line}", file=sys.stderr)
    sys.exit(exit_code)


def print_json(data: Any) -> None:
    """One JSON document on standard output."""
    print(codec.dumps(data, indent=2, ensure_ascii=False))


def print_done(connection: Connection, done: Any, text: str) -> None:
    """What came of a command: for machines as JSON, for people in words."""
    if connection.json:
        print_json(done)
    else:
        people().print(text)


def print_one(connection: Connection, thing: Mapping[str, Any]) -> None:
    """A thing on standard output: for machines all of it as JSON, for people what is not empty as YAML."""
    if connection.json:
        print_json(thing)
    else:
        print(documents.write({name: value for name, value in thing.items() if value not in ("", None)}), end="")


def people() -> Console:
    """Where text for people goes: standard output, as wide as it is; into a pipe or file, as wide as needed."""
    console = Console(highlight=False, soft_wrap=True)
    return console if console.is_terminal else Console(highlight=False, soft_wrap=True, width=500)


def table(*columns: str) -> Table:
    """An empty table. Its first column is of ids, which are never cut: they are there to be copied."""
    made = Table(box=None, pad_edge=False)
    for index, name in enumerate(columns):
        made.add_column(name, no_wrap=index == 0, min_width=len(name) if index else 31)
    return made


def progress_console() -> Console:
    """Where progress is shown: standard error, so that output can be piped."""
    return Console(stderr=True)
