"""The development stack: all of Tombola on this machine, until stopped (`ops/up`, once its environment exists).

The embedded servers, the migrations, one server process (`tombola all`, including the consumer groups), a
tenant with a merchant, and the demo. The data directory has all permanent state: the servers' data, `keys.json`
(secrets, created once) and `demo.json` (the demo's ids).
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import json
import math
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from ops.ready import READY_NAME, command_line, core_url, describe, ready_file, welcome, write

if TYPE_CHECKING:
    from ops.api import Api
    from ops.servers.embedded import EmbeddedServers
    from runtime.settings import Settings

ROOT: Final = Path(__file__).parents[1]
PORTS: Final = {"CORE_PORT": 0, "CONSUMER_PORT": 1, "ADMIN_PORT": 2, "RPC_PORT": 3, "METRICS_PORT": 4}
"""Settings and their offsets from --port-base."""
PORT_BASE_MAX: Final = 65535 - max(PORTS.values())
SERVER_START_SECONDS: Final = 60.0
WATCH_SECONDS: Final = 0.5
"""Interval of checking the processes."""
DEATHS_MAX: Final = 3
DEATHS_SECONDS: Final = 60.0
"""An embedded store that ends is restarted, unless stores ended DEATHS_MAX times within this time."""

TENANT_NAME: Final = "Tombola demo"
MERCHANT_NAME: Final = "Fair stall"


class Stopped(BaseException):
    """SIGTERM, SIGINT or SIGHUP came. Not an Exception, so that no error handler swallows it."""


class UpError(RuntimeError):
    """The development stack cannot run; the message says why and what to do."""


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line of `ops/up`."""
    parser = argparse.ArgumentParser(
        prog="ops/up",
        description="Runs all of Tombola here: embedded PostgreSQL and Valkey, Core, both edges, RPC and the workers.",
        epilog="DATABASE_URL and REDIS_URL, where set, replace the embedded servers; any other setting"
        " (`tombola settings`) may be set in the environment too. Ctrl-C stops everything.",
    )
    parser.add_argument(
        "--port-base",
        type=_port_base,
        default=8080,
        metavar="N",
        help="Core REST on N, consumer edge N+1, admin edge N+2, RPC N+3, metrics N+4 (default: %(default)s)",
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=ROOT / ".tombola",
        metavar="DIR",
        help="directory for data and keys (default: .tombola)",
    )
    parser.add_argument(
        "--processes",
        default=os.environ.get("PROCESSES") or "1",
        metavar="N",
        help="server processes that share the ports, or auto: one per CPU; each has its own metrics port, from N+4 on"
        " (default: %(default)s)",
    )
    parser.add_argument("--no-demo", action="store_true", help="do not create the demo campaign")
    parser.add_argument(
        "--ready-file",
        type=Path,
        metavar="F",
        help="once everything answers, write URLs, ids and an admin token to F (JSON)",
    )
    return parser.parse_args(arguments)


def _port_base(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= PORT_BASE_MAX:
        raise argparse.ArgumentTypeError(f"must be a port from 1 to {PORT_BASE_MAX}")
    return int(text)


def refuse_taken_ports(port_base: int) -> None:
    """Exits with what to do if a port is unavailable."""
    problems = []
    for port in range(port_base, port_base + len(PORTS)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
                problems.append(f"port {port} {why}")
    if problems:
        sys.exit(
            f"ops/up: {', '.join(problems)}.\n"
            f"Stop the process that listens there, or start another stack:"
            f" ops/up --port-base {port_base + 1000 if port_base < 60000 else 8080} --data DIR"
        )


def metrics_ports(settings: Settings) -> range:
    """The metrics port of each server process."""
    return range(settings.metrics_port, settings.metrics_port + settings.processes)


def prepare() -> argparse.Namespace:
    """The options, after all checks."""
    options = parse()
    refuse_taken_ports(options.port_base)
    return options


def main() -> None:
    """Runs until a signal. Exit status 0 after a signal, 1 with a message after a failure."""
    from ops.servers.base import STOP_SIGNALS

    options = prepare()
    for number in STOP_SIGNALS:
        signal.signal(number, _stop)
    try:
        run(options)
    except Stopped:
        say("stopped")
    except Exception as error:
        if isinstance(error, _expected()):
            sys.exit(f"ops/up: {error}")
        raise


def _expected() -> tuple[type[Exception], ...]:
    """Errors reported by their message alone; any other shows its traceback."""
    import asyncpg

    from ops.api import ApiError
    from ops.servers.base import ServerError
    from sql.migrate import MigrationError

    return (UpError, ServerError, ApiError, MigrationError, asyncpg.PostgresError, OSError)


def _stop(number: int, frame: object) -> NoReturn:
    from ops.servers.base import STOP_SIGNALS

    for again in STOP_SIGNALS:
        signal.signal(again, signal.SIG_IGN)  # a second Ctrl-C must not interrupt the stop
    say("stopping ...")
    raise Stopped


def say(text: str) -> None:
    print(text, flush=True)


def run(options: argparse.Namespace) -> NoReturn:
    """Starts everything in order and waits. Raises Stopped after a signal, or an error; stops everything first."""
    from ops.servers.base import hold
    from ops.servers.embedded import EmbeddedServers
    from runtime.settings.kinds import database_list
    from sql.migrate import migrate

    started = time.monotonic()
    options.data.mkdir(parents=True, exist_ok=True)
    os.close(hold(options.data / "lock"))  # Fails if a stack is running here: its ready files must stay.
    for path in (options.data / READY_NAME, options.ready_file):
        if path is not None:
            path.unlink(missing_ok=True)  # of a killed run
    servers = EmbeddedServers(
        options.data,
        postgres=not os.environ.get("DATABASE_URL"),
        valkey=not os.environ.get("REDIS_URL"),
        # For `tombola tenants move` between several databases.
        postgres_settings={"wal_level": "logical"} if os.environ.get("DATABASES") else None,
        durable_valkey=True,
    )
    say(f"starting in {options.data} ...")
    with servers:
        environ = environment(options, servers.database_url, servers.redis_url)
        others = [url for _, url in database_list().parse(environ.get("DATABASES", ""))]
        for url in (environ["DATABASE_URL"], *others):
            asyncio.run(migrate(url, report=lambda name: say(f"applying {name}")))
        tenant = str(_recall(options.data).get("tenant_id", ""))
        while True:
            with server(environ | {"DEFAULT_TENANT": tenant}) as (settings, process):
                found, merchant_id = ensure_tenant(core_url(settings), tenant, settings.outgoing_service_token)
                if found != tenant:
                    # The public routes' tenant is a setting, known only now: restart with it.
                    tenant = found
                    _remember(options.data, {"tenant_id": tenant})
                    continue
                pids = {"core": process.pid, "up": os.getpid(), **servers.pids}
                ready = describe(settings, tenant, merchant_id, pids)
                if not options.no_demo:
                    ready["demo"] = ensure_demo(options.data, ready)
                    ready["play_url"] = f"{ready['consumer_url']}/c/{ready['demo']['campaign_id']}"
                with ready_file(options.data / READY_NAME, ready), ready_file(options.ready_file, ready):
                    say(welcome(ready, time.monotonic() - started, command_line(options.data)))
                    _watch(process, servers, ready, [options.data / READY_NAME, options.ready_file])


def _watch(
    process: subprocess.Popen[bytes], servers: EmbeddedServers, ready: dict[str, Any], paths: list[Path | None]
) -> NoReturn:
    """Restarts embedded stores that end, and writes their process ids to the ready files.

    The service continues meanwhile: plays work without Valkey, and get 503 without Postgres. Raises if the service
    ends, or if stores end repeatedly.
    """
    from ops.servers.base import ServerError, wait_for

    def failure() -> Exception | None:
        if process.poll() is None:
            return servers.failure()
        return UpError(f"the server ended by itself with status {process.returncode}: see the lines above")

    deaths: deque[float] = deque(maxlen=DEATHS_MAX)
    ended = ""
    while True:
        try:
            if ended:
                servers.restart_ended()
                ready["pids"] |= servers.pids
                for path in filter(None, paths):
                    write(path, ready)
                say(f"{ended}: restarted")
            wait_for(lambda: False, math.inf, failure, every=WATCH_SECONDS)
        except ServerError as error:
            ended = str(error).partition(";")[0]
            deaths.append(time.monotonic())
            if len(deaths) == DEATHS_MAX and deaths[-1] - deaths[0] < DEATHS_SECONDS:
                raise UpError(f"stores ended {DEATHS_MAX} times within {DEATHS_SECONDS:g} s. {error}") from None


def environment(options: argparse.Namespace, database_url: str | None, redis_url: str | None) -> dict[str, str]:
    """The server's environment: local defaults, overridden by the caller's environment, then by the options."""
    host = "127.0.0.1"
    defaults = {
        **keys(options.data),
        "DEVELOPMENT": "on",
        "HEADER_FALLBACK": "on",
        "SHOW_ODDS": "on",
        "MERKLE_LOG": "tombola.example",
        "OUTBOUND_ALLOW_CIDRS": "127.0.0.0/8,::1/128",
        "CORS_ORIGINS": "http://localhost:*,http://127.0.0.1:*,http://[::1]:*",
        "CALLBACK_BASE_URL": f"http://{host}:{options.port_base + PORTS['ADMIN_PORT']}",
        "CONSUMER_BASE_URL": f"http://{host}:{options.port_base + PORTS['CONSUMER_PORT']}",
        "RATE_GUEST_PER_SECOND": "200",
        "RATE_GUEST_BURST": "400",
        "CORE_WORKERS": "on",
        "LOG_FORMAT": "console" if sys.stdout.isatty() else "json",
        "DATABASE_URL": database_url or "",
        "REDIS_URL": redis_url or "",
    }
    given = {name: value for name, value in os.environ.items() if value}
    ports = {name: str(options.port_base + offset) for name, offset in PORTS.items()}
    return {
        **defaults,
        **given,
        **ports,
        "HOST": host,
        "CORE_HOST": host,
        "CORE_RPC_ADDRESSES": "",
        "PROCESSES": options.processes,
    }


def keys(data: Path) -> dict[str, str]:
    """SERVER_KEYS, CODE_KEYS and the token secrets of this data directory, created at first use."""
    from ops.servers.base import write_private

    path = data / "keys.json"
    made = {
        "SERVER_KEYS": f"1:{secrets.token_hex(32)}",
        "CODE_KEYS": f"1:{secrets.token_hex(32)}",
        "JWT_SECRET": secrets.token_hex(32),
        "JWT_STAFF_SECRET": secrets.token_hex(32),
    }
    kept: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    if made.keys() - kept.keys():
        kept = made | kept
        write_private(path, json.dumps(kept))
    return kept


@contextmanager
def server(environ: dict[str, str]) -> Iterator[tuple[Settings, subprocess.Popen[bytes]]]:
    """Runs `tombola all` for the length of the block: ready at the start, drained and ended after."""
    from ops.servers.base import launch
    from runtime.settings import Settings, SettingsError

    try:
        settings = Settings.from_env(environ, ["core", "rpc", "consumer", "admin"])
    except SettingsError as error:
        raise UpError(f"invalid settings:\n{error}") from None
    # Its stdin is closed: terminal input is not for it.
    process = launch(
        [sys.executable, "-m", "runtime", "all"], signal.SIGTERM, env=environ, cwd=ROOT, stdin=subprocess.DEVNULL
    )
    try:
        _wait_until_it_answers(settings, process)
        yield settings, process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(settings.drain_seconds + 5)
        except subprocess.TimeoutExpired:
            say(f"the server did not end within {settings.drain_seconds + 5:g} s: killing it")
            process.kill()
            process.wait()


def _wait_until_it_answers(settings: Settings, process: subprocess.Popen[bytes]) -> None:
    from ops.api import accepts, answers
    from ops.servers.base import wait_for

    def ended() -> UpError | None:
        if process.poll() is None:
            return None
        return UpError(f"the server ended with status {process.returncode} while starting: see the lines above")

    def all_answer() -> bool:
        return (
            answers(f"{core_url(settings)}/readyz")
            and all(accepts(port) for port in (settings.consumer_port, settings.admin_port, settings.rpc_port))
            and all(answers(f"http://127.0.0.1:{port}/readyz") for port in metrics_ports(settings))
        )

    wait_for(all_answer, SERVER_START_SECONDS, ended)


def ensure_tenant(core_url: str, known: str, token: str) -> tuple[str, str]:
    """(tenant_id, merchant_id) of the demo: `known` and its first merchant, created on Core if missing.

    The tenant is identified by its id (demo.json), since users may rename it. token: Core's, "" for none.
    """
    from ops.api import Api

    core = Api(core_url, token or None)
    tenant_id = known
    if not known or known not in {item["id"] for item in every(core, "/tenants")}:
        tenant_id = core.post("/tenants", {"tenant": {"name": TENANT_NAME}})["tenant"]["id"]
    scope = {"tenant_id": tenant_id}
    merchants = list(every(core, "/merchants", **{"scope.tenant_id": tenant_id}))
    merchant = next(iter(sorted(merchants, key=lambda one: int(one["created_at"]))), None)
    if merchant is None:
        merchant = core.post("/merchants", {"scope": scope, "merchant": {"name": MERCHANT_NAME}})["merchant"]
    return tenant_id, merchant["id"]


def every(core: Api, path: str, **query: str) -> Iterator[dict[str, Any]]:
    """All items of a list, page by page."""
    cursor = ""
    while True:
        page = core.get(path, limit="100", cursor=cursor, **query)
        yield from page["items"]
        if not page["pagination"]["has_more"]:
            return
        cursor = page["pagination"]["next_cursor"]


def ensure_demo(data: Path, ready: dict[str, Any]) -> dict[str, Any]:
    """The demo's ids. A demo that was created before is not recreated, which keeps edits."""
    from ops.demo import seed

    memory = _recall(data)
    if memory.get("tenant_id") != ready["tenant_id"] or "demo" not in memory:
        memory = {"tenant_id": ready["tenant_id"], "demo": seed(ready["admin_url"], ready["admin_token"])}
        _remember(data, memory)
    demo: dict[str, Any] = memory["demo"]
    return demo


def _recall(data: Path) -> dict[str, Any]:
    path = data / "demo.json"
    memory: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return memory


def _remember(data: Path, memory: dict[str, Any]) -> None:
    write(data / "demo.json", memory)


if __name__ == "__main__":
    main()
