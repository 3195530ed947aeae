"""`tombola certify`: whether a deployment keeps its promises, as far as that can be seen from outside without harm."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

import aiohttp
from cyclopts import App, Parameter

from ops.certification.remote import doors, plays
from ops.certification.remote.deployment import Answer, Broken, Deployment, NotRun, Row
from runtime.commands.connection import (
    DEFAULTS,
    EXIT_REFUSED,
    EXIT_UNREACHABLE,
    Connection,
    fail,
    people,
    print_json,
    progress_console,
    table,
)
from runtime.commands.environment import EXIT_USE

ROWS: Final = (*plays.ROWS, *doors.ROWS, doors.LAST)
NEEDED: Final = frozenset({"admin", "platform"})
_TIMEOUT: Final = aiohttp.ClientTimeout(total=60)

ODD: Final = (KeyError, TypeError, ValueError, IndexError)
"""What an answer of another shape than promised ends in."""

EXIT_BROKEN_OFF: Final = 130

OK, FAILED, NOT_RUN = "ok", "FAILED", "not run"

app = App(name="certify", help="Try whether a deployment keeps its promises.")


@app.default
async def certify(
    *,
    url: Annotated[str, Parameter(env_var="TOMBOLA_CONSUMER_URL")] = "http://127.0.0.1:8081",
    connection: Connection = DEFAULTS,
) -> None:
    """Try a deployment from outside, over its two edges, in two tenants that are made for it.

    It makes a campaign with games, plays it as 20 guests, and tries what must be refused: a line a row, with what
    was seen. Some 700 requests, slowed down wherever a rate says so; other tenants are not touched. At the end the
    games are archived, the campaigns ended and both tenants suspended (a tenant is never removed).

    Exit codes: 0 every row holds, 1 one does not, 2 wrong use, 4 it cannot be reached, 130 it was broken off (which
    puts away what it made, too). The token needs the roles `admin` and `platform`:
    `tombola token mint --role admin --role platform`.

    Parameters
    ----------
    url
        Where the consumer edge is.
    """
    if not connection.token:
        fail(connection, EXIT_USE, "a token is needed: --token or TOMBOLA_TOKEN (see `tombola token mint`)")
    for one in (url, connection.admin_url):
        if not one.startswith(("http://", "https://")):
            fail(connection, EXIT_USE, f"{one!r} is no URL: should it be http://{one.partition('://')[2] or one}?")
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # Puts away, as SIGINT does.
    try:
        async with _reached(url, connection) as deployment:
            told, left = await _tried(deployment, connection)
    except (aiohttp.ClientError, TimeoutError) as error:
        fail(connection, EXIT_UNREACHABLE, f"{url} or {connection.admin_url}: {error or type(error).__name__}")
    _show(connection, deployment, told, left)
    if left or any(row["outcome"] == FAILED for row in told):
        raise SystemExit(EXIT_REFUSED)


@contextlib.asynccontextmanager
async def _reached(url: str, connection: Connection) -> AsyncIterator[Deployment]:
    """The deployment, nothing made yet. Ends the process where the token opens too little."""
    async with aiohttp.ClientSession(timeout=_TIMEOUT) as http:
        deployment = Deployment(http, url.rstrip("/"), connection.admin_url.rstrip("/"), connection.token)
        me: Answer = await deployment.admin("GET", "/me")
        if me.code != "OK":
            fail(connection, EXIT_REFUSED, f"{connection.admin_url}: {me.told}")
        lacks = NEEDED - set(me.data["roles"])
        if lacks:
            fail(connection, EXIT_USE, f"the token lacks the role {' and '.join(sorted(lacks))}")
        nobody = await deployment.consumer("GET", "/rewards/me", headers={"X-Tenant-Id": me.data["tenant_id"]})
        if nobody.reason != "TOKEN_MISSING":
            fail(connection, EXIT_USE, f"{url} answers, but not as a consumer edge does: {nobody.told}")
        yield deployment


async def _tried(deployment: Deployment, connection: Connection) -> tuple[list[dict[str, Any]], list[str]]:
    """Each row's line, and what could not be put away afterwards. Ends the process where it did not come to the end."""
    told: list[dict[str, Any]] = []
    console = progress_console()
    cut_short: tuple[int, str] | None = None
    try:
        with console.status("making a tenant") if console.is_terminal and not connection.json else _quiet() as status:
            await deployment.make()
            for row in ROWS:
                if status is not None:
                    status.update(row.name)
                told.append(await _line(row, deployment))
    except (Broken, *ODD) as broken:
        cut_short = EXIT_REFUSED, f"what is to be played cannot be made: {broken!r}"
    except (aiohttp.ClientError, TimeoutError) as error:
        cut_short = EXIT_UNREACHABLE, f"it cannot be reached any more: {error or type(error).__name__}"
    except asyncio.CancelledError:
        cut_short = EXIT_BROKEN_OFF, "broken off"
    left = await asyncio.shield(deployment.put_away())
    if cut_short is not None:
        made = [f"tenant {tenant}" for tenant in (deployment.tenant, deployment.other) if tenant]
        put_away = [f"made, and put away: {' and '.join(made)}"] if made else []
        fail(connection, cut_short[0], cut_short[1], *put_away, *(f"left behind: {line}" for line in left))
    return told, left


async def _line(row: Row, deployment: Deployment) -> dict[str, Any]:
    try:
        outcome, seen = OK, await row.run(deployment)
    except Broken as broken:
        outcome, seen = FAILED, str(broken)
    except NotRun as why:
        outcome, seen = NOT_RUN, str(why)
    except ODD as odd:
        outcome, seen = FAILED, f"an answer of another shape than promised: {odd!r}"
    return {"name": row.name, "passes": row.passes, "outcome": outcome, "seen": seen}


def _show(connection: Connection, deployment: Deployment, told: list[dict[str, Any]], left: list[str]) -> None:
    tenants = [deployment.tenant, deployment.other]
    if connection.json:
        print_json({"rows": told, "requests": deployment.answers.total(), "tenants": tenants, "left": left})
        return
    shown = table("row", "", "passes when", "seen")
    for row in told:
        style = {OK: "green", FAILED: "bold red", NOT_RUN: "yellow"}[row["outcome"]]
        shown.add_row(row["name"], f"[{style}]{row['outcome']}[/]", row["passes"], row["seen"])
    console = people()
    console.print(shown)
    kept = sum(row["outcome"] == OK for row in told)
    console.print(f"{kept} of {len(told)} rows hold, by {deployment.answers.total():,} requests")
    console.print(f"suspended {' and '.join(tenants)}; games archived, campaigns ended")
    for line in left:
        console.print(f"left behind: {line}")


@contextlib.contextmanager
def _quiet() -> Any:
    yield None
