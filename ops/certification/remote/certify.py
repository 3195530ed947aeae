"""`tombola certify`: whether a deployment keeps its promises, as far as a harmless test from outside can tell."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

import aiohttp
from cyclopts import App, Parameter

from ops.certification.remote import access, plays
from ops.certification.remote.deployment import Answer, Broken, Deployment, NotRun, Row
from runtime.commands.connection import (
    DEFAULTS,
    EXIT_REFUSED,
    EXIT_UNREACHABLE,
    Connection,
    fail,
    print_json,
    progress_console,
    table,
    text_console,
)
from runtime.commands.environment import EXIT_USE, problem_of_url

ROWS: Final = (*plays.ROWS, *access.ROWS, access.LAST)
NEEDED: Final = frozenset({"admin", "platform"})
_TIMEOUT: Final = aiohttp.ClientTimeout(total=60)

ODD: Final = (KeyError, TypeError, ValueError, IndexError)
"""Errors that a response of an unexpected shape causes."""

EXIT_BROKEN_OFF: Final = 130

OK, FAILED, NOT_RUN = "ok", "FAILED", "not run"

app = App(name="certify", help="Test whether a deployment keeps its promises.")


@app.default
async def certify(
    *,
    url: Annotated[str, Parameter(env_var="TOMBOLA_CONSUMER_URL")] = "http://127.0.0.1:8081",
    connection: Connection = DEFAULTS,
) -> None:
    """Test a deployment from outside, through its two edges, in two tenants created for it.

    Creates a campaign with games, plays them as 20 guests, and sends requests that must be refused. Prints one row per
    check. Sends about 700 requests and respects rate limits; other tenants are not touched. At the end it archives the
    games, ends the campaigns and suspends both tenants (tenants cannot be deleted).

    Exit codes: 0 all rows hold, 1 one does not, 2 invalid arguments, 4 unreachable, 130 interrupted (after the
    clean-up). The token needs the roles `admin` and `platform`:
    `tombola token mint --role admin --role platform`.

    Parameters
    ----------
    url
        URL of the consumer edge.
    """
    if not connection.token:
        fail(connection, EXIT_USE, "a token is required: set --token or TOMBOLA_TOKEN (see `tombola token mint`)")
    for name, one in (("URL", url), ("--admin-url", connection.admin_url)):
        if wrong := problem_of_url(name, one):
            fail(connection, EXIT_USE, wrong)
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # Cleans up, as SIGINT does.
    try:
        async with _reached(url, connection) as deployment:
            results, failures = await _tried(deployment, connection)
    except (aiohttp.ClientError, TimeoutError) as error:
        fail(connection, EXIT_UNREACHABLE, f"{url} or {connection.admin_url}: {str(error) or type(error).__name__}")
    _show(connection, deployment, results, failures)
    if failures or any(row["outcome"] == FAILED for row in results):
        raise SystemExit(EXIT_REFUSED)


@contextlib.asynccontextmanager
async def _reached(url: str, connection: Connection) -> AsyncIterator[Deployment]:
    """Connects; nothing is created yet. Exits if the token lacks roles."""
    async with aiohttp.ClientSession(timeout=_TIMEOUT) as http:
        deployment = Deployment(http, url.rstrip("/"), connection.admin_url.rstrip("/"), connection.token)
        me: Answer = await deployment.admin("GET", "/me")
        if me.code != "OK":
            fail(connection, EXIT_REFUSED, f"{connection.admin_url}: {me.summary}")
        lacks = NEEDED - set(me.data["roles"])
        if lacks:
            fail(connection, EXIT_USE, f"the token lacks the role {' and '.join(sorted(lacks))}")
        anonymous = await deployment.consumer("GET", "/rewards/me", headers={"X-Tenant-Id": me.data["tenant_id"]})
        if anonymous.reason != "TOKEN_MISSING":
            fail(connection, EXIT_USE, f"{url} is not a consumer edge: {anonymous.summary}")
        yield deployment


async def _tried(deployment: Deployment, connection: Connection) -> tuple[list[dict[str, Any]], list[str]]:
    """One result per row, and what could not be cleaned up. Exits if the run was cut short."""
    results: list[dict[str, Any]] = []
    console = progress_console()
    cut_short: tuple[int, str] | None = None
    try:
        with (
            console.status("creating a tenant")
            if console.is_terminal and not connection.json
            else contextlib.nullcontext() as status
        ):
            await deployment.make()
            for row in ROWS:
                if status is not None:
                    status.update(row.name)
                results.append(await _line(row, deployment))
    except (Broken, *ODD) as broken:
        cut_short = EXIT_REFUSED, f"the games for the test cannot be created: {broken!r}"
    except (aiohttp.ClientError, TimeoutError) as error:
        cut_short = EXIT_UNREACHABLE, f"the deployment cannot be reached any more: {str(error) or type(error).__name__}"
    except asyncio.CancelledError:
        cut_short = EXIT_BROKEN_OFF, "interrupted"
    failures = await asyncio.shield(deployment.clean_up())
    if cut_short is not None:
        made = [f"tenant {tenant}" for tenant in (deployment.tenant, deployment.other) if tenant]
        cleaned_up = [f"created and cleaned up: {' and '.join(made)}"] if made else []
        fail(connection, cut_short[0], cut_short[1], *cleaned_up, *(f"left behind: {line}" for line in failures))
    return results, failures


async def _line(row: Row, deployment: Deployment) -> dict[str, Any]:
    try:
        outcome, seen = OK, await row.run(deployment)
    except Broken as broken:
        outcome, seen = FAILED, str(broken)
    except NotRun as why:
        outcome, seen = NOT_RUN, str(why)
    except ODD as odd:
        outcome, seen = FAILED, f"a response of an unexpected shape: {odd!r}"
    return {"name": row.name, "passes": row.passes, "outcome": outcome, "seen": seen}


def _show(connection: Connection, deployment: Deployment, results: list[dict[str, Any]], failures: list[str]) -> None:
    tenants = [deployment.tenant, deployment.other]
    if connection.json:
        print_json({"rows": results, "requests": deployment.answers.total(), "tenants": tenants, "left": failures})
        return
    shown = table("row", "", "passes when", "seen")
    for row in results:
        style = {OK: "green", FAILED: "bold red", NOT_RUN: "yellow"}[row["outcome"]]
        shown.add_row(row["name"], f"[{style}]{row['outcome']}[/]", row["passes"], row["seen"])
    console = text_console()
    console.print(shown)
    held = sum(row["outcome"] == OK for row in results)
    console.print(f"{held} of {len(results)} rows hold, in {deployment.answers.total():,} requests")
    console.print(f"suspended {' and '.join(tenants)}; games archived, campaigns ended")
    for line in failures:
        console.print(f"left behind: {line}")
