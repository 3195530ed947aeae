"""The command line: `tombola core|consumer|admin|all|worker|migrate|settings`.

Operator commands follow from the operations' rows, or are in `runtime/commands/groups/GROUP.py`.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import App, CycloptsError, Parameter

from runtime import __version__
from runtime.commands.environment import EXIT_USE, settings_for
from runtime.commands.groups import OPERATOR_COMMANDS, RUN, TOOLS, shown_under
from runtime.groups import GROUPS
from runtime.settings import Settings
from runtime.settings.documentation import markdown, misspelt, table

CHECKOUT_COMMANDS: Final[dict[str, str]] = {
    "ops.certification.remote.certify": "Try whether a deployment keeps its promises.",
}
"""Modules of the `ops` package with an `app`, and what they are for: a wheel or an image has none of them."""

if TYPE_CHECKING:
    GroupName = str
else:
    GroupName = Literal[tuple(GROUPS)]

AUTOGROUP: Final = Path("/proc/self/autogroup")
"""The kernel's figure of this session, where it has one."""

SESSION_TRIES: Final = 40

EXIT_PIPE: Final = 128 + signal.SIGPIPE

app = App(
    name="tombola",
    version=__version__,
    help="Fair promotional games, rewards and wallets. Settings come from the environment: see `tombola settings`.",
)


@app.command(group=RUN)
def core() -> None:
    """Serve Core: REST on CORE_PORT, RPC on RPC_PORT, and the consumer groups that CORE_WORKERS names."""
    _serve("core", "rpc")


@app.command(group=RUN)
def consumer() -> None:
    """Serve the consumer edge on CONSUMER_PORT, over the Core replicas in CORE_RPC_ADDRESSES."""
    _serve("consumer")


@app.command(group=RUN)
def admin() -> None:
    """Serve the admin edge on ADMIN_PORT, over the Core replicas in CORE_RPC_ADDRESSES."""
    _serve("admin")


@app.command(name="all", group=RUN)
def everything() -> None:
    """Serve Core, RPC and both edges in one process, and the consumer groups that CORE_WORKERS names."""
    _serve("core", "rpc", "consumer", "admin")


@app.command(group=RUN)
def worker(
    group: Annotated[
        GroupName,
        Parameter(help=f"Which one: {', '.join(f'{one.name} {one.purpose}' for one in GROUPS.values())}."),
    ],
    /,
) -> None:
    """Run one consumer group. Start as many of these as its lag asks for."""
    _serve(f"worker:{group}")


@app.command(group=RUN)
def migrate(*, dry_run: bool = False) -> None:
    """Bring the database at DATABASE_URL to this version. Safe to run twice, and by several at once.

    Parameters
    ----------
    dry_run
        Show what would be applied, and change nothing.
    """
    import asyncpg

    from sql.migrate import MigrationError, pending
    from sql.migrate import migrate as apply

    settings = _settings("migrate")

    async def missing() -> list[str]:
        connection = await asyncpg.connect(settings.database_url)
        try:
            return await pending(connection)
        finally:
            await connection.close()

    try:
        if dry_run:
            names = asyncio.run(missing())
            print("\n".join(f"would apply {name}" for name in names) or "nothing to apply")
        else:
            names = asyncio.run(apply(settings.database_url, report=lambda name: print(f"applying {name}", flush=True)))
            print(f"applied {len(names)}" if names else "nothing to apply")
    except (MigrationError, OSError, asyncpg.PostgresError) as error:
        sys.exit(f"tombola migrate: {error}")


@app.command(name="settings", group=TOOLS)
def show_settings(*, as_markdown: Annotated[bool, Parameter(name="--markdown")] = False) -> None:
    """Print every setting: its variable, value, default and meaning.

    Parameters
    ----------
    as_markdown
        Print the table of docs/reference/settings.md.
    """
    if as_markdown:
        print(markdown(), end="")
        return
    for row in table():
        default = (
            f"default {row.default}" if row.default else f"needed by {row.needed_by}" if row.needed_by else "optional"
        )
        print(f"{row.variable}  ({row.kind}; {default})\n    {row.meaning}")


@app.command(group=TOOLS)
def healthcheck() -> None:
    """Succeed where the process here answers /healthz on METRICS_PORT: for container health checks."""
    from urllib.request import urlopen

    url = f"http://127.0.0.1:{_settings().metrics_port}/healthz"
    try:
        with urlopen(url, timeout=2):
            return
    except OSError as error:
        sys.exit(f"tombola healthcheck: {url}: {error}")


def _settings(*roles: str) -> Settings:
    """The environment's settings; ends the process with a line for each wrong one."""
    for name, guess in misspelt(os.environ).items():
        print(f"tombola: {name} has no effect; did you mean {guess}?", file=sys.stderr)
    return settings_for(*roles)


def _serve(*roles: str) -> None:
    """Runs `roles` until SIGTERM or SIGINT; a second signal ends the process without a drain."""
    # What is imported stays. Walking it again and again meanwhile was a third of the start's CPU; `serve` turns it on.
    gc.disable()
    import uvloop

    settings = _settings(*roles)
    # On a machine that they share, plays come before what follows from them.
    nice = settings.worker_nice if all(role.startswith("worker:") for role in roles) else 0
    os.nice(nice)
    if "core" in roles:
        roles = (*roles, *(f"worker:{group}" for group in settings.core_workers))
    uvloop.run(_until_stopped(settings, roles, nice))


async def yield_session(by: int) -> None:
    """Lets what runs in other sessions go first, as far as `nice` says; a session of somebody else's is left as it is.

    A kernel that shares its processors by session (autogroup) compares the figures of sessions, and priorities only
    within one. It takes one such figure every 0.1 s, of whoever may not administer it.
    """
    if not by or os.getsid(0) != os.getpid():
        return
    for _ in range(SESSION_TRIES):
        try:
            AUTOGROUP.write_text(str(by))
            return
        except BlockingIOError:
            await asyncio.sleep(random.uniform(0.1, 0.5))
        except OSError:
            return  # There is none here.


async def _until_stopped(settings: Settings, roles: Sequence[str], nice: int) -> None:
    from runtime.app import serve  # late: --help and migrate need none of it

    yielding = asyncio.ensure_future(yield_session(nice))

    async def on_ready() -> None:
        print(f"tombola: ready ({', '.join(roles)})", file=sys.stderr, flush=True)

    try:
        await serve(settings, roles, stop=stop_on_signals(), on_ready=on_ready)
    finally:
        yielding.cancel()


def stop_on_signals() -> asyncio.Event:
    """An event that the first SIGTERM or SIGINT sets; the handlers leave then, so a second one kills."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    signals = (signal.SIGTERM, signal.SIGINT)

    def request_stop() -> None:
        stop.set()
        for number in signals:
            loop.remove_signal_handler(number)

    for number in signals:
        loop.add_signal_handler(number, request_stop)
    return stop


def register() -> None:
    """Adds the operator commands, each of which is imported when it is asked for."""
    for name, (means, _) in OPERATOR_COMMANDS.items():
        app.command(f"runtime.commands.loop:{name.replace('-', '_')}", name=name, help=means, group=shown_under(name))
    if (Path(__file__).parents[1] / "ops" / "certification").is_dir():
        for module, means in CHECKOUT_COMMANDS.items():
            app.command(f"{module}:app", name=module.rpartition(".")[2], help=means, group=TOOLS)


def main() -> None:
    """The console script."""
    # A process' memory holds keys and opened codes: none of it goes to a disk where it crashes.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    register()
    try:
        try:
            app(exit_on_error=False)
        finally:
            sys.stdout.flush()  # Else a reader that has gone is found out at the very end, where nobody can catch it.
    except CycloptsError:  # It has been told.
        sys.exit(EXIT_USE)
    except BrokenPipeError:
        # Whoever read (`head`, a pager) has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_PIPE)
