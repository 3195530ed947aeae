import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ops.devstack import PORTS
from ops.servers.base import free_ports, wait_for
from tests.support.stack import PATIENT

ROOT = Path(__file__).parents[2]
START_SECONDS = 100
STOP_SECONDS = 60
"""Ceilings of what hangs, as all in tests (tests.support.waiting); a test that starts twice needs a mark beyond."""


@contextmanager
def up(data_dir: Path, *arguments: str, **environ: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    ready_file = data_dir.parent / "ready.json"
    ready_file.unlink(missing_ok=True)  # a killed run leaves its own, which would be read before the new one is there
    command = [sys.executable, "-m", "ops.devstack", "--data", str(data_dir), "--ready-file", str(ready_file)]
    log = data_dir.parent / "up.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "--port-base", str(free_ports(len(PORTS))), *arguments],
            cwd=ROOT,
            env={**os.environ, **{name.upper(): str(value) for name, value in PATIENT.items()}, **environ},
            stdout=output,
            stderr=output,
            text=True,
        )
    try:
        ended = RuntimeError("it ended early")
        wait_for(ready_file.exists, START_SECONDS, lambda: None if process.poll() is None else ended)
        assert stat.S_IMODE(ready_file.stat().st_mode) == 0o600
        yield process, json.loads(ready_file.read_text())
    except BaseException:
        print(log.read_text())
        raise
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            print(log.read_text())
            process.kill()
            raise
