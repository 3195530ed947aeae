import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from ops.servers.base import ServerError, hold, wait_for
from ops.servers.embedded import EmbeddedServers
from ops.servers.postgres import DISPOSABLE

ROOT = Path(__file__).parents[2]

HOLDER = """
import signal, sys
from pathlib import Path
from ops.servers.embedded import EmbeddedServers
from ops.servers.postgres import DISPOSABLE
signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell's background process ignores it.
servers = EmbeddedServers(Path(sys.argv[1]), postgres_settings=DISPOSABLE)
servers.start()
print(servers.postgres.pid, servers.valkey.pid, flush=True)
signal.pause()
"""


@pytest.fixture
def servers(data_dir: Path) -> Iterator[EmbeddedServers]:
    with EmbeddedServers(data_dir, postgres_settings=DISPOSABLE) as servers:
        yield servers


def test_servers_answer_and_require_a_password(servers: EmbeddedServers) -> None:
    assert servers.postgres is not None and servers.valkey is not None
    assert servers.postgres.psql("select 1") == "1"
    assert servers.valkey.command("PING").startswith(b"+PONG")
    strangers_url = servers.postgres.url().replace(servers.postgres.password, "wrong")
    refused = subprocess.run([servers.postgres.bin_dir / "psql", strangers_url, "-c", "select 1"], capture_output=True)
    assert b"password authentication failed" in refused.stderr


def test_servers_start_over_a_crash_and_keep_data_over_a_stop(data_dir: Path, servers: EmbeddedServers) -> None:
    assert servers.postgres is not None and servers.valkey is not None
    for server in (servers.postgres, servers.valkey):
        server.kill()
        server.start()  # Over its stale pid file.
    port = servers.postgres.port
    servers.postgres.restart_immediately()
    assert servers.postgres.port == port
    servers.postgres.psql("create table kept (id int)")
    servers.valkey.command("SET", "kept", "yes")
    pids = (servers.postgres.pid, servers.valkey.pid)
    servers.stop()
    assert not any(psutil.pid_exists(pid) for pid in pids)
    with EmbeddedServers(data_dir, postgres_settings=DISPOSABLE) as again:
        assert again.postgres is not None and again.valkey is not None
        assert again.postgres.psql("select count(*) from kept") == "0"
        assert again.valkey.command("GET", "kept") == b"$3\r\nyes\r\n"


def test_directory_cannot_be_shared_by_two_stacks(data_dir: Path, servers: EmbeddedServers) -> None:
    with pytest.raises(ServerError, match=f"in use by process {os.getpid()}"):
        hold(data_dir / "lock")


def test_interrupted_first_start_leaves_a_directory_that_starts_again(data_dir: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(data_dir)], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_for(lambda: any(data_dir.glob("postgres*/PG_VERSION")), 20)
    while holder.poll() is None:  # Python drops an interrupt that comes in a finalizer: a person presses again.
        holder.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            holder.wait(10)
    assert holder.returncode != 0
    with EmbeddedServers(data_dir, postgres_settings=DISPOSABLE) as servers:
        assert servers.postgres.psql("select 1") == "1"


def test_signal_waits_until_a_process_has_been_polled() -> None:
    """A handler that raised inside `Popen.poll` left its lock taken, and `ops/up` never stopped."""

    class Stopped(BaseException):
        pass

    def stop(number: int, frame: object) -> None:
        raise Stopped

    looks = []

    def look() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGHUP)  # as it comes to a process of one thread
        looks.append("whole")

    before = signal.signal(signal.SIGHUP, stop)
    try:
        with pytest.raises(Stopped):
            wait_for(lambda: False, 10, look)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert looks == ["whole"]
