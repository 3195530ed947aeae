"""The operator commands' client for the admin edge, and their exit codes.

Exit codes: 0 done, 1 refused by the service, 2 usage error, 3 invalid, unreadable or unwritable file, 4 service
unreachable, 5 not confirmed, 6 waiting for approval. Errors go to standard error: as lines, or with --json as one
object `{"error": {code, reason, message, violations}}`.
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
from runtime.commands.environment import EXIT_USE, problem_of_url

EXIT_REFUSED: Final = 1
EXIT_UNREACHABLE: Final = 4
EXIT_UNCONFIRMED: Final = 5
EXIT_WAITING: Final = 6

PAGE: Final = 100
ACCEPTED: Final = 202
"""The request waits for approval by a second person (`tombola approvals`)."""
_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=120)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Connection:
    """Options of every command that calls the admin edge.

    Parameters
    ----------
    admin_url
        The URL of the admin edge.
    token
        A token with a management role, or an API token (`tmb_...`). Prefer the variable: it stays out of shell history.
    json
        Print JSON instead of text.
    """

    admin_url: Annotated[str, Parameter(env_var="TOMBOLA_ADMIN_URL")] = "http://127.0.0.1:8082"
    token: Annotated[str, Parameter(env_var="TOMBOLA_TOKEN", show_default=False)] = ""
    json: Annotated[bool, Parameter(negative=())] = False


DEFAULTS: Final = Connection()
"""The defaults, from the environment."""


class NoList(Exception):
    """The reply has no items."""


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
    """A client for the admin edge: paths below /api/v1/admin, replies without their envelope."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http = http
        self._url = f"{url.rstrip('/')}/api/v1/admin"

    async def get(self, path: str, extra: Mapping[str, Any] | None = None, /, **query: Any) -> dict[str, Any]:
        """The reply to a GET. Raises Refused."""
        params = {name: str(value) for name, value in {**(extra or {}), **query}.items() if value != ""}
        return await self._send("GET", path, params=params)

    async def post(self, path: str, body: Mapping[str, Any], key: str = "") -> dict[str, Any]:
        """The reply to a POST, with an Idempotency-Key if `key` is set. Raises Refused."""
        return await self._send("POST", path, json=body, headers={"Idempotency-Key": key} if key else {})

    async def call(
        self, verb: str, path: str, query: Mapping[str, str], body: Mapping[str, Any], key: str = ""
    ) -> dict[str, Any]:
        """The reply to any method; only POST and PUT send a body. Raises Refused."""
        sent = {"json": body} if verb in ("POST", "PUT") else {}
        return await self._send(verb, path, params=query, headers={"Idempotency-Key": key} if key else {}, **sent)

    async def send(self, path: str, body: AsyncIterator[bytes], content_type: str, key: str = "") -> dict[str, Any]:
        """POSTs a streamed body, with an Idempotency-Key if `key` is set. Raises Refused."""
        headers = {"Content-Type": content_type, **({"Idempotency-Key": key} if key else {})}
        return await self._send("POST", path, data=body, headers=headers)

    async def read(self, path: str, **query: Any) -> AsyncIterator[bytes]:
        """Streams a reply that is not JSON. Raises Refused, or ClientPayloadError if the connection is cut off."""
        params = {name: str(value) for name, value in query.items() if value != ""}
        async with self._http.get(self._url + path, params=params) as answer:
            if answer.status >= 400:
                raise Refused(answer.status, await _envelope(answer, self._url))
            async for piece in answer.content.iter_any():
                yield piece

    async def lines(self, path: str, **query: Any) -> AsyncIterator[bytes]:
        """Streams the lines of a reply in JSON lines. Raises as `read`; an incomplete line is left out."""
        rest = b""
        async for piece in self.read(path, **query):
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line

    async def each(
        self, path: str, extra: Mapping[str, Any] | None = None, /, **query: Any
    ) -> AsyncIterator[dict[str, Any]]:
        """Every item of a list, page by page. Raises Refused, NoList."""
        cursor = ""
        while True:
            page = await self.get(path, extra, **query, limit=PAGE, cursor=cursor)
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

    async def _send(self, verb: str, path: str, **options: Any) -> dict[str, Any]:
        async with self._http.request(verb, self._url + path, **options) as answer:
            envelope = await _envelope(answer, self._url)
            if answer.status >= 400 or answer.status == ACCEPTED:
                raise Refused(answer.status, envelope)
            return dict(envelope["data"])


async def _envelope(answer: aiohttp.ClientResponse, url: str) -> dict[str, Any]:
    try:
        envelope: dict[str, Any] = await answer.json(content_type=None)
        envelope["data"]
    except (ValueError, KeyError, TypeError):
        raise Refused(answer.status, {"message": f"{url} is not an admin edge: its reply has no envelope"}) from None
    return envelope


@asynccontextmanager
async def connected(connection: Connection) -> AsyncIterator[Edge]:
    """A client for the block. Ends the process if there is no token, or the edge cannot be reached or refuses."""
    if not connection.token:
        fail(connection, EXIT_USE, "a token is required. Use --token or TOMBOLA_TOKEN (see `tombola token mint`)")
    if wrong := problem_of_url("--admin-url", connection.admin_url):
        fail(connection, EXIT_USE, wrong)
    headers = {"Authorization": f"Bearer {connection.token}"}
    try:
        async with aiohttp.ClientSession(headers=headers, timeout=_TIMEOUT) as http:
            yield Edge(http, connection.admin_url)
    except Refused as refused:
        fail_refused(connection, refused)
    except (aiohttp.ClientError, TimeoutError) as error:
        why = str(error) or type(error).__name__
        fail(connection, EXIT_UNREACHABLE, f"{connection.admin_url} cannot be reached: {why}")


def fail_refused(connection: Connection, refused: Refused, prefix: str = "") -> NoReturn:
    """Ends the process with the service's error. `prefix`: the file that it applies to."""
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
    approval = refused.data.get("approval")
    if approval:
        problem["approval"] = approval
        lines.append(f"tombola approvals show {approval['id']}")
    fail(connection, EXIT_WAITING if approval else EXIT_REFUSED, *(prefix + line for line in lines), error=problem)


def fail(connection: Connection, exit_code: int, *lines: str, error: Mapping[str, Any] | None = None) -> NoReturn:
    """Prints the error on standard error and ends the process with `exit_code`."""
    if connection.json:
        print(codec.dumps({"error": error or {"message": "; ".join(lines)}}), file=sys.stderr)
    else:
        for line in lines:
            print(f"tombola: {line}", file=sys.stderr)
    sys.exit(exit_code)


def print_json(data: Any) -> None:
    """One JSON document on standard output."""
    print(codec.dumps(data, indent=2, ensure_ascii=False))


def print_result(connection: Connection, done: Any, text: str) -> None:
    """Prints a command's result: JSON with --json, otherwise `text`."""
    if connection.json:
        print_json(done)
    else:
        text_console().print(text)


def print_one(connection: Connection, thing: Mapping[str, Any]) -> None:
    """Prints a resource: JSON with --json, otherwise its non-empty fields as YAML."""
    if connection.json:
        print_json(thing)
    else:
        print(documents.write({name: value for name, value in thing.items() if value not in ("", None)}), end="")


def text_console() -> Console:
    """A console on standard output. In a pipe or file it is wide enough not to wrap rows."""
    # Without markup: a player's name may contain brackets.
    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 500
    return console


def table(*columns: str) -> Table:
    """An empty table. The first column holds ids and is never truncated, so that they can be copied."""
    made = Table(box=None, pad_edge=False)
    for index, name in enumerate(columns):
        made.add_column(name, no_wrap=index == 0, min_width=len(name) if index else 31)
    return made


def progress_console() -> Console:
    """A console on standard error for progress, so that output can be piped."""
    return Console(stderr=True)
