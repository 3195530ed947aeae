"""The command line: `tombola core|consumer|admin|all|worker|migrate|settings`.

Operator commands are generated from the operations' rows, or are in `runtime/commands/groups/GROUP.py`.
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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import App, CycloptsError, Parameter

from runtime import __version__, inherited
from runtime.commands.environment import EXIT_USE, fail_to_start, settings_for
from runtime.commands.groups import DOSSIER, OPERATOR_COMMANDS, RUN, TOOLS, VERIFY, shown_under
from runtime.groups import GROUPS
from runtime.inherited import READY, Inherited
from runtime.settings import Settings
from runtime.settings.documentation import markdown, misspelt, table

CHECKOUT_COMMANDS: Final[dict[str, str]] = {
    "ops.certification.remote.certify": "Test a deployment's guarantees.",
}
"""Modules of the `ops` package with an `app`, and their help. Wheels and images do not contain them."""

if TYPE_CHECKING:
    GroupName = str
else:
    GroupName = Literal[tuple(GROUPS)]

AUTOGROUP: Final = Path("/proc/self/autogroup")
"""The kernel's autogroup priority of this session, if supported."""

SESSION_TRIES: Final = 40

EXIT_PIPE: Final = 128 + signal.SIGPIPE

ALL: Final = ("core", "rpc", "consumer", "admin")
"""The roles of `tombola all`."""

app = App(
    name="tombola",
    version=__version__,
    help="Fair promotional games, rewards and wallets. Settings come from the environment: see `tombola settings`.",
)


@app.command(group=RUN)
def core() -> None:
    """Serve Core: REST on CORE_PORT, RPC on RPC_PORT, and the consumer groups in CORE_WORKERS."""
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
def everything(*, processes: str = "") -> None:
    """Serve Core, RPC, both edges and the consumer groups in CORE_WORKERS.

    Parameters
    ----------
    processes
        How many processes share the ports, or auto: one per CPU. SIGHUP restarts them one by one. Default: PROCESSES.
    """
    if processes:
        os.environ["PROCESSES"] = processes
    handed = inherited.take(os.environ)
    settings = _settings(*ALL)
    if settings.processes > 1 and handed is None:
        _supervise(settings)
    else:
        _serve(*ALL, handed=handed)


@app.command(group=RUN)
def worker(
    group: Annotated[
        GroupName,
        Parameter(help=f"The group: {', '.join(f'{one.name} {one.purpose}' for one in GROUPS.values())}."),
    ],
    /,
) -> None:
    """Run one consumer group. Start more processes if its lag grows."""
    _serve(f"worker:{group}")


@app.command(group=RUN)
def migrate(*, dry_run: bool = False) -> None:
    """Migrate the databases at DATABASE_URL and in DATABASES to this version. Safe to repeat and to run concurrently.

    Parameters
    ----------
    dry_run
        Show the pending migrations without applying them.
    """
    import asyncpg

    from runtime.commands.stores import fail_store
    from sql.hosts import connect
    from sql.migrate import MigrationError, pending
    from sql.migrate import migrate as apply

    settings = _settings("migrate")

    async def missing(url: str) -> list[str]:
        connection = await connect(url)
        try:
            return await pending(connection)
        finally:
            await connection.close()

    for name, url in (("", settings.database_url), *settings.databases):
        shown = f"{name}: " if name else ""
        try:
            if dry_run:
                names = asyncio.run(missing(url))
                print("\n".join(f"{shown}would apply {one}" for one in names) or f"{shown}nothing to apply")
            else:
                report = partial(print, f"{shown}applying", flush=True)
                names = asyncio.run(apply(url, report=report))
                print(f"{shown}applied {len(names)}" if names else f"{shown}nothing to apply")
        except MigrationError as error:
            sys.exit(f"tombola migrate: {shown}{error}")
        except (OSError, asyncpg.PostgresError) as error:
            fail_store(f"migrate: {name}" if name else "migrate", error)


@app.command(name="settings", group=TOOLS)
def show_settings(*, as_markdown: Annotated[bool, Parameter(name="--markdown")] = False) -> None:
    """Print all settings: variable, type, default and meaning.

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
    """Check that each local process answers /healthz on its METRICS_PORT. For container health checks."""
    from urllib.request import ProxyHandler, build_opener

    settings, opener = _settings(), build_opener(ProxyHandler({}))
    for number in range(settings.processes):
        url = f"http://127.0.0.1:{settings.metrics_port + number}/healthz"
        try:
            with opener.open(url, timeout=2):
                pass
        except OSError as error:
            sys.exit(f"tombola healthcheck: {url}: {error}")


def _settings(*roles: str) -> Settings:
    """The environment's settings. Ends the process with one line per invalid setting."""
    for name, guess in misspelt(os.environ).items():
        print(f"tombola: {name} has no effect; did you mean {guess}?", file=sys.stderr)
    return settings_for(*roles)


def _supervise(settings: Settings) -> None:
    """Runs several processes until SIGTERM or SIGINT."""
    from runtime.supervisor import Port, Supervisor, SupervisorError

    ports = (
        Port("CORE_PORT", settings.core_host, settings.core_port),
        Port("CONSUMER_PORT", settings.host, settings.consumer_port),
        Port("ADMIN_PORT", settings.host, settings.admin_port),
        Port("RPC_PORT", settings.core_host, settings.rpc_port),
        Port("METRICS_PORT", settings.core_host, settings.metrics_port, each=True),
    )

    async def run() -> None:
        supervisor = Supervisor(
            [sys.executable, *sys.orig_argv[1:]],
            ports,
            settings.processes,
            environment={**os.environ, "PROCESSES": str(settings.processes)},
            # One process consumes for all: the groups' polling would grow with the processes.
            environment_of_others={"CORE_WORKERS": "off"},
            drain_seconds=settings.drain_seconds,
        )
        await supervisor.run()

    try:
        asyncio.run(run())
    except SupervisorError as error:
        sys.exit(f"tombola: {error}")


def _serve(*roles: str, handed: Inherited | None = None) -> None:
    """Runs `roles` until SIGTERM or SIGINT; a second signal ends the process without a drain."""
    # Imported modules are never freed; collecting meanwhile took a third of the start's CPU. `serve` enables it again.
    gc.disable()
    import uvloop

    settings = _settings(*roles)
    if settings.processes > 1 and roles != ALL:
        fail_to_start("PROCESSES is for `tombola all`; set it to 1, and start more processes of this role instead")
    # On a shared machine, plays have priority over workers.
    nice = settings.worker_nice if all(role.startswith("worker:") for role in roles) else 0
    os.nice(nice)
    if "core" in roles:
        roles = (*roles, *(f"worker:{group}" for group in settings.core_workers))
    uvloop.run(_until_stopped(settings, roles, nice, handed))


async def yield_session(by: int) -> None:
    """Lowers the priority of this process's session, as `nice` does for the process. Other sessions are unchanged.

    A kernel with autogroup scheduling compares the priorities of sessions, and `nice` only within one. It accepts one
    change every 0.1 s from unprivileged processes, so the write is retried.
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
            return  # No autogroup support.


async def _until_stopped(settings: Settings, roles: Sequence[str], nice: int, handed: Inherited | None) -> None:
    """Serves the roles until a signal, or until the supervisor that started this process ends."""
    from runtime.app import serve  # a slow import that --help and migrate do not need

    yielding = asyncio.ensure_future(yield_session(nice))

    stop = stop_on_signals()
    if handed is not None:
        stop_with_supervisor(handed.link, stop)

    async def on_ready() -> None:
        print(f"tombola: ready ({', '.join(roles)})", file=sys.stderr, flush=True)
        if handed is not None:
            os.write(handed.link, READY)

    try:
        await serve(settings, roles, stop=stop, on_ready=on_ready, inherited=handed)
    finally:
        yielding.cancel()


def stop_with_supervisor(link: int, stop: asyncio.Event) -> None:
    """Sets the event when the supervisor ends, which alone makes the link to it readable."""
    loop = asyncio.get_running_loop()

    def ended() -> None:
        loop.remove_reader(link)  # It stays readable, and would wake the loop at once, over and over, during the drain.
        stop.set()

    loop.add_reader(link, ended)


def stop_on_signals() -> asyncio.Event:
    """An event that the first SIGTERM or SIGINT sets. It also removes the handlers, so a second signal kills."""
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
    """Adds the operator commands, which are imported lazily."""
    for name, (means, _) in OPERATOR_COMMANDS.items():
        app.command(
            f"runtime.commands.builder:{name.replace('-', '_')}", name=name, help=means, group=shown_under(name)
        )
    app.command("runtime.commands.evidence.command:app", name="verify", help=VERIFY, group=TOOLS)
    app.command("runtime.commands.evidence.command:dossier", name="dossier", help=DOSSIER, group=TOOLS)
    if (Path(__file__).parents[1] / "ops" / "certification").is_dir():
        for module, means in CHECKOUT_COMMANDS.items():
            app.command(f"{module}:app", name=module.rpartition(".")[2], help=means, group=TOOLS)


def main() -> None:
    """The console script."""
    # No core dumps: the process's memory contains keys and decrypted codes.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    register()
    try:
        try:
            app(exit_on_error=False)
        finally:
            sys.stdout.flush()  # Otherwise a closed pipe raises at interpreter exit, where it cannot be caught.
    except CycloptsError:  # Already printed.
        sys.exit(EXIT_USE)
    except BrokenPipeError:
        # The reader (`head`, a pager) has closed the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_PIPE)
