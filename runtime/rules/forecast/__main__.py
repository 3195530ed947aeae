"""Computes one forecast: the task on standard input as JSON, the answer on standard output. Argument: seconds of CPU.

A separate process, so that seconds of computation delay no play. It ends when it reaches a limit (limits.py).
"""

from __future__ import annotations

import sys

import msgspec

from runtime.rules.forecast import Answer, Task, answer, limits

if __name__ == "__main__":
    limits.limit(int(sys.argv[1]))
    try:
        task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
        done: Answer = answer(task)
        sys.stdout.buffer.write(msgspec.json.encode(done))
    except MemoryError:
        sys.exit(limits.TOO_LARGE)
