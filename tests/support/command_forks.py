"""Runs `tombola` commands in forks of one process that has imported them: `python -m tests.support.command_forks`."""

import gc
import json
import os
import sys
from typing import Any

from runtime import cli
from runtime.commands import builder
from runtime.commands.groups import OPERATOR_COMMANDS


def main() -> None:
    for name in OPERATOR_COMMANDS:
        getattr(builder, name.replace("-", "_"))
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if not child:
            run(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def run(command: dict[str, Any]) -> None:
    os.environ.clear()
    os.environ.update(command["environment"])
    os.chdir(command["folder"])
    for number, name in enumerate(("in", "out", "err")):
        os.dup2(os.open(command[name], os.O_RDWR | os.O_CREAT, 0o600), number)
    sys.argv = ["tombola", *command["arguments"]]
    code: Any = 1
    try:
        cli.main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) or end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)


if __name__ == "__main__":
    main()
